//! `mod.rs`: topics, and functions to publish and to subscribe.

use tautwire_contracts::Format;

use super::syntax::{call, code, string};
use crate::code::Code;
use crate::model::{Api, Binding, Level};
use crate::names;

pub(super) fn generate(api: &Api, modules: &[&str], blocking: bool) -> String {
    let mut code = code();
    code.line("//! Contracts: typed topics and payloads.");
    // A program need not use all of them, and names are those of schemas.
    code.line("#![allow(dead_code, unused_imports)]");
    code.line("#![allow(clippy::enum_variant_names)]");
    code.blank();
    modules.iter().for_each(|module| code.line(format!("mod {module};")));
    code.blank();
    let property = if api.contracts.iter().any(|contract| contract.has_other_formats) { "Property, " } else { "" };
    if blocking {
        code.line("use tautwire_client::blocking::{Client, Publishing};");
        code.line(format!("use tautwire_client::{{{property}Publication, Subscribe}};"));
    } else {
        code.line(format!("use tautwire_client::{{Client, {property}Publication, Publishing, Subscribe}};"));
    }
    code.blank();
    code.line("pub use payload::{Duration, PayloadError, Raw, Timestamp};");
    code.line("pub use subscription::{ContractError, ContractSubscription, Received, Rejected};");
    code.line("pub use types::*;");
    for binding in &api.contracts {
        code.blank();
        let value = api.rust_name(binding.record);
        topic(&mut code, binding);
        code.blank();
        publish(&mut code, binding, value, blocking);
        code.blank();
        subscribe(&mut code, binding, value, blocking);
    }
    code.finish()
}

fn members(binding: &Binding) -> Vec<String> {
    let mut scope = names::Scope::without(names::RUST_WORDS);
    binding.topic.parameters().map(|parameter| scope.take(names::snake(&parameter.name))).collect()
}

fn topic(code: &mut Code, binding: &Binding) {
    let ty = format!("{}Topic", binding.name);
    let members = members(binding);
    let fixed = format!("The parameters of a topic of the contract `{}`: `{}`.", binding.contract, binding.topic.text);
    code.comment("/// ", &fixed);
    code.line("#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]");
    if members.is_empty() {
        code.line(format!("pub struct {ty} {{}}"));
    } else {
        code.open(format!("pub struct {ty} {{"));
        for (member, parameter) in members.iter().zip(binding.topic.parameters()) {
            code.line(format!("/// The level `{}`.", parameter.name));
            code.line(format!("pub {member}: String,"));
        }
        code.close("}");
    }
    code.blank();
    code.open(format!("impl {ty} {{"));
    code.line("/// The topic name.");
    code.line("///");
    code.line("/// # Errors");
    code.line("/// A level has a character that is not allowed: `/`, `+`, `#` or U+0000.");
    code.open("pub fn name(&self) -> Result<String, PayloadError> {");
    let mut at = 0;
    let mut fixed = String::new();
    let mut parts = Vec::new();
    for (place, level) in binding.topic.levels.iter().enumerate() {
        if place > 0 {
            fixed.push('/');
        }
        match level {
            Level::Fixed(text) => fixed.push_str(text),
            Level::One(_) | Level::Rest(_) => {
                let member = &members[at];
                let arguments =
                    [string(member), format!("&self.{member}"), matches!(level, Level::Rest(_)).to_string()];
                call(code, 2, "payload::check_level", &arguments, "?;");
                parts.push((std::mem::take(&mut fixed), Some(member)));
                at += 1;
            }
        }
    }
    if parts.is_empty() {
        code.line(format!("Ok({}.to_owned())", string(&fixed)));
    } else {
        parts.push((fixed, None));
        for (place, (fixed, member)) in parts.iter().enumerate() {
            match (place, fixed.as_str()) {
                (0, "") => code.line("let mut name = String::new();"),
                (0, fixed) => code.line(format!("let mut name = {}.to_owned();", string(fixed))),
                (_, "") => {}
                (_, "/") => code.line("name.push('/');"),
                (_, fixed) => code.line(format!("name.push_str({});", string(fixed))),
            }
            if let Some(member) = member {
                code.line(format!("name.push_str(&self.{member});"));
            }
        }
        code.line("Ok(name)");
    }
    code.close("}");
    code.blank();
    parse(code, binding, &members);
    code.close("}");
}

fn parse(code: &mut Code, binding: &Binding, members: &[String]) {
    code.line("/// Parses a topic name; `None` if it is not a topic of the contract.");
    code.open("pub fn parse(name: &str) -> Option<Self> {");
    let split = if binding.topic.has_rest() {
        format!("name.splitn({}, '/')", binding.topic.levels.len())
    } else {
        "name.split('/')".to_owned()
    };
    code.line(format!("let mut levels = {split};"));
    let mut at = 0;
    for level in &binding.topic.levels {
        match level {
            Level::Fixed(fixed) => {
                code.open(format!("if levels.next() != Some({}) {{", string(fixed)));
                code.line("return None;");
                code.close("}");
            }
            Level::One(_) => {
                code.line(format!("let {} = levels.next()?.to_owned();", members[at]));
                at += 1;
            }
            Level::Rest(_) => {
                // `#` may match no level at all [MQTT-4.7.1-2].
                code.line(format!("let {} = levels.next().unwrap_or_default().to_owned();", members[at]));
                at += 1;
            }
        }
    }
    code.open("if levels.next().is_some() {");
    code.line("return None;");
    code.close("}");
    structure(code, members);
    code.close("}");
}

/// Generates `Some(Self { … })`, wrapped as rustfmt does it.
fn structure(code: &mut Code, members: &[String]) {
    match members {
        [] => code.line("Some(Self {})"),
        // rustfmt puts a struct literal on one line up to a width of 18 characters.
        members if members.join(", ").len() <= 18 - 2 => code.line(format!("Some(Self {{ {} }})", members.join(", "))),
        members => {
            code.open("Some(Self {");
            members.iter().for_each(|member| code.line(format!("{member},")));
            code.close("})");
        }
    }
}

fn publish(code: &mut Code, binding: &Binding, value: &str, blocking: bool) {
    let (name, method) = (names::snake(&binding.name), method(binding.format));
    let about = format!(
        "Publishes to `{}`. `how` sets other options, such as the QoS. At QoS 1 and 2 the broker refuses payloads that violate the contract with reason code 0x99.",
        binding.topic.text
    );
    code.comment("/// ", &about);
    code.line("///");
    code.line("/// # Errors");
    code.line("/// The topic is not valid, or the client cannot publish.");
    let (fun, wait) = if blocking { ("pub fn", "") } else { ("pub async fn", ".await") };
    code.open(format!("{fun} publish_{name}("));
    code.line("client: &Client,");
    code.line(format!("topic: &{}Topic,", binding.name));
    code.line(format!("value: &{value},"));
    code.line("how: impl for<'p> FnOnce(Publication<'p>) -> Publication<'p>,");
    code.close(") -> Result<Publishing, ContractError> {");
    code.line("    let name = topic.name()?;");
    code.line(format!("    let payload = value.to_{method}();"));
    let text = if binding.format == Format::Json { ".text()" } else { "" };
    code.line("    let publication = Publication::new(&name, &payload);");
    code.line(format!("    let publication = publication.content_type(\"{}\"){text};", binding.format.content_type()));
    code.line(format!("    Ok(client.publish(how(publication)){wait}?)"));
    code.line("}");
}

fn subscribe(code: &mut Code, binding: &Binding, value: &str, blocking: bool) {
    let (name, method) = (names::snake(&binding.name), method(binding.format));
    let topic = format!("{}Topic", binding.name);
    code.line(format!("/// Subscribes to `{}`. `how` sets options, such as the QoS.", binding.topic.filter));
    code.line("///");
    code.line("/// # Errors");
    code.line("/// As `Client::subscribe`.");
    let (fun, wait) = if blocking { ("pub fn", "") } else { ("pub async fn", ".await") };
    code.open(format!("{fun} subscribe_{name}("));
    code.line("client: &Client,");
    code.line("how: impl FnOnce(Subscribe) -> Subscribe,");
    code.close(format!(") -> Result<ContractSubscription<{topic}, {value}>, ContractError> {{"));
    code.line(format!("    let subscribe = how(Subscribe::to({}));", string(&binding.topic.filter)));
    if binding.has_other_formats {
        code.line("    // Publishers may use other formats: the broker transcodes to this one.");
        code.line(format!(
            "    let accept = Property::UserProperty(\"accept\", \"{}\");",
            binding.format.content_type()
        ));
        code.line("    let subscribe = subscribe.property(accept)?;");
    }
    code.line(format!("    let subscription = client.subscribe(subscribe){wait}?;"));
    code.line(format!("    Ok(ContractSubscription::new(subscription, read_{name}))"));
    code.line("}");
    code.blank();
    call(
        code,
        0,
        &format!("fn read_{name}"),
        &["name: &str".to_owned(), "payload: &[u8]".to_owned()],
        &format!(" -> Result<({topic}, {value}), PayloadError> {{"),
    );
    code.line(format!("    let topic = {topic}::parse(name).ok_or_else(|| PayloadError {{"));
    code.line("        expected: \"a topic of the contract\".to_owned(),");
    code.line("        offset: None,");
    code.line("    })?;");
    code.line(format!("    Ok((topic, {value}::from_{method}(payload)?))"));
    code.line("}");
}

fn method(format: Format) -> &'static str {
    match format {
        Format::Protobuf => "protobuf",
        Format::Json => "json",
        Format::MessagePack => "messagepack",
    }
}
