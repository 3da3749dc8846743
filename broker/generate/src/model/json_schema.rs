//! Records of JSON Schemas. The broker has checked the schemas; constraints that types cannot express are left to the broker.

use std::collections::BTreeSet;

use serde_json::Value;
use tautwire_contracts::Schema;

use super::{Builder, Enum, EnumValue, Family, Field, Kind, Presence, Record, RecordId, Repr, Scalar, only};
use crate::names;

pub(super) fn record(builder: &mut Builder, schema: &Schema, contract: &str) -> Result<RecordId, String> {
    let document: Value = serde_json::from_str(&schema.source).map_err(|error| format!("{}: {error}", schema.file))?;
    // A title may be a whole sentence.
    let title = document.get("title").and_then(Value::as_str).filter(|title| !title.contains(char::is_whitespace));
    let title = title.unwrap_or(contract);
    let mut lower = Lower { builder, file: &schema.file, document: &document };
    Ok(match lower.schema(&document, "#", title)?.kind {
        Kind::Record(id) => id,
        kind => {
            // A payload that is not an object.
            let key = (schema.file.to_string(), "# alone".to_owned(), Family::Plain);
            if let Some(known) = lower.builder.known_records.get(&key) {
                return Ok(*known);
            }
            let id = lower.builder.reserve();
            let name = lower.builder.type_name(title, contract);
            let doc = describe(&document, || format!("The payload that {} describes.", schema.file));
            lower.builder.set(id, only(name, doc, Family::Plain, kind));
            lower.builder.known_records.insert(key, id);
            id
        }
    })
}

struct Lower<'l> {
    builder: &'l mut Builder,
    file: &'l str,
    document: &'l Value,
}

struct Lowered {
    kind: Kind,
    is_nullable: bool,
}

impl From<Kind> for Lowered {
    fn from(kind: Kind) -> Lowered {
        Lowered { kind, is_nullable: false }
    }
}

impl Lower<'_> {
    /// The kind of the subschema at `pointer`. `name` is for its type, if it needs one.
    fn schema(&mut self, schema: &Value, pointer: &str, name: &str) -> Result<Lowered, String> {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let path = reference.strip_prefix('#').unwrap_or_default();
            let document = self.document;
            let target = document.pointer(path).ok_or_else(|| format!("$ref {reference} does not exist"))?;
            let name = match path.rsplit('/').next() {
                Some(last) if !last.is_empty() => last.to_owned(),
                _ => name.to_owned(),
            };
            return self.schema(target, &format!("#{path}"), &name);
        }
        if let Some(kind) = self.enumeration(schema, pointer, name) {
            return Ok(kind.into());
        }
        let (types, is_nullable) = types(schema);
        let kind = match types.iter().copied().collect::<Vec<_>>()[..] {
            ["boolean"] => Kind::Scalar(Scalar::Bool),
            ["integer"] => Kind::Scalar(Scalar::Integer),
            ["number"] | ["integer", "number"] => Kind::Scalar(Scalar::Double),
            ["string"] => Kind::Scalar(Scalar::String),
            ["array"] => self.list(schema, pointer, name)?,
            ["object"] => self.object(schema, pointer, name)?,
            _ => return Ok(Kind::Raw.into()),
        };
        Ok(Lowered { kind, is_nullable })
    }

    fn list(&mut self, schema: &Value, pointer: &str, name: &str) -> Result<Kind, String> {
        let items = match schema.get("items") {
            Some(items) if schema.get("prefixItems").is_none() => {
                self.element(items, &format!("{pointer}/items"), &format!("{name} item"))?
            }
            _ => Kind::Raw,
        };
        Ok(Kind::List(Box::new(items)))
    }

    /// The kind of an item of a list or map, where null is a value.
    fn element(&mut self, schema: &Value, pointer: &str, name: &str) -> Result<Kind, String> {
        let Lowered { kind, is_nullable } = self.schema(schema, pointer, name)?;
        Ok(if is_nullable { Kind::Raw } else { kind })
    }

    fn object(&mut self, schema: &Value, pointer: &str, name: &str) -> Result<Kind, String> {
        let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|known| !known.is_empty())
        else {
            let values = match schema.get("additionalProperties") {
                Some(values @ Value::Object(_)) => {
                    self.element(values, &format!("{pointer}/additionalProperties"), &format!("{name} value"))?
                }
                _ => Kind::Raw,
            };
            return Ok(Kind::Map(Scalar::String, Box::new(values)));
        };
        let key = (self.file.to_owned(), pointer.to_owned(), Family::Plain);
        if let Some(known) = self.builder.known_records.get(&key) {
            return Ok(Kind::Record(*known));
        }
        let id = self.builder.reserve();
        self.builder.known_records.insert(key, id);
        let long = format!("{} {name}", self.file.trim_end_matches(".json"));
        let type_name = self.builder.type_name(name, &long);
        let required: BTreeSet<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut fields = Vec::new();
        for (property, of) in properties {
            let step = property.replace('~', "~0").replace('/', "~1");
            let lowered =
                self.schema(of, &format!("{pointer}/properties/{step}"), &format!("{type_name} {property}"))?;
            fields.push(Field {
                name: property.clone(),
                wire_name: property.clone(),
                number: 0,
                kind: lowered.kind,
                presence: if required.contains(property.as_str()) { Presence::Required } else { Presence::Optional },
                choice: None,
                is_nullable: lowered.is_nullable,
                is_packed: false,
                is_recursive: false,
                doc: describe(of, || format!("The property `{}`.", plain(property))),
            });
        }
        let doc = describe(schema, || format!("An object of {}.", self.file));
        let record = Record {
            name: type_name,
            doc,
            fields,
            choices: Vec::new(),
            family: Family::Plain,
            is_transparent: false,
            formats: Default::default(),
        };
        self.builder.set(id, record);
        Ok(Kind::Record(id))
    }

    fn enumeration(&mut self, schema: &Value, pointer: &str, name: &str) -> Option<Kind> {
        let values: Vec<&str> = match (schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(values)), _) => values.iter().map(Value::as_str).collect::<Option<_>>()?,
            (_, Some(value)) => vec![value.as_str()?],
            _ => return None,
        };
        let key = (self.file.to_owned(), pointer.to_owned());
        if let Some(known) = self.builder.known_enums.get(&key) {
            return Some(Kind::Enum(*known));
        }
        let long = format!("{} {name}", self.file.trim_end_matches(".json"));
        let type_name = self.builder.type_name(name, &long);
        let mut met = BTreeSet::new();
        let values = values.into_iter().filter(|value| met.insert(*value)).enumerate();
        let values = values.map(|(at, value)| EnumValue {
            name: value.to_owned(),
            wire_name: value.to_owned(),
            number: i32::try_from(at).unwrap_or(i32::MAX),
        });
        let enumeration = Enum {
            name: type_name,
            doc: describe(schema, || format!("An enumeration of {}.", self.file)),
            values: values.collect(),
            repr: Repr::Text,
            default: 0,
            is_named: false,
        };
        let id = self.builder.add_enum(enumeration);
        self.builder.known_enums.insert(key, id);
        Some(Kind::Enum(id))
    }
}

/// The allowed types, and whether null is allowed too.
fn types(schema: &Value) -> (BTreeSet<&str>, bool) {
    let mut types: BTreeSet<&str> = match schema.get("type") {
        Some(Value::String(name)) => [name.as_str()].into(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => BTreeSet::new(),
    };
    let is_nullable = types.remove("null");
    (types, is_nullable)
}

fn describe(schema: &Value, otherwise: impl FnOnce() -> String) -> String {
    match schema.get("description").and_then(Value::as_str).map(plain) {
        Some(text) if !text.is_empty() => text,
        _ => otherwise(),
    }
}

/// Text for a comment: on one line, and without comment delimiters.
fn plain(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    names::comment(&words.chars().filter(|character| !character.is_control()).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_cannot_end_its_comment() {
        let schema = serde_json::json!({ "description": "a */ int x; /* b\n\\ c" });
        assert_eq!(describe(&schema, String::new), "a * / int x; / * b \\ c");
    }
}
