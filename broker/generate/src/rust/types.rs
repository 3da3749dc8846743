//! `types.rs`: structures and enumerations.

use tautwire_contracts::Format;

use super::syntax::{Members, code, string};
use crate::code::Code;
use crate::model::{Api, Enum, Record, Repr};
use crate::names;

pub(super) fn generate(api: &Api) -> String {
    let mut body = code();
    for enumeration in &api.enums {
        body.blank();
        match enumeration.repr {
            Repr::Text => text_enum(&mut body, enumeration),
            Repr::OpenNumber | Repr::ClosedNumber => number_enum(&mut body, enumeration),
        }
    }
    for record in &api.records {
        body.blank();
        structure(&mut body, api, record);
        if record.formats.contains(&Format::Protobuf) {
            body.blank();
            super::protobuf::methods(&mut body, api, record);
        }
        if record.formats.iter().any(|format| *format != Format::Protobuf) {
            body.blank();
            super::mapping::methods(&mut body, api, record);
        }
    }
    let body = body.finish();
    let mentions = |name: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        body.match_indices(name)
            .any(|(at, _)| !body[..at].ends_with(is_part) && !body[at + name.len()..].starts_with(is_part))
    };
    let mut out = code();
    out.line("//! The types of all contracts.");
    out.blank();
    if mentions("BTreeMap") {
        out.line("use std::collections::BTreeMap;");
        out.blank();
    }
    let mut import = |module: &str, names: &[&str]| {
        let names: Vec<&str> = names.iter().copied().filter(|name| mentions(name)).collect();
        match &names[..] {
            [] => {}
            [one] => out.line(format!("use super::{module}::{one};")),
            several => out.line(format!("use super::{module}::{{{}}};", several.join(", "))),
        }
    };
    import("json", &["JsonSink", "JsonSource"]);
    import("mapping", &["Read", "Sink", "Source"]);
    import("messagepack", &["MessagePackSink", "MessagePackSource"]);
    import("payload", &["Duration", "PayloadError", "Raw", "Timestamp"]);
    import("protobuf", &["Reader", "Writer"]);
    out.blank();
    format!("{}\n{body}", out.finish())
}

fn doc(code: &mut Code, text: &str) {
    // Brackets would be links.
    code.comment("/// ", &text.replace('[', "\\[").replace('<', "\\<"));
}

fn number_enum(code: &mut Code, enumeration: &Enum) {
    let name = &enumeration.name;
    doc(code, &enumeration.doc);
    if enumeration.repr == Repr::OpenNumber {
        code.line("/// Newer schemas may add other numbers.");
    }
    let default = if enumeration.default == 0 { "Default, " } else { "" };
    code.line(format!("#[derive(Debug, Clone, Copy, {default}PartialEq, Eq, PartialOrd, Ord, Hash)]"));
    code.line(format!("pub struct {name}(pub i32);"));
    code.blank();
    code.open(format!("impl {name} {{"));
    let mut scope = names::Scope::default();
    for value in &enumeration.values {
        code.line(format!("/// `{}`", value.wire_name));
        code.line(format!("pub const {}: {name} = {name}({});", scope.take(names::upper(&value.name)), value.number));
    }
    if enumeration.repr == Repr::ClosedNumber || enumeration.is_named {
        code.blank();
        code.line("/// The name of the number, if it has one.");
        code.open("pub fn name(self) -> Option<&'static str> {");
        code.open("Some(match self.0 {");
        let mut met = std::collections::BTreeSet::new();
        for value in enumeration.values.iter().filter(|value| met.insert(value.number)) {
            code.line(format!("{} => {},", value.number, string(&value.wire_name)));
        }
        code.line("_ => return None,");
        code.close("})");
        code.close("}");
    }
    if enumeration.is_named {
        code.blank();
        code.line("/// The number of a name.");
        code.open(format!("pub fn named(name: &str) -> Option<{name}> {{"));
        code.open("Some(match name {");
        for value in &enumeration.values {
            code.line(format!("{} => {name}({}),", string(&value.wire_name), value.number));
        }
        code.line("_ => return None,");
        code.close("})");
        code.close("}");
    }
    code.close("}");
    if enumeration.default == 0 {
        return;
    }
    code.blank();
    code.open(format!("impl Default for {name} {{"));
    code.open(format!("fn default() -> {name} {{"));
    code.line(format!("{name}({})", enumeration.default));
    code.close("}");
    code.close("}");
}

fn text_enum(code: &mut Code, enumeration: &Enum) {
    let name = &enumeration.name;
    doc(code, &enumeration.doc);
    code.line("#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]");
    code.open(format!("pub enum {name} {{"));
    let mut scope = names::Scope::without(&["Self"]);
    let variants: Vec<String> = enumeration.values.iter().map(|value| scope.take(names::pascal(&value.name))).collect();
    for (at, (variant, value)) in variants.iter().zip(&enumeration.values).enumerate() {
        doc(code, &format!("The text {}.", string(&value.wire_name)));
        if at == 0 {
            code.line("#[default]");
        }
        code.line(format!("{variant},"));
    }
    code.close("}");
    code.blank();
    code.open(format!("impl {name} {{"));
    code.line("/// The text of the value.");
    code.open("pub fn as_str(self) -> &'static str {");
    code.open("match self {");
    for (variant, value) in variants.iter().zip(&enumeration.values) {
        code.line(format!("{name}::{variant} => {},", string(&value.wire_name)));
    }
    code.close("}");
    code.close("}");
    code.blank();
    code.line("/// The value of a text.");
    code.open(format!("pub fn named(text: &str) -> Option<{name}> {{"));
    code.open("Some(match text {");
    for (variant, value) in variants.iter().zip(&enumeration.values) {
        code.line(format!("{} => {name}::{variant},", string(&value.wire_name)));
    }
    code.line("_ => return None,");
    code.close("})");
    code.close("}");
    code.close("}");
}

fn structure(code: &mut Code, api: &Api, record: &Record) {
    let members = Members::of(record);
    doc(code, &record.doc);
    code.line("#[derive(Debug, Clone, Default, PartialEq)]");
    if record.fields.is_empty() {
        code.line(format!("pub struct {} {{}}", record.name));
        return;
    }
    code.open(format!("pub struct {} {{", record.name));
    for (field, member) in record.fields.iter().zip(&members.fields).filter(|(field, _)| field.choice.is_none()) {
        doc(code, &field.doc);
        code.line(format!("pub {member}: {},", api.rust_field_type(field)));
    }
    for (choice, member) in record.choices.iter().zip(&members.choices) {
        code.line(format!("/// The oneof `{}`.", choice.name));
        code.line(format!("pub {member}: Option<{}>,", choice.type_name));
    }
    code.close("}");
    for (at, choice) in record.choices.iter().enumerate() {
        code.blank();
        code.line(format!("/// One field of the oneof `{}`.", choice.name));
        code.line("#[derive(Debug, Clone, PartialEq)]");
        code.open(format!("pub enum {} {{", choice.type_name));
        for (field, variant) in record.fields.iter().zip(&members.variants) {
            if field.choice == Some(at) {
                doc(code, &field.doc);
                let ty = api.rust_type(&field.kind);
                let ty = if field.kind.record().is_some() { format!("Box<{ty}>") } else { ty };
                code.line(format!("{variant}({ty}),"));
            }
        }
        code.close("}");
    }
}
