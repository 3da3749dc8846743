//! Pseudorandom messages of a schema, from a seed.

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value};

use crate::choices::Choices;

const DEPTH_MAX: usize = 3;

pub(crate) fn generate(descriptor: &MessageDescriptor, choices: &mut Choices) -> DynamicMessage {
    message(descriptor, choices, 0)
}

fn message(descriptor: &MessageDescriptor, choices: &mut Choices, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    match descriptor.full_name() {
        "google.protobuf.Timestamp" => {
            let seconds = choices.bits() as i64 % 62_000_000_000;
            set(&mut message, Value::I64(seconds), Value::I32(nanos(choices)));
        }
        "google.protobuf.Duration" => {
            let sign = if choices.one_in(2) { -1 } else { 1 };
            let seconds = (choices.bits() % 1_000_000) as i64 * sign;
            set(&mut message, Value::I64(seconds), Value::I32(nanos(choices) * sign as i32));
        }
        "google.protobuf.Value" => {
            let fields: Vec<_> = descriptor.fields().collect();
            let field = &fields[if depth >= DEPTH_MAX { choices.below(4) } else { choices.below(6) }];
            let value = match field.kind() {
                // It cannot represent NaN.
                Kind::Double => Value::F64(*choices.of(&[0.0, -1.5, 1e300])),
                _ => value(field, choices, depth + 1),
            };
            message.set_field(field, value);
        }
        _ => {
            for field in descriptor.fields() {
                if choices.one_in(3) || (depth >= DEPTH_MAX && matches!(field.kind(), Kind::Message(_))) {
                    continue;
                }
                message.set_field(&field, any(&field, choices, depth));
            }
        }
    }
    message
}

fn set(message: &mut DynamicMessage, seconds: Value, nanos: Value) {
    message.set_field_by_number(1, seconds);
    message.set_field_by_number(2, nanos);
}

fn nanos(choices: &mut Choices) -> i32 {
    *choices.of(&[0, 0, 500_000_000, 1_000, 999_999_999, 1])
}

fn any(field: &FieldDescriptor, choices: &mut Choices, depth: usize) -> Value {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { return Value::Map(HashMap::new()) };
        let (key_field, value_field) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        let mut map = HashMap::new();
        for _ in 0..choices.below(4) {
            let key = match value(&key_field, choices, depth + 1) {
                Value::Bool(key) => MapKey::Bool(key),
                Value::I32(key) => MapKey::I32(key),
                Value::I64(key) => MapKey::I64(key),
                Value::U32(key) => MapKey::U32(key),
                Value::U64(key) => MapKey::U64(key),
                Value::String(key) => MapKey::String(key),
                other => panic!("{other:?} is not a map key"),
            };
            // At most one entry, so that the order does not matter.
            map = HashMap::from([(key, value(&value_field, choices, depth + 1))]);
        }
        return Value::Map(map);
    }
    if field.is_list() {
        return Value::List((0..choices.below(5)).map(|_| value(field, choices, depth + 1)).collect());
    }
    value(field, choices, depth + 1)
}

fn value(field: &FieldDescriptor, choices: &mut Choices, depth: usize) -> Value {
    let bits = if choices.one_in(2) { choices.bits() >> choices.below(60) } else { choices.bits() % 100 };
    let signed = if choices.one_in(2) { (bits as i64).wrapping_neg() } else { bits as i64 };
    match field.kind() {
        Kind::Double => {
            Value::F64(*choices.of(&[0.0, -0.0, 1.5, -2.25e-9, 1e300, 5e-324, 123_456_789.0, f64::INFINITY, 0.1]))
        }
        Kind::Float => Value::F32(*choices.of(&[0.0, 1.5, 3.4e38, 1e-45, -7.0, 0.1, f32::NEG_INFINITY])),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(signed as i32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(signed),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(bits as u32),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(bits),
        Kind::Bool => Value::Bool(choices.one_in(2)),
        Kind::String => Value::String(
            (*choices.of(&["", "a", "héllo", "\"\\\n\u{1}/", "long ".repeat(40).as_str(), "🙂"])).to_owned(),
        ),
        Kind::Bytes => Value::Bytes((0..choices.below(40)).map(|_| choices.bits() as u8).collect::<Vec<_>>().into()),
        Kind::Enum(of) if of.full_name() == "google.protobuf.NullValue" => Value::EnumNumber(0),
        Kind::Enum(_) => Value::EnumNumber(*choices.of(&[0, 1, -7, 70_000, 5])),
        Kind::Message(of) => Value::Message(message(&of, choices, depth)),
    }
}

/// Drops unknown fields at every depth: only they are lost by transcoding.
pub(crate) fn forget_unknown(message: &mut DynamicMessage) {
    let known: Vec<_> = message.fields().map(|(field, value)| (field, value.clone())).collect();
    let mut fresh = DynamicMessage::new(message.descriptor());
    for (field, mut value) in known {
        forget_in(&mut value);
        fresh.set_field(&field, value);
    }
    *message = fresh;
}

fn forget_in(value: &mut Value) {
    match value {
        Value::Message(message) => forget_unknown(message),
        Value::List(values) => values.iter_mut().for_each(forget_in),
        Value::Map(entries) => entries.values_mut().for_each(forget_in),
        _ => {}
    }
}
