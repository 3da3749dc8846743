//! A contract: its topics, the types of their payloads, and the policy for violations.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::field_binding::FieldBinding;
use crate::json::{JsonSink, JsonSource};
use crate::messagepack::{MessagePackSink, MessagePackSource};
use crate::payload_types::{DEPTH_MAX, Types};
use crate::protobuf::{self, PayloadCheck, ProtobufSink};
use crate::schema;
use crate::sink::{AnyPosition, NullSink, Sink, ValueContext, check_size};
use crate::source::Source;
use crate::topic_pattern::TopicPattern;
use crate::typed;
use crate::untyped::{self, SchemaKind};
use crate::violation::{Checked, Rule, Violation};
use tautwire_message::Format;

/// A compiled contract. Contracts are immutable; a change creates a new one.
pub struct Contract {
    pub(crate) name: Box<str>,
    pub(crate) topics: TopicPattern,
    pub(crate) formats: Box<[Format]>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) types: Types,
    pub(crate) on_violation: OnViolation,
    pub(crate) unacknowledged: Unacknowledged,
    pub(crate) unknown_fields_refused: bool,
    pub(crate) topic_fields: Box<[FieldBinding]>,
}

/// The schema of a contract.
#[derive(Debug, PartialEq, Eq)]
pub struct Schema {
    /// The file, as a path in the contracts folder.
    pub file: Box<str>,
    /// Its text.
    pub source: Box<str>,
    /// For a Protobuf schema, the message type with its package; empty for a JSON Schema.
    pub message: Box<str>,
    /// `FileDescriptorSet` of the file and all its imports; empty for a JSON Schema.
    pub descriptor_set: Box<[u8]>,
    /// The identifier of the schema: its [`Schema::hash`].
    pub sha256: Box<str>,
}

impl Schema {
    /// The SHA-256 of the source followed by the descriptor set, in hexadecimal.
    pub fn hash(source: &str, descriptor_set: &[u8]) -> Box<str> {
        let hash = Sha256::new().chain_update(source.as_bytes()).chain_update(descriptor_set).finalize();
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The policy for a payload that violates its contract.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum OnViolation {
    /// Count it, and deliver it.
    Observe,
    /// Do not deliver it; notify its publisher if the protocol allows it.
    #[default]
    Reject,
    /// Publish it to `$quarantine/` followed by its topic instead, with the reason.
    Quarantine,
    /// Disconnect its publisher.
    Disconnect,
}

/// The action of `reject` where the protocol has no negative acknowledgement: at QoS 0, and in 3.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unacknowledged {
    /// The message is dropped and counted.
    Drop,
    /// The publisher is disconnected.
    Disconnect,
}

impl OnViolation {
    /// All policies, with their names in `contracts.toml`.
    pub const ALL: [(&'static str, OnViolation); 4] = [
        ("observe", OnViolation::Observe),
        ("reject", OnViolation::Reject),
        ("quarantine", OnViolation::Quarantine),
        ("disconnect", OnViolation::Disconnect),
    ];

    /// The name in `contracts.toml`.
    pub fn name(self) -> &'static str {
        OnViolation::ALL.into_iter().find(|(_, other)| *other == self).map_or("", |(name, _)| name)
    }
}

impl Contract {
    /// The name, unique among the contracts of a broker.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The topics of the contract.
    pub fn topics(&self) -> &TopicPattern {
        &self.topics
    }

    /// The accepted formats. The first is the default for payloads without a content type.
    pub fn formats(&self) -> &[Format] {
        &self.formats
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The policy for violations.
    pub fn on_violation(&self) -> OnViolation {
        self.on_violation
    }

    /// The action of `reject` without a negative acknowledgement.
    pub fn unacknowledged(&self) -> Unacknowledged {
        self.unacknowledged
    }

    /// Whether unknown fields are a violation.
    pub fn unknown_fields_refused(&self) -> bool {
        self.unknown_fields_refused
    }

    /// The topic levels that are tied to fields, with the fields.
    pub fn topic_fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.topic_fields.iter().map(|field_binding| (&*field_binding.level, &*field_binding.path))
    }

    /// Checks a payload published to `topic`, and returns its format.
    ///
    /// A content type that names a format decides. Without one, a payload has the first listed format that it satisfies; otherwise the
    /// violation is that of the format in which it was understood furthest.
    ///
    /// # Errors
    /// The payload violates the contract.
    pub fn check(&self, topic: &str, content_type: Option<&str>, payload: &[u8]) -> Result<Format, Box<Violation>> {
        if let Some(format) = content_type.and_then(format_of_content_type) {
            if !self.formats.contains(&format) {
                let listed = self.formats.iter().map(|format| format.content_type()).collect::<Vec<_>>().join(" or ");
                return Err(Violation::new(Rule::Format, 0, listed, format.content_type()));
            }
            return self.check_as(format, topic, payload).map(|()| format);
        }
        let mut furthest: Option<Box<Violation>> = None;
        for format in &self.formats {
            match self.check_as(*format, topic, payload) {
                Ok(()) => return Ok(*format),
                Err(violation)
                    if furthest
                        .as_ref()
                        .is_some_and(|known| understood_bytes(known) >= understood_bytes(&violation)) => {}
                Err(violation) => furthest = Some(violation),
            }
        }
        Err(furthest.unwrap_or_else(|| Violation::new(Rule::Format, 0, "a format", "a contract without one")))
    }

    fn check_as(&self, format: Format, topic: &str, payload: &[u8]) -> Checked {
        let check = PayloadCheck { unknown_fields_refused: self.unknown_fields_refused, depth_max: DEPTH_MAX };
        match (&self.types, format) {
            (Types::Message(plan), Format::Protobuf) => protobuf::check(plan, payload, check)?,
            (Types::Message(plan), Format::Json) => {
                typed::walk(plan, &mut JsonSource::new(payload)?, &mut NullSink, check)?;
            }
            (Types::Message(plan), Format::MessagePack) => {
                typed::walk(plan, &mut MessagePackSource::new(payload), &mut NullSink, check)?;
            }
            (Types::Schema(plan), Format::Json) => schema::check(plan, &mut JsonSource::new(payload)?, check)?,
            (Types::Schema(plan), Format::MessagePack) => {
                schema::check(plan, &mut MessagePackSource::new(payload), check)?;
            }
            (Types::Schema(_), Format::Protobuf) => return Err(no_binary_encoding()),
        }
        self.topic_fields
            .iter()
            .try_for_each(|field_binding| field_binding.check(&self.types, &self.topics, format, topic, payload))
    }

    /// Whether payloads can be transcoded to `to`.
    pub fn can_transcode_to(&self, to: Format) -> bool {
        match &self.types {
            Types::Message(plan) => self.formats.contains(&to) || plan.can_transcode(),
            Types::Schema(_) => to != Format::Protobuf,
        }
    }

    /// Appends a checked payload in another format, if that takes at most `limit_bytes`. Names make some formats many times as long as
    /// others: an enumeration value of one byte is a string in JSON.
    ///
    /// # Errors
    /// A value that `to` cannot represent, or [`Rule::TooLarge`], which is detected soon after the limit has been exceeded. `out` is
    /// truncated to its former length.
    pub fn transcode(
        &self,
        from: Format,
        to: Format,
        payload: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), Box<Violation>> {
        let start = out.len();
        let end = start.saturating_add(limit_bytes);
        if !self.can_transcode_to(to) {
            return Err(no_binary_encoding());
        }
        let outcome = match to {
            Format::Protobuf => self.feed(from, payload, &mut ProtobufSink::new(out, end)),
            Format::Json => self.feed(from, payload, &mut JsonSink::new(out, end)),
            Format::MessagePack => self.feed(from, payload, &mut MessagePackSink::new(out, end)),
        };
        if outcome.is_err() {
            out.truncate(start);
        }
        outcome
    }

    fn feed(&self, from: Format, payload: &[u8], sink: &mut impl Sink) -> Checked {
        let check = PayloadCheck { unknown_fields_refused: false, depth_max: DEPTH_MAX };
        match (&self.types, from) {
            (Types::Message(plan), Format::Protobuf) => protobuf::emit(plan, payload, sink)?,
            (Types::Message(plan), Format::Json) => typed::walk(plan, &mut JsonSource::new(payload)?, sink, check)?,
            (Types::Message(plan), Format::MessagePack) => {
                typed::walk(plan, &mut MessagePackSource::new(payload), sink, check)?;
            }
            (Types::Schema(_), Format::Json) => pass_on(&mut JsonSource::new(payload)?, sink)?,
            (Types::Schema(_), Format::MessagePack) => pass_on(&mut MessagePackSource::new(payload), sink)?,
            (Types::Schema(_), Format::Protobuf) => return Err(no_binary_encoding()),
        }
        check_size(sink)
    }
}

/// The format of a content type; common names are recognised fast.
fn format_of_content_type(content_type: &str) -> Option<Format> {
    match content_type.as_bytes() {
        b"application/x-protobuf" => Some(Format::Protobuf),
        b"application/msgpack" => Some(Format::MessagePack),
        b"application/json" => Some(Format::Json),
        _ => Format::of_content_type(content_type),
    }
}

/// How much of a payload was understood: nothing if it is not of the format at all, everything if only a tie is violated.
#[cold]
fn understood_bytes(violation: &Violation) -> usize {
    match violation.rule {
        Rule::Malformed => 0,
        Rule::TopicFieldMismatch => usize::MAX,
        _ => violation.offset.saturating_add(1),
    }
}

fn pass_on<'a>(source: &mut impl Source<'a>, sink: &mut impl Sink) -> Checked {
    let value = source.value()?;
    untyped::walk(
        source,
        sink,
        value,
        AnyPosition::Outer(ValueContext::Root),
        false,
        SchemaKind::JsonSchema,
        DEPTH_MAX,
    )?;
    source.end()
}

#[cold]
fn no_binary_encoding() -> Box<Violation> {
    Violation::new(Rule::Format, 0, "a format that can represent the schema", "another")
}

impl fmt::Debug for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contract")
            .field("name", &self.name)
            .field("topics", &self.topics.as_str())
            .finish_non_exhaustive()
    }
}
