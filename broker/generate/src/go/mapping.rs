//! Methods for the named formats, JSON and MessagePack.

use tautwire_contracts::Format;

use super::protobuf::sorted_keys;
use super::syntax::{Go, condition, is_pointer, members, scalar_type, string, variable};
use crate::code::Code;
use crate::model::{Family, Field, Kind, Presence, Record, Repr, Scalar};
use crate::names;

pub(super) fn methods(code: &mut Code, go: &Go<'_>, record: &Record) {
    let name = names::go(&record.name);
    for (format, method, writer, reader) in [
        (Format::Json, "JSON", "jsonWriter", "newJSONReader"),
        (Format::MessagePack, "MessagePack", "messagePackWriter", "newMessagePackReader"),
    ] {
        if !record.formats.contains(&format) {
            continue;
        }
        code.line(format!("// Marshal{method} encodes the value as {method}."));
        code.open(format!("func (m *{name}) Marshal{method}() ([]byte, error) {{"));
        code.line(format!("var w {writer}"));
        code.line("m.write(&w)");
        code.line("return w.bytes, nil");
        code.close("}");
        code.blank();
        code.line(format!("// Unmarshal{method} decodes {method}. Its error is a *PayloadError."));
        code.open(format!("func (m *{name}) Unmarshal{method}(payload []byte) error {{"));
        code.line(format!("*m = {name}{{}}"));
        code.line(format!("r := {reader}(payload)"));
        code.line("m.read(r)");
        code.line("return r.finish()");
        code.close("}");
        code.blank();
    }
    write(code, go, record, &name);
    code.blank();
    read(code, go, record, &name);
}

fn write(code: &mut Code, go: &Go<'_>, record: &Record, name: &str) {
    code.open(format!("func (m *{name}) write(w mappingWriter) {{"));
    let (fields, choices) = members(record);
    if let (true, Some(field), Some(member)) = (record.is_transparent, record.fields.first(), fields.first()) {
        write_value(code, go, &field.kind, &format!("m.{member}"), 0);
        code.close("}");
        return;
    }
    code.line("w.openMap()");
    for (field, member) in record.fields.iter().zip(&fields) {
        let mut value = format!("m.{member}");
        let key = format!("w.key({})", string(&field.wire_name));
        if let Some(choice) = field.choice {
            code.open(format!("if chosen, ok := m.{}.({}); ok {{", choices[choice], go.arm(record, field)));
            code.line(key);
            write_value(code, go, &field.kind, "chosen.Value", 0);
            code.close("}");
            continue;
        }
        let condition = condition(field, &value);
        let writes_null = field.is_nullable && field.presence == Presence::Required;
        if writes_null {
            code.line(&key);
        }
        if let Some(condition) = &condition {
            code.open(format!("if {condition} {{"));
        }
        if !writes_null {
            code.line(&key);
        }
        if is_pointer(field) && field.kind.record().is_none() {
            value = format!("*{value}");
        }
        write_value(code, go, &field.kind, &value, 0);
        if condition.is_some() && writes_null {
            code.between("} else {");
            code.line("w.null()");
        }
        if condition.is_some() {
            code.close("}");
        }
    }
    code.line("w.closeMap()");
    code.close("}");
}

fn write_value(code: &mut Code, go: &Go<'_>, kind: &Kind, value: &str, depth: usize) {
    match kind {
        Kind::Scalar(scalar) => {
            let method = match scalar {
                Scalar::Bool => "bool",
                Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => {
                    return code.line(format!("w.int(int64({value}))"));
                }
                Scalar::Uint32 | Scalar::Fixed32 => return code.line(format!("w.uint(uint64({value}))")),
                Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => "wideInt",
                Scalar::Uint64 | Scalar::Fixed64 => "wideUint",
                Scalar::Integer => "int",
                Scalar::Float => "float32",
                Scalar::Double => "float64",
                Scalar::String => "string",
                Scalar::Bytes => "data",
                Scalar::Timestamp => "timestamp",
                Scalar::Duration => return code.line(format!("writeDuration(w, {value})")),
            };
            code.line(format!("w.{method}({value})"));
        }
        Kind::Enum(id) if go.api.enumeration(*id).repr == Repr::Text => code.line(format!("w.string(string({value}))")),
        Kind::Enum(id) => code.line(format!("writeEnum(w, {value}, {}Names)", variable(&go.enum_name(*id)))),
        Kind::Record(_) => code.line(format!("{value}.write(w)")),
        Kind::List(item) => {
            code.line("w.openList()");
            let name = nested("item", depth);
            code.open(format!("for _, {name} := range {value} {{"));
            code.line("w.item()");
            write_value(code, go, item, &name, depth + 1);
            code.close("}");
            code.line("w.closeList()");
        }
        Kind::Map(key, item) => {
            code.line("w.openMap()");
            let name = nested("key", depth);
            code.open(format!("for _, {name} := range {} {{", sorted_keys(*key, value)));
            code.line(match key {
                Scalar::String => format!("w.key({name})"),
                _ => format!("w.key(keyText({name}))"),
            });
            write_value(code, go, item, &format!("{value}[{name}]"), depth + 1);
            code.close("}");
            code.line("w.closeMap()");
        }
        Kind::Raw => code.line(format!("w.raw({value})")),
    }
}

/// The name of a variable of a nested loop.
fn nested(name: &str, depth: usize) -> String {
    if depth == 0 { name.to_owned() } else { format!("{name}{}", depth + 1) }
}

fn read(code: &mut Code, go: &Go<'_>, record: &Record, name: &str) {
    code.open(format!("func (m *{name}) read(r mappingReader) {{"));
    let (fields, choices) = members(record);
    if let (true, Some(field), Some(member)) = (record.is_transparent, record.fields.first(), fields.first()) {
        let target = format!("m.{member}");
        read_into(code, go, &field.kind, &|value| format!("{target} = {value}"), 0);
        code.close("}");
        return;
    }
    let required: Vec<usize> =
        (0..record.fields.len()).filter(|at| record.fields[*at].presence == Presence::Required).collect();
    for at in &required {
        code.line(format!("has{at} := false"));
    }
    code.line("r.openMap()");
    let key = if record.fields.is_empty() { "_" } else { "key" };
    code.open(format!("for {key}, ok := r.key(); ok; {key}, ok = r.key() {{"));
    if record.family == Family::Mapped {
        // Null means absent, except for untyped values.
        let open: Vec<String> = record
            .fields
            .iter()
            .filter(|field| field.kind == Kind::Raw)
            .map(|field| format!("key != {}", string(&field.wire_name)))
            .collect();
        code.open(format!("if {} {{", [open, vec!["r.null()".to_owned()]].concat().join(" && ")));
        code.line("continue");
        code.close("}");
    }
    if record.fields.is_empty() {
        code.line("skip(r)");
    } else {
        code.line("switch key {");
        for (at, field) in record.fields.iter().enumerate() {
            let mut keys = vec![string(&field.wire_name)];
            if record.family == Family::Mapped && field.name != field.wire_name {
                keys.push(string(&field.name));
            }
            code.open(format!("case {}:", keys.join(", ")));
            if required.contains(&at) {
                code.line(format!("has{at} = true"));
            }
            if field.is_nullable && field.kind != Kind::Raw {
                code.open("if r.null() {");
                code.line("continue");
                code.close("}");
            }
            read_field(code, go, record, field, &fields[at], field.choice.map(|choice| choices[choice].as_str()));
            code.close_silently();
        }
        code.open("default:");
        code.line("skip(r)");
        code.close("}");
    }
    code.close("}");
    for at in required {
        code.open(format!("if !has{at} {{"));
        code.line(format!(
            "r.fail({})",
            string(&format!("a value of the required field {}", record.fields[at].wire_name))
        ));
        code.close("}");
    }
    code.close("}");
}

fn read_field(code: &mut Code, go: &Go<'_>, record: &Record, field: &Field, member: &str, choice: Option<&str>) {
    match choice {
        Some(choice) => {
            let arm = go.arm(record, field);
            read_into(code, go, &field.kind, &|value| format!("m.{choice} = {arm}{{Value: {value}}}"), 0);
        }
        None if is_pointer(field) && field.kind.record().is_none() => {
            read_into(code, go, &field.kind, &|value| format!("value := {value}"), 0);
            code.line(format!("m.{member} = &value"));
        }
        None => read_into(code, go, &field.kind, &|value| format!("m.{member} = {value}"), 0),
    }
}

/// Generates code that reads a value and passes it to `target`.
fn read_into(code: &mut Code, go: &Go<'_>, kind: &Kind, target: &dyn Fn(&str) -> String, depth: usize) {
    match kind {
        Kind::Scalar(scalar) => code.line(target(&read_scalar(*scalar))),
        Kind::Enum(id) => {
            let variable = variable(&go.enum_name(*id));
            code.line(target(&match go.api.enumeration(*id).repr {
                Repr::Text => format!("readOneOf(r, {variable}All)"),
                _ => format!("readEnum(r, {variable}Numbers)"),
            }));
        }
        Kind::Record(id) => {
            let name = nested("item", depth);
            code.line(format!("{name} := &{}{{}}", names::go(&go.api.record(*id).name)));
            code.line(format!("{name}.read(r)"));
            code.line(target(&name));
        }
        Kind::List(item) => {
            let name = nested("list", depth);
            code.line(format!("{name} := {}{{}}", go.ty(kind)));
            code.line("r.openList()");
            code.open("for r.item() {");
            read_into(code, go, item, &|value| format!("{name} = append({name}, {value})"), depth + 1);
            code.close("}");
            code.line(target(&name));
        }
        Kind::Map(key, item) => {
            let (name, text) = (nested("entries", depth), nested("name", depth));
            code.line(format!("{name} := {}{{}}", go.ty(kind)));
            code.line("r.openMap()");
            code.open(format!("for {text}, ok := r.key(); ok; {text}, ok = r.key() {{"));
            let key = match key {
                Scalar::String => text,
                Scalar::Bool => format!("keyBool(r, {text})"),
                other => {
                    let ty = scalar_type(*other);
                    let bits = if ty.ends_with("64") { 64 } else { 32 };
                    let function = if ty.starts_with('u') { "keyUint" } else { "keyInt" };
                    format!("{ty}({function}(r, {text}, {bits}))")
                }
            };
            read_into(code, go, item, &|value| format!("{name}[{key}] = {value}"), depth + 1);
            code.close("}");
            code.line(target(&name));
        }
        Kind::Raw => code.line(target("r.raw()")),
    }
}

fn read_scalar(scalar: Scalar) -> String {
    match scalar {
        Scalar::Bool => "r.bool()".to_owned(),
        Scalar::Float => "float32(readFloat(r))".to_owned(),
        Scalar::Double => "readFloat(r)".to_owned(),
        Scalar::String => "readString(r)".to_owned(),
        Scalar::Bytes => "r.data()".to_owned(),
        Scalar::Timestamp => "r.timestamp()".to_owned(),
        Scalar::Duration => "readDuration(r)".to_owned(),
        whole => match scalar_type(whole) {
            "int64" => "readInt(r, 64)".to_owned(),
            "uint64" => "readUint(r, 64)".to_owned(),
            "uint32" => "uint32(readUint(r, 32))".to_owned(),
            _ => "int32(readInt(r, 32))".to_owned(),
        },
    }
}
