//! Functions for the binary form.

use super::syntax::{
    choice_name, constant, empty, is_always_there, member, presence_condition, string, value_of, zero,
};
use crate::code::Code;
use crate::model::{Api, Field, Kind, Presence, Record, Repr, Scalar};

pub(super) fn functions(code: &mut Code, api: &Api, record: &Record) {
    let name = &record.name;
    let given = if record.fields.is_empty() { ("_value", "_out") } else { ("value", "out") };
    code.line("/** Encodes the binary form. */");
    code.open(format!("export function write{name}({}: {name}, {}: Writer): void {{", given.0, given.1));
    write_fields(code, api, record);
    code.close("}");
    code.blank();
    code.line("/** Decodes the binary form to its end. Its fields are merged into `value`. */");
    code.open(format!("export function read{name}(reader: Reader, value: {name} = create{name}()): {name} {{"));
    let required: Vec<&Field> = record.fields.iter().filter(|field| field.presence == Presence::Required).collect();
    for field in &required {
        code.line(format!("let has{} = false;", field.number));
    }
    code.open("for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {");
    code.open("switch (tag) {");
    for field in &record.fields {
        read_field(code, api, record, field);
    }
    code.open("default:");
    let numbers: Vec<String> = record.fields.iter().map(|field| field.number.to_string()).collect();
    code.line(format!("reader.unknown(tag, [{}]);", numbers.join(", ")));
    code.close_silently();
    code.close("}");
    code.close("}");
    for field in required {
        let what = format!("new PayloadError(\"expected a required value\").inside({})", string(&field.wire_name));
        code.line(format!("if (!has{}) throw {what};", field.number));
    }
    code.line("return value;");
    code.close("}");
}

fn write_fields(code: &mut Code, api: &Api, record: &Record) {
    for field in &record.fields {
        let value = value_of(field);
        match (&field.kind, field.choice) {
            (Kind::List(item), _) if field.is_packed => {
                code.open(format!("if ({value}.length > 0) {{"));
                code.line(format!("out.tag({});", field.tag(2)));
                code.line("const start = out.open();");
                code.line(format!("for (const item of {value}) {};", write_call(api, item, "item")));
                code.line("out.close(start);");
                code.close("}");
            }
            (Kind::List(item), _) => {
                code.open(format!("for (const item of {value}) {{"));
                write_tagged(code, api, item, field.tag(item.wire_type()), "item");
                code.close("}");
            }
            (Kind::Map(key, item), _) => {
                code.open(format!("for (const [key, item] of {value}) {{"));
                code.line(format!("out.tag({});", field.tag(2)));
                code.line("const entry = out.open();");
                let key = Kind::Scalar(*key);
                write_tagged(code, api, &key, 8 | key.wire_type(), "key");
                write_tagged(code, api, item, 16 | item.wire_type(), "item");
                code.line("out.close(entry);");
                code.close("}");
            }
            (kind, Some(choice)) => {
                let chosen = member("value", &choice_name(record, choice));
                code.open(format!("if ({chosen}?.case === {}) {{", string(&field.wire_name)));
                write_tagged(code, api, kind, field.tag(kind.wire_type()), &format!("{chosen}.value"));
                code.close("}");
            }
            (kind, None) => {
                let condition = match (field.presence, kind) {
                    (Presence::Implicit, kind) => Some(presence_condition(kind, &value)),
                    _ if is_always_there(field) => None,
                    _ => Some(format!("{value} !== undefined")),
                };
                if let Some(condition) = &condition {
                    code.open(format!("if ({condition}) {{"));
                }
                write_tagged(code, api, kind, field.tag(kind.wire_type()), &value);
                if condition.is_some() {
                    code.close("}");
                }
            }
        }
    }
}

fn write_tagged(code: &mut Code, api: &Api, kind: &Kind, tag: u32, value: &str) {
    code.line(format!("out.tag({tag});"));
    if let Kind::Record(_) = kind {
        code.line("const start = out.open();");
        code.line(format!("{};", write_call(api, kind, value)));
        code.line("out.close(start);");
    } else {
        code.line(format!("{};", write_call(api, kind, value)));
    }
}

fn write_call(api: &Api, kind: &Kind, value: &str) -> String {
    match kind {
        Kind::Record(id) => format!("write{}({value}, out)", api.ts_name(*id)),
        other => format!("out.{}({value})", method(other)),
    }
}

/// The method of the reader and the writer.
fn method(kind: &Kind) -> &'static str {
    match kind.scalar() {
        Some(Scalar::Bytes) => "bytesOf",
        Some(Scalar::Timestamp | Scalar::Duration) => "time",
        _ => kind.binary_name(),
    }
}

/// The condition that a closed enumeration has a number.
fn known(api: &Api, kind: &Kind, value: &str) -> Option<String> {
    match kind {
        Kind::Enum(id) if api.enumeration(*id).repr == Repr::ClosedNumber => {
            Some(format!("{}_KNOWN.includes({value})", constant(api.ts_enum(*id))))
        }
        _ => None,
    }
}

fn read_field(code: &mut Code, api: &Api, record: &Record, field: &Field) {
    let value = value_of(field);
    if let Kind::List(item) = &field.kind {
        if item.wire_type() != 2 {
            code.open(format!("case {}:", field.tag(2)));
            let read = format!("reader.{}()", method(item));
            let push = match known(api, item, "item") {
                None => format!("{value}.push({read})"),
                Some(condition) => format!("const item = {read};\nif ({condition}) {value}.push(item);"),
            };
            if push.contains('\n') {
                code.open("reader.packed(() => {");
                code.line(push);
                code.close("});");
            } else {
                code.line(format!("reader.packed(() => {push});"));
            }
            code.line("break;");
            code.close_silently();
        }
        code.open(format!("case {}: {{", field.tag(item.wire_type())));
        read_value(code, api, item, None);
        push(code, api, item, &format!("{value}.push(item);"));
        code.line("break;");
        code.close("}");
        return;
    }
    if let Kind::Map(key, item) = &field.kind {
        read_entry(code, api, field, *key, item, &value);
        return;
    }
    code.open(format!("case {}: {{", field.tag(field.kind.wire_type())));
    let set = match field.choice {
        Some(choice) => {
            let chosen = member("value", &choice_name(record, choice));
            let case = string(&field.wire_name);
            let existing = format!("{chosen}?.case === {case} ? {chosen}.value : undefined");
            read_value(code, api, &field.kind, Some(&existing));
            format!("{chosen} = {{ case: {case}, value: item }};")
        }
        None => {
            read_value(code, api, &field.kind, Some(&value));
            format!("{value} = item;")
        }
    };
    // A number that a closed enumeration does not have counts as absent.
    let set = if field.presence == Presence::Required { format!("{set}\nhas{} = true;", field.number) } else { set };
    push(code, api, &field.kind, &set);
    code.line("break;");
    code.close("}");
}

/// Generates code that reads one value as `item`. A record is merged into the `existing` one.
fn read_value(code: &mut Code, api: &Api, kind: &Kind, existing: Option<&str>) {
    if let Kind::Record(id) = kind {
        let more = existing.map(|existing| format!(", {existing}")).unwrap_or_default();
        code.line("const end = reader.enter();");
        code.line(format!("const item = read{}(reader{more});", api.ts_name(*id)));
        code.line("reader.leave(end);");
    } else {
        code.line(format!("const item = reader.{}();", method(kind)));
    }
}

fn push(code: &mut Code, api: &Api, kind: &Kind, line: &str) {
    match known(api, kind, "item") {
        Some(condition) if line.contains('\n') => {
            code.open(format!("if ({condition}) {{"));
            code.line(line);
            code.close("}");
        }
        Some(condition) => code.line(format!("if ({condition}) {line}")),
        None => code.line(line),
    }
}

fn read_entry(code: &mut Code, api: &Api, field: &Field, key: Scalar, item: &Kind, value: &str) {
    code.open(format!("case {}: {{", field.tag(2)));
    code.line(format!("let key{} = {};", annotation(&Kind::Scalar(key)), zero(key)));
    code.line(format!("let entry: {} = {};", api.ts_type(item, false), empty(api, item)));
    code.line("const outer = reader.enter();");
    code.open("for (let part = reader.tag(); part !== 0; part = reader.tag()) {");
    let key = Kind::Scalar(key);
    code.line(format!("if (part === {}) key = reader.{}();", 8 | key.wire_type(), method(&key)));
    if let Kind::Record(id) = item {
        code.open(format!("else if (part === {}) {{", 16 | item.wire_type()));
        code.line("const end = reader.enter();");
        code.line(format!("entry = read{}(reader, entry);", api.ts_name(*id)));
        code.line("reader.leave(end);");
        code.close("} else reader.unknown(part, [1, 2]);");
    } else {
        code.line(format!("else if (part === {}) entry = reader.{}();", 16 | item.wire_type(), method(item)));
        code.line("else reader.unknown(part, [1, 2]);");
    }
    code.close("}");
    code.line("reader.leave(outer);");
    let line = format!("{value}.set(key, entry);");
    match known(api, item, "entry") {
        Some(condition) => code.line(format!("if ({condition}) {line}")),
        None => code.line(line),
    }
    code.line("break;");
    code.close("}");
}

/// Without an annotation, constants of numbers and strings have literal types.
fn annotation(kind: &Kind) -> &'static str {
    match kind.scalar() {
        Some(Scalar::Bool) => ": boolean",
        _ => "",
    }
}
