//! Functions for the named formats, JSON and MessagePack.

use super::syntax::{choice_name, constant, is_always_there, member, presence_condition, property, string, value_of};
use crate::code::Code;
use crate::model::{Api, Family, Field, Kind, Presence, Record, Repr, Scalar};

pub(super) fn functions(code: &mut Code, api: &Api, record: &Record) {
    match record.family {
        Family::Plain => plain(code, api, record),
        _ if record.is_transparent => transparent(code, api, record),
        _ => mapped(code, api, record),
    }
}

const OF_ALL_OBJECTS: [&str; 7] =
    ["constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf"];

/// For a JSON Schema: a value has the representation of its format.
fn plain(code: &mut Code, api: &Api, record: &Record) {
    let name = &record.name;
    code.line("/** Converts from plain values of JSON or MessagePack. */");
    code.open(format!("export function fromFields{name}(source: unknown): {name} {{"));
    if let (true, Some(field)) = (record.is_transparent, record.fields.first()) {
        code.line(format!("return {{ value: {}(source) }};", reader(api, &field.kind, true)));
        code.close("}");
        return;
    }
    code.line("const fields = mapping.object(source);");
    // Required fields are set when the object is created.
    for (at, field) in record.fields.iter().enumerate() {
        let mut read = reader(api, &field.kind, true);
        if field.is_nullable {
            read = format!("mapping.orNull({read})");
        }
        let wire = string(&field.wire_name);
        code.line(format!("const field{at} = mapping.field(fields, {wire}, {read});"));
        if is_always_there(field) {
            code.line(format!("if (field{at} === undefined) throw mapping.missing({wire});"));
        }
    }
    let always: Vec<String> = record
        .fields
        .iter()
        .enumerate()
        .filter(|(_, field)| is_always_there(field))
        .map(|(at, field)| format!("{}: field{at}", property(&field.wire_name)))
        .collect();
    // The compiler assumes properties of all objects, although they are missing here.
    let cast = if record.fields.iter().any(|field| OF_ALL_OBJECTS.contains(&field.wire_name.as_str())) {
        format!(" as unknown as {name}")
    } else {
        String::new()
    };
    let object = if always.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", always.join(", ")) };
    if object.len() <= 90 {
        code.line(format!("const value: {name} = {object}{cast};"));
    } else {
        code.open(format!("const value: {name} = {{"));
        always.iter().for_each(|field| code.line(format!("{field},")));
        code.close(format!("}}{cast};"));
    }
    for (at, field) in record.fields.iter().enumerate().filter(|(_, field)| !is_always_there(field)) {
        code.line(format!("if (field{at} !== undefined) {} = field{at};", value_of(field)));
    }
    code.line("return value;");
    code.close("}");
}

/// For a wrapper: the value of its only field.
fn transparent(code: &mut Code, api: &Api, record: &Record) {
    let name = &record.name;
    let Some(field) = record.fields.first() else { return };
    let written = from(api, &field.kind, &value_of(field));
    let needs = if written.contains("isText") { "isText" } else { "_isText" };
    code.line("/** Converts to its representation in JSON or MessagePack. */");
    code.open(format!("export function toFields{name}(value: {name}, {needs}: boolean): unknown {{"));
    code.line(format!("return {written};"));
    code.close("}");
    code.blank();
    code.line("/** Converts from its representation in JSON or MessagePack. */");
    code.open(format!("export function fromFields{name}(source: unknown): {name} {{"));
    code.line(format!("return {{ {}: {}(source) }};", property(&field.wire_name), reader(api, &field.kind, false)));
    code.close("}");
}

/// For a Protobuf schema.
fn mapped(code: &mut Code, api: &Api, record: &Record) {
    let name = &record.name;
    let mut body = super::syntax::code();
    for field in &record.fields {
        write_field(&mut body, api, record, field);
    }
    let body = body.finish();
    let value = if record.fields.is_empty() { "_value" } else { "value" };
    let is_text = if body.contains("isText") { "isText" } else { "_isText" };
    code.line("/** Converts to plain values for JSON (`isText`) or MessagePack. */");
    code.open(format!("export function toFields{name}({value}: {name}, {is_text}: boolean): unknown {{"));
    code.line("const fields: Record<string, unknown> = {};");
    code.line(body.trim_end());
    code.line("return fields;");
    code.close("}");
    code.blank();
    code.line("/** Converts from plain values of JSON or MessagePack. */");
    code.open(format!("export function fromFields{name}(source: unknown): {name} {{"));
    let fields = if record.fields.is_empty() { "" } else { "const fields = " };
    code.line(format!("{fields}mapping.object(source);"));
    code.line(format!("const value = create{name}();"));
    for (at, field) in record.fields.iter().enumerate() {
        let (wire, other) = (string(&field.wire_name), string(&field.name));
        let read = reader(api, &field.kind, false);
        let call = match field.kind {
            // Null is one of their values.
            Kind::Raw => format!("mapping.field(fields, {wire}, {read})"),
            _ => format!("mapping.mapped(fields, {wire}, {other}, {read})"),
        };
        code.line(format!("const field{at} = {call};"));
        let set = match field.choice {
            Some(choice) => {
                format!("{} = {{ case: {wire}, value: field{at} }};", member("value", &choice_name(record, choice)))
            }
            None => format!("{} = field{at};", value_of(field)),
        };
        if field.presence == Presence::Required {
            code.line(format!("if (field{at} === undefined) throw mapping.missing({wire});"));
            code.line(set);
        } else {
            code.line(format!("if (field{at} !== undefined) {set}"));
        }
    }
    code.line("return value;");
    code.close("}");
}

fn write_field(code: &mut Code, api: &Api, record: &Record, field: &Field) {
    let target = format!("fields[{}]", string(&field.wire_name));
    if let Some(choice) = field.choice {
        let chosen = member("value", &choice_name(record, choice));
        let written = from(api, &field.kind, &format!("{chosen}.value"));
        code.line(format!("if ({chosen}?.case === {}) {target} = {written};", string(&field.wire_name)));
        return;
    }
    let value = value_of(field);
    let condition = match (&field.kind, field.presence) {
        (Kind::List(_), _) => Some(format!("{value}.length > 0")),
        (Kind::Map(..), _) => Some(format!("{value}.size > 0")),
        (kind, Presence::Implicit) => Some(presence_condition(kind, &value)),
        _ if is_always_there(field) => None,
        _ => Some(format!("{value} !== undefined")),
    };
    let written = from(api, &field.kind, &value);
    match condition {
        Some(condition) => code.line(format!("if ({condition}) {target} = {written};")),
        None => code.line(format!("{target} = {written};")),
    }
}

/// The expression that converts a value.
fn from(api: &Api, kind: &Kind, value: &str) -> String {
    match kind {
        Kind::Scalar(scalar) => match scalar {
            Scalar::Double => format!("mapping.fromDouble({value}, isText)"),
            Scalar::Float => format!("mapping.fromFloat({value}, isText)"),
            Scalar::Bytes => format!("mapping.fromBytes({value}, isText)"),
            Scalar::Timestamp => format!("mapping.fromTimestamp({value}, isText)"),
            Scalar::Duration => format!("mapping.fromDuration({value})"),
            Scalar::Int64 | Scalar::Uint64 | Scalar::Sint64 | Scalar::Fixed64 | Scalar::Sfixed64 => {
                format!("mapping.fromWide({value}, isText)")
            }
            _ => value.to_owned(),
        },
        Kind::Enum(id) if api.enumeration(*id).repr == Repr::Text => value.to_owned(),
        Kind::Enum(id) => format!("mapping.fromEnumeration({value}, {}_NAMES)", constant(api.ts_enum(*id))),
        Kind::Record(id) => format!("toFields{}({value}, isText)", api.ts_name(*id)),
        Kind::List(inner) => format!("mapping.fromList({value}, (item) => {})", from(api, inner, "item")),
        Kind::Map(_, inner) => format!("mapping.fromMap({value}, (item) => {})", from(api, inner, "item")),
        Kind::Raw => value.to_owned(),
    }
}

/// The function that reads a value.
fn reader(api: &Api, kind: &Kind, is_plain: bool) -> String {
    match kind {
        Kind::Scalar(scalar) => format!("mapping.{}", scalar_reader(*scalar)),
        Kind::Enum(id) if api.enumeration(*id).repr == Repr::Text => {
            format!("mapping.oneOf({}_ALL)", constant(api.ts_enum(*id)))
        }
        Kind::Enum(id) => format!("mapping.enumeration({}_NUMBERS)", constant(api.ts_enum(*id))),
        Kind::Record(id) => format!("fromFields{}", api.ts_name(*id)),
        Kind::List(inner) => format!("mapping.list({})", reader(api, inner, is_plain)),
        Kind::Map(_, inner) if is_plain => format!("mapping.dictionary({})", reader(api, inner, is_plain)),
        Kind::Map(key, inner) => {
            let key = match key {
                Scalar::Bool => "boolKey",
                other => scalar_reader(*other),
            };
            format!("mapping.map(mapping.{key}, {})", reader(api, inner, is_plain))
        }
        Kind::Raw => "mapping.raw".to_owned(),
    }
}

fn scalar_reader(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => "int32",
        Scalar::Uint32 | Scalar::Fixed32 => "uint32",
        Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => "int64",
        Scalar::Uint64 | Scalar::Fixed64 => "uint64",
        Scalar::Float => "float",
        Scalar::Double => "double",
        Scalar::String => "string",
        Scalar::Bytes => "bytes",
        Scalar::Timestamp => "timestamp",
        Scalar::Duration => "duration",
        Scalar::Integer => "integer",
    }
}
