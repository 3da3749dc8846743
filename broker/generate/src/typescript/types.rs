//! `types.ts`: interfaces, and their encoding and decoding functions.

use tautwire_contracts::Format;

use super::syntax::{
    choice_name, code, constant, constants, empty, import, is_always_there, mentions, property, string,
};
use crate::code::Code;
use crate::model::{Api, Enum, Family, Field, Record, Repr};

pub(super) fn generate(api: &Api) -> String {
    let mut body = code();
    for enumeration in &api.enums {
        body.blank();
        enum_of(&mut body, enumeration);
    }
    for record in &api.records {
        body.blank();
        interface(&mut body, api, record);
        if record.family != Family::Plain {
            body.blank();
            create(&mut body, api, record);
        }
        if record.formats.contains(&Format::Protobuf) {
            body.blank();
            super::protobuf::functions(&mut body, api, record);
        }
        if record.formats.iter().any(|format| *format != Format::Protobuf) {
            body.blank();
            super::mapping::functions(&mut body, api, record);
        }
    }
    let body = body.finish();
    let mut out = code();
    let used = |names: &[&str]| {
        names.iter().filter(|name| mentions(&body, name)).map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    if api.needs_names() && mentions(&body, "mapping") {
        out.line("import * as mapping from \"./mapping.js\";");
    }
    let types: Vec<String> = used(&["Duration", "Timestamp"]).iter().map(|name| format!("type {name}")).collect();
    let errors = used(&["PayloadError"]);
    import(&mut out, &[types, errors].concat(), "./payload.js");
    let types: Vec<String> = used(&["Reader", "Writer"]).iter().map(|name| format!("type {name}")).collect();
    import(&mut out, &types, "./protobuf.js");
    out.blank();
    let head = out.finish();
    if head.trim().is_empty() { body } else { format!("{head}\n{body}") }
}

fn enum_of(code: &mut Code, enumeration: &Enum) {
    let name = &enumeration.name;
    code.line(format!("/** {} */", enumeration.doc));
    if enumeration.repr == Repr::Text {
        let texts: Vec<String> = enumeration.values.iter().map(|value| string(&value.wire_name)).collect();
        let line = format!("export type {name} = {};", texts.join(" | "));
        if line.len() <= 120 {
            code.line(line);
        } else {
            code.open(format!("export type {name} ="));
            for (at, text) in texts.iter().enumerate() {
                let end = if at + 1 == texts.len() { ";" } else { "" };
                code.line(format!("| {text}{end}"));
            }
            code.close_silently();
        }
        code.blank();
        code.line("/** All values. */");
        let name = constant(name);
        let line = format!("export const {name}_ALL = [{}] as const;", texts.join(", "));
        if line.len() <= 120 {
            code.line(line);
        } else {
            code.open(format!("export const {name}_ALL = ["));
            texts.iter().for_each(|text| code.line(format!("{text},")));
            code.close("] as const;");
        }
        return;
    }
    let others = if enumeration.repr == Repr::OpenNumber { " Newer schemas may add other numbers." } else { "" };
    let constants = constants(&enumeration.values);
    code.open(format!("export const {name} = {{"));
    for (constant, number) in &constants {
        code.line(format!("{constant}: {number},"));
    }
    code.close("} as const;");
    code.blank();
    code.line(format!("/** A number of {name}.{others} */"));
    code.line(format!("export type {name} = number;"));
    if enumeration.is_named {
        code.blank();
        let upper = constant(name);
        code.open(format!("const {upper}_NUMBERS: Readonly<Record<string, number>> = {{"));
        for value in &enumeration.values {
            code.line(format!("{}: {},", value.wire_name, value.number));
        }
        code.close("};");
        code.blank();
        code.open(format!("const {upper}_NAMES: ReadonlyMap<number, string> = new Map(["));
        let mut met = std::collections::BTreeSet::new();
        for value in enumeration.values.iter().filter(|value| met.insert(value.number)) {
            code.line(format!("[{}, {}],", value.number, string(&value.wire_name)));
        }
        code.close("]);");
    }
    if enumeration.repr == Repr::ClosedNumber {
        code.blank();
        let numbers: std::collections::BTreeSet<i32> = enumeration.values.iter().map(|value| value.number).collect();
        let numbers: Vec<String> = numbers.iter().map(i32::to_string).collect();
        code.line(format!("const {}_KNOWN: readonly number[] = [{}];", constant(name), numbers.join(", ")));
    }
}

fn interface(code: &mut Code, api: &Api, record: &Record) {
    code.line(format!("/** {} */", record.doc));
    if record.fields.is_empty() {
        code.line(format!("export type {} = Record<string, never>;", record.name));
        return;
    }
    code.open(format!("export interface {} {{", record.name));
    for field in record.fields.iter().filter(|field| field.choice.is_none()) {
        code.line(format!("/** {} */", field.doc));
        code.line(format!("{};", declaration(api, record, field)));
    }
    for at in 0..record.choices.len() {
        let arms = record.fields.iter().filter(|field| field.choice == Some(at));
        let arms = arms.map(|field| {
            let ty = api.ts_type(&field.kind, false);
            format!("{{ case: {}; value: {ty} }}", string(&field.wire_name))
        });
        let arms: Vec<String> = arms.collect();
        code.line(format!("/** The oneof `{}`: one of these. */", record.choices[at].name));
        let name = property(&choice_name(record, at));
        let line = format!("{name}?: {} | undefined;", arms.join(" | "));
        if line.len() <= 118 {
            code.line(line);
        } else {
            code.open(format!("{name}?:"));
            arms.iter().for_each(|arm| code.line(format!("| {arm}")));
            code.line("| undefined;");
            code.close_silently();
        }
    }
    code.close("}");
}

fn declaration(api: &Api, record: &Record, field: &Field) -> String {
    let ty = api.ts_type(&field.kind, record.family == Family::Plain);
    let null = if field.is_nullable { " | null" } else { "" };
    let name = property(&field.wire_name);
    if is_always_there(field) { format!("{name}: {ty}{null}") } else { format!("{name}?: {ty}{null} | undefined") }
}

/// A function that creates a value with defaults for missing fields.
fn create(code: &mut Code, api: &Api, record: &Record) {
    let name = &record.name;
    code.line("/** Creates a value with these fields; zeros and empty lists for the others. */");
    if record.fields.is_empty() {
        code.open(format!("export function create{name}(): {name} {{"));
        code.line("return {};");
        code.close("}");
        return;
    }
    code.open(format!("export function create{name}(fields: Partial<{name}> = {{}}): {name} {{"));
    let always: Vec<&Field> =
        record.fields.iter().filter(|field| field.choice.is_none() && is_always_there(field)).collect();
    if always.is_empty() {
        code.line("return { ...fields };");
    } else {
        code.open("return {");
        for field in always {
            code.line(format!("{}: {},", property(&field.wire_name), empty(api, &field.kind)));
        }
        code.line("...fields,");
        code.close("};");
    }
    code.close("}");
}
