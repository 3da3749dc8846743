//! The model in Python: names, types, literals and imports.

use crate::code::Code;
use crate::model::{Api, Enum, Family, Field, Kind, Presence, Record, Repr, Scalar};
use crate::names;

pub(super) fn code() -> Code {
    Code::new("    ")
}

/// `from .module import …`
pub(super) fn import(code: &mut Code, module: &str, mut names: Vec<String>) {
    names.sort();
    names.dedup();
    if names.is_empty() {
        return;
    }
    let line = format!("from .{module} import {}", names.join(", "));
    if line.len() <= LINE_MAX {
        code.line(line);
    } else {
        code.open(format!("from .{module} import ("));
        names.iter().for_each(|name| code.line(format!("{name},")));
        code.close(")");
    }
}

pub(super) const LINE_MAX: usize = 120;

pub(super) fn string(text: &str) -> String {
    names::quoted(text, |character| match u32::from(character) {
        code @ ..0x1_0000 => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    })
}

/// Adds a docstring.
pub(super) fn doc(code: &mut Code, text: &str) {
    let text = text.replace('\\', "\\\\");
    let is_plain = !text.contains("\"\"\"") && !text.ends_with('"');
    let text = if is_plain { text } else { text.replace('"', "\\\"") };
    code.line(format!("\"\"\"{text}\"\"\""));
}

/// The names of a record's attributes: of its fields and oneofs.
pub(super) struct Members {
    /// For fields of oneofs, the string that selects the field.
    pub(super) fields: Vec<String>,
    pub(super) choices: Vec<String>,
}

impl Members {
    pub(super) fn of(record: &Record) -> Members {
        let mut scope = names::Scope::without(names::PYTHON_WORDS);
        let mut fields: Vec<String> = record
            .fields
            .iter()
            .map(|field| if field.choice.is_none() { scope.take(names::snake(&field.name)) } else { String::new() })
            .collect();
        let choices = record.choices.iter().map(|choice| scope.take(names::snake(&choice.name))).collect();
        for at in 0..record.choices.len() {
            let mut scope = names::Scope::default();
            for (field, member) in record.fields.iter().zip(&mut fields).filter(|(field, _)| field.choice == Some(at)) {
                *member = scope.take(names::snake(&field.name));
            }
        }
        Members { fields, choices }
    }
}

/// The suffix of function names for a record or an enumeration.
pub(super) fn suffix(name: &str) -> String {
    names::snake(name)
}

/// The table of all strings of an enumeration.
pub(super) fn all_of(enumeration: &Enum) -> String {
    format!("{}_ALL", names::upper(&enumeration.name))
}

/// Names and numbers of the constants of an enumeration.
pub(super) fn constants(enumeration: &Enum) -> Vec<(String, i32)> {
    let mut scope = names::Scope::default();
    enumeration.values.iter().map(|value| (scope.take(names::upper(&value.name)), value.number)).collect()
}

impl Api {
    /// The type of a value.
    pub(super) fn python_type(&self, kind: &Kind) -> String {
        match kind {
            Kind::Scalar(scalar) => scalar_type(*scalar).to_owned(),
            Kind::Enum(id) => {
                let enumeration = self.enumeration(*id);
                match enumeration.repr {
                    Repr::OpenNumber => format!("_t.Union[{}, int]", enumeration.name),
                    Repr::ClosedNumber | Repr::Text => enumeration.name.clone(),
                }
            }
            Kind::Record(id) => self.record(*id).name.clone(),
            Kind::List(inner) => format!("list[{}]", self.python_type(inner)),
            Kind::Map(key, inner) => format!("dict[{}, {}]", scalar_type(*key), self.python_type(inner)),
            Kind::Raw => "_t.Any".to_owned(),
        }
    }

    /// The type of an attribute, and its default.
    pub(super) fn declaration(&self, record: &Record, field: &Field) -> (String, Option<String>) {
        let ty = self.python_type(&field.kind);
        match (&field.kind, may_be_none(field)) {
            (Kind::Raw, _) if field.presence == Presence::Required => (ty, None),
            (Kind::Raw, _) => (ty, Some("_payload.ABSENT".to_owned())),
            (_, true) if field.presence == Presence::Required && record.family == Family::Plain => {
                (format!("_t.Optional[{ty}]"), None)
            }
            (_, true) => (format!("_t.Optional[{ty}]"), Some("None".to_owned())),
            (_, false) if record.family == Family::Plain => (ty, None),
            (kind, false) => (ty, Some(self.empty(kind))),
        }
    }

    /// The default of an attribute.
    pub(super) fn empty(&self, kind: &Kind) -> String {
        match kind {
            Kind::Scalar(scalar) => zero(*scalar).to_owned(),
            Kind::Enum(id) => self.first_constant(self.enumeration(*id)),
            Kind::List(_) => "_dataclasses.field(default_factory=_payload.no_items)".to_owned(),
            Kind::Map(..) => "_dataclasses.field(default_factory=_payload.no_entries)".to_owned(),
            Kind::Record(_) | Kind::Raw => "None".to_owned(),
        }
    }

    pub(super) fn first_constant(&self, enumeration: &Enum) -> String {
        let constants = constants(enumeration);
        let found = constants.iter().find(|(_, number)| *number == enumeration.default);
        found.map_or_else(|| enumeration.default.to_string(), |(name, _)| format!("{}.{name}", enumeration.name))
    }
}

/// Whether an attribute may be `None`.
pub(super) fn may_be_none(field: &Field) -> bool {
    field.kind != Kind::Raw && field.is_optional()
}

pub(super) fn scalar_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::Float | Scalar::Double => "float",
        Scalar::String => "str",
        Scalar::Bytes => "bytes",
        Scalar::Timestamp => "_payload.Timestamp",
        Scalar::Duration => "_payload.Duration",
        _ => "int",
    }
}

/// The default of a scalar.
pub(super) fn zero(scalar: Scalar) -> &'static str {
    match scalar_type(scalar) {
        "bool" => "False",
        "float" => "0.0",
        "str" => "\"\"",
        "bytes" => "b\"\"",
        "_payload.Timestamp" => "_payload.Timestamp()",
        "_payload.Duration" => "_payload.Duration()",
        _ => "0",
    }
}

/// The condition to write a value without presence.
pub(super) fn presence_condition(kind: &Kind, value: &str) -> String {
    match kind {
        // Minus zero is not the default.
        Kind::Scalar(Scalar::Double | Scalar::Float) => format!("_payload.is_something({value})"),
        Kind::Enum(_) => format!("{value} != 0"),
        Kind::Scalar(Scalar::Timestamp | Scalar::Duration) | Kind::Record(_) => format!("{value} is not None"),
        Kind::Scalar(Scalar::Bool | Scalar::String | Scalar::Bytes) | Kind::List(_) | Kind::Map(..) => value.to_owned(),
        Kind::Scalar(_) => format!("{value} != 0"),
        Kind::Raw => format!("{value} is not _payload.ABSENT"),
    }
}

/// Whether the text contains a name.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

/// Adds two empty lines, as between definitions.
pub(super) fn gap(code: &mut Code) {
    if !code.is_empty() {
        code.blank();
        code.line("");
    }
}
