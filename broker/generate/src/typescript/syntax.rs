//! The model in TypeScript: names, types, literals and imports.

use crate::code::Code;
use crate::model::{Api, EnumId, EnumValue, Field, Kind, Presence, Record, RecordId, Scalar};
use crate::names;

pub(super) fn code() -> Code {
    Code::new("  ")
}

impl Api {
    pub(super) fn ts_name(&self, id: RecordId) -> &str {
        &self.record(id).name
    }

    pub(super) fn ts_enum(&self, id: EnumId) -> &str {
        &self.enumeration(id).name
    }

    /// The type of a value; a plain map if `is_plain`.
    pub(super) fn ts_type(&self, kind: &Kind, is_plain: bool) -> String {
        match kind {
            Kind::Scalar(scalar) => scalar_type(*scalar).to_owned(),
            Kind::Enum(id) => self.ts_enum(*id).to_owned(),
            Kind::Record(id) => self.ts_name(*id).to_owned(),
            Kind::List(inner) => match &**inner {
                Kind::Raw => "unknown[]".to_owned(),
                inner => format!("{}[]", self.ts_type(inner, is_plain)),
            },
            Kind::Map(_, inner) if is_plain => format!("Record<string, {}>", self.ts_type(inner, is_plain)),
            Kind::Map(key, inner) => format!("Map<{}, {}>", scalar_type(*key), self.ts_type(inner, is_plain)),
            Kind::Raw => "unknown".to_owned(),
        }
    }
}

pub(super) fn scalar_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "boolean",
        Scalar::Int64 | Scalar::Uint64 | Scalar::Sint64 | Scalar::Fixed64 | Scalar::Sfixed64 => "bigint",
        Scalar::String => "string",
        Scalar::Bytes => "Uint8Array",
        Scalar::Timestamp => "Timestamp",
        Scalar::Duration => "Duration",
        _ => "number",
    }
}

/// The default of a scalar.
pub(super) fn zero(scalar: Scalar) -> &'static str {
    match scalar_type(scalar) {
        "boolean" => "false",
        "bigint" => "0n",
        "string" => "\"\"",
        "Uint8Array" => "new Uint8Array()",
        "Timestamp" | "Duration" => "{ seconds: 0n, nanos: 0 }",
        _ => "0",
    }
}

/// The names of the properties: those of JSON.
pub(super) fn property(name: &str) -> String {
    if is_identifier(name) { name.to_owned() } else { string(name) }
}

/// `object.name`, or `object["name"]`.
pub(super) fn member(object: &str, name: &str) -> String {
    if is_identifier(name) { format!("{object}.{name}") } else { format!("{object}[{}]", string(name)) }
}

pub(super) fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name != "__proto__"
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$')
}

pub(super) fn string(text: &str) -> String {
    names::quoted(text, |character| format!("\\u{{{:x}}}", u32::from(character)))
}

/// Name and value of each constant of an enumeration.
pub(super) fn constants(values: &[EnumValue]) -> Vec<(String, i32)> {
    let mut scope = names::Scope::default();
    values.iter().map(|value| (scope.take(names::pascal(&value.name)), value.number)).collect()
}

/// The name of a oneof: `value` of fields `a` and `b`.
pub(super) fn choice_name(record: &Record, choice: usize) -> String {
    let mut scope = names::Scope::default();
    for field in record.fields.iter().filter(|field| field.choice.is_none()) {
        scope.take(field.wire_name.clone());
    }
    let names: Vec<String> = record.choices.iter().map(|choice| scope.take(names::camel(&choice.name))).collect();
    names[choice].clone()
}

/// Generates `import … from "module";` for the needed names.
pub(super) fn import(code: &mut Code, names: &[String], module: &str) {
    if names.is_empty() {
        return;
    }
    let mut names = names.to_vec();
    names.sort_by_key(|name| name.trim_start_matches("type ").to_lowercase());
    names.dedup();
    let all_types = names.iter().all(|name| name.starts_with("type "));
    let keyword = if all_types { "import type" } else { "import" };
    if all_types {
        names.iter_mut().for_each(|name| *name = name.trim_start_matches("type ").to_owned());
    }
    let line = format!("{keyword} {{ {} }} from \"{module}\";", names.join(", "));
    if line.len() <= 120 {
        code.line(line);
    } else {
        code.open(format!("{keyword} {{"));
        names.iter().for_each(|name| code.line(format!("{name},")));
        code.close(format!("}} from \"{module}\";"));
    }
}

/// Whether the text contains a name.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || c == '.' || c == '"';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
    })
}

pub(super) fn constant(name: &str) -> String {
    names::upper(name)
}

/// Whether the property is present in every value.
pub(super) fn is_always_there(field: &Field) -> bool {
    match field.presence {
        Presence::Implicit => true,
        Presence::Required => !matches!(field.kind, Kind::Record(_)) || field.number == 0,
        Presence::Optional => false,
    }
}

pub(super) fn empty(api: &Api, kind: &Kind) -> String {
    match kind {
        Kind::Scalar(scalar) => zero(*scalar).to_owned(),
        Kind::Enum(id) => api.enumeration(*id).default.to_string(),
        Kind::Record(id) => format!("create{}()", api.ts_name(*id)),
        Kind::List(_) => "[]".to_owned(),
        Kind::Map(..) => "new Map()".to_owned(),
        Kind::Raw => "null".to_owned(),
    }
}

/// The condition to write a value without presence.
pub(super) fn presence_condition(kind: &Kind, value: &str) -> String {
    match kind.scalar() {
        Some(Scalar::Bool) => value.to_owned(),
        Some(Scalar::String) => format!("{value} !== \"\""),
        Some(Scalar::Bytes) => format!("{value}.length > 0"),
        // Minus zero is not the default.
        Some(Scalar::Double | Scalar::Float) => format!("!Object.is({value}, 0)"),
        Some(scalar) => format!("{value} !== {}", zero(scalar)),
        None => format!("{value} !== undefined"),
    }
}

/// The value of a field of `value`.
pub(super) fn value_of(field: &Field) -> String {
    member("value", &field.wire_name)
}
