//! `types.go`: structures and enumerations.

use tautwire_contracts::Format;

use super::syntax::{Go, code, members, string, variable, with_imports};
use crate::code::Code;
use crate::model::{Enum, Record, Repr};
use crate::names;

pub(super) fn generate(go: &Go<'_>) -> String {
    let mut code = code();
    for enumeration in &go.api.enums {
        code.blank();
        enum_of(&mut code, enumeration);
    }
    for record in &go.api.records {
        code.blank();
        structure(&mut code, go, record);
        if record.formats.contains(&Format::Protobuf) {
            code.blank();
            super::protobuf::methods(&mut code, go, record);
        }
        if record.formats.iter().any(|format| *format != Format::Protobuf) {
            code.blank();
            super::mapping::methods(&mut code, go, record);
        }
    }
    with_imports(&code.finish())
}

/// The beginning of a doc comment with the name of its item.
fn doc(code: &mut Code, name: &str, text: &str) {
    code.comment("// ", &format!("{name}: {}", lower_first(text)));
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    match (characters.next(), text.chars().nth(1)) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().to_string() + characters.as_str()
        }
        _ => text.to_owned(),
    }
}

fn enum_of(code: &mut Code, enumeration: &Enum) {
    let name = names::go(&enumeration.name);
    doc(code, &name, &enumeration.doc);
    if enumeration.repr == Repr::OpenNumber {
        code.line("// Newer schemas may add other numbers.");
    }
    let base = if enumeration.repr == Repr::Text { "string" } else { "int32" };
    code.line(format!("type {name} {base}"));
    code.blank();
    code.line(format!("// The values of {name}."));
    code.open("const (");
    let mut scope = names::Scope::default();
    let constants: Vec<String> =
        enumeration.values.iter().map(|value| scope.take(format!("{name}{}", names::go(&value.name)))).collect();
    let rows = enumeration.values.iter().zip(&constants).map(|(value, constant)| {
        let number = if enumeration.repr == Repr::Text { string(&value.wire_name) } else { value.number.to_string() };
        vec![constant.clone(), name.clone(), format!("= {number}")]
    });
    code.columns(&rows.collect::<Vec<_>>());
    code.close(")");
    let variable = variable(&name);
    match enumeration.repr {
        Repr::Text => {
            code.blank();
            code.line(format!("var {variable}All = []{name}{{"));
            constants.iter().for_each(|constant| code.line(format!("\t{constant},")));
            code.line("}");
        }
        Repr::OpenNumber | Repr::ClosedNumber => {
            let mut met = std::collections::BTreeSet::new();
            let first = enumeration.values.iter().filter(|value| met.insert(value.number)).collect::<Vec<_>>();
            if enumeration.is_named || enumeration.repr == Repr::ClosedNumber {
                code.blank();
                code.line(format!("var {variable}Names = map[{name}]string{{"));
                let rows = first
                    .iter()
                    .map(|value| vec![format!("\t{}:", value.number), format!("{},", string(&value.wire_name))]);
                code.columns(&rows.collect::<Vec<_>>());
                code.line("}");
            }
            if enumeration.is_named {
                code.blank();
                code.line(format!("var {variable}Numbers = map[string]{name}{{"));
                let rows = enumeration
                    .values
                    .iter()
                    .map(|value| vec![format!("\t{}:", string(&value.wire_name)), format!("{},", value.number)]);
                code.columns(&rows.collect::<Vec<_>>());
                code.line("}");
            }
        }
    }
}

fn structure(code: &mut Code, go: &Go<'_>, record: &Record) {
    let name = names::go(&record.name);
    doc(code, &name, &record.doc);
    let (fields, choices) = members(record);
    if record.fields.is_empty() {
        code.line(format!("type {name} struct{{}}"));
        return;
    }
    code.open(format!("type {name} struct {{"));
    for (field, member) in record.fields.iter().zip(&fields).filter(|(field, _)| field.choice.is_none()) {
        code.comment("// ", &field.doc);
        code.line(format!("{member} {}", go.field_type(field)));
    }
    for (choice, member) in record.choices.iter().zip(&choices) {
        code.line(format!("// The oneof `{}`: nil, or one of the types that have its method.", choice.name));
        code.line(format!("{member} {}", names::go(&choice.type_name)));
    }
    code.close("}");
    for (at, choice) in record.choices.iter().enumerate() {
        let interface = names::go(&choice.type_name);
        code.blank();
        code.line(format!("// {interface} is a field of the oneof `{}`.", choice.name));
        code.line(format!("type {interface} interface{{ is{interface}() }}"));
        for field in record.fields.iter().filter(|field| field.choice == Some(at)) {
            let arm = go.arm(record, field);
            let pointer = if field.kind.record().is_some() { "*" } else { "" };
            code.blank();
            doc(code, arm, &field.doc);
            code.line(format!("type {arm} struct{{ Value {pointer}{} }}", go.ty(&field.kind)));
            code.blank();
            code.line(format!("func ({arm}) is{interface}() {{}}"));
        }
    }
}
