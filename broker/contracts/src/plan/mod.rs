//! A Protobuf schema, compiled for walking payloads: by tag in the binary form, by name in the others.

mod build;
mod name;
mod names;

pub(crate) use build::{FIELDS_MAX, REQUIRED_MAX};
pub use build::{PlanError, PlanLimits};
pub(crate) use name::Name;
pub(crate) use names::{FieldIndex, Names};

/// A message type and all types that it references.
#[derive(Debug)]
pub struct Plan {
    pub(crate) messages: Box<[MessagePlan]>,
    pub(crate) enums: Box<[EnumPlan]>,
    pub(crate) root: MessageIndex,
}

/// The index of a message in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MessageIndex(pub(crate) u16);

/// The index of an enumeration in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EnumIndex(pub(crate) u16);

/// One message type.
#[derive(Debug)]
pub(crate) struct MessagePlan {
    /// The name with its package: `acme.sensors.Reading`.
    pub(crate) full_name: Box<str>,
    /// Sorted by number.
    pub(crate) fields: Box<[FieldPlan]>,
    /// The action for each one-byte tag.
    pub(crate) by_tag: Box<[TagStep; 128]>,
    pub(crate) names: Names,
    /// Fields that are required in proto2.
    pub(crate) required: Box<[FieldIndex]>,
    /// The number of `oneof`s.
    pub(crate) oneofs: u16,
    pub(crate) well_known: Option<WellKnown>,
}

/// One field.
#[derive(Debug)]
pub(crate) struct FieldPlan {
    pub(crate) number: u32,
    /// The name in the schema: `device_id`.
    pub(crate) name: Box<str>,
    /// The name in JSON: `deviceId`, or the one in the schema.
    pub(crate) json_name: Name,
    pub(crate) kind: Kind,
    pub(crate) cardinality: Cardinality,
    /// The `oneof` it belongs to, except the synthetic ones of proto3's `optional`.
    pub(crate) oneof: Option<u16>,
    /// Whether absent and zero differ.
    pub(crate) has_presence: bool,
    /// Whether it is written packed.
    pub(crate) packed: bool,
    /// The fast path for its single value, if there are no other checks.
    pub(crate) pass: Pass,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cardinality {
    Singular,
    Repeated,
    /// Repeated entries; the kind is that of the entry message.
    Map,
}

/// The type of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Double,
    Float,
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
    Bool,
    String,
    Bytes,
    Enum(EnumIndex),
    Message(MessageIndex),
}

/// Kinds of values with a fast path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Signed32,
    Signed64,
    Unsigned32,
    Unsigned64,
    Bool,
    Float,
    Double,
    Text,
    Bytes,
    /// Of an enumeration.
    Name,
    /// No fast path.
    Never,
}

/// The messages with special forms in the JSON mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WellKnown {
    Timestamp,
    Duration,
    Struct,
    Value,
    ListValue,
    /// `DoubleValue` and similar: a message whose field 1 is the value.
    Wrapper,
    FieldMask,
    Empty,
    Any,
}

/// An enumeration.
#[derive(Debug)]
pub(crate) struct EnumPlan {
    pub(crate) full_name: Box<str>,
    /// Numbers in ascending order, each with its first name.
    pub(crate) values: Box<[(i32, Box<str>)]>,
    /// All names, including aliases, sorted.
    pub(crate) by_name: Box<[(Box<str>, i32)]>,
    /// Indices into `by_name`.
    pub(crate) names: Names,
    /// Whether other numbers are unknown fields (proto2) rather than values without a name (proto3).
    pub(crate) is_closed: bool,
    /// Whether it is `google.protobuf.NullValue`, which JSON writes as `null`.
    pub(crate) is_null: bool,
}

/// The action for a one-byte tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TagStep {
    pub(crate) action: Action,
    pub(crate) field: FieldIndex,
}

/// How the bytes after a tag are processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// No field has this number.
    Unknown,
    /// The number is 0, which is not valid.
    NoNumber,
    /// The field's values never have this wire type.
    WrongWireType,
    Varint,
    Enum,
    Fixed32,
    Fixed64,
    String,
    Bytes,
    Message,
    PackedVarint,
    PackedEnum,
    PackedFixed32,
    PackedFixed64,
}

impl Plan {
    pub(crate) fn message(&self, index: MessageIndex) -> &MessagePlan {
        &self.messages[usize::from(index.0)]
    }

    pub(crate) fn enumeration(&self, index: EnumIndex) -> &EnumPlan {
        &self.enums[usize::from(index.0)]
    }

    /// Whether payloads can be transcoded: not with `google.protobuf.Any`, whose types are unknown.
    pub(crate) fn can_transcode(&self) -> bool {
        self.messages.iter().all(|message| message.well_known != Some(WellKnown::Any))
    }

    pub(crate) fn root(&self) -> &MessagePlan {
        self.message(self.root)
    }
}

impl MessagePlan {
    pub(crate) fn field(&self, index: FieldIndex) -> &FieldPlan {
        &self.fields[usize::from(index.0)]
    }

    /// The field with this number.
    pub(crate) fn numbered(&self, number: u32) -> Option<FieldIndex> {
        let at = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some(FieldIndex(at as u16))
    }

    /// The action for a tag of any length.
    pub(crate) fn step(&self, number: u32, wire_type: u8) -> TagStep {
        match self.numbered(number) {
            None => TagStep { action: Action::Unknown, field: FieldIndex(0) },
            Some(field) => TagStep { action: self.field(field).action(wire_type), field },
        }
    }
}

impl FieldPlan {
    /// The action for a value of this wire type.
    pub(crate) fn action(&self, wire_type: u8) -> Action {
        let own = self.kind.wire_type();
        let repeated = self.cardinality == Cardinality::Repeated;
        match (wire_type, self.kind) {
            (2, Kind::String) => Action::String,
            (2, Kind::Bytes) => Action::Bytes,
            (2, Kind::Message(_)) => Action::Message,
            (0, Kind::Enum(_)) => Action::Enum,
            (0, _) if own == 0 => Action::Varint,
            (1, _) if own == 1 => Action::Fixed64,
            (5, _) if own == 5 => Action::Fixed32,
            (2, Kind::Enum(_)) if repeated => Action::PackedEnum,
            (2, _) if repeated && own == 0 => Action::PackedVarint,
            (2, _) if repeated && own == 1 => Action::PackedFixed64,
            (2, _) if repeated && own == 5 => Action::PackedFixed32,
            _ => Action::WrongWireType,
        }
    }
}

impl Kind {
    /// The wire type of a single value.
    pub(crate) fn wire_type(self) -> u8 {
        match self {
            Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 | Kind::Sint32 | Kind::Sint64 => 0,
            Kind::Bool | Kind::Enum(_) => 0,
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => 1,
            Kind::String | Kind::Bytes | Kind::Message(_) => 2,
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => 5,
        }
    }

    /// The fast path of its values.
    pub(crate) fn pass(self) -> Pass {
        match self {
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Pass::Signed32,
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Pass::Signed64,
            Kind::Uint32 | Kind::Fixed32 => Pass::Unsigned32,
            Kind::Uint64 | Kind::Fixed64 => Pass::Unsigned64,
            Kind::Bool => Pass::Bool,
            Kind::Float => Pass::Float,
            Kind::Double => Pass::Double,
            Kind::String => Pass::Text,
            Kind::Bytes => Pass::Bytes,
            Kind::Enum(_) => Pass::Name,
            Kind::Message(_) => Pass::Never,
        }
    }

    /// The name of the type in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Double => "double",
            Kind::Float => "float",
            Kind::Int32 => "int32",
            Kind::Int64 => "int64",
            Kind::Uint32 => "uint32",
            Kind::Uint64 => "uint64",
            Kind::Sint32 => "sint32",
            Kind::Sint64 => "sint64",
            Kind::Fixed32 => "fixed32",
            Kind::Fixed64 => "fixed64",
            Kind::Sfixed32 => "sfixed32",
            Kind::Sfixed64 => "sfixed64",
            Kind::Bool => "bool",
            Kind::String => "a string",
            Kind::Bytes => "bytes",
            Kind::Enum(_) => "an enumeration",
            Kind::Message(_) => "a message",
        }
    }
}
