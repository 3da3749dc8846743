//! `contracts.ts`: topics, and functions to publish and to subscribe.

use tautwire_contracts::Format;

use super::syntax::{code, import, string};
use crate::code::Code;
use crate::model::{Api, Binding, Family, Level};
use crate::names;

pub(super) fn generate(api: &Api) -> String {
    let mut body = code();
    let mut types = Vec::new();
    for binding in &api.contracts {
        body.blank();
        contract(&mut body, api, binding, &mut types);
    }
    let mut out = code();
    // A namespace import cannot collide with names of contracts.
    out.line("import * as mqtt from \"@tautwire/client\";");
    for (format, name, module) in [
        (Format::Json, "jsonCodec", "./json.js"),
        (Format::MessagePack, "messagePackCodec", "./messagepack.js"),
        (Format::Protobuf, "protobufCodec", "./protobuf.js"),
    ] {
        if api.needs(format) {
            import(&mut out, &[name.to_owned()], module);
        }
    }
    import(&mut out, &["ContractSubscription", "received", "type Handler"].map(str::to_owned), "./subscription.js");
    import(&mut out, &types, "./types.js");
    out.blank();
    format!("{}\n{}", out.finish(), body.finish())
}

fn contract(code: &mut Code, api: &Api, binding: &Binding, types: &mut Vec<String>) {
    let (name, record) = (&binding.name, api.record(binding.record));
    let (lower, ty) = (names::camel(name), &record.name);
    types.push(format!("type {ty}"));
    let codec = match binding.format {
        Format::Protobuf => {
            types.extend([format!("write{ty}"), format!("read{ty}")]);
            format!("protobufCodec<{ty}>(write{ty}, (reader) => read{ty}(reader))")
        }
        format => {
            types.push(format!("fromFields{ty}"));
            let write = match (record.family, record.is_transparent) {
                (Family::Plain, true) => "({ value }) => value".to_owned(),
                (Family::Plain, false) => "(value) => value".to_owned(),
                _ => {
                    types.push(format!("toFields{ty}"));
                    format!("toFields{ty}")
                }
            };
            let function = if format == Format::Json { "jsonCodec" } else { "messagePackCodec" };
            format!("{function}<{ty}>({write}, fromFields{ty})")
        }
    };
    code.line(format!("/** The codec for payloads of the contract `{}`. */", binding.contract));
    code.line(format!("export const {lower}Codec = {codec};"));
    code.blank();
    let pattern: Vec<String> = binding.topic.levels.iter().map(level).collect();
    code.line(format!("/** The topics of the contract `{}`: {}. */", binding.contract, binding.source));
    code.line(format!("export const {lower}Topic = mqtt.topic({}, {lower}Codec);", string(&pattern.join("/"))));
    code.blank();
    let parameters: Vec<String> = binding.topic.parameters().map(|parameter| names::camel(&parameter.name)).collect();
    code.line("/** The parameters of a topic. */");
    if parameters.is_empty() {
        code.line(format!("export type {name}Parameters = Readonly<Record<never, string>>;"));
    } else {
        code.open(format!("export interface {name}Parameters {{"));
        parameters.iter().for_each(|parameter| code.line(format!("readonly {parameter}: string;")));
        code.close("}");
    }
    code.blank();
    let pattern = string(&pattern.join("/"));
    publish(code, binding, ty);
    code.blank();
    subscribe(code, binding, ty, &pattern);
}

fn publish(code: &mut Code, binding: &Binding, ty: &str) {
    let (name, lower) = (&binding.name, names::camel(&binding.name));
    code.line("/**");
    code.line(format!(
        " * Publishes to {}; see `Client.publish`. A payload that violates the contract is",
        names::comment(&binding.topic.text)
    ));
    code.line(" * refused with reason code 0x99 at QoS 1 and 2.");
    code.line(" */");
    let parameters: Vec<String> = binding.topic.parameters().map(|parameter| names::camel(&parameter.name)).collect();
    let arguments = if parameters.is_empty() {
        String::new()
    } else {
        let fields: Vec<String> = parameters.iter().map(|parameter| format!("{parameter}: string | number")).collect();
        format!("  parameters: {{ {} }},\n", fields.join("; "))
    };
    code.line(format!(
        "export function publish{name}(\n  client: mqtt.Client,\n{arguments}  value: {ty},\n  options?: mqtt.PublishOptions<{ty}>,\n): ReturnType<mqtt.Client[\"publish\"]> {{"
    ));
    let given = if parameters.is_empty() { "{}" } else { "parameters" };
    code.line(format!("  return client.publish({lower}Topic, {given}, value, options);"));
    code.line("}");
}

fn subscribe(code: &mut Code, binding: &Binding, ty: &str, pattern: &str) {
    let (name, lower) = (&binding.name, names::camel(&binding.name));
    let accept = binding.format.content_type();
    code.line(format!("/** Options of {{@link subscribe{name}}}; `params` selects some of the topics. */"));
    code.line(format!("export type {name}Options = mqtt.TopicSubscribeOptions<{pattern}, {ty}>;"));
    code.blank();
    code.line(format!(
        "/** Subscribes to {}. Iterate over the result, or pass a handler. */",
        names::comment(&binding.topic.filter)
    ));
    code.line(format!(
        "export function subscribe{name}(\n  client: mqtt.Client,\n  options: {name}Options = {{}},\n  handler?: Handler<{ty}, {name}Parameters>,\n): ContractSubscription<{ty}, {name}Parameters> {{"
    ));
    if binding.has_other_formats {
        code.line(format!(
            "  // Publishers may use other formats: the broker transcodes to this one.\n  const userProperties = [...(options.userProperties ?? []), [\"accept\", \"{accept}\"] as const];"
        ));
        code.line("  const asked = { ...options, userProperties };");
    } else {
        code.line("  const asked = options;");
    }
    code.line("  const onMessage =");
    code.line(format!(
        "    handler === undefined ? undefined : (message: mqtt.Message<{ty}, {name}Parameters>) => handler(received(message));"
    ));
    code.line(format!("  return new ContractSubscription(client.subscribe({lower}Topic, asked, onMessage));"));
    code.line("}");
}

fn level(level: &Level) -> String {
    match level {
        Level::Fixed(text) => text.clone(),
        Level::One(parameter) => format!("{{{}}}", names::camel(&parameter.name)),
        Level::Rest(parameter) => format!("{{{}...}}", names::camel(&parameter.name)),
    }
}
