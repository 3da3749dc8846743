//! `types.py`: dataclasses and enumerations, and their encoding and decoding functions.

use tautwire_contracts::Format;

use super::syntax::{LINE_MAX, Members, all_of, code, constants, doc, gap, mentions, string, suffix};
use crate::code::Code;
use crate::model::{Api, Enum, Record, Repr};
use crate::names;

/// The names that the package exports.
pub(super) fn names(api: &Api) -> Vec<String> {
    let enums = api.enums.iter().flat_map(|enumeration| {
        let all = (enumeration.repr == Repr::Text).then(|| all_of(enumeration));
        [Some(enumeration.name.clone()), all].into_iter().flatten()
    });
    let records = api.records.iter().flat_map(|record| {
        let choices = record.choices.iter().map(|choice| choice.type_name.clone());
        std::iter::once(record.name.clone()).chain(choices)
    });
    enums.chain(records).collect()
}

pub(super) fn generate(api: &Api) -> String {
    let mut body = code();
    for enumeration in &api.enums {
        gap(&mut body);
        match enumeration.repr {
            Repr::Text => text_enum(&mut body, enumeration),
            Repr::OpenNumber | Repr::ClosedNumber => number_enum(&mut body, enumeration),
        }
    }
    for record in &api.records {
        gap(&mut body);
        dataclass(&mut body, api, record);
    }
    for record in &api.records {
        choices(&mut body, api, record);
    }
    for record in &api.records {
        if record.formats.contains(&Format::Protobuf) {
            gap(&mut body);
            super::protobuf::functions(&mut body, api, record);
        }
        if record.formats.iter().any(|format| *format != Format::Protobuf) {
            gap(&mut body);
            super::mapping::functions(&mut body, api, record);
        }
    }
    let body = body.finish();
    let mut out = code();
    out.line("\"\"\"The types of all contracts.\"\"\"");
    out.blank();
    // Aliases that no attribute and no type uses.
    out.line("from __future__ import annotations");
    out.blank();
    for (module, alias) in [("dataclasses", "_dataclasses"), ("enum", "_enum"), ("typing", "_t")] {
        if mentions(&body, alias) {
            out.line(format!("import {module} as {alias}"));
        }
    }
    out.blank();
    for (module, alias) in [("mapping", "_mapping"), ("payload", "_payload"), ("protobuf", "_protobuf")] {
        if mentions(&body, alias) {
            out.line(format!("from . import {module} as {alias}"));
        }
    }
    format!("{}\n\n{body}", out.finish())
}

fn number_enum(code: &mut Code, enumeration: &Enum) {
    let name = &enumeration.name;
    code.open(format!("class {name}(_enum.IntEnum):"));
    let others = if enumeration.repr == Repr::OpenNumber { " Newer schemas may add other numbers." } else { "" };
    doc(code, &format!("{}{others}", enumeration.doc));
    code.blank();
    for (constant, number) in constants(enumeration) {
        code.line(format!("{constant} = {number}"));
    }
    code.close_silently();
    gap(code);
    let table = names::upper(name);
    code.line(format!("_{table}_NUMBERS: dict[int, {name}] = {{one.value: one for one in {name}}}"));
    if enumeration.is_named {
        code.open(format!("_{table}_NAMED: dict[str, {name}] = {{"));
        for (value, (constant, _)) in enumeration.values.iter().zip(constants(enumeration)) {
            code.line(format!("{}: {name}.{constant},", string(&value.wire_name)));
        }
        code.close("}");
        code.open(format!("_{table}_NAMES: dict[int, str] = {{"));
        let mut met = std::collections::BTreeSet::new();
        for value in enumeration.values.iter().filter(|value| met.insert(value.number)) {
            code.line(format!("{}: {},", value.number, string(&value.wire_name)));
        }
        code.close("}");
    }
    gap(code);
    if enumeration.repr == Repr::OpenNumber {
        code.open(format!("def number_{}(number: int) -> _t.Union[{name}, int]:", suffix(name)));
        doc(code, "The constant of a number, or the number.");
        code.line(format!("return _{table}_NUMBERS.get(number, number)"));
    } else {
        code.open(format!("def number_{}(number: int) -> _t.Optional[{name}]:", suffix(name)));
        doc(code, "The constant of a number; `None` for others.");
        code.line(format!("return _{table}_NUMBERS.get(number)"));
    }
    code.close_silently();
}

fn text_enum(code: &mut Code, enumeration: &Enum) {
    let name = &enumeration.name;
    let texts: Vec<String> = enumeration.values.iter().map(|value| string(&value.wire_name)).collect();
    several(code, &format!("{name} = _t.Literal["), &texts, "]");
    doc(code, &enumeration.doc);
    several(code, &format!("{}: tuple[{name}, ...] = (", all_of(enumeration)), &texts, ")");
    doc(code, "All values.");
    let read = format!("_{}_READ: _t.Callable[[object], {name}]", names::upper(name));
    code.line(format!("{read} = _mapping.one_of({})", all_of(enumeration)));
}

/// Adds items in brackets, on one line or several.
fn several(code: &mut Code, start: &str, items: &[String], end: &str) {
    let line = format!("{start}{}{}{end}", items.join(", "), if items.len() == 1 && end == ")" { "," } else { "" });
    if line.len() <= LINE_MAX {
        code.line(line);
        return;
    }
    code.open(start);
    items.iter().for_each(|item| code.line(format!("{item},")));
    code.close(end);
}

fn dataclass(code: &mut Code, api: &Api, record: &Record) {
    let members = Members::of(record);
    code.line("@_dataclasses.dataclass");
    code.open(format!("class {}:", record.name));
    doc(code, &record.doc);
    let mut declared: Vec<(String, &str)> = Vec::new();
    // Attributes without a default come first.
    for is_given in [true, false] {
        for (field, member) in record.fields.iter().zip(&members.fields).filter(|(field, _)| field.choice.is_none()) {
            let (ty, default) = api.declaration(record, field);
            if default.is_none() == is_given {
                let default = default.map(|default| format!(" = {default}")).unwrap_or_default();
                declared.push((format!("{member}: {ty}{default}"), &field.doc));
            }
        }
    }
    let docs: Vec<String> =
        record.choices.iter().map(|choice| format!("The oneof `{}`: one of these.", choice.name)).collect();
    for ((choice, member), about) in record.choices.iter().zip(&members.choices).zip(&docs) {
        declared.push((format!("{member}: _t.Optional[{}] = None", choice.type_name), about));
    }
    if !declared.is_empty() {
        code.blank();
    }
    for (line, about) in declared {
        code.line(line);
        doc(code, about);
    }
    code.close_silently();
}

/// The types of oneofs: a string that selects the field, and its value.
fn choices(code: &mut Code, api: &Api, record: &Record) {
    let members = Members::of(record);
    for (at, choice) in record.choices.iter().enumerate() {
        gap(code);
        let arms = record.fields.iter().zip(&members.fields).filter(|(field, _)| field.choice == Some(at));
        let arms: Vec<String> = arms
            .map(|(field, member)| format!("tuple[_t.Literal[{}], {}]", string(member), api.python_type(&field.kind)))
            .collect();
        several(code, &format!("{} = _t.Union[", choice.type_name), &arms, "]");
        doc(code, &format!("One field of the oneof `{}`, by its name.", choice.name));
    }
}
