//! Methods for the named formats, JSON and MessagePack.

use tautwire_contracts::Format;

use super::syntax::{Members, WIDTH, argument, place, presence_condition, string};
use crate::code::Code;
use crate::model::{Api, Family, Field, Kind, Presence, Record, Repr, Scalar};

pub(super) fn methods(code: &mut Code, api: &Api, record: &Record) {
    code.open(format!("impl {} {{", record.name));
    for (format, name, method, sink, source) in [
        (Format::Json, "JSON", "json", "JsonSink", "JsonSource"),
        (Format::MessagePack, "MessagePack", "messagepack", "MessagePackSink", "MessagePackSource"),
    ] {
        if !record.formats.contains(&format) {
            continue;
        }
        code.line(format!("/// Encodes the value as {name}."));
        code.open(format!("pub fn to_{method}(&self) -> Vec<u8> {{"));
        code.line(format!("let mut out = {sink}::default();"));
        code.line("self.write(&mut out);");
        code.line("out.finish()");
        code.close("}");
        code.blank();
        code.line(format!("/// Decodes {name}."));
        code.line("///");
        code.line("/// # Errors");
        code.line("/// The payload does not match the schema.");
        code.open(format!("pub fn from_{method}(payload: &[u8]) -> Result<Self, PayloadError> {{"));
        code.line(format!("let mut source = {source}::new(payload)?;"));
        code.line("let value = Self::read(&mut source)?;");
        code.line("source.end()?;");
        code.line("Ok(value)");
        code.close("}");
        code.blank();
    }
    let members = Members::of(record);
    code.open("fn write<S: Sink>(&self, out: &mut S) {");
    write(code, api, record, &members);
    code.close("}");
    code.blank();
    code.open("fn read<S: Source>(source: &mut S) -> Read<Self> {");
    read(code, api, record, &members);
    code.close("}");
    code.close("}");
}

fn write(code: &mut Code, api: &Api, record: &Record, members: &Members) {
    if let (true, Some(field)) = (record.is_transparent, record.fields.first()) {
        write_value(code, api, &field.kind, &format!("self.{}", members.fields[0]), false, 0);
        return;
    }
    code.line("out.open_map();");
    for (at, field) in record.fields.iter().enumerate() {
        let value = format!("self.{}", members.fields[at]);
        let key = format!("out.key({});", string(&field.wire_name));
        if let Some(choice) = field.choice {
            let (ty, variant) = (&record.choices[choice].type_name, &members.variants[at]);
            code.open(format!("if let Some({ty}::{variant}(item)) = &self.{} {{", members.choices[choice]));
            code.line(key);
            write_value(code, api, &field.kind, "item", true, 0);
            code.close("}");
        } else if field.is_optional() {
            let writes_null = field.presence == Presence::Required && field.is_nullable;
            if writes_null {
                code.line(&key);
            }
            code.open(format!("if let Some(item) = &{value} {{"));
            if !writes_null {
                code.line(&key);
            }
            write_value(code, api, &field.kind, "item", true, 0);
            if writes_null {
                code.between("} else {");
                code.line("out.null();");
            }
            code.close("}");
        } else if field.presence == Presence::Implicit {
            let (value, is_reference) = place(code, &field.kind, &members.fields[at]);
            code.open(format!("if {} {{", presence_condition(&field.kind, &value)));
            code.line(key);
            write_value(code, api, &field.kind, &value, is_reference, 0);
            code.close("}");
        } else {
            code.line(key);
            write_value(code, api, &field.kind, &value, false, 0);
        }
    }
    code.line("out.close_map();");
}

fn write_value(code: &mut Code, api: &Api, kind: &Kind, value: &str, is_reference: bool, depth: usize) {
    let given = argument(kind, value, is_reference);
    match kind {
        Kind::Scalar(scalar) => {
            let method = match scalar {
                Scalar::Bool => "bool",
                Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => {
                    return code.line(format!("out.int(i64::from({given}));"));
                }
                Scalar::Uint32 | Scalar::Fixed32 => return code.line(format!("out.uint(u64::from({given}));")),
                Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => "wide_int",
                Scalar::Uint64 | Scalar::Fixed64 => "wide_uint",
                Scalar::Integer => "int",
                Scalar::Float => "float",
                Scalar::Double => "double",
                Scalar::String => "string",
                Scalar::Bytes => "data",
                Scalar::Timestamp => "timestamp",
                Scalar::Duration => "duration",
            };
            code.line(format!("out.{method}({given});"));
        }
        Kind::Enum(id) if api.enumeration(*id).repr == Repr::Text => {
            code.line(format!("out.string({value}.as_str());"))
        }
        Kind::Enum(_) => code.line(format!("out.enumeration({given}, {value}.name());")),
        Kind::Record(_) => code.line(format!("{value}.write(out);")),
        Kind::List(inner) => {
            let item = nested("item", depth);
            code.line("out.open_list();");
            code.open(format!(
                "for {item} in {} {{",
                if is_reference { value.to_owned() } else { format!("&{value}") }
            ));
            code.line("out.item();");
            write_value(code, api, inner, &item, true, depth + 1);
            code.close("}");
            code.line("out.close_list();");
        }
        Kind::Map(key, inner) => {
            let (name, item) = (nested("key", depth), nested("item", depth));
            code.line("out.open_map();");
            let values = if is_reference { value.to_owned() } else { format!("&{value}") };
            code.open(format!("for ({name}, {item}) in {values} {{"));
            code.line(match key {
                Scalar::String => format!("out.key({name});"),
                _ => format!("out.key(&{name}.to_string());"),
            });
            write_value(code, api, inner, &item, true, depth + 1);
            code.close("}");
            code.line("out.close_map();");
        }
        Kind::Raw => code.line(format!("out.raw({given});")),
    }
}

/// The name of a variable of a nested loop.
fn nested(name: &str, depth: usize) -> String {
    if depth == 0 { name.to_owned() } else { format!("{name}{}", depth + 1) }
}

fn read(code: &mut Code, api: &Api, record: &Record, members: &Members) {
    if let (true, Some(field)) = (record.is_transparent, record.fields.first()) {
        read_into(code, api, &field.kind, &|item| format!("let value = {item};"), 0);
        code.line("Ok(Self { value })");
        return;
    }
    let is_changed = if record.fields.is_empty() { "" } else { "mut " };
    code.line(format!("let {is_changed}value = Self::default();"));
    let required: Vec<usize> =
        (0..record.fields.len()).filter(|at| record.fields[*at].presence == Presence::Required).collect();
    for at in &required {
        code.line(format!("let mut has{at} = false;"));
    }
    code.line("source.open_map()?;");
    let name = if record.fields.is_empty() { "_key" } else { "key" };
    code.open(format!("while let Some({name}) = source.key()? {{"));
    if record.family == Family::Mapped {
        // Null means absent, except for untyped values.
        let open = record.fields.iter().filter(|field| field.kind == Kind::Raw);
        let mut conditions: Vec<String> = open.map(|field| format!("key != {}", string(&field.wire_name))).collect();
        conditions.push("source.null()".to_owned());
        code.open(format!("if {} {{", conditions.join(" && ")));
        code.line("continue;");
        code.close("}");
    }
    if record.fields.is_empty() {
        code.line("source.skip()?;");
    } else {
        code.open("match key.as_str() {");
        for (at, field) in record.fields.iter().enumerate() {
            let mut keys = vec![string(&field.wire_name)];
            if record.family == Family::Mapped && field.name != field.wire_name {
                keys.push(string(&field.name));
            }
            let pattern = format!("{} => {{", keys.join(" | "));
            // At this depth, it is indented by 16 spaces.
            if 16 + pattern.len() <= WIDTH {
                code.open(pattern);
            } else {
                code.open(format!("{} => {{", keys.join("\n| ")));
            }
            if required.contains(&at) {
                code.line(format!("has{at} = true;"));
            }
            if field.is_nullable && field.kind != Kind::Raw {
                code.open("if source.null() {");
                code.line("continue;");
                code.close("}");
            }
            read_field(code, api, record, members, field, at);
            code.close("}");
        }
        code.line("_ => source.skip()?,");
        code.close("}");
    }
    code.close("}");
    for at in required {
        code.open(format!("if !has{at} {{"));
        code.line(format!("return Err(source.missing({}));", string(&record.fields[at].wire_name)));
        code.close("}");
    }
    code.line("Ok(value)");
}

fn read_field(code: &mut Code, api: &Api, record: &Record, members: &Members, field: &Field, at: usize) {
    let boxed = |item: &str, is_boxed: bool| if is_boxed { format!("Box::new({item})") } else { item.to_owned() };
    match field.choice {
        Some(choice) => {
            let (ty, variant) = (&record.choices[choice].type_name, &members.variants[at]);
            let target = format!("value.{}", members.choices[choice]);
            let is_boxed = field.kind.record().is_some();
            read_into(
                code,
                api,
                &field.kind,
                &|item| format!("{target} = Some({ty}::{variant}({}));", boxed(item, is_boxed)),
                0,
            );
        }
        None => {
            let target = format!("value.{}", members.fields[at]);
            let set = |item: &str| {
                let item = boxed(item, field.is_recursive);
                if field.is_optional() { format!("{target} = Some({item});") } else { format!("{target} = {item};") }
            };
            read_into(code, api, &field.kind, &set, 0);
        }
    }
}

/// Generates code that reads a value and passes it to `target`.
fn read_into(code: &mut Code, api: &Api, kind: &Kind, target: &dyn Fn(&str) -> String, depth: usize) {
    match kind {
        Kind::Scalar(scalar) => code.line(target(match scalar {
            Scalar::Bool => "source.bool()?",
            Scalar::Float => "source.float()?",
            Scalar::Double => "source.double()?",
            Scalar::String => "source.string()?",
            Scalar::Bytes => "source.data()?",
            Scalar::Timestamp => "source.timestamp()?",
            Scalar::Duration => "source.duration()?",
            _ => "source.int()?",
        })),
        Kind::Enum(id) if api.enumeration(*id).repr == Repr::Text => {
            let ty = api.rust_enum(*id);
            code.line("let text = source.string()?;");
            code.open(format!("let Some(item) = {ty}::named(&text) else {{"));
            code.line("return Err(source.wrong(\"one of the values in the schema\"));");
            code.close("};");
            code.line(target("item"));
        }
        Kind::Enum(id) => {
            let ty = api.rust_enum(*id);
            code.line(format!("let item = source.enumeration({ty}::named, {ty})?;"));
            code.line(target("item"));
        }
        Kind::Record(id) => {
            code.line(format!("let item = {}::read(source)?;", api.rust_name(*id)));
            code.line(target("item"));
        }
        Kind::List(inner) => {
            let list = nested("list", depth);
            code.line(format!("let mut {list} = Vec::new();"));
            code.line("source.open_list()?;");
            code.open("while source.item()? {");
            read_into(code, api, inner, &|item| format!("{list}.push({item});"), depth + 1);
            code.close("}");
            code.line(target(&list));
        }
        Kind::Map(key, inner) => {
            let (entries, name) = (nested("entries", depth), nested("name", depth));
            code.line(format!("let mut {entries} = BTreeMap::new();"));
            code.line("source.open_map()?;");
            code.open(format!("while let Some({name}) = source.key()? {{"));
            let name = if *key == Scalar::String {
                name
            } else {
                let parsed = nested("key", depth + 1);
                code.line(format!("let {parsed} = source.parsed(&{name})?;"));
                parsed
            };
            read_into(code, api, inner, &|item| format!("{entries}.insert({name}, {item});"), depth + 1);
            code.close("}");
            code.line(target(&entries));
        }
        Kind::Raw => code.line(target("source.raw()?")),
    }
}
