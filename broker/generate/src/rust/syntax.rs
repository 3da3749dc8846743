//! The model in Rust: names, types and expressions.

use crate::code::Code;
use crate::model::{Api, EnumId, Field, Kind, Record, RecordId, Repr, Scalar};
use crate::names;

pub(super) fn code() -> Code {
    Code::new("    ")
}

/// The maximum width of rustfmt.
pub(super) const WIDTH: usize = 100;

impl Api {
    pub(super) fn rust_name(&self, id: RecordId) -> &str {
        &self.record(id).name
    }

    pub(super) fn rust_enum(&self, id: EnumId) -> &str {
        &self.enumeration(id).name
    }

    pub(super) fn rust_type(&self, kind: &Kind) -> String {
        match kind {
            Kind::Scalar(scalar) => scalar_type(*scalar).to_owned(),
            Kind::Enum(id) => self.rust_enum(*id).to_owned(),
            Kind::Record(id) => self.rust_name(*id).to_owned(),
            Kind::List(item) => format!("Vec<{}>", self.rust_type(item)),
            Kind::Map(key, item) => format!("BTreeMap<{}, {}>", scalar_type(*key), self.rust_type(item)),
            Kind::Raw => "Raw".to_owned(),
        }
    }

    pub(super) fn rust_field_type(&self, field: &Field) -> String {
        let inner = self.rust_type(&field.kind);
        let inner = if field.is_recursive { format!("Box<{inner}>") } else { inner };
        if field.is_optional() { format!("Option<{inner}>") } else { inner }
    }

    pub(super) fn is_closed(&self, kind: &Kind) -> bool {
        matches!(kind, Kind::Enum(id) if self.enumeration(*id).repr == Repr::ClosedNumber)
    }
}

pub(super) fn scalar_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => "i32",
        Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 | Scalar::Integer => "i64",
        Scalar::Uint32 | Scalar::Fixed32 => "u32",
        Scalar::Uint64 | Scalar::Fixed64 => "u64",
        Scalar::Float => "f32",
        Scalar::Double => "f64",
        Scalar::String => "String",
        Scalar::Bytes => "Vec<u8>",
        Scalar::Timestamp => "Timestamp",
        Scalar::Duration => "Duration",
    }
}

/// The names of fields and oneofs.
pub(super) struct Members {
    pub(super) fields: Vec<String>,
    pub(super) choices: Vec<String>,
    /// The variants of the types of oneofs, for their fields.
    pub(super) variants: Vec<String>,
}

impl Members {
    pub(super) fn of(record: &Record) -> Members {
        let mut scope = names::Scope::without(names::RUST_WORDS);
        let mut scopes: Vec<names::Scope> = record.choices.iter().map(|_| names::Scope::without(&["Self"])).collect();
        let fields = record.fields.iter().map(|field| match field.choice {
            None => scope.take(names::snake(&field.name)),
            Some(_) => String::new(),
        });
        let fields: Vec<String> = fields.collect();
        let choices = record.choices.iter().map(|choice| scope.take(names::snake(&choice.name))).collect();
        let variants = record.fields.iter().map(|field| match field.choice {
            Some(choice) => scopes[choice].take(names::pascal(&field.name)),
            None => String::new(),
        });
        Members { variants: variants.collect(), fields, choices }
    }
}

/// A longer name gets a short alias before methods are called on it, as rustfmt breaks long method chains.
pub(super) const CHAINED_MAX: usize = 28;

/// The field of `self` or a reference to it, and which of the two it is.
pub(super) fn place(code: &mut Code, kind: &Kind, member: &str) -> (String, bool) {
    let is_called = matches!(
        kind,
        Kind::Scalar(Scalar::String | Scalar::Bytes | Scalar::Double | Scalar::Float) | Kind::List(_) | Kind::Map(..)
    );
    if !is_called || member.len() <= CHAINED_MAX {
        return (format!("self.{member}"), false);
    }
    code.line(format!("let field = &self.{member};"));
    ("field".to_owned(), true)
}

/// The field of `self`, or an alias for it, to modify it.
pub(super) fn place_mut(code: &mut Code, member: &str) -> String {
    if member.len() <= CHAINED_MAX {
        return format!("self.{member}");
    }
    code.line(format!("let field = &mut self.{member};"));
    "field".to_owned()
}

/// The condition to write a value without presence.
pub(super) fn presence_condition(kind: &Kind, value: &str) -> String {
    match kind {
        Kind::Scalar(Scalar::Bool) => value.to_owned(),
        Kind::Scalar(Scalar::String | Scalar::Bytes) | Kind::List(_) | Kind::Map(..) => format!("!{value}.is_empty()"),
        // Minus zero is not the default.
        Kind::Scalar(Scalar::Double | Scalar::Float) => format!("{value}.to_bits() != 0"),
        Kind::Enum(_) => format!("{value}.0 != 0"),
        _ => format!("{value} != 0"),
    }
}

/// A value as an argument: `value` is a reference, or a place expression.
pub(super) fn argument(kind: &Kind, value: &str, is_reference: bool) -> String {
    let is_copied = !matches!(kind, Kind::Scalar(Scalar::String | Scalar::Bytes) | Kind::Raw);
    match (kind, is_reference) {
        (Kind::Enum(_), _) => format!("{value}.0"),
        (_, true) if is_copied => format!("*{value}"),
        (_, false) if !is_copied => format!("&{value}"),
        _ => value.to_owned(),
    }
}

pub(super) fn string(text: &str) -> String {
    names::quoted(text, |character| format!("\\u{{{:x}}}", u32::from(character)))
}

/// Generates `head(a, b)tail` on one line, or wrapped as rustfmt does it at this depth.
pub(super) fn call(code: &mut Code, depth: usize, head: &str, arguments: &[String], tail: &str) {
    let line = format!("{head}({}){tail}", arguments.join(", "));
    // rustfmt puts arguments on one line up to a width of 60 characters.
    if arguments.join(", ").chars().count() <= 60 && depth * 4 + line.chars().count() <= WIDTH {
        code.line(line);
        return;
    }
    code.open(format!("{head}("));
    arguments.iter().for_each(|argument| code.line(format!("{argument},")));
    code.close(format!("){tail}"));
}
