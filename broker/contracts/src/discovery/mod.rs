//! What clients are told of the contracts: retained messages, and answers to requests; and how to read those.

mod builder;
mod reader;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use prost_reflect::DescriptorPool;
use protox::Compiler;
use protox::file::{File, FileResolver};
use sha2::{Digest as _, Sha256};
use tautwire_message::Format;

use crate::catalogue::Catalogue;
use crate::contract::{Contract, Unacknowledged};
use crate::json::{JsonSink, JsonSource};
use crate::plan::{Plan, PlanLimits};
use crate::protobuf::{self, Check, ProtobufSink};
use crate::typed;
use builder::Builder;
pub use reader::{Page, read};

/// The schema of everything that is said here.
pub const SCHEMA: &str = include_str!("discovery.proto");
/// Contracts on one page at most.
pub const PAGE_MAX: usize = 100;

/// A message that the broker retains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The payload.
    pub payload: Vec<u8>,
    /// Its format.
    pub format: Format,
}

/// The retained messages of a catalogue, by what comes behind `$SYS/contracts/` in their topics.
pub fn documents(catalogue: &Catalogue) -> BTreeMap<String, Document> {
    let mut documents = BTreeMap::new();
    let mut add = |topic: String, root: &str, payload: Vec<u8>| {
        let json = Document { payload: to_json(root, &payload), format: Format::Json };
        documents.insert(format!("{topic}.json"), json);
        documents.insert(topic, Document { payload, format: Format::Protobuf });
    };
    for contract in catalogue.contracts() {
        add(format!("bindings/{}", contract.name()), "Binding", binding(contract).into_bytes());
        add(format!("schemas/{}", sha256(contract)), "Schema", schema(contract).into_bytes());
    }
    add("index".to_owned(), "Index", index(catalogue).into_bytes());
    documents
}

/// All bindings, as the JSON document of that name has them.
pub fn index_json(catalogue: &Catalogue) -> Vec<u8> {
    to_json("Index", index(catalogue).bytes())
}

/// The answer to a request in `format`. What is not understood is answered with an error.
pub fn answer(catalogue: &Catalogue, format: Format, request: &[u8]) -> Vec<u8> {
    let response = match Request::parse(format, request) {
        Ok(request) => request.answer(catalogue),
        Err(why) => {
            let mut response = Builder::default();
            response.text(4, &why);
            response
        }
    };
    match format {
        Format::Json => to_json("Response", response.bytes()),
        Format::Protobuf | Format::MessagePack => response.into_bytes(),
    }
}

/// One contract and its schema, as an answer in JSON has them.
pub fn describe(contract: &Contract) -> Vec<u8> {
    let mut response = Builder::default();
    response.nested(1, &binding(contract));
    response.nested(2, &schema(contract));
    to_json("Response", response.bytes())
}

/// All contracts as `ServiceDiscoveryResponse`.
pub fn service_discovery(catalogue: &Catalogue) -> Vec<u8> {
    let mut response = Builder::default();
    for contract in catalogue.contracts() {
        let mut info = Builder::default();
        info.text(1, contract.topics().filter());
        info.text(2, &contract.schema().message);
        info.text(3, &contract.schema().source);
        response.nested(1, &info);
    }
    response.into_bytes()
}

/// The name under which a contract's schema is found.
pub fn sha256(contract: &Contract) -> String {
    let schema = contract.schema();
    let hash = Sha256::new().chain_update(schema.source.as_bytes()).chain_update(&schema.descriptor_set).finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn index(catalogue: &Catalogue) -> Builder {
    let mut index = Builder::default();
    for contract in catalogue.contracts() {
        index.nested(1, &binding(contract));
    }
    index
}

fn binding(contract: &Contract) -> Builder {
    let mut binding = Builder::default();
    binding.text(1, contract.name());
    binding.text(2, contract.topics().as_str());
    binding.text(3, contract.topics().filter());
    for format in contract.formats() {
        binding.text(4, format.name());
    }
    binding.text(5, &sha256(contract));
    binding.text(6, &contract.schema().message);
    binding.text(7, contract.on_violation().name());
    binding.text(8, if contract.unacknowledged() == Unacknowledged::Drop { "drop" } else { "disconnect" });
    binding.text(9, if contract.unknown_fields_refused() { "reject" } else { "allow" });
    for (level, field) in contract.ties() {
        let mut entry = Builder::default();
        entry.text(1, level);
        entry.text(2, field);
        binding.nested(10, &entry);
    }
    binding
}

fn schema(contract: &Contract) -> Builder {
    let of = contract.schema();
    let mut schema = Builder::default();
    schema.text(1, &sha256(contract));
    schema.text(2, &of.file);
    schema.text(3, if of.descriptor_set.is_empty() { "json-schema" } else { "protobuf" });
    schema.text(4, &of.source);
    schema.data(5, &of.descriptor_set);
    schema
}

#[derive(Debug, Default)]
struct Request {
    topic: String,
    after: String,
    limit: usize,
    schemas: bool,
}

impl Request {
    fn parse(format: Format, payload: &[u8]) -> Result<Request, String> {
        let plan = plan("Request");
        let check = Check { unknown_fields_refused: false, depth_max: 4 };
        let mut bytes = Vec::new();
        match format {
            _ if payload.is_empty() => {}
            Format::Json => JsonSource::new(payload)
                .and_then(|mut source| {
                    typed::walk(plan, &mut source, &mut ProtobufSink::new(&mut bytes, usize::MAX), check)
                })
                .map_err(|violation| violation.to_string())?,
            Format::Protobuf | Format::MessagePack => {
                protobuf::check(plan, payload, check).map_err(|violation| violation.to_string())?;
                bytes.extend_from_slice(payload);
            }
        }
        let mut request = Request::default();
        protobuf::each_field(&bytes, |number, value| match (number, value) {
            (1, protobuf::FieldValue::Bytes(topic)) => request.topic = String::from_utf8_lossy(topic).into_owned(),
            (2, protobuf::FieldValue::Bytes(after)) => request.after = String::from_utf8_lossy(after).into_owned(),
            (3, protobuf::FieldValue::Number(limit)) => request.limit = usize::try_from(limit).unwrap_or(usize::MAX),
            (4, protobuf::FieldValue::Number(schemas)) => request.schemas = schemas != 0,
            _ => {}
        });
        Ok(request)
    }

    fn answer(&self, catalogue: &Catalogue) -> Builder {
        let mut response = Builder::default();
        let limit = if self.limit == 0 { PAGE_MAX } else { self.limit.min(PAGE_MAX) };
        let wanted =
            |contract: &&std::sync::Arc<Contract>| contract.name() > self.after.as_str() || self.after.is_empty();
        let all = catalogue.contracts().iter().filter(wanted);
        let found: Vec<_> = if self.topic.is_empty() {
            all.take(limit + 1).collect()
        } else {
            catalogue.find(&self.topic).into_iter().filter(wanted).collect()
        };
        for contract in found.iter().take(limit) {
            response.nested(1, &binding(contract));
        }
        if self.schemas {
            let mut said = Vec::new();
            for contract in found.iter().take(limit) {
                let hash = sha256(contract);
                if !said.contains(&hash) {
                    response.nested(2, &schema(contract));
                    said.push(hash);
                }
            }
        }
        if found.len() > limit {
            response.text(3, found[limit - 1].name());
        }
        response
    }
}

fn to_json(root: &str, bytes: &[u8]) -> Vec<u8> {
    let mut json = Vec::new();
    // What is said here is made here, by the same schema.
    let _ = protobuf::emit(plan(root), bytes, &mut JsonSink::new(&mut json, usize::MAX));
    json
}

/// The plan of one of the messages of [`SCHEMA`].
fn plan(name: &str) -> &'static Plan {
    static PLANS: OnceLock<BTreeMap<String, Plan>> = OnceLock::new();
    let plans = PLANS.get_or_init(|| {
        own_schema()
            .map(|pool| pool.all_messages().collect::<Vec<_>>())
            .unwrap_or_default()
            .iter()
            .filter_map(|message| {
                let plan = Plan::new(message, &PlanLimits::default()).ok()?;
                Some((message.name().to_owned(), plan))
            })
            .collect()
    });
    &plans[name]
}

fn own_schema() -> Option<DescriptorPool> {
    struct Own;
    impl FileResolver for Own {
        fn open_file(&self, name: &str) -> Result<File, protox::Error> {
            File::from_source(name, SCHEMA)
        }
    }
    let mut compiler = Compiler::with_file_resolver(Own);
    compiler.open_file("discovery.proto").ok()?;
    Some(compiler.descriptor_pool())
}
