//! Methods for the binary form.

use super::syntax::{Go, condition, is_pointer, members, scalar_type, variable};
use crate::code::Code;
use crate::model::{Field, Kind, Presence, Record, Scalar};
use crate::names;

pub(super) fn methods(code: &mut Code, go: &Go<'_>, record: &Record) {
    let name = names::go(&record.name);
    code.line("// MarshalProtobuf encodes the value in the binary form.");
    code.open(format!("func (m *{name}) MarshalProtobuf() []byte {{"));
    code.line("var w protobufWriter");
    code.line("m.writeProtobuf(&w)");
    code.line("return w.bytes");
    code.close("}");
    code.blank();
    code.line("// UnmarshalProtobuf decodes the binary form. Its error is a *PayloadError.");
    code.open(format!("func (m *{name}) UnmarshalProtobuf(payload []byte) error {{"));
    code.line(format!("*m = {name}{{}}"));
    code.line("r := newProtobufReader(payload)");
    code.line("m.readProtobuf(&r)");
    code.line("return r.err");
    code.close("}");
    code.blank();
    write(code, go, record, &name);
    code.blank();
    read(code, go, record, &name);
}

fn write(code: &mut Code, go: &Go<'_>, record: &Record, name: &str) {
    if record.fields.is_empty() {
        code.line(format!("func (m *{name}) writeProtobuf(*protobufWriter) {{}}"));
        return;
    }
    code.open(format!("func (m *{name}) writeProtobuf(w *protobufWriter) {{"));
    let (fields, choices) = members(record);
    for (field, member) in record.fields.iter().zip(&fields) {
        let value = format!("m.{member}");
        match (&field.kind, field.choice) {
            (Kind::List(item), _) if field.is_packed => {
                code.open(format!("if len({value}) > 0 {{"));
                code.line(format!("w.tag({})", field.tag(2)));
                code.line("start := w.open()");
                code.open(format!("for _, item := range {value} {{"));
                code.line(write_call(item, "item"));
                code.close("}");
                code.line("w.close(start)");
                code.close("}");
            }
            (Kind::List(item), _) => {
                code.open(format!("for _, item := range {value} {{"));
                write_tagged(code, item, field.tag(item.wire_type()), "item");
                code.close("}");
            }
            (Kind::Map(key, item), _) => {
                code.open(format!("for _, key := range {} {{", sorted_keys(*key, &value)));
                code.line(format!("w.tag({})", field.tag(2)));
                code.line("entry := w.open()");
                let key = Kind::Scalar(*key);
                write_tagged(code, &key, 8 | key.wire_type(), "key");
                write_tagged(code, item, 16 | item.wire_type(), &format!("{value}[key]"));
                code.line("w.close(entry)");
                code.close("}");
            }
            (kind, Some(choice)) => {
                code.open(format!("if chosen, ok := m.{}.({}); ok {{", choices[choice], go.arm(record, field)));
                write_tagged(code, kind, field.tag(kind.wire_type()), "chosen.Value");
                code.close("}");
            }
            (kind, None) => {
                let condition = condition(field, &value);
                if let Some(condition) = &condition {
                    code.open(format!("if {condition} {{"));
                }
                let given = if is_pointer(field) && kind.record().is_none() { format!("*{value}") } else { value };
                write_tagged(code, kind, field.tag(kind.wire_type()), &given);
                if condition.is_some() {
                    code.close("}");
                }
            }
        }
    }
    code.close("}");
}

/// The keys of a map in order, so that equal values give equal bytes.
pub(super) fn sorted_keys(key: Scalar, value: &str) -> String {
    match key {
        Scalar::Bool => format!("sortedBools({value})"),
        _ => format!("slices.Sorted(maps.Keys({value}))"),
    }
}

fn write_tagged(code: &mut Code, kind: &Kind, tag: u32, value: &str) {
    code.line(format!("w.tag({tag})"));
    if kind.record().is_some() {
        code.line("start := w.open()");
        code.line(format!("{value}.writeProtobuf(w)"));
        code.line("w.close(start)");
    } else {
        code.line(write_call(kind, value));
    }
}

fn write_call(kind: &Kind, value: &str) -> String {
    match kind {
        Kind::Enum(_) => format!("w.int32(int32({value}))"),
        other => format!("w.{}({value})", method(other)),
    }
}

/// The method of the reader and the writer.
fn method(kind: &Kind) -> &'static str {
    match kind.scalar() {
        Some(Scalar::Float) => "float32",
        Some(Scalar::Double) => "float64",
        Some(Scalar::Bytes) => "data",
        _ => kind.binary_name(),
    }
}

fn read(code: &mut Code, go: &Go<'_>, record: &Record, name: &str) {
    code.open(format!("func (m *{name}) readProtobuf(r *protobufReader) {{"));
    let required: Vec<&Field> = record.fields.iter().filter(|field| field.presence == Presence::Required).collect();
    for field in &required {
        code.line(format!("has{} := false", field.number));
    }
    let numbers: Vec<String> = record.fields.iter().map(|field| field.number.to_string()).collect();
    let unknown = format!("r.unknown({})", [vec!["tag".to_owned()], numbers].concat().join(", "));
    code.open("for tag := r.tag(); tag != 0; tag = r.tag() {");
    if record.fields.is_empty() {
        code.line(unknown);
    } else {
        code.line("switch tag {");
        let (fields, choices) = members(record);
        for (field, member) in record.fields.iter().zip(&fields) {
            let choice = field.choice.map(|choice| choices[choice].as_str());
            read_field(code, go, record, field, &format!("m.{member}"), choice);
        }
        code.open("default:");
        code.line(unknown);
        code.close("}");
    }
    code.close("}");
    for field in required {
        code.open(format!("if !has{} {{", field.number));
        code.line(format!("r.fail(r.at, \"a value of the required field {}\")", field.name));
        code.close("}");
    }
    code.close("}");
}

fn read_field(code: &mut Code, go: &Go<'_>, record: &Record, field: &Field, value: &str, choice: Option<&str>) {
    match &field.kind {
        Kind::List(item) => {
            code.open(format!("case {}:", field.tag(item.wire_type())));
            read_item(code, go, item, value);
            if item.wire_type() != 2 {
                code.between(format!("case {}:", field.tag(2)));
                code.line("outer := r.enter()");
                code.open("for r.more() {");
                read_item(code, go, item, value);
                code.close("}");
                code.line("r.leave(outer)");
            }
        }
        Kind::Map(key, item) => {
            code.open(format!("case {}:", field.tag(2)));
            read_entry(code, go, *key, item, value);
        }
        kind => {
            code.open(format!("case {}:", field.tag(kind.wire_type())));
            match (kind, choice) {
                (Kind::Record(id), None) => {
                    code.open(format!("if {value} == nil {{"));
                    code.line(format!("{value} = &{}{{}}", names::go(&go.api.record(*id).name)));
                    code.close("}");
                    read_message(code, value);
                }
                (Kind::Record(id), Some(choice)) => {
                    let arm = go.arm(record, field);
                    code.line(format!("chosen, ok := m.{choice}.({arm})"));
                    code.open("if !ok || chosen.Value == nil {");
                    code.line(format!("chosen.Value = &{}{{}}", names::go(&go.api.record(*id).name)));
                    code.close("}");
                    read_message(code, "chosen.Value");
                    code.line(format!("m.{choice} = chosen"));
                }
                (kind, Some(choice)) => {
                    let arm = go.arm(record, field);
                    set(code, go, kind, |item| format!("m.{choice} = {arm}{{Value: {item}}}"));
                }
                (kind, None) if is_pointer(field) => {
                    code.line(format!("value := {}", read_call(go, kind)));
                    let line = format!("{value} = &value");
                    if_known(code, go, kind, "value", &line);
                }
                // A number that a closed enumeration does not have counts as absent.
                (kind, None) if field.presence == Presence::Required && go.is_closed(kind) => {
                    set(code, go, kind, |item| format!("{value} = {item}\nhas{} = true", field.number));
                }
                (kind, None) => set(code, go, kind, |item| format!("{value} = {item}")),
            }
            if field.presence == Presence::Required && !go.is_closed(kind) {
                code.line(format!("has{} = true", field.number));
            }
        }
    }
    code.close_silently();
}

fn read_message(code: &mut Code, value: &str) {
    code.line("outer := r.enter()");
    code.line(format!("{value}.readProtobuf(r)"));
    code.line("r.leave(outer)");
}

fn read_item(code: &mut Code, go: &Go<'_>, item: &Kind, list: &str) {
    if let Kind::Record(id) = item {
        code.line(format!("item := &{}{{}}", names::go(&go.api.record(*id).name)));
        read_message(code, "item");
        code.line(format!("{list} = append({list}, item)"));
    } else {
        set(code, go, item, |item| format!("{list} = append({list}, {item})"));
    }
}

/// A line with the value that was read, if the enumeration has it.
fn set(code: &mut Code, go: &Go<'_>, kind: &Kind, line: impl FnOnce(&str) -> String) {
    if go.is_closed(kind) {
        code.line(format!("value := {}", read_call(go, kind)));
        if_known(code, go, kind, "value", &line("value"));
    } else {
        code.line(line(&read_call(go, kind)));
    }
}

fn if_known(code: &mut Code, go: &Go<'_>, kind: &Kind, value: &str, line: &str) {
    match kind {
        Kind::Enum(id) if go.is_closed(kind) => {
            code.open(format!("if _, ok := {}Names[{value}]; ok {{", variable(&go.enum_name(*id))));
            code.line(line);
            code.close("}");
        }
        _ => code.line(line),
    }
}

fn read_call(go: &Go<'_>, kind: &Kind) -> String {
    match kind {
        Kind::Enum(id) => format!("{}(r.int32())", go.enum_name(*id)),
        other => format!("r.{}()", method(other)),
    }
}

fn read_entry(code: &mut Code, go: &Go<'_>, key: Scalar, item: &Kind, value: &str) {
    code.line(format!("var key {}", scalar_type(key)));
    match item {
        Kind::Record(id) => code.line(format!("item := &{}{{}}", names::go(&go.api.record(*id).name))),
        Kind::Scalar(Scalar::Timestamp) => code.line("item := time.Unix(0, 0).UTC()"),
        Kind::Enum(id) if go.is_closed(item) => {
            let first = go.api.enumeration(*id).default;
            code.line(format!("item := {}({first})", go.enum_name(*id)));
        }
        other => code.line(format!("var item {}", go.ty(other))),
    }
    code.line("entry := r.enter()");
    code.open("for part := r.tag(); part != 0; part = r.tag() {");
    code.line("switch part {");
    let key = Kind::Scalar(key);
    code.open(format!("case {}:", 8 | key.wire_type()));
    code.line(format!("key = {}", read_call(go, &key)));
    code.between(format!("case {}:", 16 | item.wire_type()));
    if item.record().is_some() {
        read_message(code, "item");
    } else {
        code.line(format!("item = {}", read_call(go, item)));
    }
    code.between("default:");
    code.line("r.unknown(part, 1, 2)");
    code.close("}");
    code.close("}");
    code.line("r.leave(entry)");
    code.open(format!("if {value} == nil {{"));
    code.line(format!(
        "{value} = {}{{}}",
        go.ty(&Kind::Map(key.scalar().unwrap_or(Scalar::String), Box::new(item.clone())))
    ));
    code.close("}");
    if_known(code, go, item, "item", &format!("{value}[key] = item"));
}
