//! `contracts.py`: topics, and functions to publish and to subscribe.

use tautwire_contracts::Format;

use super::syntax::{code, doc, gap, import, string, suffix};
use crate::code::Code;
use crate::model::{Api, Binding, Level};
use crate::names;

/// The names that the package exports.
pub(super) fn names(api: &Api) -> Vec<String> {
    let names = api.contracts.iter().flat_map(|binding| {
        let (upper, snake) = (names::upper(&binding.name), names::snake(&binding.name));
        [
            format!("{upper}_CODEC"),
            format!("{upper}_TOPIC"),
            format!("{}Parameters", binding.name),
            format!("publish_{snake}"),
            format!("subscribe_{snake}"),
        ]
    });
    names.collect()
}

pub(super) fn generate(api: &Api, blocking: bool) -> String {
    let mut body = code();
    let mut types = Vec::new();
    for binding in &api.contracts {
        contract(&mut body, api, binding, blocking, &mut types);
    }
    let mut out = code();
    out.line("\"\"\"Topics, and functions to publish and to subscribe.\"\"\"");
    out.blank();
    out.line("from __future__ import annotations");
    out.blank();
    out.line("import dataclasses as _dataclasses");
    out.line("import typing as _t");
    out.blank();
    out.line("import tautwire");
    if blocking {
        out.line("import tautwire.blocking");
    }
    out.blank();
    for (format, name, module) in [
        (Format::Json, "json_codec", "json_codec"),
        (Format::MessagePack, "messagepack_codec", "messagepack_codec"),
        (Format::Protobuf, "protobuf_codec", "protobuf"),
    ] {
        if api.needs(format) {
            import(&mut out, module, vec![name.to_owned()]);
        }
    }
    if api.contracts.iter().any(|binding| binding.has_other_formats) {
        import(&mut out, "received", vec!["accepting".to_owned()]);
    }
    import(&mut out, "subscription", vec!["ContractSubscription".to_owned()]);
    import(&mut out, "types", types);
    out.blank();
    // The package for type checkers is not needed at run time.
    out.open("if _t.TYPE_CHECKING:");
    out.line("from typing_extensions import Unpack as _Unpack");
    out.close_silently();
    format!("{}{}", out.finish(), body.finish())
}

fn contract(code: &mut Code, api: &Api, binding: &Binding, blocking: bool, types: &mut Vec<String>) {
    let (upper, ty) = (names::upper(&binding.name), &api.record(binding.record).name);
    types.push(ty.clone());
    let (function, first, second) = match binding.format {
        Format::Protobuf => ("protobuf_codec", "write", "read"),
        Format::Json => ("json_codec", "to_fields", "from_fields"),
        Format::MessagePack => ("messagepack_codec", "to_fields", "from_fields"),
    };
    let (first, second) = (format!("{first}_{}", suffix(ty)), format!("{second}_{}", suffix(ty)));
    code.blank();
    code.line("");
    code.line(format!("{upper}_CODEC: tautwire.Codec[{ty}] = {function}({first}, {second})"));
    doc(code, &format!("The codec for payloads of the contract `{}`.", binding.contract));
    types.extend([first, second]);
    let members = members(binding);
    code.line(format!(
        "{upper}_TOPIC: tautwire.Topic[{ty}] = tautwire.Topic({}, {upper}_CODEC)",
        string(&pattern(binding, &members))
    ));
    doc(code, &format!("The topics of the contract `{}`: {}.", binding.contract, binding.source));
    gap(code);
    code.line("@_dataclasses.dataclass(frozen=True)");
    code.open(format!("class {}Parameters:", binding.name));
    doc(code, &format!("The parameters of a topic of the contract `{}`: {}", binding.contract, binding.topic.text));
    if !members.is_empty() {
        code.blank();
    }
    members.iter().for_each(|member| code.line(format!("{member}: str")));
    code.close_silently();
    gap(code);
    publish(code, binding, ty, &members, blocking);
    gap(code);
    subscribe(code, binding, ty, blocking);
}

fn members(binding: &Binding) -> Vec<String> {
    let mut scope = names::Scope::without(names::PYTHON_WORDS);
    binding.topic.parameters().map(|parameter| scope.take(names::snake(&parameter.name))).collect()
}

fn pattern(binding: &Binding, members: &[String]) -> String {
    let mut members = members.iter();
    let mut name = || members.next().map_or("", String::as_str);
    let levels: Vec<String> = binding
        .topic
        .levels
        .iter()
        .map(|level| match level {
            Level::Fixed(text) => text.clone(),
            Level::One(_) => format!("{{{}}}", name()),
            Level::Rest(_) => format!("{{{}...}}", name()),
        })
        .collect();
    levels.join("/")
}

fn publish(code: &mut Code, binding: &Binding, ty: &str, members: &[String], blocking: bool) {
    let (name, upper) = (names::snake(&binding.name), names::upper(&binding.name));
    let (def, wait, client) =
        if blocking { ("def", "", "tautwire.blocking.Client") } else { ("async def", "await ", "tautwire.Client") };
    code.open(format!("{def} publish_{name}("));
    code.line(format!("client: {client},"));
    if !members.is_empty() {
        code.line(format!("parameters: {}Parameters,", binding.name));
    }
    code.line(format!("value: {ty},"));
    code.line("**options: _Unpack[tautwire.PublishOptions],");
    code.close(") -> int:");
    code.open_silently();
    let about = format!(
        "Publishes to {}, like `Client.publish`. At QoS 1 and 2 the broker refuses violations with reason code 0x99.",
        binding.topic.text
    );
    doc(code, &about);
    let levels: Vec<String> = members.iter().map(|member| format!("{member}=parameters.{member}")).collect();
    code.line(format!("topic = {upper}_TOPIC.at({})", levels.join(", ")));
    code.line(format!("return {wait}client.publish(topic, value, **options)"));
    code.close_silently();
}

fn subscribe(code: &mut Code, binding: &Binding, ty: &str, blocking: bool) {
    let (name, upper) = (names::snake(&binding.name), names::upper(&binding.name));
    let client = if blocking { "tautwire.blocking.Client" } else { "tautwire.Client" };
    let subscription = format!("ContractSubscription[{ty}, {}Parameters]", binding.name);
    code.open(format!("def subscribe_{name}("));
    code.line(format!("client: {client},"));
    code.line("**options: _Unpack[tautwire.SubscribeOptions],");
    code.close(format!(") -> {subscription}:"));
    code.open_silently();
    doc(code, &format!("Subscribes to {}, like `Client.subscribe`.", binding.topic.filter));
    let options = if binding.has_other_formats {
        format!("accepting(options, \"{}\")", binding.format.content_type())
    } else {
        "options".to_owned()
    };
    code.line(format!("subscription = client.subscribe({upper}_TOPIC, **{options})"));
    code.line(format!("return ContractSubscription(subscription, {}Parameters)", binding.name));
    code.close_silently();
}
