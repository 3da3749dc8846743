//! The interface of the writers of all formats.

use crate::plan::{EnumPlan, FieldPlan, MessagePlan};
use crate::violation::{Checked, Rule, Violation};

/// Receives the values of a message in order.
pub(crate) trait Sink {
    /// Whether values are used. If not, they need not be decoded.
    const USES_VALUES: bool;

    /// Whether more has been written than the limit allows. Walks check it before each message and each item, since nothing else can be
    /// many times as long as its input.
    fn is_full(&self) -> bool;

    fn message_begin(&mut self, place: ValueContext<'_>, message: &MessagePlan);
    fn message_end(&mut self, place: ValueContext<'_>, message: &MessagePlan);
    /// A repeated field, or a map.
    fn list_begin(&mut self, field: &FieldPlan);
    fn list_end(&mut self, field: &FieldPlan);
    /// An entry of a map; its key and value follow.
    fn entry_begin(&mut self, field: &FieldPlan);
    fn entry_end(&mut self);
    fn scalar(&mut self, place: ValueContext<'_>, value: Scalar<'_>);
    fn enumeration(&mut self, place: ValueContext<'_>, plan: &EnumPlan, number: i32);
    fn timestamp(&mut self, place: ValueContext<'_>, seconds: i64, nanos: u32);
    /// Both numbers have the same sign.
    fn duration(&mut self, place: ValueContext<'_>, seconds: i64, nanos: i32);
    /// Comma-separated paths, each in the spelling of the schema.
    fn field_mask(&mut self, place: ValueContext<'_>, paths: &str);
    /// An untyped value, of `google.protobuf.Value` and similar.
    fn any_scalar(&mut self, place: AnyPosition<'_>, value: AnyScalar<'_>);
    fn any_begin(&mut self, place: AnyPosition<'_>, shape: AnyShape, wrapped: bool);
    fn any_end(&mut self, place: AnyPosition<'_>, shape: AnyShape, wrapped: bool);
}

/// The position of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueContext<'p> {
    /// The payload itself.
    Root,
    Field(&'p FieldPlan),
    /// In the list of a repeated field.
    Item(&'p FieldPlan),
    MapKey(&'p FieldPlan),
    MapValue(&'p FieldPlan),
    /// In a wrapper message, which JSON and MessagePack omit.
    WrapperValue(&'p FieldPlan),
}

/// The position of an untyped value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyPosition<'p> {
    Outer(ValueContext<'p>),
    Item,
    Entry(&'p str),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar<'a> {
    Double(f64),
    Float(f32),
    Int(i64),
    Uint(u64),
    Bool(bool),
    Text(&'a str),
    Bytes(&'a [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum AnyScalar<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Int(i64),
    Uint(u64),
    Text(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnyShape {
    Struct,
    List,
}

impl Scalar<'_> {
    /// Whether it is the default of an absent field.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            // Minus zero is not the default.
            Scalar::Double(value) => value.to_bits() == 0,
            Scalar::Float(value) => value.to_bits() == 0,
            Scalar::Int(value) => *value == 0,
            Scalar::Uint(value) => *value == 0,
            Scalar::Bool(value) => !*value,
            Scalar::Text(text) => text.is_empty(),
            Scalar::Bytes(bytes) => bytes.is_empty(),
        }
    }
}

impl<'p> ValueContext<'p> {
    pub(crate) fn field(&self) -> Option<&'p FieldPlan> {
        match self {
            ValueContext::Root => None,
            ValueContext::Field(field)
            | ValueContext::Item(field)
            | ValueContext::MapKey(field)
            | ValueContext::MapValue(field) => Some(field),
            ValueContext::WrapperValue(field) => Some(field),
        }
    }

    /// Whether a zero there can be omitted.
    pub(crate) fn omits_default(&self) -> bool {
        matches!(self, ValueContext::Field(field) if !field.has_presence)
    }
}

/// Fails if the limit is exceeded.
#[inline]
pub(crate) fn check_size(sink: &impl Sink) -> Checked {
    if sink.is_full() { Err(too_large()) } else { Ok(()) }
}

#[cold]
fn too_large() -> Box<Violation> {
    Violation::new(Rule::TooLarge, 0, "a payload within the limit after transcoding", "a larger one")
}

/// Discards everything: only the check remains.
pub(crate) struct NullSink;

impl Sink for NullSink {
    const USES_VALUES: bool = false;

    fn is_full(&self) -> bool {
        false
    }

    fn message_begin(&mut self, _: ValueContext<'_>, _: &MessagePlan) {}
    fn message_end(&mut self, _: ValueContext<'_>, _: &MessagePlan) {}
    fn list_begin(&mut self, _: &FieldPlan) {}
    fn list_end(&mut self, _: &FieldPlan) {}
    fn entry_begin(&mut self, _: &FieldPlan) {}
    fn entry_end(&mut self) {}
    fn scalar(&mut self, _: ValueContext<'_>, _: Scalar<'_>) {}
    fn enumeration(&mut self, _: ValueContext<'_>, _: &EnumPlan, _: i32) {}
    fn timestamp(&mut self, _: ValueContext<'_>, _: i64, _: u32) {}
    fn duration(&mut self, _: ValueContext<'_>, _: i64, _: i32) {}
    fn field_mask(&mut self, _: ValueContext<'_>, _: &str) {}
    fn any_scalar(&mut self, _: AnyPosition<'_>, _: AnyScalar<'_>) {}
    fn any_begin(&mut self, _: AnyPosition<'_>, _: AnyShape, _: bool) {}
    fn any_end(&mut self, _: AnyPosition<'_>, _: AnyShape, _: bool) {}
}
