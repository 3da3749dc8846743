//! Functions for the named formats, JSON and MessagePack.

use super::protobuf::case;
use super::syntax::{C, Members, condition, has_flag, string};
use crate::code::Code;
use crate::model::{Family, Field, Kind, Presence, Record, Repr, Scalar};
use crate::names;

/// The names of enumerations.
pub(super) fn enumerations(code: &mut Code, c: &C<'_>) {
    for enumeration in c.api.enums.iter().filter(|enumeration| enumeration.is_named) {
        code.blank();
        code.open(format!("static const ctm_name names_{}_{}[] = {{", c.package, names::snake(&enumeration.name)));
        for (at, value) in enumeration.values.iter().enumerate() {
            let comma = if at + 1 < enumeration.values.len() { "," } else { "" };
            code.line(format!("{{{}, {}}}{comma}", string(&value.wire_name), value.number));
        }
        code.close("};");
    }
}

pub(super) fn functions(code: &mut Code, c: &C<'_>, record: &Record) {
    let ty = c.record_name(record);
    let members = Members::of(record);
    code.open(format!("static void write_{ty}_named(ct_writer *w, const {ty} *m) {{"));
    write(code, c, record, &members);
    code.close("}");
    code.blank();
    code.open(format!("static void read_{ty}_named(ct_reader *r, {ty} *m) {{"));
    read(code, c, record, &members);
    code.close("}");
}

fn write(code: &mut Code, c: &C<'_>, record: &Record, members: &Members) {
    if let (true, Some(field)) = (record.is_transparent, record.fields.first()) {
        put_field(code, c, field, &format!("m->{}", members.fields[0]));
        return;
    }
    code.line("ctm_opened map = ctm_open_map(w);");
    if record.fields.is_empty() {
        code.line("(void)m;");
    }
    for (at, field) in record.fields.iter().enumerate() {
        let member = &members.fields[at];
        let value = format!("m->{member}");
        let key = format!("ctm_put_name(w, &map, {});", string(&field.wire_name));
        if let Some(choice) = field.choice {
            let chosen = &members.choices[choice];
            let value = format!("m->{chosen}.{}", members.arms[at]);
            let mut condition = format!("m->{chosen}_case == {}", case(c, record, choice, &members.arms[at]));
            if field.kind.record().is_some() {
                condition.push_str(&format!(" && {value} != NULL"));
            }
            code.open(format!("if ({condition}) {{"));
            code.line(key);
            put_field(code, c, field, &value);
            code.close("}");
            continue;
        }
        let condition = condition(field, &value, member);
        let writes_null = field.presence == Presence::Required && field.is_nullable;
        if writes_null {
            code.line(&key);
        }
        if let Some(condition) = &condition {
            code.open(format!("if ({condition}) {{"));
        }
        if !writes_null {
            code.line(&key);
        }
        put_field(code, c, field, &value);
        if condition.is_some() && writes_null {
            code.between("} else {");
            code.line("ctm_put_null(w);");
        }
        if condition.is_some() {
            code.close("}");
        }
    }
    code.line("ctm_close_map(w, &map);");
}

fn put_field(code: &mut Code, c: &C<'_>, field: &Field, value: &str) {
    match &field.kind {
        Kind::List(item) => {
            code.open("{");
            code.line("ctm_opened list = ctm_open_list(w);");
            code.open(format!("for (size_t at = 0; at < {value}_count; at++) {{"));
            code.line("ctm_put_item(w, &list);");
            let pointer = if item.record().is_some() && matches!(**item, Kind::Record(_)) { "&" } else { "" };
            put(code, c, item, &format!("{pointer}{value}[at]"));
            code.close("}");
            code.line("ctm_close_list(w, &list);");
            code.close("}");
        }
        Kind::Map(key, item) => {
            code.open("{");
            code.line("ctm_opened entries = ctm_open_map(w);");
            code.open(format!("for (size_t at = 0; at < {value}_count; at++) {{"));
            let name = format!("{value}[at].key");
            code.line(match key {
                Scalar::String => format!("ctm_put_key(w, &entries, {name});"),
                Scalar::Bool => format!("ctm_put_name(w, &entries, {name} ? \"true\" : \"false\");"),
                Scalar::Uint32 | Scalar::Fixed32 | Scalar::Uint64 | Scalar::Fixed64 => {
                    format!("ctm_put_uint_key(w, &entries, {name});")
                }
                _ => format!("ctm_put_int_key(w, &entries, {name});"),
            });
            if matches!(**item, Kind::Record(_)) {
                code.open(format!("if ({value}[at].value == NULL) {{"));
                code.line("ctm_put_null(w);");
                code.between("} else {");
                put(code, c, item, &format!("{value}[at].value"));
                code.close("}");
            } else {
                put(code, c, item, &format!("{value}[at].value"));
            }
            code.close("}");
            code.line("ctm_close_map(w, &entries);");
            code.close("}");
        }
        kind => put(code, c, kind, value),
    }
}

fn put(code: &mut Code, c: &C<'_>, kind: &Kind, value: &str) {
    code.line(match kind {
        Kind::Scalar(scalar) => {
            let function = match scalar {
                Scalar::Bool => "bool",
                Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 | Scalar::Integer => "int",
                Scalar::Uint32 | Scalar::Fixed32 => "uint",
                Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => "wide_int",
                Scalar::Uint64 | Scalar::Fixed64 => "wide_uint",
                Scalar::Float => "float",
                Scalar::Double => "double",
                Scalar::String => "string",
                Scalar::Bytes => "bytes",
                Scalar::Timestamp => "timestamp",
                Scalar::Duration => "duration",
            };
            format!("ctm_put_{function}(w, {value});")
        }
        Kind::Enum(id) => {
            format!("ctm_put_enum(w, {value}, names_{}, {});", c.enum_name(*id), c.api.enumeration(*id).values.len())
        }
        Kind::Record(id) => format!("write_{}_named(w, {value});", c.record(*id)),
        Kind::List(_) | Kind::Map(..) | Kind::Raw => format!("ctm_put_raw(w, {value});"),
    });
}

fn read(code: &mut Code, c: &C<'_>, record: &Record, members: &Members) {
    if let (true, Some(field)) = (record.is_transparent, record.fields.first()) {
        get_field(code, c, record, field, &members.fields[0]);
        return;
    }
    code.line("ctm_sequence map = ctm_map(r);");
    code.line("tw_bytes key;");
    if record.fields.is_empty() {
        code.line("(void)m;");
    }
    let required: Vec<usize> =
        (0..record.fields.len()).filter(|at| record.fields[*at].presence == Presence::Required).collect();
    for at in &required {
        code.line(format!("bool has{at} = false;"));
    }
    code.open("while (ctm_key(r, &map, &key)) {");
    if record.family == Family::Mapped {
        // Null means absent, except for untyped values.
        let open = record.fields.iter().filter(|field| field.kind == Kind::Raw);
        let mut conditions: Vec<String> =
            open.map(|field| format!("!ct_same(key, {})", string(&field.wire_name))).collect();
        conditions.push("ctm_null(r)".to_owned());
        code.open(format!("if ({}) {{", conditions.join(" && ")));
        code.line("continue;");
        code.close("}");
    }
    for (at, field) in record.fields.iter().enumerate() {
        let mut condition = format!("ct_same(key, {})", string(&field.wire_name));
        if record.family == Family::Mapped && field.name != field.wire_name {
            condition.push_str(&format!(" || ct_same(key, {})", string(&field.name)));
        }
        if at == 0 {
            code.open(format!("if ({condition}) {{"));
        } else {
            code.between(format!("}} else if ({condition}) {{"));
        }
        if required.contains(&at) {
            code.line(format!("has{at} = true;"));
        }
        if field.is_nullable && field.kind != Kind::Raw {
            code.open("if (ctm_null(r)) {");
            code.line("continue;");
            code.close("}");
        }
        match field.choice {
            Some(choice) => {
                let chosen = &members.choices[choice];
                get(code, c, &field.kind, &format!("m->{chosen}.{}", members.arms[at]), "item");
                code.line(format!("m->{chosen}_case = {};", case(c, record, choice, &members.arms[at])));
            }
            None => get_field(code, c, record, field, &members.fields[at]),
        }
    }
    if record.fields.is_empty() {
        code.line("ctm_skip(r);");
    } else {
        code.between("} else {");
        code.line("ctm_skip(r);");
        code.close("}");
    }
    code.close("}");
    for at in required {
        code.open(format!("if (!has{at}) {{"));
        code.line("ct_fail(r, CT_PAYLOAD_INVALID);");
        code.close("}");
    }
}

fn get_field(code: &mut Code, c: &C<'_>, record: &Record, field: &Field, member: &str) {
    if has_flag(field) {
        code.line(format!("m->has_{member} = true;"));
    }
    match &field.kind {
        Kind::List(item) => {
            let ty = c.ty(item);
            code.line("ctm_sequence list = ctm_list(r);");
            code.line("size_t count = ctm_count(r, list, false), at = 0;");
            code.line(format!("{ty} *items = ({ty} *)ct_alloc(r, count, sizeof *items);"));
            code.open("while (ctm_item(r, &list) && at < count) {");
            if let Kind::Record(id) = &**item {
                code.line(format!("read_{}_named(r, &items[at]);", c.record(*id)));
            } else {
                code.line(format!("items[at] = {};", get_call(c, item)));
            }
            code.line("at++;");
            code.close("}");
            code.line(format!("m->{member} = items;"));
            code.line(format!("m->{member}_count = at;"));
        }
        Kind::Map(key, item) => {
            let ty = c.entry(record, member);
            code.line("ctm_sequence entries = ctm_map(r);");
            code.line("size_t count = ctm_count(r, entries, true), at = 0;");
            code.line(format!("{ty} *items = ({ty} *)ct_alloc(r, count, sizeof *items);"));
            code.line("tw_bytes name;");
            code.open("while (ctm_key(r, &entries, &name) && at < count) {");
            code.line(format!("items[at].key = {};", key_call(*key)));
            get(code, c, item, "items[at].value", "value");
            code.line("at++;");
            code.close("}");
            code.line(format!("m->{member} = items;"));
            code.line(format!("m->{member}_count = at;"));
        }
        kind => get(code, c, kind, &format!("m->{member}"), "item"),
    }
}

/// Generates code that reads one value into `target`.
fn get(code: &mut Code, c: &C<'_>, kind: &Kind, target: &str, name: &str) {
    if let Kind::Record(id) = kind {
        let ty = c.record(*id);
        code.line(format!("{ty} *{name} = ({ty} *)ct_alloc(r, 1, sizeof *{name});"));
        code.open(format!("if ({name} != NULL) {{"));
        code.line(format!("read_{ty}_named(r, {name});"));
        code.close("}");
        code.line(format!("{target} = {name};"));
    } else {
        code.line(format!("{target} = {};", get_call(c, kind)));
    }
}

fn get_call(c: &C<'_>, kind: &Kind) -> String {
    match kind {
        Kind::Scalar(scalar) => {
            let function = match scalar {
                Scalar::Bool => "bool",
                Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => "int32",
                Scalar::Uint32 | Scalar::Fixed32 => "uint32",
                Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 | Scalar::Integer => "int64",
                Scalar::Uint64 | Scalar::Fixed64 => "uint64",
                Scalar::Float => "float",
                Scalar::Double => "double",
                Scalar::String => "string",
                Scalar::Bytes => "bytes",
                Scalar::Timestamp => "timestamp",
                Scalar::Duration => "duration",
            };
            format!("ctm_{function}(r)")
        }
        Kind::Enum(id) => {
            let enumeration = c.api.enumeration(*id);
            let is_closed = enumeration.repr == Repr::Text;
            format!("ctm_enum(r, names_{}, {}, {is_closed})", c.enum_name(*id), enumeration.values.len())
        }
        Kind::Record(_) | Kind::List(_) | Kind::Map(..) | Kind::Raw => "ctm_raw(r)".to_owned(),
    }
}

fn key_call(key: Scalar) -> &'static str {
    match key {
        Scalar::String => "name",
        Scalar::Bool => "ctm_bool_key(r, name)",
        Scalar::Uint32 | Scalar::Fixed32 => "(uint32_t)ctm_uint_key(r, name, UINT32_MAX)",
        Scalar::Uint64 | Scalar::Fixed64 => "ctm_uint_key(r, name, UINT64_MAX)",
        Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => "ctm_int_key(r, name, INT64_MIN, INT64_MAX)",
        _ => "(int32_t)ctm_int_key(r, name, INT32_MIN, INT32_MAX)",
    }
}
