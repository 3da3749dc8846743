//! The header: types, and functions for the contracts.

use super::syntax::{C, Members, code, has_flag, string};
use crate::code::Code;
use crate::model::{Binding, Enum, Field, Kind, Record, Repr};
use crate::names;

pub(super) fn generate(c: &C<'_>) -> String {
    let mut code = code();
    let guard = format!("{}_H", names::upper(c.package));
    code.line(format!("#ifndef {guard}\n#define {guard}"));
    code.blank();
    code.line("#include \"ct_payload.h\"");
    code.blank();
    code.line("#ifdef __cplusplus\nextern \"C\" {\n#endif");
    for enumeration in &c.api.enums {
        code.blank();
        enum_of(&mut code, c, enumeration);
    }
    code.blank();
    for record in &c.api.records {
        let ty = c.record_name(record);
        code.line(format!("typedef struct {ty} {ty};"));
    }
    for record in &c.api.records {
        code.blank();
        structure(&mut code, c, record);
    }
    for binding in &c.api.contracts {
        code.blank();
        contract(&mut code, c, binding);
    }
    code.blank();
    code.line("#ifdef __cplusplus\n}\n#endif");
    code.blank();
    code.line("#endif");
    code.finish()
}

fn enum_of(code: &mut Code, c: &C<'_>, enumeration: &Enum) {
    let ty = format!("{}_{}", c.package, names::snake(&enumeration.name));
    let others = if enumeration.repr == Repr::OpenNumber { " Newer schemas may add other numbers." } else { "" };
    comment(code, &format!("{}{others}", enumeration.doc));
    code.line(format!("typedef int32_t {ty};"));
    code.open("enum {");
    let mut scope = names::Scope::default();
    for (at, value) in enumeration.values.iter().enumerate() {
        let comma = if at + 1 < enumeration.values.len() { "," } else { "" };
        let name = scope.take(format!("{}_{}", names::upper(&ty), names::upper(&value.name)));
        code.line(format!("{name} = {}{comma}", number(value.number)));
    }
    code.close("};");
}

/// The smallest number has no literal.
fn number(value: i32) -> String {
    if value == i32::MIN { "INT32_MIN".to_owned() } else { value.to_string() }
}

fn comment(code: &mut Code, text: &str) {
    let text = &names::comment(text);
    if text.len() <= 90 {
        code.line(format!("/** {text} */"));
    } else {
        code.line("/**");
        code.comment(" * ", text);
        code.line(" */");
    }
}

fn structure(code: &mut Code, c: &C<'_>, record: &Record) {
    let ty = c.record_name(record);
    let members = Members::of(record);
    for (field, member) in record.fields.iter().zip(&members.fields) {
        if let Kind::Map(key, value) = &field.kind {
            comment(code, &format!("An entry of {ty}."));
            let entry = c.entry(record, member);
            code.open(format!("typedef struct {entry} {{"));
            code.line(format!("{} key;", c.ty(&Kind::Scalar(*key))));
            code.line(match &**value {
                Kind::Record(id) => format!("const {} *value;", c.record(*id)),
                other => format!("{} value;", c.ty(other)),
            });
            code.close(format!("}} {entry};"));
            code.blank();
        }
    }
    for (at, choice) in record.choices.iter().enumerate() {
        let case = format!("{}_{}", c.package, names::snake(&choice.type_name));
        code.line(format!("/** The field of the oneof `{}` that is set. */", choice.name));
        code.open(format!("typedef enum {case} {{"));
        code.line(format!("{}_NONE = 0,", names::upper(&case)));
        let arms: Vec<(&Field, &String)> =
            record.fields.iter().zip(&members.arms).filter(|(field, _)| field.choice == Some(at)).collect();
        for (place, (field, arm)) in arms.iter().enumerate() {
            let comma = if place + 1 < arms.len() { "," } else { "" };
            code.line(format!("{}_{} = {}{comma}", names::upper(&case), arm.to_ascii_uppercase(), field.number));
        }
        code.close(format!("}} {case};"));
        code.blank();
    }
    comment(code, &record.doc);
    code.open(format!("struct {ty} {{"));
    if record.fields.is_empty() {
        code.line("/** No members. */");
        code.line("char nothing;");
    }
    for (field, member) in record.fields.iter().zip(&members.fields).filter(|(field, _)| field.choice.is_none()) {
        comment(code, &field.doc);
        member_of(code, c, record, field, member);
    }
    for (at, member) in members.choices.iter().enumerate() {
        let choice = &record.choices[at];
        let case = format!("{}_{}", c.package, names::snake(&choice.type_name));
        code.line(format!("/** The oneof `{}`. */", choice.name));
        code.line(format!("{case} {member}_case;"));
        code.open("union {");
        for (field, arm) in record.fields.iter().zip(&members.arms).filter(|(field, _)| field.choice == Some(at)) {
            code.line(match &field.kind {
                Kind::Record(id) => format!("const {} *{arm};", c.record(*id)),
                other => format!("{} {arm};", c.ty(other)),
            });
        }
        code.close(format!("}} {member};"));
    }
    code.close("};");
}

fn member_of(code: &mut Code, c: &C<'_>, record: &Record, field: &Field, member: &str) {
    if has_flag(field) {
        code.line(format!("bool has_{member};"));
    }
    match &field.kind {
        Kind::Record(id) => code.line(format!("const {} *{member};", c.record(*id))),
        Kind::List(item) => {
            code.line(format!("const {} *{member};", c.ty(item)));
            code.line(format!("size_t {member}_count;"));
        }
        Kind::Map(..) => {
            code.line(format!("const {} *{member};", c.entry(record, member)));
            code.line(format!("size_t {member}_count;"));
        }
        other => code.line(format!("{} {member};", c.ty(other))),
    }
}

pub(super) fn parameters(binding: &Binding) -> Vec<String> {
    let mut scope = names::Scope::without(names::C_WORDS);
    binding.topic.parameters().map(|parameter| scope.take(names::snake(&parameter.name))).collect()
}

fn contract(code: &mut Code, c: &C<'_>, binding: &Binding) {
    let (package, name) = (c.package, names::snake(&binding.name));
    let value = c.record(binding.record);
    let topic = format!("{package}_{name}_topic");
    let parameters = parameters(binding);
    comment(
        code,
        &format!("The parameters of a topic of the contract `{}`: `{}`.", binding.contract, binding.topic.text),
    );
    code.open(format!("typedef struct {topic} {{"));
    if parameters.is_empty() {
        code.line("/** No parameters. */");
        code.line("char nothing;");
    }
    parameters.iter().for_each(|parameter| code.line(format!("tw_bytes {parameter};")));
    code.close(format!("}} {topic};"));
    code.blank();
    code.line(format!("/** The filter for all topics of the contract `{}`. */", binding.contract));
    code.line(format!(
        "#define {}_FILTER {}",
        names::upper(&format!("{package}_{name}")),
        string(&binding.topic.filter)
    ));
    code.blank();
    for (text, line) in [
        (
            "Encodes a payload. Returns its length, or TW_BUFFER_TOO_SMALL.".to_owned(),
            format!("tw_result {package}_encode_{name}(const {value} *value, tw_memory out);"),
        ),
        (
            "Decodes a payload. `value` points into the payload and into `scratch`, which holds lists. Returns 0, CT_PAYLOAD_INVALID or CT_SCRATCH_FULL.".to_owned(),
            format!("tw_result {package}_decode_{name}(tw_bytes payload, tw_memory scratch, {value} *value);"),
        ),
        (
            "Writes a topic name. Returns its length, TW_BUFFER_TOO_SMALL, or TW_ARGUMENT if a level has a character that is not allowed.".to_owned(),
            format!("tw_result {package}_{name}_topic_name(const {topic} *topic, tw_memory out);"),
        ),
        (
            "Parses a topic name; false if it is not a topic of the contract. `topic` points into the name.".to_owned(),
            format!("bool {package}_{name}_topic_parse(tw_bytes name, {topic} *topic);"),
        ),
        (
            "Publishes. Returns the result of tw_client_publish(), or the error of encoding topic or payload, which both use `work`. At QoS 1 and 2 the broker refuses payloads that violate the contract: TW_EVENT_PUBLISHED then has the reason TW_PAYLOAD_FORMAT_INVALID. `packet_id` may be NULL.".to_owned(),
            format!("tw_result {package}_publish_{name}(tw_client *client, const {topic} *topic, const {value} *value,\n                                tw_qos qos, bool retain, tw_memory work, uint16_t *packet_id);"),
        ),
        (
            "Subscribes to all topics of the contract. Returns the result of tw_client_subscribe(). `packet_id` may be NULL.".to_owned(),
            format!("tw_result {package}_subscribe_{name}(tw_client *client, tw_qos qos, uint16_t *packet_id);"),
        ),
        (
            "Decodes a message. Returns 0, CT_OTHER_TOPIC if it does not belong to the contract, CT_NOT_TRANSCODED, CT_PAYLOAD_INVALID or CT_SCRATCH_FULL.".to_owned(),
            format!("tw_result {package}_read_{name}(const tw_publish *message, tw_memory scratch, {topic} *topic, {value} *value);"),
        ),
    ] {
        comment(code, &text);
        code.line(wrapped(&line));
    }
}

/// Wraps a prototype into lines of at most 120 characters.
pub(super) fn wrapped(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let indent = line.find('(').map_or(4, |at| at + 1);
    let mut out = String::new();
    let mut width = 0;
    for part in line.split_inclusive(", ") {
        if width > 0 && width + part.trim_end().len() > 120 {
            out.truncate(out.trim_end().len());
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            width = indent;
        }
        out.push_str(part);
        width += part.len();
    }
    out
}
