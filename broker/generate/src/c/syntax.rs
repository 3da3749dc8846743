//! The model in C: names, types and expressions.

use std::collections::BTreeSet;

use crate::code::Code;
use crate::model::{Api, EnumId, Field, Kind, Presence, Record, RecordId, Scalar};
use crate::names;

/// The model with names for C.
pub(super) struct C<'a> {
    pub(super) api: &'a Api,
    pub(super) package: &'a str,
}

pub(super) fn code() -> Code {
    Code::new("    ")
}

impl C<'_> {
    pub(super) fn record_name(&self, record: &Record) -> String {
        format!("{}_{}", self.package, names::snake(&record.name))
    }

    pub(super) fn record(&self, id: RecordId) -> String {
        self.record_name(self.api.record(id))
    }

    pub(super) fn enum_name(&self, id: EnumId) -> String {
        format!("{}_{}", self.package, names::snake(&self.api.enumeration(id).name))
    }

    /// The type of one value. A record is not a pointer.
    pub(super) fn ty(&self, kind: &Kind) -> String {
        match kind {
            Kind::Scalar(scalar) => scalar_type(*scalar).to_owned(),
            Kind::Enum(id) => self.enum_name(*id),
            Kind::Record(id) => self.record(*id),
            // Nested lists and maps.
            Kind::List(_) | Kind::Map(..) | Kind::Raw => "ct_raw".to_owned(),
        }
    }

    /// The type of the entries of a map.
    pub(super) fn entry(&self, record: &Record, member: &str) -> String {
        format!("{}_{}_entry", self.record_name(record), member.trim_end_matches('_'))
    }
}

/// The names of fields and oneofs.
pub(super) struct Members {
    pub(super) fields: Vec<String>,
    pub(super) choices: Vec<String>,
    /// The members of the unions of oneofs.
    pub(super) arms: Vec<String>,
}

impl Members {
    pub(super) fn of(record: &Record) -> Members {
        let mut taken: BTreeSet<String> = names::C_WORDS.iter().map(|word| (*word).to_owned()).collect();
        // The derived names of a member must be free too.
        let mut take = |name: &str, beside: &[&str]| {
            let mut free = names::snake(name);
            let all = |name: &str| -> Vec<String> {
                std::iter::once(name.to_owned()).chain(beside.iter().map(|beside| beside.replace('*', name))).collect()
            };
            while all(&free).iter().any(|name| taken.contains(name)) {
                free.push('_');
            }
            taken.extend(all(&free));
            free
        };
        let fields =
            record.fields.iter().map(|field| match (field.choice, has_flag(field), field.kind.is_sequence()) {
                (Some(_), ..) => String::new(),
                (None, true, true) => take(&field.name, &["has_*", "*_count"]),
                (None, true, false) => take(&field.name, &["has_*"]),
                (None, false, true) => take(&field.name, &["*_count"]),
                (None, false, false) => take(&field.name, &[]),
            });
        let fields: Vec<String> = fields.collect();
        let choices = record.choices.iter().map(|choice| take(&choice.name, &["*_case"])).collect();
        // `none` is the constant for no field.
        let words: Vec<&str> = names::C_WORDS.iter().copied().chain(["none"]).collect();
        let mut scopes: Vec<names::Scope> = record.choices.iter().map(|_| names::Scope::without(&words)).collect();
        let arms = record.fields.iter().map(|field| match field.choice {
            Some(choice) => scopes[choice].take(names::snake(&field.name)),
            None => String::new(),
        });
        Members { arms: arms.collect(), fields, choices }
    }
}

/// Whether a member `has_…` marks the value as present.
pub(super) fn has_flag(field: &Field) -> bool {
    match field.kind {
        Kind::Record(_) => false,
        Kind::List(_) | Kind::Map(..) => field.presence == Presence::Optional || field.is_nullable,
        _ => field.is_optional(),
    }
}

pub(super) fn scalar_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => "int32_t",
        Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 | Scalar::Integer => "int64_t",
        Scalar::Uint32 | Scalar::Fixed32 => "uint32_t",
        Scalar::Uint64 | Scalar::Fixed64 => "uint64_t",
        Scalar::Float => "float",
        Scalar::Double => "double",
        Scalar::String | Scalar::Bytes => "tw_bytes",
        Scalar::Timestamp => "ct_timestamp",
        Scalar::Duration => "ct_duration",
    }
}

/// The condition to write a value without presence.
pub(super) fn presence_condition(kind: &Kind, value: &str) -> String {
    match kind {
        Kind::Scalar(Scalar::Bool) => value.to_owned(),
        Kind::Scalar(Scalar::String | Scalar::Bytes) => format!("{value}.len > 0"),
        // Minus zero is not the default.
        Kind::Scalar(Scalar::Double) => format!("ct_double_bits({value}) != 0"),
        Kind::Scalar(Scalar::Float) => format!("ct_float_bits({value}) != 0"),
        Kind::List(_) | Kind::Map(..) => format!("{value}_count > 0"),
        _ => format!("{value} != 0"),
    }
}

/// The condition to write a field; `None` if it is always written.
pub(super) fn condition(field: &Field, value: &str, member: &str) -> Option<String> {
    match field.kind {
        Kind::Record(_) => Some(format!("{value} != NULL")),
        _ if has_flag(field) => Some(format!("m->has_{member}")),
        _ if field.presence == Presence::Implicit => Some(presence_condition(&field.kind, value)),
        _ => None,
    }
}

pub(super) fn string(text: &str) -> String {
    // Bytes in octal: unlike other escapes, these have a fixed length.
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            // Two of them begin a trigraph.
            b'?' => out.push_str("\\?"),
            b' '..=b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("\\{other:03o}")),
        }
    }
    out.push('"');
    out
}
