//! Functions for the binary form.

use super::syntax::{Members, doc, gap, may_be_none, presence_condition, string, suffix, zero};
use crate::code::Code;
use crate::model::{Api, Field, Kind, Presence, Record, Repr, Scalar};

pub(super) fn functions(code: &mut Code, api: &Api, record: &Record) {
    let (name, end) = (&record.name, suffix(&record.name));
    let members = Members::of(record);
    code.open(format!("def write_{end}(value: {name}, out: _protobuf.Writer) -> None:"));
    doc(code, "Encodes the binary form.");
    for (at, member) in members.choices.iter().enumerate() {
        code.line(format!("choice{at} = value.{member}"));
    }
    for (field, member) in record.fields.iter().zip(&members.fields) {
        write_field(code, api, field, member);
    }
    code.close_silently();
    gap(code);
    code.open(format!("def read_{end}(reader: _protobuf.Reader, value: _t.Optional[{name}] = None) -> {name}:"));
    doc(code, "Decodes the binary form to its end. Its fields are merged into `value`.");
    code.open("if value is None:");
    code.line(format!("value = {name}()"));
    code.close_silently();
    read_fields(code, api, record, &members);
    code.line("return value");
    code.close_silently();
}

fn write_field(code: &mut Code, api: &Api, field: &Field, member: &str) {
    let value = format!("value.{member}");
    match (&field.kind, field.choice) {
        (Kind::List(item), _) if field.is_packed => {
            code.open(format!("if {value}:"));
            code.line(format!("packed{} = _protobuf.Writer()", field.number));
            code.open(format!("for item{} in {value}:", field.number));
            code.line(write_call(api, item, &format!("packed{}", field.number), &format!("item{}", field.number)));
            code.close_silently();
            code.line(format!("out.tag({})", tag(field.tag(2))));
            code.line(format!("out.data(packed{}.out)", field.number));
            code.close_silently();
        }
        (Kind::List(item), _) => {
            let each = format!("item{}", field.number);
            code.open(format!("for {each} in {value}:"));
            write_tagged(code, api, item, field.tag(item.wire_type()), "out", &each);
            code.close_silently();
        }
        (Kind::Map(key, item), _) => {
            let number = field.number;
            code.open(format!("for key{number}, item{number} in {value}.items():"));
            code.line(format!("entry{number} = _protobuf.Writer()"));
            let (entry, key) = (format!("entry{number}"), Kind::Scalar(*key));
            write_tagged(code, api, &key, 8 | key.wire_type(), &entry, &format!("key{number}"));
            write_tagged(code, api, item, 16 | item.wire_type(), &entry, &format!("item{number}"));
            code.line(format!("out.tag({})", tag(field.tag(2))));
            code.line(format!("out.data({entry}.out)"));
            code.close_silently();
        }
        (kind, Some(choice)) => {
            code.open(format!("if choice{choice} is not None and choice{choice}[0] == {}:", string(member)));
            write_tagged(code, api, kind, field.tag(kind.wire_type()), "out", &format!("choice{choice}[1]"));
            code.close_silently();
        }
        (kind, None) => {
            let condition = match field.presence {
                _ if may_be_none(field) => Some(format!("{value} is not None")),
                Presence::Implicit => Some(presence_condition(kind, &value)),
                _ => None,
            };
            if let Some(condition) = &condition {
                code.open(format!("if {condition}:"));
            }
            write_tagged(code, api, kind, field.tag(kind.wire_type()), "out", &value);
            if condition.is_some() {
                code.close_silently();
            }
        }
    }
}

fn write_tagged(code: &mut Code, api: &Api, kind: &Kind, number: u32, out: &str, value: &str) {
    code.line(format!("{out}.tag({})", tag(number)));
    code.line(write_call(api, kind, out, value));
}

fn write_call(api: &Api, kind: &Kind, out: &str, value: &str) -> String {
    match kind {
        Kind::Record(id) => format!("{out}.message(write_{}, {value})", suffix(&api.record(*id).name)),
        other => match other.scalar() {
            Some(Scalar::Timestamp | Scalar::Duration) => format!("{out}.time({value})"),
            _ => format!("{out}.{}({value})", method(other)),
        },
    }
}

/// The method of the reader and the writer. None has the name of a type.
fn method(kind: &Kind) -> &'static str {
    match kind.scalar() {
        Some(Scalar::Bool) => "boolean",
        Some(Scalar::Float) => "single",
        Some(Scalar::Bytes) => "data",
        _ => kind.binary_name(),
    }
}

/// The encoded tag.
fn tag(tag: u32) -> String {
    let mut text = String::from("b\"");
    let mut rest = tag;
    loop {
        let byte = if rest > 0x7f { rest & 0x7f | 0x80 } else { rest };
        text.push_str(&format!("\\x{byte:02x}"));
        if rest <= 0x7f {
            break;
        }
        rest >>= 7;
    }
    text.push('"');
    text
}

/// For a closed enumeration whose numbers are checked, unknown numbers are `None`.
fn is_closed(api: &Api, kind: &Kind) -> bool {
    matches!(kind, Kind::Enum(id) if api.enumeration(*id).repr == Repr::ClosedNumber)
}

fn read_fields(code: &mut Code, api: &Api, record: &Record, members: &Members) {
    let required: Vec<&Field> = record.fields.iter().filter(|field| field.presence == Presence::Required).collect();
    for field in &required {
        code.line(format!("has{} = False", field.number));
    }
    code.open("while tag := reader.tag():");
    let mut is_first = true;
    for (field, member) in record.fields.iter().zip(&members.fields) {
        read_field(code, api, field, member, members, &mut is_first);
    }
    let mut numbers: Vec<String> = record.fields.iter().map(|field| field.number.to_string()).collect();
    if let [only] = &mut numbers[..] {
        only.push(',');
    }
    let unknown = format!("reader.unknown(tag, ({}))", numbers.join(", "));
    if is_first {
        code.line(unknown);
    } else {
        code.open("else:");
        code.line(unknown);
        code.close_silently();
    }
    code.close_silently();
    for field in required {
        code.open(format!("if not has{}:", field.number));
        let missing = "_payload.PayloadError(\"expected a required value\")";
        code.line(format!("raise {missing}.inside({})", string(&field.wire_name)));
        code.close_silently();
    }
}

fn branch(code: &mut Code, is_first: &mut bool, tag: u32) {
    let word = if std::mem::take(is_first) { "if" } else { "elif" };
    code.open(format!("{word} tag == {tag}:"));
}

fn read_field(code: &mut Code, api: &Api, field: &Field, member: &str, members: &Members, is_first: &mut bool) {
    let (value, number) = (format!("value.{member}"), field.number);
    if let Kind::List(item) = &field.kind {
        if item.wire_type() != 2 {
            branch(code, is_first, field.tag(2));
            let read = format!("reader.packed(reader.{})", method(item));
            code.line(match item.as_ref() {
                Kind::Enum(id) => {
                    let of = format!("number_{}", suffix(&api.enumeration(*id).name));
                    if is_closed(api, item) {
                        format!("{value} += [one for one in map({of}, {read}) if one is not None]")
                    } else {
                        format!("{value} += map({of}, {read})")
                    }
                }
                _ => format!("{value} += {read}"),
            });
            code.close_silently();
        }
        branch(code, is_first, field.tag(item.wire_type()));
        take(code, api, item, number, None, |item| vec![format!("{value}.append({item})")]);
        code.close_silently();
        return;
    }
    if let Kind::Map(key, item) = &field.kind {
        branch(code, is_first, field.tag(2));
        read_entry(code, api, field, *key, item, &value);
        code.close_silently();
        return;
    }
    branch(code, is_first, field.tag(field.kind.wire_type()));
    match field.choice {
        Some(choice) => {
            let chosen = format!("value.{}", members.choices[choice]);
            let case = string(member);
            let existing = format!("{chosen}[1] if {chosen} is not None and {chosen}[0] == {case} else None");
            take(code, api, &field.kind, number, Some(&existing), |item| vec![format!("{chosen} = ({case}, {item})")]);
        }
        None => take(code, api, &field.kind, number, Some(&value), |item| {
            let mut lines = vec![format!("{value} = {item}")];
            if field.presence == Presence::Required {
                lines.push(format!("has{number} = True"));
            }
            lines
        }),
    }
    code.close_silently();
}

/// Generates code that reads one value and processes it with `lines`. A record is merged into the `existing` one.
fn take(
    code: &mut Code,
    api: &Api,
    kind: &Kind,
    number: u32,
    existing: Option<&str>,
    lines: impl Fn(&str) -> Vec<String>,
) {
    let read = read_call(api, kind, existing);
    if !is_closed(api, kind) {
        lines(&read).iter().for_each(|line| code.line(line));
        return;
    }
    code.line(format!("item{number} = {read}"));
    code.open(format!("if item{number} is not None:"));
    lines(&format!("item{number}")).iter().for_each(|line| code.line(line));
    code.close_silently();
}

fn read_call(api: &Api, kind: &Kind, existing: Option<&str>) -> String {
    match kind {
        Kind::Record(id) => {
            let more = existing.map(|existing| format!(", {existing}")).unwrap_or_default();
            format!("reader.message(read_{}{more})", suffix(&api.record(*id).name))
        }
        Kind::Enum(id) => format!("number_{}(reader.int32())", suffix(&api.enumeration(*id).name)),
        other => format!("reader.{}()", method(other)),
    }
}

fn read_entry(code: &mut Code, api: &Api, field: &Field, key: Scalar, item: &Kind, value: &str) {
    let number = field.number;
    code.line(format!("key{number} = {}", zero(key)));
    let (ty, empty) = match item {
        Kind::Record(id) => {
            let name = &api.record(*id).name;
            (name.clone(), format!("{name}()"))
        }
        _ if is_closed(api, item) => (format!("_t.Optional[{}]", api.python_type(item)), api.empty(item)),
        _ => (api.python_type(item), api.empty(item)),
    };
    code.line(format!("entry{number}: {ty} = {empty}"));
    code.line(format!("end{number} = reader.enter()"));
    code.open("while part := reader.tag():");
    let key = Kind::Scalar(key);
    code.open(format!("if part == {}:", 8 | key.wire_type()));
    code.line(format!("key{number} = reader.{}()", method(&key)));
    code.close_silently();
    code.open(format!("elif part == {}:", 16 | item.wire_type()));
    code.line(format!("entry{number} = {}", read_call(api, item, Some(&format!("entry{number}")))));
    code.close_silently();
    code.open("else:");
    code.line("reader.unknown(part, (1, 2))");
    code.close_silently();
    code.close_silently();
    code.line(format!("reader.leave(end{number})"));
    let line = format!("{value}[key{number}] = entry{number}");
    if is_closed(api, item) {
        code.open(format!("if entry{number} is not None:"));
        code.line(line);
        code.close_silently();
    } else {
        code.line(line);
    }
}
