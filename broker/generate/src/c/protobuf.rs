//! Functions for the binary form.

use super::syntax::{C, Members, condition, has_flag};
use crate::code::Code;
use crate::model::{Field, Kind, Presence, Record, Repr, Scalar};
use crate::names;

pub(super) fn functions(code: &mut Code, c: &C<'_>, record: &Record) {
    let ty = c.record_name(record);
    let members = Members::of(record);
    code.open(format!("static void write_{ty}(ct_writer *w, const {ty} *m) {{"));
    if record.fields.is_empty() {
        code.line("(void)w;\n(void)m;");
    }
    for at in 0..record.fields.len() {
        write_field(code, c, record, &members, at);
    }
    code.close("}");
    code.blank();
    code.open(format!("static void read_{ty}(ct_reader *r, {ty} *m) {{"));
    read(code, c, record, &members);
    code.close("}");
}

fn write_field(code: &mut Code, c: &C<'_>, record: &Record, members: &Members, at: usize) {
    let field = &record.fields[at];
    let member = &members.fields[at];
    let value = format!("m->{member}");
    match (&field.kind, field.choice) {
        (Kind::List(item), _) if field.is_packed => {
            code.open(format!("if ({value}_count > 0) {{"));
            code.line("size_t start;");
            code.line(format!("ctp_put_tag(w, {});", field.tag(2)));
            code.line("start = ctp_open(w);");
            code.open(format!("for (size_t at = 0; at < {value}_count; at++) {{"));
            code.line(put(item, &format!("{value}[at]")));
            code.close("}");
            code.line("ctp_close(w, start);");
            code.close("}");
        }
        (Kind::List(item), _) => {
            code.open(format!("for (size_t at = 0; at < {value}_count; at++) {{"));
            let item_value = if item.record().is_some() { format!("&{value}[at]") } else { format!("{value}[at]") };
            put_tagged(code, c, item, field.tag(item.wire_type()), &item_value);
            code.close("}");
        }
        (Kind::Map(key, item), _) => {
            code.open(format!("for (size_t at = 0; at < {value}_count; at++) {{"));
            code.line("size_t entry;");
            code.line(format!("ctp_put_tag(w, {});", field.tag(2)));
            code.line("entry = ctp_open(w);");
            let key = Kind::Scalar(*key);
            put_tagged(code, c, &key, 8 | key.wire_type(), &format!("{value}[at].key"));
            if item.record().is_some() {
                code.open(format!("if ({value}[at].value != NULL) {{"));
                put_tagged(code, c, item, 16 | item.wire_type(), &format!("{value}[at].value"));
                code.close("}");
            } else {
                put_tagged(code, c, item, 16 | item.wire_type(), &format!("{value}[at].value"));
            }
            code.line("ctp_close(w, entry);");
            code.close("}");
        }
        (kind, Some(choice)) => {
            let chosen = &members.choices[choice];
            let value = format!("m->{chosen}.{}", members.arms[at]);
            let mut condition = format!("m->{chosen}_case == {}", case(c, record, choice, &members.arms[at]));
            if kind.record().is_some() {
                condition.push_str(&format!(" && {value} != NULL"));
            }
            code.open(format!("if ({condition}) {{"));
            put_tagged(code, c, kind, field.tag(kind.wire_type()), &value);
            code.close("}");
        }
        (kind, None) => {
            let condition = condition(field, &value, member);
            if let Some(condition) = &condition {
                code.open(format!("if ({condition}) {{"));
            }
            put_tagged(code, c, kind, field.tag(kind.wire_type()), &value);
            if condition.is_some() {
                code.close("}");
            }
        }
    }
}

/// The constant for the field of a oneof that is set.
pub(super) fn case(c: &C<'_>, record: &Record, choice: usize, arm: &str) -> String {
    let ty = format!("{}_{}", c.package, names::snake(&record.choices[choice].type_name));
    format!("{}_{}", names::upper(&ty), arm.to_ascii_uppercase())
}

fn put_tagged(code: &mut Code, c: &C<'_>, kind: &Kind, tag: u32, value: &str) {
    if let Kind::Record(id) = kind {
        code.line(format!("ctp_put_tag(w, {tag});"));
        code.open("{");
        code.line("size_t start = ctp_open(w);");
        code.line(format!("write_{}(w, {value});", c.record(*id)));
        code.line("ctp_close(w, start);");
        code.close("}");
    } else {
        code.line(format!("ctp_put_tag(w, {tag});"));
        code.line(put(kind, value));
    }
}

fn put(kind: &Kind, value: &str) -> String {
    format!("ctp_put_{}(w, {value});", kind.binary_name())
}

fn read(code: &mut Code, c: &C<'_>, record: &Record, members: &Members) {
    let numbers: Vec<String> = record.fields.iter().map(|field| format!("{}", field.number)).collect();
    if record.fields.is_empty() {
        code.line("uint32_t tag;");
        code.line("(void)m;");
        code.line("while ((tag = ctp_tag(r)) != 0) {\n    ctp_skip(r, tag);\n}");
        return;
    }
    code.line(format!("static const uint32_t numbers[] = {{{}}};", numbers.join(", ")));
    code.line("uint32_t tag;");
    let required: Vec<&Field> = record.fields.iter().filter(|field| field.presence == Presence::Required).collect();
    for field in &required {
        code.line(format!("bool has{} = false;", field.number));
    }
    count_items(code, c, record, members);
    code.open("while ((tag = ctp_tag(r)) != 0) {");
    code.line("switch (tag) {");
    for at in 0..record.fields.len() {
        read_field(code, c, record, members, at);
    }
    code.line(format!("default: ctp_unknown(r, tag, numbers, {}); break;", numbers.len()));
    code.line("}");
    code.close("}");
    for field in required {
        code.open(format!("if (!has{}) {{", field.number));
        code.line("ct_fail(r, CT_PAYLOAD_INVALID);");
        code.close("}");
    }
}

/// Generates code that counts the items of each list and allocates memory for them: lists may be split.
fn count_items(code: &mut Code, c: &C<'_>, record: &Record, members: &Members) {
    let lists: Vec<usize> = (0..record.fields.len()).filter(|at| record.fields[*at].kind.is_sequence()).collect();
    if lists.is_empty() {
        return;
    }
    let item = |at: usize| match &record.fields[at].kind {
        Kind::List(item) => c.ty(item),
        _ => c.entry(record, &members.fields[at]),
    };
    for at in &lists {
        code.line(format!("{} *list{};", item(*at), record.fields[*at].number));
    }
    code.line(format!("size_t counts[{}] = {{0}};", lists.len()));
    code.line("size_t start = r->at;");
    code.open("while ((tag = ctp_tag(r)) != 0) {");
    code.line("switch (tag) {");
    for (place, at) in lists.iter().enumerate() {
        let field = &record.fields[*at];
        let own = match &field.kind {
            Kind::List(item) => item.wire_type(),
            _ => 2,
        };
        code.open(format!("case {}:", field.tag(own)));
        code.line(format!("counts[{place}]++;"));
        code.line("ctp_skip(r, tag);");
        code.line("break;");
        code.close_silently();
        if own != 2 {
            let size = match own {
                1 => 8,
                5 => 4,
                _ => 0,
            };
            code.line(format!("case {}: counts[{place}] += ctp_count_packed(r, {size}); break;", field.tag(2)));
        }
    }
    code.line("default: ctp_skip(r, tag); break;");
    code.line("}");
    code.close("}");
    for (place, at) in lists.iter().enumerate() {
        let (number, member) = (record.fields[*at].number, &members.fields[*at]);
        code.line(format!(
            "list{number} = ({} *)ct_grow(r, m->{member}, m->{member}_count, counts[{place}], sizeof *list{number});",
            item(*at)
        ));
        code.line(format!("m->{member} = list{number};"));
    }
    code.open("if (r->error != 0) {");
    for at in &lists {
        code.line(format!("m->{}_count = 0;", members.fields[*at]));
    }
    code.line("return;");
    code.close("}");
    code.line("r->at = start;");
}

fn read_field(code: &mut Code, c: &C<'_>, record: &Record, members: &Members, at: usize) {
    let field = &record.fields[at];
    let member = &members.fields[at];
    match (&field.kind, field.choice) {
        (Kind::List(item), _) => {
            let list = format!("list{}[m->{member}_count", field.number);
            code.open(format!("case {}: {{", field.tag(item.wire_type())));
            read_item(code, c, item, &list);
            code.line("break;");
            code.close("}");
            if item.wire_type() != 2 {
                code.open(format!("case {}: {{", field.tag(2)));
                code.line("size_t outer = ctp_enter(r);");
                code.open("while (ctp_more(r)) {");
                read_item(code, c, item, &list);
                code.close("}");
                code.line("ctp_leave(r, outer);");
                code.line("break;");
                code.close("}");
            }
        }
        (Kind::Map(key, item), _) => {
            code.open(format!("case {}: {{", field.tag(2)));
            read_entry(code, c, *key, item, &c.entry(record, member), field, member);
            code.line("break;");
            code.close("}");
        }
        (kind, choice) => {
            code.open(format!("case {}: {{", field.tag(kind.wire_type())));
            match choice {
                Some(choice) => {
                    let chosen = &members.choices[choice];
                    let constant = case(c, record, choice, &members.arms[at]);
                    let target = format!("m->{chosen}.{}", members.arms[at]);
                    let existing = format!("m->{chosen}_case == {constant} ? {target} : NULL");
                    let lines = [format!("{target} = item;"), format!("m->{chosen}_case = {constant};")];
                    read_one(code, c, kind, &existing, &lines);
                }
                None => {
                    let target = format!("m->{member}");
                    let mut lines = vec![format!("{target} = item;")];
                    if has_flag(field) {
                        lines.push(format!("m->has_{member} = true;"));
                    }
                    // A number that a closed enumeration does not have counts as absent.
                    if field.presence == Presence::Required {
                        lines.push(format!("has{} = true;", field.number));
                    }
                    read_one(code, c, kind, &target, &lines);
                }
            }
            code.line("break;");
            code.close("}");
        }
    }
}

/// Generates code that reads one value as `item`; a record is merged into the `existing` one. Then come `lines`, if its enumeration has the
/// value.
fn read_one(code: &mut Code, c: &C<'_>, kind: &Kind, existing: &str, lines: &[String]) {
    if let Kind::Record(id) = kind {
        let ty = c.record(*id);
        code.line(format!("const {ty} *before = {existing};"));
        code.line(format!("{ty} *item = ({ty} *)ct_grow(r, before, before != NULL, before == NULL, sizeof *item);"));
        code.line("size_t outer = ctp_enter(r);");
        code.open("if (item != NULL) {");
        code.line(format!("read_{ty}(r, item);"));
        code.close("}");
        code.line("ctp_leave(r, outer);");
        lines.iter().for_each(|line| code.line(line));
        return;
    }
    code.line(format!("{} item = ctp_{}(r);", c.ty(kind), kind.binary_name()));
    if_known(code, c, kind, "item", lines);
}

fn if_known(code: &mut Code, c: &C<'_>, kind: &Kind, value: &str, lines: &[String]) {
    let known = known(c, kind, value);
    if let Some(condition) = &known {
        code.open(format!("if ({condition}) {{"));
    }
    lines.iter().for_each(|line| code.line(line));
    if known.is_some() {
        code.close("}");
    }
}

/// The condition that a closed enumeration has a number.
fn known(c: &C<'_>, kind: &Kind, value: &str) -> Option<String> {
    let Kind::Enum(id) = kind else { return None };
    let enumeration = c.api.enumeration(*id);
    if enumeration.repr != Repr::ClosedNumber {
        return None;
    }
    let numbers: std::collections::BTreeSet<i32> = enumeration.values.iter().map(|value| value.number).collect();
    Some(numbers.iter().map(|number| format!("{value} == {number}")).collect::<Vec<_>>().join(" || "))
}

fn read_item(code: &mut Code, c: &C<'_>, item: &Kind, list: &str) {
    if let Kind::Record(id) = item {
        code.line("size_t outer = ctp_enter(r);");
        code.line(format!("read_{}(r, &{list}++]);", c.record(*id)));
        code.line("ctp_leave(r, outer);");
    } else {
        code.line(format!("{} item = ctp_{}(r);", c.ty(item), item.binary_name()));
        code.open(match known(c, item, "item") {
            Some(condition) => format!("if (r->error == 0 && ({condition})) {{"),
            None => "if (r->error == 0) {".to_owned(),
        });
        code.line(format!("{list}++] = item;"));
        code.close("}");
    }
}

fn read_entry(code: &mut Code, c: &C<'_>, key: Scalar, item: &Kind, ty: &str, field: &Field, member: &str) {
    let key = Kind::Scalar(key);
    code.line("static const uint32_t parts[] = {1, 2};");
    code.line(format!("{ty} *entry = &list{}[m->{member}_count];", field.number));
    let inner = match item {
        Kind::Record(id) => {
            let inner = c.record(*id);
            code.line(format!("{inner} *value = ({inner} *)ct_alloc(r, 1, sizeof *value);"));
            true
        }
        _ => false,
    };
    code.line("size_t outer = ctp_enter(r);");
    if inner {
        code.line("entry->value = value;");
    } else if let Some(first) = closed_first(c, item) {
        code.line(format!("entry->value = {first};"));
    }
    code.open("while ((tag = ctp_tag(r)) != 0) {");
    code.line("switch (tag) {");
    code.line(format!("case {}: entry->key = ctp_{}(r); break;", 8 | key.wire_type(), key.binary_name()));
    let tag = 16 | item.wire_type();
    if let Kind::Record(id) = item {
        code.open(format!("case {tag}: {{"));
        code.line("size_t end = ctp_enter(r);");
        code.open("if (value != NULL) {");
        code.line(format!("read_{}(r, value);", c.record(*id)));
        code.close("}");
        code.line("ctp_leave(r, end);");
        code.line("break;");
        code.close("}");
    } else {
        code.line(format!("case {tag}: entry->value = ctp_{}(r); break;", item.binary_name()));
    }
    code.line("default: ctp_unknown(r, tag, parts, 2); break;");
    code.line("}");
    code.close("}");
    code.line("ctp_leave(r, outer);");
    let condition = known(c, item, "entry->value").map(|known| format!(" && ({known})")).unwrap_or_default();
    code.open(format!("if (r->error == 0{condition}) {{"));
    code.line(format!("m->{member}_count++;"));
    code.close("}");
}

fn closed_first(c: &C<'_>, kind: &Kind) -> Option<i32> {
    match kind {
        Kind::Enum(id) if c.api.enumeration(*id).repr == Repr::ClosedNumber => Some(c.api.enumeration(*id).default),
        _ => None,
    }
}
