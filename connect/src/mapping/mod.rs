//! Columns of a table: from the fields of a contract, and from the levels of topics.

mod copy;
mod field;
mod json_schema;
mod protobuf;

use std::time::SystemTime;

use serde::Deserialize;
use serde_json::Value;
use tautwire_contracts::{Contract, TopicPattern};
use tautwire_message::Format;
use tautwire_topics::FilterTree;

use crate::time::rfc3339;
use field::Field;
pub(crate) use field::Kind;

/// The longest payload as JSON: names make it longer than other formats.
const JSON_MAX_BYTES: usize = 64 << 20;

/// The format of payloads without a contract.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PayloadFormat {
    #[default]
    Bytes,
    Json,
}

#[derive(Debug, Clone, PartialEq)]
enum ColumnSource {
    Field(Field),
    /// A named level of the topic.
    Level,
    Topic,
    /// The payload as it is.
    Payload,
    ReceivedAt,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    source: ColumnSource,
}

/// The columns of a table.
#[derive(Debug, Default)]
pub(crate) struct Mapping {
    pub(crate) columns: Vec<Column>,
    /// The names of the columns of the primary key; empty without one.
    pub(crate) key: Vec<String>,
    patterns: Vec<TopicPattern>,
    by_topic: FilterTree<usize>,
}

/// A message, as a row needs it.
pub(crate) struct RowInput<'a> {
    pub(crate) topic: &'a str,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) payload: &'a [u8],
    pub(crate) received_at: SystemTime,
}

/// The columns of a contract: named levels, fields, and the time of receipt.
///
/// # Errors
/// Two columns have the same name.
pub(crate) fn of_contract(contract: &Contract, patterns: &[TopicPattern]) -> Result<Mapping, String> {
    let mut mapping = Mapping::new(patterns);
    let fields = if contract.schema().descriptor_set.is_empty() {
        json_schema::fields(contract.schema())?
    } else {
        protobuf::fields(contract.schema())?
    };
    let tied: Vec<(&str, &str)> = contract.topic_fields().collect();
    // A field that is tied to a level of the same name has the same value, and a type.
    mapping.columns.retain(|column| {
        let is_tied = tied.iter().any(|(level, field)| *level == column.name && *field == column.name);
        !(is_tied && fields.iter().any(|(name, _)| *name == column.name))
    });
    for (name, field) in fields {
        mapping.add(Column { name, kind: field.kind, source: ColumnSource::Field(field) })?;
    }
    mapping.add_received_at()?;
    Ok(mapping)
}

/// The columns of payloads without a contract.
///
/// # Errors
/// Two columns have the same name.
pub(crate) fn without_contract(format: PayloadFormat, patterns: &[TopicPattern]) -> Result<Mapping, String> {
    let mut mapping = Mapping::new(patterns);
    let kind = if format == PayloadFormat::Json { Kind::Json } else { Kind::Bytes };
    if !mapping.columns.iter().any(|column| column.source == ColumnSource::Topic) {
        mapping.add(Column { name: "topic".into(), kind: Kind::Text, source: ColumnSource::Topic })?;
    }
    mapping.add(Column { name: "payload".into(), kind, source: ColumnSource::Payload })?;
    mapping.add_received_at()?;
    Ok(mapping)
}

impl Mapping {
    /// The columns of the topic: named levels, and the topic itself if these do not say all.
    fn new(patterns: &[TopicPattern]) -> Mapping {
        let mut mapping = Mapping { patterns: patterns.to_vec(), ..Mapping::default() };
        for (at, pattern) in patterns.iter().enumerate() {
            mapping.by_topic.insert(pattern.filter(), at);
            for name in pattern.names() {
                if !mapping.columns.iter().any(|column| column.name == name) {
                    mapping.columns.push(Column { name: name.into(), kind: Kind::Text, source: ColumnSource::Level });
                }
            }
        }
        if patterns.len() > 1 || patterns.iter().any(|pattern| pattern.as_str().contains(['+', '#'])) {
            mapping.columns.push(Column { name: "topic".into(), kind: Kind::Text, source: ColumnSource::Topic });
        }
        mapping
    }

    fn add_received_at(&mut self) -> Result<(), String> {
        self.add(Column { name: "received_at".into(), kind: Kind::Timestamp, source: ColumnSource::ReceivedAt })
    }

    fn add(&mut self, column: Column) -> Result<(), String> {
        if self.columns.iter().any(|known| known.name == column.name) {
            return Err(format!(
                "two columns would be called {}; rename the level of the topic, or tie it to the field by topic_fields in the contract",
                column.name
            ));
        }
        self.columns.push(column);
        Ok(())
    }

    /// Adds a column for the field at a path such as `position.lat`.
    ///
    /// # Errors
    /// There is no such field, or the name is taken.
    pub(crate) fn add_path(&mut self, contract: &Contract, name: &str, path: &str) -> Result<(), String> {
        let field = find(contract, path)?;
        self.add(Column { name: name.into(), kind: field.kind, source: ColumnSource::Field(field) })
    }

    /// Adds a column to the primary key.
    ///
    /// # Errors
    /// There is no such column.
    pub(crate) fn add_key(&mut self, name: &str) -> Result<(), String> {
        if !self.columns.iter().any(|column| column.name == name) {
            let names: Vec<&str> = self.columns.iter().map(|column| &*column.name).collect();
            return Err(format!("there is no column {name}; the columns are {}", names.join(", ")));
        }
        self.key.push(name.into());
        Ok(())
    }

    /// Appends the values of a message to `row`, as COPY reads them. The payload must satisfy the contract.
    ///
    /// # Errors
    /// The payload violates the contract, or a value cannot be represented.
    pub(crate) fn push_row(
        &self,
        contract: Option<&Contract>,
        input: &RowInput<'_>,
        row: &mut Vec<u8>,
    ) -> Result<(), String> {
        let document = match contract {
            Some(contract) => document(contract, input)?,
            None => Value::Null,
        };
        let mut pattern = None;
        self.by_topic.matches(input.topic, &mut |_, found| pattern = found.first().copied());
        let pattern = pattern.and_then(|at| self.patterns.get(at));
        for (at, column) in self.columns.iter().enumerate() {
            if at > 0 {
                row.push(b'\t');
            }
            match &column.source {
                ColumnSource::Field(field) => copy::push_value(row, field.kind, field.value(&document))
                    .map_err(|error| format!("column {}: {error}", column.name))?,
                ColumnSource::Level => match pattern.and_then(|pattern| pattern.level(&column.name, input.topic)) {
                    Some(level) => copy::push_text(row, level),
                    None => copy::push_null(row),
                },
                ColumnSource::Topic => copy::push_text(row, input.topic),
                ColumnSource::Payload if column.kind == Kind::Bytes => copy::push_bytes(row, input.payload),
                ColumnSource::Payload => {
                    let text =
                        std::str::from_utf8(input.payload).map_err(|_| "the payload is not JSON: it is not UTF-8")?;
                    copy::push_text(row, text);
                }
                ColumnSource::ReceivedAt => copy::push_text(row, &rfc3339(input.received_at)),
            }
        }
        Ok(())
    }
}

/// A field whose value is the key of a message.
#[derive(Debug, Clone)]
pub(crate) struct KeyField(Field);

impl KeyField {
    /// The field at a path such as `device.id`.
    ///
    /// # Errors
    /// There is no such field.
    pub(crate) fn find(contract: &Contract, path: &str) -> Result<KeyField, String> {
        find(contract, path).map(KeyField)
    }

    /// The value in a message, as text.
    ///
    /// # Errors
    /// The payload violates the contract.
    pub(crate) fn text(&self, contract: &Contract, input: &RowInput<'_>) -> Result<String, String> {
        let document = document(contract, input)?;
        Ok(match self.0.value(&document) {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        })
    }
}

/// The field at a path of names.
fn find(contract: &Contract, path: &str) -> Result<Field, String> {
    let schema = contract.schema();
    let field =
        if schema.descriptor_set.is_empty() { json_schema::find(schema, path) } else { protobuf::find(schema, path) };
    field.map_err(|error| format!("{path}: {error} in the contract {} ({})", contract.name(), schema.file))
}

/// A payload as JSON, checked by its contract.
fn document(contract: &Contract, input: &RowInput<'_>) -> Result<Value, String> {
    let refused = |violation: Box<tautwire_contracts::Violation>| format!("contract {}: {violation}", contract.name());
    let format = contract.check(input.topic, input.content_type, input.payload).map_err(refused)?;
    let mut json = Vec::new();
    contract.transcode(format, Format::Json, input.payload, &mut json, JSON_MAX_BYTES).map_err(refused)?;
    // The position is in a text that nobody sees.
    serde_json::from_slice(&json)
        .map_err(|error| format!("the payload cannot be read as JSON: {:?} error", error.classify()))
}

#[cfg(test)]
mod tests;
