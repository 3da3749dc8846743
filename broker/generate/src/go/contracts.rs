//! `contracts.go`: topics, and functions to publish and to subscribe.

use tautwire_contracts::Format;

use super::syntax::{Go, code, string, with_imports};
use crate::code::Code;
use crate::model::{Binding, Level};
use crate::names;

pub(super) fn generate(go: &Go<'_>) -> String {
    let mut code = code();
    for binding in &go.api.contracts {
        code.blank();
        let value = names::go(&go.api.record(binding.record).name);
        topic(&mut code, binding);
        code.blank();
        publish(&mut code, binding, &value);
        code.blank();
        subscribe(&mut code, binding, &value);
    }
    with_imports(&code.finish())
}

fn members(binding: &Binding) -> Vec<String> {
    let mut scope = names::Scope::without(&["Name"]);
    binding.topic.parameters().map(|parameter| scope.take(names::go(&parameter.name))).collect()
}

fn topic(code: &mut Code, binding: &Binding) {
    let ty = format!("{}Topic", names::go(&binding.name));
    let members = members(binding);
    code.line(format!(
        "// {ty} has the parameters of a topic of the contract {}: {}.",
        binding.contract, binding.topic.text
    ));
    if members.is_empty() {
        code.line(format!("type {ty} struct{{}}"));
    } else {
        code.open(format!("type {ty} struct {{"));
        code.columns(&members.iter().map(|member| vec![member.clone(), "string".to_owned()]).collect::<Vec<_>>());
        code.close("}");
    }
    code.blank();
    code.line("// Name returns the topic name. A level with /, +, # or U+0000 is rejected with a *PayloadError.");
    code.open(format!("func (t {ty}) Name() (string, error) {{"));
    let mut parts: Vec<String> = Vec::new();
    let mut text = String::new();
    let mut at = 0;
    for (place, level) in binding.topic.levels.iter().enumerate() {
        if place > 0 {
            text.push('/');
        }
        match level {
            Level::Fixed(fixed) => text.push_str(fixed),
            Level::One(_) | Level::Rest(_) => {
                let check = if matches!(level, Level::One(_)) { "level" } else { "levels" };
                code.open(format!("if err := {check}(\"{0}\", t.{0}); err != nil {{", members[at]));
                code.line("return \"\", err");
                code.close("}");
                if !text.is_empty() {
                    parts.push(string(&text));
                    text.clear();
                }
                parts.push(format!("t.{}", members[at]));
                at += 1;
            }
        }
    }
    if !text.is_empty() || parts.is_empty() {
        parts.push(string(&text));
    }
    code.line(format!("return {}, nil", parts.join(" + ")));
    code.close("}");
    code.blank();
    parse(code, binding, &ty, &members);
}

fn parse(code: &mut Code, binding: &Binding, ty: &str, members: &[String]) {
    let levels = &binding.topic.levels;
    code.open(format!("func parse{ty}(name string) ({ty}, bool) {{"));
    let count = levels.len();
    if binding.topic.has_rest() {
        code.line(format!("parts := strings.SplitN(name, \"/\", {count})"));
        // `#` may match no level at all [MQTT-4.7.1-2].
        code.open(format!("if len(parts) == {} {{", count - 1));
        code.line("parts = append(parts, \"\")");
        code.close("}");
    } else {
        code.line("parts := strings.Split(name, \"/\")");
    }
    let mut conditions = vec![format!("len(parts) != {count}")];
    for (at, level) in levels.iter().enumerate() {
        if let Level::Fixed(fixed) = level {
            conditions.push(format!("parts[{at}] != {}", string(fixed)));
        }
    }
    code.open(format!("if {} {{", conditions.join(" || ")));
    code.line(format!("return {ty}{{}}, false"));
    code.close("}");
    let mut places = levels.iter().enumerate().filter(|(_, level)| !matches!(level, Level::Fixed(_)));
    let fields: Vec<String> =
        members.iter().filter_map(|member| places.next().map(|(at, _)| format!("{member}: parts[{at}]"))).collect();
    code.line(format!("return {ty}{{{}}}, true", fields.join(", ")));
    code.close("}");
}

fn publish(code: &mut Code, binding: &Binding, value: &str) {
    let name = names::go(&binding.name);
    code.line(format!("// Publish{name} publishes to {}; see client.Client.Publish. Of the", binding.topic.text));
    code.line(
        "// publication, topic, payload and content type are set. The broker refuses a violation of the contract:",
    );
    code.line("// client.ErrPublishRefused with packets.ReasonPayloadFormatInvalid, at QoS 1 and 2.");
    code.line(format!("func Publish{name}("));
    code.line(format!(
        "\tctx context.Context, c *client.Client, topic {name}Topic, value *{value}, publication client.Publication,\n) error {{"
    ));
    code.line("\tname, err := topic.Name()\n\tif err != nil {\n\t\treturn err\n\t}");
    match binding.format {
        Format::Protobuf => code.line("\tpayload := value.MarshalProtobuf()"),
        format => {
            let method = if format == Format::Json { "JSON" } else { "MessagePack" };
            code.line(format!("\tpayload, err := value.Marshal{method}()\n\tif err != nil {{\n\t\treturn err\n\t}}"));
        }
    }
    code.line("\tpublication.Topic, publication.Payload = name, payload");
    code.line(format!("\tpublication.ContentType = \"{}\"", binding.format.content_type()));
    if binding.format == Format::Json {
        code.line("\tpublication.Text = true");
    }
    code.line("\treturn c.Publish(ctx, publication)");
    code.line("}");
}

fn subscribe(code: &mut Code, binding: &Binding, value: &str) {
    let name = names::go(&binding.name);
    let method = match binding.format {
        Format::Protobuf => "Protobuf",
        Format::Json => "JSON",
        Format::MessagePack => "MessagePack",
    };
    let (topic, filter) = (format!("{name}Topic"), string(&binding.topic.filter));
    let receive = format!("receive{name}");
    code.line(format!("func {receive}(message *client.Message) (*Received[{topic}, {value}], error) {{"));
    code.line(format!("\treturn receive(message, parse{topic}, func(payload []byte) (*{value}, error) {{"));
    code.line(format!("\t\tvalue := &{value}{{}}"));
    code.line(format!("\t\treturn value, value.Unmarshal{method}(payload)"));
    code.line("\t})");
    code.line("}");
    let accept = |code: &mut Code| {
        if binding.has_other_formats {
            code.line("\t// Publishers may use other formats: the broker transcodes to this one.");
            code.line(format!(
                "\toptions.UserProperties = append(options.UserProperties[:len(options.UserProperties):len(options.UserProperties)],\n\t\tclient.UserProperty{{Name: \"accept\", Value: \"{}\"}})",
                binding.format.content_type()
            ));
        }
    };
    code.blank();
    code.line(format!("// Subscribe{name} subscribes to {}; see client.Client.Subscribe.", binding.topic.filter));
    code.line(format!("func Subscribe{name}("));
    code.line("\tctx context.Context, c *client.Client, options client.SubscribeOptions,");
    code.line(format!(") (*Subscription[{topic}, {value}], error) {{"));
    accept(code);
    code.line(format!("\treturn subscribe(ctx, c, {filter}, options, {receive})"));
    code.line("}");
    code.blank();
    code.line(format!(
        "// Handle{name} calls handle with each message of {}; see client.Client.Handle. With an error",
        binding.topic.filter
    ));
    code.line("// the message has no value.");
    code.line(format!("func Handle{name}("));
    code.line("\tctx context.Context, c *client.Client, options client.SubscribeOptions,");
    code.line(format!("\thandle func(context.Context, *Received[{topic}, {value}], error),"));
    code.line(") (*client.Subscription, error) {");
    accept(code);
    code.line(format!(
        "\treturn c.Handle(ctx, {filter}, options, func(ctx context.Context, message *client.Message) {{"
    ));
    code.line(format!("\t\treceived, err := {receive}(message)"));
    code.line("\t\thandle(ctx, received, err)");
    code.line("\t})");
    code.line("}");
}
