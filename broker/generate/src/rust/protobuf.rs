//! Methods for the binary form.

use super::syntax::{Members, WIDTH, argument, place, place_mut, presence_condition};
use crate::code::Code;
use crate::model::{Api, Field, Kind, Presence, Record, Scalar};

pub(super) fn methods(code: &mut Code, api: &Api, record: &Record) {
    code.open(format!("impl {} {{", record.name));
    code.line("/// Encodes the binary form.");
    code.open("pub fn to_protobuf(&self) -> Vec<u8> {");
    code.line("let mut out = Writer::default();");
    code.line("self.write_protobuf(&mut out);");
    code.line("out.bytes");
    code.close("}");
    code.blank();
    code.line("/// Decodes the binary form.");
    code.line("///");
    code.line("/// # Errors");
    code.line("/// The payload does not match the schema.");
    code.open("pub fn from_protobuf(payload: &[u8]) -> Result<Self, PayloadError> {");
    code.line("let mut value = Self::default();");
    code.line("value.read_protobuf(&mut Reader::new(payload))?;");
    code.line("Ok(value)");
    code.close("}");
    code.blank();
    let members = Members::of(record);
    if record.fields.is_empty() {
        code.line("fn write_protobuf(&self, _out: &mut Writer) {}");
    } else {
        code.open("fn write_protobuf(&self, out: &mut Writer) {");
        for at in 0..record.fields.len() {
            write_field(code, record, &members, at);
        }
        code.close("}");
    }
    code.blank();
    code.open("fn read_protobuf(&mut self, reader: &mut Reader<'_>) -> Result<(), PayloadError> {");
    read_fields(code, api, record, &members);
    code.close("}");
    code.close("}");
}

fn write_field(code: &mut Code, record: &Record, members: &Members, at: usize) {
    let field = &record.fields[at];
    let value = format!("self.{}", members.fields[at]);
    match (&field.kind, field.choice) {
        (Kind::List(item), _) if field.is_packed => {
            let (list, _) = place(code, &field.kind, &members.fields[at]);
            code.open(format!("if !{list}.is_empty() {{"));
            code.line(format!("out.tag({});", field.tag(2)));
            code.line("let start = out.open();");
            code.open(format!("for item in &{value} {{"));
            write_value(code, item, "item", true);
            code.close("}");
            code.line("out.close(start);");
            code.close("}");
        }
        (Kind::List(item), _) => {
            code.open(format!("for item in &{value} {{"));
            write_tagged(code, item, field.tag(item.wire_type()), "item", true);
            code.close("}");
        }
        (Kind::Map(key, item), _) => {
            code.open(format!("for (key, item) in &{value} {{"));
            code.line(format!("out.tag({});", field.tag(2)));
            code.line("let entry = out.open();");
            let key = Kind::Scalar(*key);
            write_tagged(code, &key, 8 | key.wire_type(), "key", true);
            write_tagged(code, item, 16 | item.wire_type(), "item", true);
            code.line("out.close(entry);");
            code.close("}");
        }
        (kind, Some(choice)) => {
            let (ty, variant) = (&record.choices[choice].type_name, &members.variants[at]);
            code.open(format!("if let Some({ty}::{variant}(item)) = &self.{} {{", members.choices[choice]));
            write_tagged(code, kind, field.tag(kind.wire_type()), "item", true);
            code.close("}");
        }
        (kind, None) if field.is_optional() => {
            code.open(format!("if let Some(item) = &{value} {{"));
            write_tagged(code, kind, field.tag(kind.wire_type()), "item", true);
            code.close("}");
        }
        (kind, None) if field.presence == Presence::Implicit => {
            let (value, is_reference) = place(code, kind, &members.fields[at]);
            code.open(format!("if {} {{", presence_condition(kind, &value)));
            write_tagged(code, kind, field.tag(kind.wire_type()), &value, is_reference);
            code.close("}");
        }
        (kind, None) => write_tagged(code, kind, field.tag(kind.wire_type()), &value, false),
    }
}

fn write_tagged(code: &mut Code, kind: &Kind, tag: u32, value: &str, is_reference: bool) {
    code.line(format!("out.tag({tag});"));
    if kind.record().is_some() {
        code.line("let start = out.open();");
        code.line(format!("{value}.write_protobuf(out);"));
        code.line("out.close(start);");
    } else {
        write_value(code, kind, value, is_reference);
    }
}

fn write_value(code: &mut Code, kind: &Kind, value: &str, is_reference: bool) {
    code.line(format!("out.{}({});", method(kind), argument(kind, value, is_reference)));
}

/// The method of the reader and the writer.
fn method(kind: &Kind) -> &'static str {
    match kind.scalar() {
        Some(Scalar::Bytes) => "data",
        _ => kind.binary_name(),
    }
}

fn read_fields(code: &mut Code, api: &Api, record: &Record, members: &Members) {
    let required: Vec<&Field> = record.fields.iter().filter(|field| field.presence == Presence::Required).collect();
    for field in &required {
        code.line(format!("let mut has{} = false;", field.number));
    }
    code.open("while let Some(tag) = reader.tag()? {");
    let numbers: Vec<String> = record.fields.iter().map(|field| field.number.to_string()).collect();
    if record.fields.is_empty() {
        code.line("reader.unknown(tag, &[])?;");
    } else {
        code.open("match tag {");
        for at in 0..record.fields.len() {
            read_field(code, api, record, members, at);
        }
        let line = format!("_ => reader.unknown(tag, &[{}])?,", numbers.join(", "));
        if 16 + line.len() <= WIDTH {
            code.line(line);
        } else {
            code.open("_ => {");
            code.line("const NUMBERS: &[u32] = &[");
            filled(code, &numbers);
            code.line("];");
            code.line("reader.unknown(tag, NUMBERS)?;");
            code.close("}");
        }
        code.close("}");
    }
    code.close("}");
    for field in required {
        code.open(format!("if !has{} {{", field.number));
        code.line(format!("return Err(reader.missing(\"{}\"));", field.name));
        code.close("}");
    }
    code.line("Ok(())");
}

/// Short items, filled into lines as rustfmt does it.
fn filled(code: &mut Code, items: &[String]) {
    const DEPTH: usize = 6 * 4;
    let mut line = String::new();
    for item in items {
        if DEPTH + line.len() + 2 + item.len() > WIDTH {
            code.line(format!("    {}", line.trim_end()));
            line.clear();
        }
        line.push_str(item);
        line.push_str(", ");
    }
    code.line(format!("    {}", line.trim_end()));
}

fn read_field(code: &mut Code, api: &Api, record: &Record, members: &Members, at: usize) {
    let field = &record.fields[at];
    let value = format!("self.{}", members.fields[at]);
    match (&field.kind, field.choice) {
        (Kind::List(item), _) => {
            code.open(format!("{} => {{", field.tag(item.wire_type())));
            let list = place_mut(code, &members.fields[at]);
            read_item(code, api, item, &list);
            code.close("}");
            if item.wire_type() != 2 {
                code.open(format!("{} => {{", field.tag(2)));
                let list = place_mut(code, &members.fields[at]);
                code.line("let outer = reader.enter()?;");
                code.open("while reader.has_more() {");
                read_item(code, api, item, &list);
                code.close("}");
                code.line("reader.leave(outer);");
                code.close("}");
            }
        }
        (Kind::Map(key, item), _) => read_entry(code, api, field, *key, item, &members.fields[at]),
        (kind, choice) => {
            code.open(format!("{} => {{", field.tag(kind.wire_type())));
            match (kind, choice) {
                (Kind::Record(_), None) => {
                    code.line("let outer = reader.enter()?;");
                    let field = place_mut(code, &members.fields[at]);
                    code.line(format!("let item = {field}.get_or_insert_default();"));
                    code.line("item.read_protobuf(reader)?;");
                    code.line("reader.leave(outer);");
                }
                (Kind::Record(_), Some(choice)) => {
                    let (ty, variant) = (&record.choices[choice].type_name, &members.variants[at]);
                    let chosen = format!("self.{}", members.choices[choice]);
                    code.line("let outer = reader.enter()?;");
                    code.open(format!("let mut item = match {chosen}.take() {{"));
                    code.line(format!("Some({ty}::{variant}(item)) => item,"));
                    code.line("_ => Box::default(),");
                    code.close("};");
                    code.line("item.read_protobuf(reader)?;");
                    code.line("reader.leave(outer);");
                    code.line(format!("{chosen} = Some({ty}::{variant}(item));"));
                }
                (kind, Some(choice)) => {
                    let (ty, variant) = (&record.choices[choice].type_name, &members.variants[at]);
                    let chosen = format!("self.{}", members.choices[choice]);
                    set(code, api, kind, |item| format!("{chosen} = Some({ty}::{variant}({item}));"));
                }
                (kind, None) if field.is_optional() => {
                    set(code, api, kind, |item| format!("{value} = Some({item});"));
                }
                // A number that a closed enumeration does not have counts as absent.
                (kind, None) if field.presence == Presence::Required && api.is_closed(kind) => {
                    set(code, api, kind, |item| format!("{value} = {item};\nhas{} = true;", field.number));
                }
                (kind, None) => set(code, api, kind, |item| format!("{value} = {item};")),
            }
            if field.presence == Presence::Required && !api.is_closed(kind) {
                code.line(format!("has{} = true;", field.number));
            }
            code.close("}");
        }
    }
}

fn read_item(code: &mut Code, api: &Api, item: &Kind, list: &str) {
    if let Kind::Record(id) = item {
        code.line("let outer = reader.enter()?;");
        code.line(format!("let mut item = {}::default();", api.rust_name(*id)));
        code.line("item.read_protobuf(reader)?;");
        code.line("reader.leave(outer);");
        code.line(format!("{list}.push(item);"));
    } else {
        set(code, api, item, |item| format!("{list}.push({item});"));
    }
}

/// A line with the value that was read, if the enumeration has it.
fn set(code: &mut Code, api: &Api, kind: &Kind, line: impl FnOnce(&str) -> String) {
    if api.is_closed(kind) {
        code.line(format!("let item = {};", read_call(api, kind)));
        code.open("if item.name().is_some() {");
        code.line(line("item"));
        code.close("}");
    } else {
        code.line(line(&read_call(api, kind)));
    }
}

fn read_call(api: &Api, kind: &Kind) -> String {
    match kind {
        Kind::Enum(id) => format!("{}(reader.int32()?)", api.rust_enum(*id)),
        other => format!("reader.{}()?", method(other)),
    }
}

fn read_entry(code: &mut Code, api: &Api, field: &Field, key: Scalar, item: &Kind, member: &str) {
    let key = Kind::Scalar(key);
    code.open(format!("{} => {{", field.tag(2)));
    code.line(format!("let mut key = {};", default(api, &key)));
    code.line(format!("let mut item = {};", default(api, item)));
    code.line("let entry = reader.enter()?;");
    code.open("while let Some(part) = reader.tag()? {");
    code.open("match part {");
    code.line(format!("{} => key = {},", 8 | key.wire_type(), read_call(api, &key)));
    let tag = 16 | item.wire_type();
    if item.record().is_some() {
        code.open(format!("{tag} => {{"));
        code.line("let outer = reader.enter()?;");
        code.line("item.read_protobuf(reader)?;");
        code.line("reader.leave(outer);");
        code.close("}");
    } else {
        code.line(format!("{tag} => item = {},", read_call(api, item)));
    }
    code.line("_ => reader.unknown(part, &[1, 2])?,");
    code.close("}");
    code.close("}");
    code.line("reader.leave(entry);");
    let entries = place_mut(code, member);
    let line = format!("{entries}.insert(key, item);");
    if api.is_closed(item) {
        code.open("if item.name().is_some() {");
        code.line(line);
        code.close("}");
    } else {
        code.line(line);
    }
    code.close("}");
}

fn default(api: &Api, kind: &Kind) -> String {
    match kind {
        Kind::Scalar(Scalar::Bool) => "false".to_owned(),
        Kind::Scalar(Scalar::String) => "String::new()".to_owned(),
        Kind::Scalar(Scalar::Bytes) => "Vec::new()".to_owned(),
        Kind::Scalar(Scalar::Float | Scalar::Double) => "0.0".to_owned(),
        Kind::Scalar(Scalar::Timestamp | Scalar::Duration) | Kind::Enum(_) | Kind::Record(_) => {
            format!("{}::default()", api.rust_type(kind))
        }
        _ => "0".to_owned(),
    }
}
