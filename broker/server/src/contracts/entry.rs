//! The definition of a contract to add or replace.

use std::fmt::Write as _;

use crate::json::{Value, push_string};

/// The keys of a contract, as in `contracts.toml`, and its schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    keys: Vec<(&'static str, EntryValue)>,
    /// The text of a new schema.
    pub(crate) schema: Option<String>,
    /// The name of an existing schema; for a new one, a name whose extension gives the language.
    pub(crate) schema_file: Option<String>,
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EntryValue {
    Text(String),
    List(Vec<String>),
    Table(Vec<(String, String)>),
}

/// Keys with a string value.
const TEXTS: [&str; 5] = ["topics", "message", "on_violation", "unacknowledged", "unknown_fields"];

impl Entry {
    /// Parses the body of a request: an object with the keys of `contracts.toml`, except that `schema` is the text of the schema and
    /// `schema_file` its name.
    ///
    /// # Errors
    /// A description of the error.
    pub(crate) fn from_json(value: &Value) -> Result<Entry, String> {
        let Value::Object(members) = value else {
            return Err(format!("expected an object, found {}", value.kind()));
        };
        let mut entry = Entry::default();
        for (at, (name, value)) in members.iter().enumerate() {
            if members[..at].iter().any(|(known, _)| known == name) {
                return Err(format!("{name} is given twice"));
            }
            let text = || match value {
                Value::Text(text) if !text.is_empty() => Ok(text.clone()),
                Value::Text(_) => Err(format!("{name}: expected a non-empty string")),
                other => Err(format!("{name}: expected a string, found {}", other.kind())),
            };
            match name.as_str() {
                "schema" => entry.schema = Some(text()?),
                "schema_file" => entry.schema_file = Some(text()?),
                "format" => match value {
                    Value::List(items) => {
                        let names = items.iter().map(Value::as_text).collect::<Option<Vec<&str>>>();
                        entry.formats(&names.ok_or("format: expected a string or a list of strings")?);
                    }
                    _ => entry.formats(&[&text()?]),
                },
                "topic_fields" => {
                    let Value::Object(topic_fields) = value else {
                        return Err(format!("topic_fields: expected an object, found {}", value.kind()));
                    };
                    let tie = |(level, field): &(String, Value)| Some((level.clone(), field.as_text()?.to_owned()));
                    let topic_fields = topic_fields.iter().map(tie).collect::<Option<Vec<_>>>();
                    entry.topic_fields(topic_fields.ok_or("topic_fields: expected a string for each level")?);
                }
                other => match TEXTS.into_iter().find(|known| *known == other) {
                    Some(key) => entry.text(key, &text()?),
                    None => {
                        let known = TEXTS.join(", ");
                        return Err(format!(
                            "unknown key {other}; valid keys are {known}, format, topic_fields, schema, schema_file"
                        ));
                    }
                },
            }
        }
        for key in ["topics", "format"] {
            if !entry.keys.iter().any(|(known, _)| *known == key) {
                return Err(format!("{key} is missing"));
            }
        }
        if entry.schema.is_none() && entry.schema_file.is_none() {
            return Err(
                "schema is missing: give its text, or set schema_file to the name of a schema in the folder".to_owned()
            );
        }
        Ok(entry)
    }

    /// Formats the entry as the body of a request.
    pub(crate) fn to_json(&self) -> String {
        let mut json = String::from("{");
        let name = |json: &mut String, name: &str| {
            json.push_str(if json.len() > 1 { "," } else { "" });
            push_string(json, name);
            json.push(':');
        };
        for (key, value) in &self.keys {
            name(&mut json, key);
            value.push(&mut json, ": ");
        }
        for (key, value) in [("schema", &self.schema), ("schema_file", &self.schema_file)] {
            if let Some(text) = value {
                name(&mut json, key);
                push_string(&mut json, text);
            }
        }
        json.push('}');
        json
    }

    /// Sets a key with a string value.
    pub(crate) fn text(&mut self, key: &'static str, text: &str) {
        self.keys.push((key, EntryValue::Text(text.to_owned())));
    }

    pub(crate) fn formats(&mut self, names: &[&str]) {
        self.keys.push(("format", EntryValue::List(names.iter().map(|name| (*name).to_owned()).collect())));
    }

    /// Sets which topic levels must equal which fields.
    pub(crate) fn topic_fields(&mut self, topic_fields: Vec<(String, String)>) {
        self.keys.push(("topic_fields", EntryValue::Table(topic_fields)));
    }

    /// Formats the keys as TOML, with the schema at `schema`.
    pub(crate) fn to_toml(&self, schema: &str) -> String {
        let mut toml = String::new();
        for (key, value) in &self.keys {
            let _ = write!(toml, "{key} = ");
            value.push(&mut toml, " = ");
            toml.push('\n');
        }
        toml.push_str("schema = ");
        push_string(&mut toml, schema);
        toml.push('\n');
        toml
    }

    /// The file extension for the new schema: from its name, or else from its first character.
    pub(super) fn extension(&self, text: &str) -> &'static str {
        let named = self.schema_file.as_deref().unwrap_or_default();
        let is_json = named.ends_with(".json") || (!named.ends_with(".proto") && text.trim_start().starts_with('{'));
        if is_json { "json" } else { "proto" }
    }
}

impl EntryValue {
    /// Appends the value as JSON or TOML.
    ///
    /// `between` separates names and values of a table.
    fn push(&self, out: &mut String, between: &str) {
        match self {
            EntryValue::Text(text) => push_string(out, text),
            EntryValue::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    push_string(out, item);
                }
                out.push(']');
            }
            EntryValue::Table(members) => {
                out.push_str("{ ");
                for (at, (name, value)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    push_string(out, name);
                    out.push_str(between);
                    push_string(out, value);
                }
                out.push_str(" }");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn entry(text: &str) -> Result<Entry, String> {
        Entry::from_json(&parse(text).expect("JSON"))
    }

    #[test]
    fn a_request_round_trips_through_toml() {
        let text = r#"{"topics":"a/{id}","format":["json", "messagepack"],"topic_fields":{ "id": "x = y", "b": "c" },"schema":"{}"}"#;
        let read = entry(text).expect("right");
        let toml = "topics = \"a/{id}\"\nformat = [\"json\", \"messagepack\"]\ntopic_fields = { \"id\" = \"x = y\", \"b\" = \"c\" }\nschema = \"s\"\n";
        assert_eq!(read.to_toml("s"), toml);
        assert_eq!(entry(&read.to_json()), Ok(read.clone()));
        assert_eq!(read.extension("{}"), "json");
    }

    #[test]
    fn invalid_requests_are_reported() {
        for (text, expected) in [
            ("[]", "expected an object, found a list"),
            ("{}", "topics is missing"),
            (r#"{"topics":"a"}"#, "format is missing"),
            (r#"{"topics":"a","format":"json"}"#, "schema is missing"),
            (r#"{"topics":1}"#, "topics: expected a string, found a number"),
            (r#"{"topics":"a","topics":"b"}"#, "topics is given twice"),
            (r#"{"topic":"a"}"#, "unknown key topic"),
            (r#"{"format":[1]}"#, "format: expected a string or a list of strings"),
            (r#"{"topic_fields":{"a":1}}"#, "topic_fields: expected a string for each level"),
        ] {
            assert!(entry(text).expect_err("refused").starts_with(expected), "{text}");
        }
    }
}
