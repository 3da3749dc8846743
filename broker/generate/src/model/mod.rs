//! The language-independent model: contracts, records, enumerations.

mod json_schema;
mod protobuf;
mod topic;

use std::collections::{BTreeMap, BTreeSet};

use tautwire_contracts::{Catalogue, Contract, Format};

use crate::GenerateError;
use crate::names;

pub(crate) use topic::{Level, Topic};

/// Everything that is generated from a catalogue.
pub(crate) struct Api {
    pub(crate) contracts: Vec<Binding>,
    pub(crate) records: Vec<Record>,
    pub(crate) enums: Vec<Enum>,
}

/// A contract.
pub(crate) struct Binding {
    /// The name in the manifest.
    pub(crate) contract: String,
    /// In pascal case, unique in all spellings.
    pub(crate) name: String,
    pub(crate) topic: Topic,
    /// The first format of the contract, for writing and reading.
    pub(crate) format: Format,
    /// Whether payloads may have other formats, so that this one is requested.
    pub(crate) has_other_formats: bool,
    pub(crate) record: RecordId,
    /// The source of the types, for comments.
    pub(crate) source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordId(usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EnumId(usize);

/// A message, or an object of a JSON Schema.
pub(crate) struct Record {
    /// In pascal case, unique in all spellings.
    pub(crate) name: String,
    pub(crate) doc: String,
    /// By ascending number, or in schema order.
    pub(crate) fields: Vec<Field>,
    pub(crate) choices: Vec<Choice>,
    pub(crate) family: Family,
    /// Whether JSON and MessagePack replace it by its only field.
    pub(crate) is_transparent: bool,
    /// The formats for which contracts need it.
    pub(crate) formats: BTreeSet<Format>,
}

/// A `oneof`.
pub(crate) struct Choice {
    /// The name in the schema.
    pub(crate) name: String,
    /// The name of its type in pascal case, unique in all spellings.
    pub(crate) type_name: String,
}

/// The formats that a record is generated for, as they do not have the same types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    /// Protobuf: fields have numbers.
    Binary,
    /// JSON and MessagePack of a Protobuf schema: fields have names, zeros are omitted, null means absent.
    Mapped,
    /// A JSON Schema.
    Plain,
}

pub(crate) struct Field {
    /// The name in the schema.
    pub(crate) name: String,
    /// The name in JSON and MessagePack.
    pub(crate) wire_name: String,
    /// The number in the binary form.
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) presence: Presence,
    /// The oneof it belongs to.
    pub(crate) choice: Option<usize>,
    /// Whether null is a value (JSON Schema).
    pub(crate) is_nullable: bool,
    /// Whether the binary form of a list has one tag for all items.
    pub(crate) is_packed: bool,
    /// Whether its record contains this one, other than in a list.
    pub(crate) is_recursive: bool,
    pub(crate) doc: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// A zero, or an empty list, means absent.
    Implicit,
    Optional,
    Required,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar(Scalar),
    Enum(EnumId),
    Record(RecordId),
    List(Box<Kind>),
    /// A map with keys of the first kind.
    Map(Scalar, Box<Kind>),
    /// An untyped value, in the encoding of its format.
    Raw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Float,
    Double,
    String,
    Bytes,
    /// Timestamp and duration, for formats that support them.
    Timestamp,
    Duration,
    /// An integer of a JSON Schema.
    Integer,
}

/// An enumeration.
pub(crate) struct Enum {
    pub(crate) name: String,
    pub(crate) doc: String,
    pub(crate) values: Vec<EnumValue>,
    pub(crate) repr: Repr,
    /// The number of an absent value.
    pub(crate) default: i32,
    /// Whether a generated format uses its names.
    pub(crate) is_named: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repr {
    /// A number, which may have no name.
    OpenNumber,
    /// A number with a name; others count as absent (proto2).
    ClosedNumber,
    /// One of several strings.
    Text,
}

pub(crate) struct EnumValue {
    /// The name without the prefix that all names share.
    pub(crate) name: String,
    /// The name on the wire, if it has names.
    pub(crate) wire_name: String,
    pub(crate) number: i32,
}

impl Api {
    pub(crate) fn new(catalogue: &Catalogue) -> Result<Api, GenerateError> {
        Api::build(catalogue, false)
    }

    /// The model for documents, with the messages of Protobuf schemas in their JSON form, whatever the formats of the contracts.
    pub(crate) fn for_documents(catalogue: &Catalogue) -> Result<Api, GenerateError> {
        Api::build(catalogue, true)
    }

    fn build(catalogue: &Catalogue, for_documents: bool) -> Result<Api, GenerateError> {
        if catalogue.contracts().is_empty() {
            return Err(GenerateError {
                place: "the folder".to_owned(),
                why: "it has no contracts; add them to contracts.toml".to_owned(),
            });
        }
        let mut builder = Builder { for_documents, ..Builder::default() };
        let mut taken = BTreeSet::new();
        let names: Vec<String> =
            catalogue.contracts().iter().map(|c| unique(&mut taken, &names::pascal(c.name()))).collect();
        // Names derived from contracts have precedence over names of types.
        for name in &names {
            builder.taken.extend(CONTRACT_SUFFIXES.map(|what| names::snake(&format!("{name}{what}"))));
            builder.taken.extend(BEFORE_CONTRACTS.map(|what| names::snake(&format!("{what}{name}"))));
        }
        let mut contracts = Vec::new();
        for (contract, name) in catalogue.contracts().iter().zip(names) {
            contracts.push(builder.binding(contract, name)?);
        }
        let Builder { records, enums, .. } = builder;
        let records: Option<Vec<Record>> = records.into_iter().collect();
        let mut api = Api { contracts, records: records.unwrap_or_default(), enums };
        api.mark_formats();
        api.mark_named_enums();
        api.mark_recursion();
        Ok(api)
    }

    pub(crate) fn record(&self, id: RecordId) -> &Record {
        &self.records[id.0]
    }

    pub(crate) fn enumeration(&self, id: EnumId) -> &Enum {
        &self.enums[id.0]
    }

    pub(crate) fn needs(&self, format: Format) -> bool {
        self.contracts.iter().any(|contract| contract.format == format)
    }

    /// Whether any record has fields that are named on the wire.
    pub(crate) fn needs_names(&self) -> bool {
        self.needs(Format::Json) || self.needs(Format::MessagePack)
    }

    fn mark_formats(&mut self) {
        let roots: Vec<_> = self.contracts.iter().map(|contract| (contract.record, contract.format)).collect();
        let mut waiting = roots;
        while let Some((id, format)) = waiting.pop() {
            if self.records[id.0].formats.insert(format) {
                let inner = self.records[id.0].fields.iter().filter_map(|field| field.kind.record());
                waiting.extend(inner.map(|inner| (inner, format)));
            }
        }
    }

    fn mark_named_enums(&mut self) {
        let named = self.records.iter().filter(|record| record.family != Family::Binary);
        let enums: Vec<EnumId> =
            named.flat_map(|record| &record.fields).filter_map(|field| field.kind.enumeration()).collect();
        for id in enums {
            self.enums[id.0].is_named = true;
        }
    }

    fn mark_recursion(&mut self) {
        for at in 0..self.records.len() {
            for place in 0..self.records[at].fields.len() {
                if let Kind::Record(inner) = self.records[at].fields[place].kind
                    && self.reaches(inner, RecordId(at))
                {
                    let field = &mut self.records[at].fields[place];
                    field.is_recursive = true;
                    // Otherwise a value would be infinite.
                    field.presence = Presence::Optional;
                }
            }
        }
    }

    /// Whether a value of `from` may contain one of `to`, other than in a list.
    fn reaches(&self, from: RecordId, to: RecordId) -> bool {
        let (mut waiting, mut met) = (vec![from], BTreeSet::new());
        while let Some(id) = waiting.pop() {
            if id == to {
                return true;
            }
            if met.insert(id) {
                waiting.extend(self.record(id).fields.iter().filter_map(|field| match field.kind {
                    Kind::Record(inner) => Some(inner),
                    _ => None,
                }));
            }
        }
        false
    }
}

impl Kind {
    /// The record that it refers to.
    pub(crate) fn record(&self) -> Option<RecordId> {
        match self {
            Kind::Record(id) => Some(*id),
            Kind::List(inner) | Kind::Map(_, inner) => inner.record(),
            Kind::Scalar(_) | Kind::Enum(_) | Kind::Raw => None,
        }
    }

    /// The enumeration that it refers to.
    fn enumeration(&self) -> Option<EnumId> {
        match self {
            Kind::Enum(id) => Some(*id),
            Kind::List(inner) | Kind::Map(_, inner) => inner.enumeration(),
            Kind::Scalar(_) | Kind::Record(_) | Kind::Raw => None,
        }
    }

    pub(crate) fn is_sequence(&self) -> bool {
        matches!(self, Kind::List(_) | Kind::Map(..))
    }

    /// The scalar type in the binary form; `None` for records.
    pub(crate) fn scalar(&self) -> Option<Scalar> {
        match self {
            Kind::Scalar(scalar) => Some(*scalar),
            Kind::Enum(_) => Some(Scalar::Int32),
            _ => None,
        }
    }

    /// The type's name in Protobuf, which readers and writers use in function names. Not for records, which have their own functions.
    pub(crate) fn binary_name(&self) -> &'static str {
        match self.scalar() {
            Some(Scalar::Bool) => "bool",
            Some(Scalar::Int32) | None => "int32",
            Some(Scalar::Int64 | Scalar::Integer) => "int64",
            Some(Scalar::Uint32) => "uint32",
            Some(Scalar::Uint64) => "uint64",
            Some(Scalar::Sint32) => "sint32",
            Some(Scalar::Sint64) => "sint64",
            Some(Scalar::Fixed32) => "fixed32",
            Some(Scalar::Fixed64) => "fixed64",
            Some(Scalar::Sfixed32) => "sfixed32",
            Some(Scalar::Sfixed64) => "sfixed64",
            Some(Scalar::Float) => "float",
            Some(Scalar::Double) => "double",
            Some(Scalar::String) => "string",
            Some(Scalar::Bytes) => "bytes",
            Some(Scalar::Timestamp) => "timestamp",
            Some(Scalar::Duration) => "duration",
        }
    }

    /// The wire type of one value in the binary form.
    pub(crate) fn wire_type(&self) -> u32 {
        match self.scalar() {
            None | Some(Scalar::String | Scalar::Bytes | Scalar::Timestamp | Scalar::Duration) => 2,
            Some(Scalar::Fixed64 | Scalar::Sfixed64 | Scalar::Double) => 1,
            Some(Scalar::Fixed32 | Scalar::Sfixed32 | Scalar::Float) => 5,
            Some(_) => 0,
        }
    }
}

impl Record {
    /// Whether it belongs to a JSON Schema.
    pub(crate) fn is_plain(&self) -> bool {
        self.family == Family::Plain
    }
}

impl Field {
    pub(crate) fn tag(&self, wire_type: u32) -> u32 {
        self.number << 3 | wire_type
    }

    /// Whether the type must allow absence.
    pub(crate) fn is_optional(&self) -> bool {
        let is_message = matches!(self.kind, Kind::Record(_)) && self.number > 0;
        self.presence == Presence::Optional || self.is_nullable || is_message
    }
}

/// Suffixes of names derived from a contract.
const CONTRACT_SUFFIXES: [&str; 5] = ["Topic", "TopicName", "TopicParse", "Options", "Parameters"];
const BEFORE_CONTRACTS: [&str; 6] = ["Publish", "Subscribe", "Handle", "Encode", "Decode", "Read"];

/// Names of types with a meaning in some language, or in the generated code.
const RESERVED: &[&str] = &[
    "any",
    "array",
    "async_generator",
    "async_iterable",
    "b_tree_map",
    "big_int",
    "boolean",
    "box",
    "client",
    "codec",
    "contract_error",
    "contract_subscription",
    "cow",
    "data_view",
    "date",
    "decode_error",
    "default",
    "drop",
    "duration",
    "err",
    "error",
    "false",
    "fn",
    "function",
    "handler",
    "infinity",
    "int16",
    "int32",
    "int64",
    "int8",
    "iterator",
    "json_sink",
    "json_source",
    "map",
    "message",
    "message_pack_sink",
    "message_pack_source",
    "moment",
    "none",
    "number",
    "object",
    "ok",
    "open",
    "option",
    "options",
    "parameters",
    "partial",
    "payload_codec",
    "payload_error",
    "promise",
    "property",
    "publication",
    "publish_options",
    "publishing",
    "raw",
    "read",
    "reader",
    "readonly_map",
    "received",
    "record",
    "rejected",
    "result",
    "return_type",
    "self",
    "send",
    "set",
    "sink",
    "some",
    "source",
    "string",
    "subscribe",
    "subscription",
    "symbol",
    "sync",
    "timestamp",
    "topic",
    "topic_subscribe_options",
    "true",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "uint8_array",
    "vec",
    "writer",
];

/// Types under construction.
#[derive(Default)]
struct Builder {
    for_documents: bool,
    records: Vec<Option<Record>>,
    enums: Vec<Enum>,
    known_records: BTreeMap<(String, String, Family), RecordId>,
    known_enums: BTreeMap<(String, String), EnumId>,
    taken: BTreeSet<String>,
}

impl Builder {
    fn binding(&mut self, contract: &Contract, name: String) -> Result<Binding, GenerateError> {
        let schema = contract.schema();
        let format = contract.formats().first().copied().unwrap_or(Format::Json);
        let wrong = |why: String| GenerateError { place: format!("contract {}", contract.name()), why };
        let record = if schema.message.is_empty() {
            json_schema::record(self, schema, &name).map_err(wrong)?
        } else {
            let is_binary = format == Format::Protobuf && !self.for_documents;
            let family = if is_binary { Family::Binary } else { Family::Mapped };
            protobuf::record(self, schema, family).map_err(wrong)?
        };
        let source = if schema.message.is_empty() {
            schema.file.to_string()
        } else {
            format!("{} in {}", schema.message, schema.file)
        };
        Ok(Binding {
            contract: contract.name().to_owned(),
            name,
            topic: Topic::new(contract.topics()),
            format,
            has_other_formats: contract.formats().len() > 1,
            record,
            source,
        })
    }

    /// Reserves an index for a record that may be recursive.
    fn reserve(&mut self) -> RecordId {
        self.records.push(None);
        RecordId(self.records.len() - 1)
    }

    fn set(&mut self, id: RecordId, record: Record) {
        self.records[id.0] = Some(record);
    }

    fn add_enum(&mut self, enumeration: Enum) -> EnumId {
        self.enums.push(enumeration);
        EnumId(self.enums.len() - 1)
    }

    /// A free name for a type: the short one, or the long one.
    fn type_name(&mut self, short: &str, long: &str) -> String {
        let candidates = [short, long].map(|name| {
            let name = names::pascal(name);
            if RESERVED.contains(&names::snake(&name).as_str()) { format!("{name}Type") } else { name }
        });
        let free = candidates.iter().find(|name| !self.taken.contains(&names::snake(name)));
        let name = free.unwrap_or(&candidates[1]);
        unique(&mut self.taken, name)
    }
}

fn unique(taken: &mut BTreeSet<String>, name: &str) -> String {
    let mut free = name.to_owned();
    let mut count = 1;
    while !taken.insert(names::snake(&free)) {
        count += 1;
        free = format!("{name}N{count}");
    }
    free
}

/// A record that is replaced by its only field.
fn only(name: String, doc: String, family: Family, kind: Kind) -> Record {
    let field = Field {
        name: "value".to_owned(),
        wire_name: "value".to_owned(),
        number: 0,
        kind,
        presence: Presence::Required,
        choice: None,
        is_nullable: false,
        is_packed: false,
        is_recursive: false,
        doc: "The payload itself.".to_owned(),
    };
    let (fields, choices) = (vec![field], Vec::new());
    Record { name, doc, fields, choices, family, is_transparent: true, formats: BTreeSet::new() }
}
