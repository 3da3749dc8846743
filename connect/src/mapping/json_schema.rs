//! Properties of a JSON Schema.

use serde_json::Value;
use tautwire_contracts::Schema;

use super::field::{Field, Kind};

/// References followed for one property.
const REFERENCES_MAX: usize = 16;

/// The properties of the schema, by name.
///
/// # Errors
/// The schema does not describe an object.
pub(super) fn fields(schema: &Schema) -> Result<Vec<(String, Field)>, String> {
    let root = parse(schema)?;
    let properties =
        properties(&root, &root).ok_or_else(|| format!("{} has no properties to make columns of", schema.file))?;
    let field = |(name, value): (&String, &Value)| (name.clone(), describe(&root, value, vec![name.clone()]));
    Ok(properties.iter().map(field).collect())
}

/// The property at a path of names.
///
/// # Errors
/// There is no such property.
pub(super) fn find(schema: &Schema, path: &str) -> Result<Field, String> {
    let root = parse(schema)?;
    let mut value = &root;
    for name in path.split('.') {
        value = properties(&root, value)
            .and_then(|properties| properties.get(name))
            .ok_or_else(|| format!("the schema has no property {name} there"))?;
    }
    Ok(describe(&root, value, path.split('.').map(str::to_owned).collect()))
}

fn parse(schema: &Schema) -> Result<Value, String> {
    serde_json::from_str(&schema.source).map_err(|error| format!("{}: {error}", schema.file))
}

fn properties<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a serde_json::Map<String, Value>> {
    resolve(root, schema)?.get("properties")?.as_object()
}

/// Follows references within the file.
fn resolve<'a>(root: &'a Value, mut schema: &'a Value) -> Option<&'a Value> {
    for _ in 0..REFERENCES_MAX {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return Some(schema) };
        schema = root.pointer(reference.strip_prefix('#')?)?;
    }
    None
}

fn describe(root: &Value, schema: &Value, path: Vec<String>) -> Field {
    let schema = resolve(root, schema).unwrap_or(&Value::Null);
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect(),
        _ => Vec::new(),
    };
    let kind = match (&types[..], schema.get("format").and_then(Value::as_str)) {
        (["boolean"], _) => Kind::Bool,
        (["integer"], _) => Kind::Int64,
        (["number"] | ["integer", "number"] | ["number", "integer"], _) => Kind::Float64,
        (["string"], Some("date-time")) => Kind::Timestamp,
        (["string"], Some("date")) => Kind::Date,
        (["string"], Some("uuid")) => Kind::Uuid,
        (["string"], _) => Kind::Text,
        _ => Kind::Json,
    };
    Field { kind, path, default: None }
}
