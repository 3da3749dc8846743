//! Functions for the named formats, JSON and MessagePack.

use super::syntax::{Members, doc, gap, may_be_none, presence_condition, string, suffix};
use crate::code::Code;
use crate::model::{Api, Family, Field, Kind, Presence, Record, Repr, Scalar};
use crate::names;

pub(super) fn functions(code: &mut Code, api: &Api, record: &Record) {
    let (name, end) = (&record.name, suffix(&record.name));
    let members = Members::of(record);
    code.open(format!("def to_fields_{end}(value: {name}, is_text: bool) -> _t.Any:"));
    doc(code, "Converts to plain values for JSON (`is_text`) or MessagePack.");
    to_fields(code, api, record, &members);
    code.close_silently();
    gap(code);
    code.open(format!("def from_fields_{end}(source: object) -> {name}:"));
    doc(code, "Converts from plain values of JSON or MessagePack.");
    match record.family {
        _ if record.is_transparent => {
            if let Some(field) = record.fields.first() {
                code.line(format!("return {name}({}({}))", reader(api, &field.kind), "source"));
            }
        }
        Family::Plain => plain(code, api, record, &members),
        Family::Mapped | Family::Binary => mapped(code, api, record, &members),
    }
    code.close_silently();
}

fn to_fields(code: &mut Code, api: &Api, record: &Record, members: &Members) {
    if let (true, Some(field)) = (record.is_transparent, record.fields.first()) {
        let value = format!("value.{}", members.fields[0]);
        let written = from(api, &field.kind, &value, 0);
        if may_be_none(field) {
            code.line(format!("return None if {value} is None else {written}"));
        } else if field.kind == Kind::Raw && field.presence != Presence::Required {
            code.line(format!("return None if {value} is _payload.ABSENT else {written}"));
        } else {
            code.line(format!("return {written}"));
        }
        return;
    }
    code.line("fields: dict[str, _t.Any] = {}");
    for (at, member) in members.choices.iter().enumerate() {
        code.line(format!("choice{at} = value.{member}"));
    }
    for (field, member) in record.fields.iter().zip(&members.fields) {
        write_field(code, api, field, member);
    }
    code.line("return fields");
}

fn write_field(code: &mut Code, api: &Api, field: &Field, member: &str) {
    let target = format!("fields[{}]", string(&field.wire_name));
    if let Some(choice) = field.choice {
        code.open(format!("if choice{choice} is not None and choice{choice}[0] == {}:", string(member)));
        code.line(format!("{target} = {}", from(api, &field.kind, &format!("choice{choice}[1]"), 0)));
        code.close_silently();
        return;
    }
    let value = format!("value.{member}");
    let written = from(api, &field.kind, &value, 0);
    let condition = match field.presence {
        Presence::Required if may_be_none(field) && field.is_nullable => {
            return code.line(format!("{target} = None if {value} is None else {written}"));
        }
        _ if may_be_none(field) => Some(format!("{value} is not None")),
        Presence::Required => None,
        Presence::Optional | Presence::Implicit => Some(presence_condition(&field.kind, &value)),
    };
    match condition {
        Some(condition) => {
            code.open(format!("if {condition}:"));
            code.line(format!("{target} = {written}"));
            code.close_silently();
        }
        None => code.line(format!("{target} = {written}")),
    }
}

/// For a JSON Schema.
fn plain(code: &mut Code, api: &Api, record: &Record, members: &Members) {
    code.line("found = _mapping.fields(source)");
    code.open(format!("return {}(", record.name));
    for (field, member) in record.fields.iter().zip(&members.fields) {
        let (wire, is_required) = (string(&field.wire_name), field.presence == Presence::Required);
        let read = match &field.kind {
            Kind::Raw if is_required => format!("_mapping.raw_required(found, {wire})"),
            Kind::Raw => format!("_mapping.raw_field(found, {wire})"),
            kind => {
                let read = reader(api, kind);
                let read = if field.is_nullable { format!("_mapping.or_none({read})") } else { read };
                let function = if is_required { "required" } else { "optional" };
                format!("_mapping.{function}(found, {wire}, {read})")
            }
        };
        code.line(format!("{member}={read},"));
    }
    code.close(")");
}

/// For a Protobuf schema.
fn mapped(code: &mut Code, api: &Api, record: &Record, members: &Members) {
    let found = if record.fields.is_empty() { "" } else { "found = " };
    code.line(format!("{found}_mapping.fields(source)"));
    code.line(format!("value = {}()", record.name));
    for (at, (field, member)) in record.fields.iter().zip(&members.fields).enumerate() {
        let (wire, other) = (string(&field.wire_name), string(&field.name));
        let target = match field.choice {
            Some(choice) => format!("value.{} = ({}, field{at})", members.choices[choice], string(member)),
            None => format!("value.{member} = field{at}"),
        };
        if field.kind == Kind::Raw {
            // Null is one of their values.
            code.line(format!("field{at} = _mapping.raw_field(found, {wire})"));
            code.open(format!("if field{at} is not _payload.ABSENT:"));
        } else {
            code.line(format!("field{at} = _mapping.mapped(found, {wire}, {other}, {})", reader(api, &field.kind)));
            if field.presence == Presence::Required {
                code.open(format!("if field{at} is None:"));
                code.line(format!("raise _mapping.missing({wire})"));
                code.close_silently();
                code.line(target);
                continue;
            }
            code.open(format!("if field{at} is not None:"));
        }
        code.line(target);
        code.close_silently();
    }
    code.line("return value");
}

/// The expression that converts a value.
fn from(api: &Api, kind: &Kind, value: &str, depth: usize) -> String {
    match kind {
        Kind::Scalar(scalar) => match scalar {
            Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => format!("_mapping.from_int32({value})"),
            Scalar::Uint32 | Scalar::Fixed32 => format!("_mapping.from_uint32({value})"),
            Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => format!("_mapping.from_int64({value}, is_text)"),
            Scalar::Uint64 | Scalar::Fixed64 => format!("_mapping.from_uint64({value}, is_text)"),
            Scalar::Integer => format!("_mapping.from_integer({value})"),
            Scalar::Double => format!("_mapping.from_double({value}, is_text)"),
            Scalar::Float => format!("_mapping.from_single({value}, is_text)"),
            Scalar::Bytes => format!("_mapping.from_data({value}, is_text)"),
            Scalar::Timestamp => format!("_mapping.from_timestamp({value}, is_text)"),
            Scalar::Duration => format!("_mapping.from_duration({value})"),
            Scalar::Bool | Scalar::String => value.to_owned(),
        },
        Kind::Enum(id) if api.enumeration(*id).repr == Repr::Text => value.to_owned(),
        Kind::Enum(id) => {
            format!("_mapping.from_enumeration({value}, _{}_NAMES)", names::upper(&api.enumeration(*id).name))
        }
        Kind::Record(id) => format!("to_fields_{}({value}, is_text)", suffix(&api.record(*id).name)),
        Kind::List(inner) => {
            let item = format!("item{depth}");
            format!("[{} for {item} in {value}]", from(api, inner, &item, depth + 1))
        }
        Kind::Map(_, inner) => {
            let item = format!("item{depth}");
            format!("_mapping.from_entries({value}, lambda {item}: {})", from(api, inner, &item, depth + 1))
        }
        Kind::Raw => value.to_owned(),
    }
}

/// The function that reads a value.
fn reader(api: &Api, kind: &Kind) -> String {
    match kind {
        Kind::Scalar(scalar) => format!("_mapping.{}", scalar_reader(*scalar)),
        Kind::Enum(id) => {
            let enumeration = api.enumeration(*id);
            match enumeration.repr {
                Repr::Text => format!("_{}_READ", names::upper(&enumeration.name)),
                Repr::OpenNumber | Repr::ClosedNumber => format!(
                    "_mapping.enumeration(_{}_NAMED, number_{})",
                    names::upper(&enumeration.name),
                    suffix(&enumeration.name)
                ),
            }
        }
        Kind::Record(id) => format!("from_fields_{}", suffix(&api.record(*id).name)),
        Kind::List(inner) => format!("_mapping.items({})", reader(api, inner)),
        Kind::Map(key, inner) => {
            let key = match key {
                Scalar::Bool => "bool_key",
                other => scalar_reader(*other),
            };
            format!("_mapping.entries(_mapping.{key}, {})", reader(api, inner))
        }
        Kind::Raw => "_mapping.raw".to_owned(),
    }
}

fn scalar_reader(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "boolean",
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => "int32",
        Scalar::Uint32 | Scalar::Fixed32 => "uint32",
        Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => "int64",
        Scalar::Uint64 | Scalar::Fixed64 => "uint64",
        Scalar::Float => "single",
        Scalar::Double => "double",
        Scalar::String => "string",
        Scalar::Bytes => "data",
        Scalar::Timestamp => "timestamp",
        Scalar::Duration => "duration",
        Scalar::Integer => "integer",
    }
}
