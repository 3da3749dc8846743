//! The manifest `contracts.toml`, with one `[[contract]]` each, and managed files, with one contract each.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::draft::Draft;
use super::error::{ErrorCode, LoadError, SourcePosition, position};
use crate::contract::{OnViolation, Unacknowledged};
use tautwire_message::Format;

const KEYS: [&str; 9] = [
    "name",
    "topics",
    "format",
    "schema",
    "message",
    "on_violation",
    "unacknowledged",
    "unknown_fields",
    "topic_fields",
];

/// Reads the contracts of the file; errors are appended to `errors`.
pub(super) fn read(file: &str, text: &str, errors: &mut Vec<LoadError>) -> Vec<Draft> {
    let reader = Reader { file, text };
    let Some(root) = reader.parse(errors) else { return Vec::new() };
    let mut drafts = Vec::new();
    for (key, value) in &root {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("contract", DeValue::Array(tables)) => {
                for table in tables {
                    match table.get_ref() {
                        DeValue::Table(fields) => {
                            if let Some(draft) = reader.draft(table.span(), fields, errors) {
                                drafts.push(draft);
                            }
                        }
                        _ => errors.push(reader.wrong(table.span(), "contract: write [[contract]] and its keys below")),
                    }
                }
            }
            ("contract", _) => errors.push(reader.wrong(value.span(), "write [[contract]], with two brackets")),
            (other, _) => {
                let message = format!("unknown key {}; the only key is [[contract]]", other.escape_debug());
                errors.push(LoadError::at(ErrorCode::UnknownKey, reader.place(key.span()), message));
            }
        }
    }
    drafts
}

/// Reads the contract `name` of a managed file; `None` if the file removes that contract.
pub(super) fn read_one(file: &str, name: &str, text: &str, errors: &mut Vec<LoadError>) -> Option<Draft> {
    let reader = Reader { file, text };
    let mut fields = reader.parse(errors)?;
    if let Some(removed) = fields.remove(REMOVED) {
        if removed.get_ref().as_bool() != Some(true) || !fields.is_empty() {
            errors.push(reader.wrong(removed.span(), "removed = true must be the only key, or absent"));
        }
        return None;
    }
    fields.entry(Spanned::new(0..0, "name".into())).or_insert_with(|| Spanned::new(0..0, DeValue::String(name.into())));
    let draft = reader.draft(0..0, &fields, errors)?;
    if draft.name != name {
        errors.push(reader.wrong(0..0, format!("the file is for the contract {name}, but names {}", draft.name)));
    }
    Some(draft)
}

/// The key that marks a contract as removed.
const REMOVED: &str = "removed";

struct Reader<'t> {
    file: &'t str,
    text: &'t str,
}

impl<'t> Reader<'t> {
    fn parse(&self, errors: &mut Vec<LoadError>) -> Option<DeTable<'t>> {
        match DeTable::parse(self.text) {
            Ok(root) => Some(root.into_inner()),
            Err(error) => {
                let place = self.place(error.span().unwrap_or(0..0));
                errors.push(LoadError::at(ErrorCode::Syntax, place, format!("not valid TOML: {}", error.message())));
                None
            }
        }
    }

    fn place(&self, span: Range<usize>) -> SourcePosition {
        SourcePosition { file: self.file.to_owned(), position: Some(position(self.text, span.start)) }
    }

    fn wrong(&self, span: Range<usize>, message: impl Into<String>) -> LoadError {
        LoadError::at(ErrorCode::Value, self.place(span), message)
    }

    fn draft(&self, span: Range<usize>, fields: &DeTable<'_>, errors: &mut Vec<LoadError>) -> Option<Draft> {
        let before = errors.len();
        let mut draft = Draft::new(self.place(span));
        for (key, value) in fields {
            if let Err(error) = self.set(&mut draft, key.get_ref(), key.span(), value.get_ref(), value.span()) {
                errors.push(error);
            }
        }
        for (key, is_there) in [
            ("name", !draft.name.is_empty()),
            ("topics", !draft.topics.is_empty()),
            ("format", !draft.formats.is_empty()),
            ("schema", !draft.schema.is_empty()),
        ] {
            if !is_there && !fields.keys().any(|known| known.get_ref() == key) {
                let message = format!("the contract has no {key}");
                errors.push(LoadError::at(ErrorCode::Missing, draft.place.clone(), message));
            }
        }
        (errors.len() == before).then_some(draft)
    }

    fn set(
        &self,
        draft: &mut Draft,
        key: &str,
        key_span: Range<usize>,
        value: &DeValue<'_>,
        span: Range<usize>,
    ) -> Result<(), LoadError> {
        let text = || match value {
            DeValue::String(text) if !text.is_empty() => Ok(text.to_string()),
            _ => Err(self.wrong(span.clone(), format!("{key} must be a non-empty string"))),
        };
        match key {
            "name" => draft.name = text()?,
            "topics" => {
                draft.topics = text()?;
                draft.topics_position = Some(self.place(span));
            }
            "schema" => {
                draft.schema = text()?;
                draft.schema_place = Some(self.place(span));
            }
            "message" => draft.message = Some(text()?),
            "format" => draft.formats = self.formats(value, &span)?,
            "on_violation" => draft.on_violation = self.one_of(key, &OnViolation::ALL, &text()?, &span)?,
            "unacknowledged" => {
                let names = [("drop", Unacknowledged::Drop), ("disconnect", Unacknowledged::Disconnect)];
                draft.unacknowledged = self.one_of(key, &names, &text()?, &span)?;
            }
            "unknown_fields" => {
                draft.unknown_fields_refused =
                    self.one_of(key, &[("allow", false), ("reject", true)], &text()?, &span)?;
            }
            "topic_fields" => draft.topic_fields = self.topic_fields(value, &span)?,
            other => {
                let known = KEYS.join(", ");
                let message = format!("unknown key {}; known keys are {known}", other.escape_debug());
                return Err(LoadError::at(ErrorCode::UnknownKey, self.place(key_span), message));
            }
        }
        Ok(())
    }

    fn one_of<T: Copy>(&self, key: &str, names: &[(&str, T)], text: &str, span: &Range<usize>) -> Result<T, LoadError> {
        names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
            let names = names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            self.wrong(span.clone(), format!("{key} must be one of {names}"))
        })
    }

    fn formats(&self, value: &DeValue<'_>, span: &Range<usize>) -> Result<Vec<Format>, LoadError> {
        let wrong = || {
            let names = Format::ALL.map(Format::name).join(", ");
            self.wrong(span.clone(), format!("format must be one of {names}, or a list without duplicates"))
        };
        let named = |value: &DeValue<'_>| match value {
            DeValue::String(name) => Format::named(name).ok_or_else(wrong),
            _ => Err(wrong()),
        };
        let formats = match value {
            DeValue::Array(values) => {
                values.iter().map(|value| named(value.get_ref())).collect::<Result<Vec<_>, _>>()?
            }
            value => vec![named(value)?],
        };
        let is_repeated = formats.iter().enumerate().any(|(at, format)| formats[..at].contains(format));
        if formats.is_empty() || is_repeated { Err(wrong()) } else { Ok(formats) }
    }

    fn topic_fields(&self, value: &DeValue<'_>, span: &Range<usize>) -> Result<Vec<(String, String)>, LoadError> {
        let wrong = || {
            self.wrong(
                span.clone(),
                "topic_fields must be a table of level = \"field\", such as { device_id = \"device.id\" }",
            )
        };
        let DeValue::Table(topic_fields) = value else { return Err(wrong()) };
        topic_fields
            .iter()
            .map(|(level, field)| match field.get_ref() {
                DeValue::String(field) => Ok((level.get_ref().to_string(), field.to_string())),
                _ => Err(wrong()),
            })
            .collect()
    }
}
