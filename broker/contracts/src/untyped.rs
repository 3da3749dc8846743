//! Passes on untyped values unchanged: those of `google.protobuf.Value`, and payloads of a JSON Schema that are transcoded between JSON and
//! MessagePack.

use crate::sink::{AnyPosition, AnyScalar, AnyShape, Sink, check_size};
use crate::source::{self, Source, Value};
use crate::violation::{Checked, Rule, Violation};

/// The schema language of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaKind {
    /// `google.protobuf.Value` and similar, whose numbers are all doubles.
    Protobuf,
    JsonSchema,
}

/// Nesting is counted as in the binary form, so that a payload has the same depth in every format: there, lists and maps are messages in a
/// `Value`, their items are `Value`s, and entries are messages too.
impl SchemaKind {
    fn depth(self, wrapped: bool) -> u16 {
        u16::from(self == SchemaKind::JsonSchema || wrapped)
    }

    fn depth_of_items(self) -> u16 {
        u16::from(self == SchemaKind::Protobuf)
    }

    fn depth_of_entries(self) -> u16 {
        2 * self.depth_of_items()
    }
}

/// Passes on the value that begins with `value`. `wrapped`: whether it is inside a `google.protobuf.Value`.
pub(crate) fn walk<'a>(
    source: &mut impl Source<'a>,
    sink: &mut impl Sink,
    value: Value<'a>,
    place: AnyPosition<'_>,
    wrapped: bool,
    owner: SchemaKind,
    depth_left: u16,
) -> Checked {
    check_size(sink)?;
    let scalar = match value {
        Value::Map(_) | Value::List(_) => return walk_deeper(source, sink, value, place, wrapped, owner, depth_left),
        Value::Null => AnyScalar::Null,
        Value::Bool(value) => AnyScalar::Bool(value),
        Value::Int(value) if owner == SchemaKind::Protobuf => AnyScalar::Number(value as f64),
        Value::Uint(value) if owner == SchemaKind::Protobuf => AnyScalar::Number(value as f64),
        Value::Int(value) => AnyScalar::Int(value),
        Value::Uint(value) => AnyScalar::Uint(value),
        Value::Float(value) => AnyScalar::Number(finite(source, value)?),
        Value::Decimal(text) if owner == SchemaKind::JsonSchema && text.parse().is_ok_and(is_rounded) => {
            let expected = "an integer of at most 64 bits, or one that a double can hold";
            return Err(Violation::new(Rule::Range, source.offset(), expected, "a larger one"));
        }
        Value::Decimal(text) => AnyScalar::Number(finite(source, text.parse().unwrap_or(f64::NAN))?),
        Value::Text(text) => {
            sink.any_scalar(place, AnyScalar::Text(&text.decoded()));
            return Ok(());
        }
        Value::Bytes(_) | Value::Timestamp(..) | Value::Extension => {
            return Err(Violation::new(Rule::Type, source.offset(), "a value that JSON has too", value.describe()));
        }
    };
    sink.any_scalar(place, scalar);
    Ok(())
}

fn walk_deeper<'a>(
    source: &mut impl Source<'a>,
    sink: &mut impl Sink,
    value: Value<'a>,
    place: AnyPosition<'_>,
    wrapped: bool,
    owner: SchemaKind,
    depth_left: u16,
) -> Checked {
    let Some(depth_left) = depth_left.checked_sub(owner.depth(wrapped)) else {
        return Err(source::too_deep(source.offset()));
    };
    let inside = |at: usize, cost: u16| depth_left.checked_sub(cost).ok_or_else(|| source::too_deep(at));
    match value {
        Value::Map(mut sequence) => {
            sink.any_begin(place, AnyShape::Struct, wrapped);
            while let Some(key) = source.key(&mut sequence)? {
                let key = key.decoded();
                let value = source.value()?;
                let depth_left = inside(source.offset(), owner.depth_of_entries())?;
                walk(source, sink, value, AnyPosition::Entry(&key), true, owner, depth_left)
                    .map_err(|violation| violation.inside(&key))?;
            }
            sink.any_end(place, AnyShape::Struct, wrapped);
        }
        Value::List(mut sequence) => {
            sink.any_begin(place, AnyShape::List, wrapped);
            let mut index = 0;
            while source.item(&mut sequence)? {
                let value = source.value()?;
                let depth_left = inside(source.offset(), owner.depth_of_items())?;
                walk(source, sink, value, AnyPosition::Item, true, owner, depth_left)
                    .map_err(|violation| violation.inside_item(index))?;
                index += 1;
            }
            sink.any_end(place, AnyShape::List, wrapped);
        }
        _ => {}
    }
    Ok(())
}

/// JSON cannot represent non-finite numbers.
fn finite<'a>(source: &impl Source<'a>, value: f64) -> Checked<f64> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(Violation::new(Rule::Range, source.offset(), "a finite number", "another"))
}

/// Whether a conversion to double would change the number.
fn is_rounded(whole: i128) -> bool {
    whole as f64 as i128 != whole
}
