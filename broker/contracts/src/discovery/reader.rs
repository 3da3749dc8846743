//! Decoding of discovery responses, for clients.

use std::sync::Arc;

use prost_reflect::DescriptorPool;
use tautwire_message::Format;

use super::plan;
use crate::catalogue::Catalogue;
use crate::contract::{Contract, OnViolation, Schema, Unacknowledged};
use crate::field_binding::FieldBinding;
use crate::json::JsonSource;
use crate::payload_types::{DEPTH_MAX, Types};
use crate::plan::{Plan, PlanLimits};
use crate::protobuf::{self, FieldValue, PayloadCheck, ProtobufSink};
use crate::schema;
use crate::topic_pattern::TopicPattern;
use crate::typed;

/// A decoded response.
#[derive(Debug, Default)]
pub struct Page {
    bindings: Vec<Binding>,
    schemas: Vec<(String, Arc<Schema>)>,
    /// The name after which the next page begins; empty on the last page.
    pub next: String,
}

#[derive(Debug, Default)]
struct Binding {
    name: String,
    topics: String,
    formats: Vec<String>,
    schema_sha256: String,
    message: String,
    on_violation: String,
    unacknowledged: String,
    unknown_fields: String,
    topic_fields: Vec<(String, String)>,
}

/// Decodes the response to a request.
///
/// # Errors
/// Why it cannot be decoded, or the broker's error about the request.
pub fn read(format: Format, answer: &[u8]) -> Result<Page, String> {
    let mut bytes = Vec::new();
    let check = PayloadCheck { unknown_fields_refused: false, depth_max: DEPTH_MAX };
    match format {
        Format::Json => JsonSource::new(answer)
            .and_then(|mut source| {
                typed::walk(plan("Response"), &mut source, &mut ProtobufSink::new(&mut bytes, usize::MAX), check)
            })
            .map_err(|violation| violation.to_string())?,
        Format::Protobuf | Format::MessagePack => {
            protobuf::check(plan("Response"), answer, check).map_err(|violation| violation.to_string())?;
            bytes.extend_from_slice(answer);
        }
    }
    let mut page = Page::default();
    let mut error = String::new();
    protobuf::each_field(&bytes, |number, value| match (number, value) {
        (1, FieldValue::Bytes(bytes)) => page.bindings.push(Binding::read(bytes)),
        (2, FieldValue::Bytes(bytes)) => page.schemas.push(read_schema(bytes)),
        (3, FieldValue::Bytes(bytes)) => page.next = text(bytes),
        (4, FieldValue::Bytes(bytes)) => error = text(bytes),
        _ => {}
    });
    if error.is_empty() { Ok(page) } else { Err(error) }
}

impl Catalogue {
    /// The contracts of a broker, from all pages of its response. The pages must have been requested with their schemas.
    ///
    /// # Errors
    /// Which contract cannot be decoded, and why.
    pub fn of_pages(pages: &[Page]) -> Result<Catalogue, String> {
        let schemas: Vec<&(String, Arc<Schema>)> = pages.iter().flat_map(|page| &page.schemas).collect();
        let contract = |binding: &Binding| {
            let found = schemas.iter().find(|(sha256, _)| *sha256 == binding.schema_sha256);
            let contract = match found {
                Some((_, schema)) => binding.contract(schema),
                None => Err("its schema is missing".to_owned()),
            };
            contract.map(Arc::new).map_err(|why| format!("contract {}: {why}", binding.name))
        };
        let contracts = pages.iter().flat_map(|page| &page.bindings).map(contract).collect::<Result<Vec<_>, _>>()?;
        Ok(Catalogue::new(contracts))
    }
}

impl Binding {
    fn read(bytes: &[u8]) -> Binding {
        let mut binding = Binding::default();
        protobuf::each_field(bytes, |number, value| {
            let FieldValue::Bytes(bytes) = value else { return };
            match number {
                1 => binding.name = text(bytes),
                2 => binding.topics = text(bytes),
                4 => binding.formats.push(text(bytes)),
                5 => binding.schema_sha256 = text(bytes),
                6 => binding.message = text(bytes),
                7 => binding.on_violation = text(bytes),
                8 => binding.unacknowledged = text(bytes),
                9 => binding.unknown_fields = text(bytes),
                10 => binding.topic_fields.push(entry(bytes)),
                _ => {}
            }
        });
        binding
    }

    fn contract(&self, schema: &Schema) -> Result<Contract, String> {
        let limits = PlanLimits::default();
        let types = if schema.descriptor_set.is_empty() {
            Types::Schema(schema::compile(&schema.source, &limits).map_err(|error| error.message)?)
        } else {
            let pool = DescriptorPool::decode(&*schema.descriptor_set).map_err(|error| error.to_string())?;
            let message = pool.get_message_by_name(&self.message);
            let message = message.ok_or_else(|| format!("its schema has no message {}", self.message))?;
            Types::Message(Plan::new(&message, &limits).map_err(|error| error.to_string())?)
        };
        let formats = self.formats.iter().map(|name| Format::named(name)).collect::<Option<Box<[Format]>>>();
        let policy = OnViolation::ALL.into_iter().find(|(name, _)| *name == self.on_violation);
        let topic_fields = self
            .topic_fields
            .iter()
            .map(|(level, field)| FieldBinding::new(&types, level, field))
            .collect::<Result<_, _>>()?;
        Ok(Contract {
            name: self.name.as_str().into(),
            topics: TopicPattern::new(&self.topics).map_err(|error| error.to_string())?,
            formats: formats.ok_or("it lists an unknown format")?,
            schema: Arc::new(Schema {
                file: schema.file.clone(),
                source: schema.source.clone(),
                message: self.message.as_str().into(),
                descriptor_set: schema.descriptor_set.clone(),
                sha256: schema.sha256.clone(),
            }),
            types,
            on_violation: policy.ok_or("its on_violation is unknown")?.1,
            unacknowledged: match self.unacknowledged.as_str() {
                "disconnect" => Unacknowledged::Disconnect,
                _ => Unacknowledged::Drop,
            },
            unknown_fields_refused: self.unknown_fields == "reject",
            topic_fields,
        })
    }
}

/// Decodes a schema, with the name by which bindings reference it.
fn read_schema(bytes: &[u8]) -> (String, Arc<Schema>) {
    let mut sha256 = String::new();
    let (mut file, mut source, mut descriptor_set) = (String::new(), String::new(), Vec::new());
    protobuf::each_field(bytes, |number, value| {
        let FieldValue::Bytes(bytes) = value else { return };
        match number {
            1 => sha256 = text(bytes),
            2 => file = text(bytes),
            4 => source = text(bytes),
            5 => descriptor_set = bytes.to_vec(),
            _ => {}
        }
    });
    let schema = Schema {
        // The hash is computed here, not taken from the response.
        sha256: Schema::hash(&source, &descriptor_set),
        file: file.into(),
        source: source.into(),
        message: "".into(),
        descriptor_set: descriptor_set.into_boxed_slice(),
    };
    (sha256, Arc::new(schema))
}

fn entry(bytes: &[u8]) -> (String, String) {
    let mut entry = (String::new(), String::new());
    protobuf::each_field(bytes, |number, value| match (number, value) {
        (1, FieldValue::Bytes(bytes)) => entry.0 = text(bytes),
        (2, FieldValue::Bytes(bytes)) => entry.1 = text(bytes),
        _ => {}
    });
    entry
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::answer;
    use crate::{Files, LoadLimits};

    #[test]
    fn a_client_receives_the_contracts_of_the_broker() {
        let files: Files = [
            (
                "contracts.toml",
                "[[contract]]\nname = \"reading\"\ntopics = \"sensors/{id}/reading\"\nformat = [\"protobuf\", \"json\"]\n\
                 schema = \"reading.proto\"\non_violation = \"reject\"\nunknown_fields = \"reject\"\n\
                 unacknowledged = \"disconnect\"\ntopic_fields = { id = \"id\" }\n\
                 [[contract]]\nname = \"state\"\ntopics = \"state/#\"\nformat = \"json\"\nschema = \"state.json\"\n",
            ),
            ("reading.proto", "syntax = \"proto3\"; message Reading { string id = 1; double celsius = 2; }"),
            ("state.json", "{\"type\": \"object\", \"required\": [\"on\"]}"),
        ]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into();
        let here = Catalogue::load(&files, &LoadLimits::default()).expect("loads");
        for format in [Format::Json, Format::Protobuf] {
            let mut pages = Vec::new();
            let mut after = String::new();
            loop {
                let request = format!("{{\"limit\": 1, \"schemas\": true, \"after\": \"{after}\"}}");
                let mut bytes = Vec::new();
                let check = PayloadCheck { unknown_fields_refused: true, depth_max: 4 };
                let mut source = JsonSource::new(request.as_bytes()).expect("JSON");
                typed::walk(plan("Request"), &mut source, &mut ProtobufSink::new(&mut bytes, usize::MAX), check)
                    .expect("a request");
                let request = if format == Format::Json { request.as_bytes() } else { &bytes };
                let page = read(format, &answer(&here, format, request)).expect("an answer");
                after = page.next.clone();
                pages.push(page);
                if after.is_empty() {
                    break;
                }
            }
            assert_eq!(pages.len(), 2);
            let there = Catalogue::of_pages(&pages).expect("understood");
            assert_eq!(crate::compare::compare(&here, &there), []);
            let reading = there.find("sensors/7/reading").expect("found");
            assert_eq!(reading.unacknowledged(), Unacknowledged::Disconnect);
            assert_eq!(reading.check("sensors/7/reading", None, b"\x0a\x017"), Ok(Format::Protobuf));
            assert!(reading.check("sensors/8/reading", None, b"\x0a\x017").is_err());
            assert_eq!(reading.schema(), here.find("sensors/7/reading").expect("found").schema());
        }
        let refused = read(Format::Json, &answer(&here, Format::Json, b"{\"limit\": -1}"));
        assert!(refused.expect_err("an error").contains("limit"));
    }
}
