//! Fields of a contract, and the types of their columns.

use serde_json::Value;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int32,
    Int64,
    Uint64,
    Float32,
    Float64,
    Text,
    Bytes,
    Timestamp,
    Date,
    Uuid,
    Interval,
    Json,
}

impl Kind {
    /// The type, as PostgreSQL's `format_type` spells it.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Kind::Bool => "boolean",
            Kind::Int32 => "integer",
            Kind::Int64 => "bigint",
            Kind::Uint64 => "numeric(20,0)",
            Kind::Float32 => "real",
            Kind::Float64 => "double precision",
            Kind::Text => "text",
            Kind::Bytes => "bytea",
            Kind::Timestamp => "timestamp with time zone",
            Kind::Date => "date",
            Kind::Uuid => "uuid",
            Kind::Interval => "interval",
            Kind::Json => "jsonb",
        }
    }
}

/// A field of a contract.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) kind: Kind,
    /// The names in JSON, from the outside.
    pub(super) path: Vec<String>,
    /// The value of an absent field; without one it is `null`.
    pub(super) default: Option<Value>,
}

impl Field {
    /// The value in a payload.
    pub(super) fn value<'a>(&'a self, document: &'a Value) -> &'a Value {
        let mut value = document;
        for name in &self.path {
            value = value.get(name).unwrap_or(&Value::Null);
        }
        match &self.default {
            Some(default) if value.is_null() => default,
            _ => value,
        }
    }
}
