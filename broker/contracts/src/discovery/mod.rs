//! Discovery of contracts by clients: retained messages, and request and response.

mod builder;
mod documents;
mod reader;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use prost_reflect::DescriptorPool;
use protox::Compiler;
use protox::file::{File, FileResolver};
use tautwire_message::Format;

use crate::catalogue::Catalogue;
use crate::contract::{Contract, Unacknowledged};
use crate::json::{JsonSink, JsonSource};
use crate::plan::{Plan, PlanLimits};
use crate::protobuf::{self, PayloadCheck, ProtobufSink};
use crate::typed;
use builder::Builder;
pub use documents::{Document, Documents};
pub use reader::{Page, read};

/// The schema of all discovery messages.
pub const SCHEMA: &str = include_str!("discovery.proto");
/// Maximum number of contracts on a page.
pub const PAGE_MAX: usize = 100;
/// A page with this many bytes, measured in the binary form, gets no further contract. It always has one contract, whose schema may be
/// larger.
pub const PAGE_MAX_BYTES: usize = 256 << 10;

/// All bindings, in the form of the JSON document of that name.
pub fn index_json(catalogue: &Catalogue) -> Vec<u8> {
    to_json("Index", index(catalogue).bytes())
}

/// The response to a request in `format`: one page, bounded by [`PAGE_MAX`] and [`PAGE_MAX_BYTES`]. An invalid request gets an error.
pub fn answer(catalogue: &Catalogue, format: Format, request: &[u8]) -> Vec<u8> {
    let response = match Request::parse(format, request) {
        Ok(request) => request.answer(catalogue),
        Err(why) => {
            let mut response = Builder::default();
            response.text(4, &why);
            response.into_bytes()
        }
    };
    match format {
        Format::Json => to_json("Response", &response),
        Format::Protobuf | Format::MessagePack => response,
    }
}

/// One contract and its schema, in the form of a JSON response.
pub fn describe(contract: &Contract) -> Vec<u8> {
    let mut response = Builder::default();
    response.nested(1, &binding(contract));
    response.nested(2, &schema(contract));
    to_json("Response", response.bytes())
}

/// Contracts as one page of `ServiceDiscoveryResponse`. A request may be empty, or have the contract after which the page begins, as in
/// [`answer`].
pub fn service_discovery(catalogue: &Catalogue, request: &[u8]) -> Vec<u8> {
    // Clients of that protocol may send anything; they get a response in any case.
    let request = Request::parse(Format::Protobuf, request).unwrap_or_default();
    let mut page = PageInProgress::default();
    for contract in request.wanted(catalogue) {
        let mut info = Builder::default();
        info.text(1, contract.topics().filter());
        info.text(2, &contract.schema().message);
        info.text(3, &contract.schema().source);
        if !page.try_add(contract, info.bytes().len(), request.limit()) {
            break;
        }
        page.response.nested(1, &info);
    }
    page.end(15)
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
    binding.text(5, &contract.schema().sha256);
    binding.text(6, &contract.schema().message);
    binding.text(7, contract.on_violation().name());
    binding.text(8, if contract.unacknowledged() == Unacknowledged::Drop { "drop" } else { "disconnect" });
    binding.text(9, if contract.unknown_fields_refused() { "reject" } else { "allow" });
    for (level, field) in contract.topic_fields() {
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
    schema.text(1, &of.sha256);
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
        let check = PayloadCheck { unknown_fields_refused: false, depth_max: 4 };
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

    fn limit(&self) -> usize {
        if self.limit == 0 { PAGE_MAX } else { self.limit.min(PAGE_MAX) }
    }

    /// The requested contracts, on this page and on those that follow.
    fn wanted<'c>(&'c self, catalogue: &'c Catalogue) -> impl Iterator<Item = &'c Contract> {
        let all = self.topic.is_empty();
        let found = if all { None } else { catalogue.find(&self.topic) };
        let after = catalogue.contracts().partition_point(|contract| contract.name() <= self.after.as_str());
        let listed = if all { &catalogue.contracts()[after..] } else { &[] };
        let found = found.filter(|contract| contract.name() > self.after.as_str());
        listed.iter().chain(found).map(|contract| &**contract)
    }

    fn answer(&self, catalogue: &Catalogue) -> Vec<u8> {
        let mut page = PageInProgress::default();
        let mut said = BTreeSet::new();
        let mut schemas = Vec::new();
        for contract in self.wanted(catalogue) {
            let binding = binding(contract);
            let is_new = self.schemas && !said.contains(&*contract.schema().sha256);
            let schema_bytes = if is_new { schema_bytes(contract) } else { 0 };
            if !page.try_add(contract, binding.bytes().len() + schema_bytes, self.limit()) {
                break;
            }
            page.response.nested(1, &binding);
            if is_new {
                said.insert(&*contract.schema().sha256);
                schemas.push(contract);
            }
        }
        for contract in schemas {
            page.response.nested(2, &schema(contract));
        }
        page.end(3)
    }
}

/// A page to which contracts are added until it is full.
#[derive(Default)]
struct PageInProgress<'c> {
    response: Builder,
    contracts: usize,
    bytes: usize,
    last: Option<&'c Contract>,
    /// Whether there are more contracts.
    is_full: bool,
}

impl<'c> PageInProgress<'c> {
    /// Adds a contract of `bytes` bytes, unless the page is full. Returns whether it was added.
    fn try_add(&mut self, contract: &'c Contract, bytes: usize, limit: usize) -> bool {
        let is_too_much = self.contracts == limit || self.bytes + bytes > PAGE_MAX_BYTES;
        if self.contracts > 0 && is_too_much {
            self.is_full = true;
            return false;
        }
        self.contracts += 1;
        self.bytes += bytes;
        self.last = Some(contract);
        true
    }

    /// The finished page, with the name after which the next one begins in field `number`.
    fn end(mut self, number: u32) -> Vec<u8> {
        if let Some(last) = self.last.filter(|_| self.is_full) {
            self.response.text(number, last.name());
        }
        self.response.into_bytes()
    }
}

/// The approximate length of [`schema`] in bytes.
fn schema_bytes(contract: &Contract) -> usize {
    contract.schema().source.len() + contract.schema().descriptor_set.len()
}

fn to_json(root: &str, bytes: &[u8]) -> Vec<u8> {
    let mut json = Vec::new();
    // The bytes were built here with the same schema, so this cannot fail.
    let _ = protobuf::emit(plan(root), bytes, &mut JsonSink::new(&mut json, usize::MAX));
    json
}

/// The plan of a message of [`SCHEMA`].
fn plan(name: &str) -> &'static Plan {
    static PLANS: OnceLock<BTreeMap<String, Plan>> = OnceLock::new();
    let plans = PLANS.get_or_init(|| {
        discovery_schema()
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

fn discovery_schema() -> Option<DescriptorPool> {
    struct OwnSchema;
    impl FileResolver for OwnSchema {
        fn open_file(&self, name: &str) -> Result<File, protox::Error> {
            File::from_source(name, SCHEMA)
        }
    }
    let mut compiler = Compiler::with_file_resolver(OwnSchema);
    compiler.open_file("discovery.proto").ok()?;
    Some(compiler.descriptor_pool())
}
