//! Fields of a Protobuf message.

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind as ProtoKind, MessageDescriptor};
use serde_json::{Value, json};
use tautwire_contracts::Schema;

use super::field::{Field, Kind};

/// The fields of the message, by name.
///
/// # Errors
/// The descriptors cannot be read.
pub(super) fn fields(schema: &Schema) -> Result<Vec<(String, Field)>, String> {
    let message = message(schema)?;
    Ok(message.fields().map(|field| (field.name().to_owned(), describe(&field, Vec::new()))).collect())
}

/// The field at a path of names.
///
/// # Errors
/// There is no such field.
pub(super) fn find(schema: &Schema, path: &str) -> Result<Field, String> {
    let mut message = message(schema)?;
    let mut parents = Vec::new();
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let Some(field) = message.get_field_by_name(name) else {
            return Err(format!("the message {} has no field {name}", message.full_name()));
        };
        if names.peek().is_none() {
            return Ok(describe(&field, parents));
        }
        message = match field.kind() {
            ProtoKind::Message(inner) if !field.is_list() && !field.is_map() => inner,
            _ => return Err(format!("the field {name} is not a message")),
        };
        parents.push(field.json_name().to_owned());
    }
    Err("the path is empty".into())
}

fn message(schema: &Schema) -> Result<MessageDescriptor, String> {
    let pool = DescriptorPool::decode(&*schema.descriptor_set).map_err(|error| format!("{}: {error}", schema.file))?;
    pool.get_message_by_name(&schema.message)
        .ok_or_else(|| format!("{} has no message {}", schema.file, schema.message))
}

fn describe(field: &FieldDescriptor, parents: Vec<String>) -> Field {
    // Of a nested message that is absent, everything is absent.
    let has_default = parents.is_empty() && !field.supports_presence();
    let mut path = parents;
    path.push(field.json_name().to_owned());
    let (kind, default) = if field.is_map() {
        (Kind::Json, json!({}))
    } else if field.is_list() {
        (Kind::Json, json!([]))
    } else {
        scalar(&field.kind())
    };
    Field { kind, path, default: has_default.then_some(default) }
}

/// The type, and the value of an absent field without presence.
fn scalar(kind: &ProtoKind) -> (Kind, Value) {
    match kind {
        ProtoKind::Double => (Kind::Float64, json!(0)),
        ProtoKind::Float => (Kind::Float32, json!(0)),
        ProtoKind::Int32 | ProtoKind::Sint32 | ProtoKind::Sfixed32 => (Kind::Int32, json!(0)),
        // PostgreSQL has no unsigned types.
        ProtoKind::Uint32 | ProtoKind::Fixed32 | ProtoKind::Int64 | ProtoKind::Sint64 | ProtoKind::Sfixed64 => {
            (Kind::Int64, json!(0))
        }
        ProtoKind::Uint64 | ProtoKind::Fixed64 => (Kind::Uint64, json!(0)),
        ProtoKind::Bool => (Kind::Bool, json!(false)),
        ProtoKind::String => (Kind::Text, json!("")),
        ProtoKind::Bytes => (Kind::Bytes, json!("")),
        ProtoKind::Enum(values) => (Kind::Text, json!(values.default_value().name())),
        ProtoKind::Message(message) => (well_known(message), Value::Null),
    }
}

fn well_known(message: &MessageDescriptor) -> Kind {
    match message.full_name() {
        "google.protobuf.Timestamp" => Kind::Timestamp,
        "google.protobuf.Duration" => Kind::Interval,
        "google.protobuf.FieldMask" => Kind::Text,
        // Wrappers are the value that they have, or null.
        "google.protobuf.DoubleValue" => Kind::Float64,
        "google.protobuf.FloatValue" => Kind::Float32,
        "google.protobuf.Int32Value" => Kind::Int32,
        "google.protobuf.UInt32Value" | "google.protobuf.Int64Value" => Kind::Int64,
        "google.protobuf.UInt64Value" => Kind::Uint64,
        "google.protobuf.BoolValue" => Kind::Bool,
        "google.protobuf.StringValue" => Kind::Text,
        "google.protobuf.BytesValue" => Kind::Bytes,
        _ => Kind::Json,
    }
}
