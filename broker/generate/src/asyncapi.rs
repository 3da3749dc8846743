//! AsyncAPI 3.0 documents.

use serde_json::{Map, Value, json};
use tautwire_contracts::{Catalogue, Contract};

use crate::GenerateError;
use crate::model::{Api, Binding, Enum, Kind, Level, Presence, Record, Repr, Scalar};

/// The title and version of a document.
#[derive(Debug, Clone)]
pub struct Document {
    /// The title of the API.
    pub title: String,
    /// The version of the API.
    pub version: String,
}

impl Default for Document {
    fn default() -> Document {
        Document { title: "Contracts".to_owned(), version: "1.0.0".to_owned() }
    }
}

/// Describes all contracts of a catalogue in JSON: a channel for each, with a send and a receive operation. Payloads of Protobuf schemas
/// are described in their JSON form.
///
/// # Errors
/// As [`crate::generate`].
pub fn asyncapi(catalogue: &Catalogue, document: &Document) -> Result<String, GenerateError> {
    let api = Api::for_documents(catalogue)?;
    let (mut channels, mut operations) = (Map::new(), Map::new());
    let (mut messages, mut schemas) = (Map::new(), Map::new());
    for binding in &api.contracts {
        let Some(contract) = catalogue.named(&binding.contract) else { continue };
        let key = binding.contract.as_str();
        channels.insert(key.to_owned(), channel(binding));
        for (verb, action) in [("publish", "send"), ("subscribe", "receive")] {
            operations.insert(
                format!("{verb}{}", binding.name),
                json!({
                    "action": action,
                    "channel": { "$ref": format!("#/channels/{key}") },
                    "messages": [{ "$ref": format!("#/channels/{key}/messages/{key}") }],
                }),
            );
        }
        messages.insert(key.to_owned(), message(&api, binding, contract));
        if contract.schema().message.is_empty() {
            schemas.insert(binding.name.clone(), json_schema(&contract.schema().source, &binding.name));
        }
    }
    for record in api.records.iter().filter(|record| !record.is_plain()) {
        schemas.insert(record.name.clone(), object(&api, record));
    }
    for enumeration in api.enums.iter().filter(|enumeration| enumeration.repr != Repr::Text) {
        schemas.insert(enumeration.name.clone(), enum_of(enumeration));
    }
    let mut text = format!(
        "{:#}",
        json!({
            "asyncapi": "3.0.0",
            "x-generated-by": "tautwire generate",
            "info": { "title": document.title, "version": document.version },
            "channels": channels,
            "operations": operations,
            "components": { "messages": messages, "schemas": schemas },
        })
    );
    text.push('\n');
    Ok(text)
}

fn channel(binding: &Binding) -> Value {
    let levels = binding.topic.levels.iter().map(|level| match level {
        Level::Fixed(text) => text.clone(),
        Level::One(parameter) | Level::Rest(parameter) => format!("{{{}}}", parameter.name),
    });
    let mut parameters = Map::new();
    for level in &binding.topic.levels {
        let (parameter, what) = match level {
            Level::Fixed(_) => continue,
            Level::One(parameter) => (parameter, "One level of the topic."),
            Level::Rest(parameter) => (parameter, "All remaining levels of the topic."),
        };
        parameters.insert(parameter.name.clone(), json!({ "description": what }));
    }
    let key = &binding.contract;
    let mut channel = json!({
        "address": levels.collect::<Vec<_>>().join("/"),
        "messages": { key: { "$ref": format!("#/components/messages/{key}") } },
    });
    if let (Some(channel), false) = (channel.as_object_mut(), parameters.is_empty()) {
        channel.insert("parameters".to_owned(), Value::Object(parameters));
    }
    channel
}

fn message(api: &Api, binding: &Binding, contract: &Contract) -> Value {
    let schema = contract.schema();
    let record = if schema.message.is_empty() { &binding.name } else { &api.record(binding.record).name };
    let formats: Vec<&str> = contract.formats().iter().map(|format| format.content_type()).collect();
    let mut about =
        json!({ "contentTypes": formats, "onViolation": contract.on_violation().name(), "file": &*schema.file });
    if let (Some(about), false) = (about.as_object_mut(), schema.message.is_empty()) {
        about.insert("message".to_owned(), json!(&*schema.message));
        about.insert("source".to_owned(), json!(&*schema.source));
    }
    json!({
        "name": binding.contract,
        "summary": format!("A message of the contract {}.", binding.contract),
        "contentType": formats.first(),
        "payload": { "$ref": format!("#/components/schemas/{record}") },
        "x-tautwire": about,
    })
}

/// Converts a JSON Schema 2020-12 to an AsyncAPI schema, which is based on draft 7: tuples have another keyword, and references are
/// relative to the document.
fn json_schema(source: &str, name: &str) -> Value {
    let Ok(mut schema) = serde_json::from_str::<Value>(source) else { return json!(true) };
    if let Some(root) = schema.as_object_mut() {
        root.remove("$schema");
        root.remove("$id");
    }
    translate(&mut schema, &format!("#/components/schemas/{name}"));
    schema
}

fn translate(schema: &mut Value, root: &str) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::String(reference)) = object.get_mut("$ref")
        && let Some(path) = reference.strip_prefix('#')
    {
        *reference = format!("{root}{}", path.replace("/prefixItems/", "/items/"));
    }
    if let Some(prefix) = object.remove("prefixItems") {
        let rest = object.insert("items".to_owned(), prefix);
        if let Some(rest) = rest {
            object.insert("additionalItems".to_owned(), rest);
        }
    }
    for (keyword, value) in object.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                named.values_mut().for_each(|inner| translate(inner, root));
            }
            ("items", Value::Array(items)) => items.iter_mut().for_each(|item| translate(item, root)),
            ("items" | "additionalItems" | "additionalProperties", inner) => translate(inner, root),
            _ => {}
        }
    }
}

fn object(api: &Api, record: &Record) -> Value {
    if let (true, Some(field)) = (record.is_transparent, record.fields.first()) {
        return schema_of(api, &field.kind);
    }
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in &record.fields {
        properties.insert(field.wire_name.clone(), schema_of(api, &field.kind));
        if field.presence == Presence::Required {
            required.push(field.wire_name.as_str());
        }
    }
    let mut doc = record.doc.clone();
    for (at, choice) in record.choices.iter().enumerate() {
        let fields = record.fields.iter().filter(|field| field.choice == Some(at));
        let fields: Vec<&str> = fields.map(|field| field.wire_name.as_str()).collect();
        doc.push_str(&format!(" At most one field of the oneof {} is present: {}.", choice.name, fields.join(", ")));
    }
    let mut object = json!({ "type": "object", "description": doc, "properties": properties });
    if let (Some(object), false) = (object.as_object_mut(), required.is_empty()) {
        object.insert("required".to_owned(), json!(required));
    }
    object
}

fn enum_of(enumeration: &Enum) -> Value {
    let names: Vec<&str> = enumeration.values.iter().map(|value| value.wire_name.as_str()).collect();
    json!({
        "description": enumeration.doc,
        "oneOf": [{ "type": "string", "enum": names }, { "type": "integer", "format": "int32" }],
    })
}

fn schema_of(api: &Api, kind: &Kind) -> Value {
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    match kind {
        Kind::Scalar(scalar) => scalar_schema(*scalar),
        Kind::Enum(id) => reference(&api.enumeration(*id).name),
        Kind::Record(id) => reference(&api.record(*id).name),
        Kind::List(item) => json!({ "type": "array", "items": schema_of(api, item) }),
        Kind::Map(_, item) => json!({ "type": "object", "additionalProperties": schema_of(api, item) }),
        Kind::Raw => json!(true),
    }
}

fn scalar_schema(scalar: Scalar) -> Value {
    match scalar {
        Scalar::Bool => json!({ "type": "boolean" }),
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => json!({ "type": "integer", "format": "int32" }),
        Scalar::Uint32 | Scalar::Fixed32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => {
            json!({ "type": ["string", "integer"], "format": "int64" })
        }
        Scalar::Uint64 | Scalar::Fixed64 => json!({ "type": ["string", "integer"], "format": "uint64" }),
        Scalar::Integer => json!({ "type": "integer" }),
        Scalar::Float => json!({ "type": "number", "format": "float" }),
        Scalar::Double => json!({ "type": "number", "format": "double" }),
        Scalar::String => json!({ "type": "string" }),
        Scalar::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        Scalar::Timestamp => json!({ "type": "string", "format": "date-time" }),
        Scalar::Duration => json!({ "type": "string", "pattern": "^-?[0-9]+(\\.[0-9]{1,9})?s$" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_lists_of_a_json_schema_are_translated() {
        let source = r##"{"$schema": "x", "prefixItems": [{"$ref": "#/$defs/a"}], "items": false, "$defs": {"a": {"$ref": "#/prefixItems/0"}}}"##;
        let expected = json!({
            "items": [{ "$ref": "#/components/schemas/N/$defs/a" }],
            "$defs": { "a": { "$ref": "#/components/schemas/N/items/0" } },
            "additionalItems": false,
        });
        assert_eq!(json_schema(source, "N"), expected);
    }
}
