//! Functions for contracts: payloads, topics, publishing and subscribing.

use tautwire_contracts::Format;

use super::header::{parameters, wrapped};
use super::syntax::{C, string};
use crate::code::Code;
use crate::model::{Binding, Level};
use crate::names;

pub(super) fn functions(code: &mut Code, c: &C<'_>) {
    for binding in &c.api.contracts {
        payload(code, c, binding);
        topic(code, c, binding);
        messages(code, c, binding);
    }
}

fn begin(code: &mut Code, prototype: &str) {
    code.blank();
    code.line(wrapped(&format!("{prototype} {{")));
    code.open_silently();
}

fn payload(code: &mut Code, c: &C<'_>, binding: &Binding) {
    let (package, name, ty) = (c.package, names::snake(&binding.name), c.record(binding.record));
    let suffix = if binding.format == Format::Protobuf { "" } else { "_named" };
    let is_json = binding.format == Format::Json;
    begin(code, &format!("tw_result {package}_encode_{name}(const {ty} *value, tw_memory out)"));
    code.line(format!("ct_writer writer = ct_writer_on(out, {is_json});"));
    code.line(format!("write_{ty}{suffix}(&writer, value);"));
    code.line("return ct_finish(&writer);");
    code.close("}");
    begin(code, &format!("tw_result {package}_decode_{name}(tw_bytes payload, tw_memory scratch, {ty} *value)"));
    code.line(format!("ct_reader reader = ct_reader_on(payload, scratch, {is_json});"));
    code.line("memset(value, 0, sizeof *value);");
    code.line(format!("read_{ty}{suffix}(&reader, value);"));
    if binding.format != Format::Protobuf {
        code.line("ctm_end(&reader);");
    }
    code.line("return reader.error;");
    code.close("}");
}

fn topic(code: &mut Code, c: &C<'_>, binding: &Binding) {
    let (package, name) = (c.package, names::snake(&binding.name));
    let ty = format!("{package}_{name}_topic");
    let members = parameters(binding);
    begin(code, &format!("tw_result {ty}_name(const {ty} *topic, tw_memory out)"));
    code.line("ct_writer writer = ct_writer_on(out, false);");
    if members.is_empty() {
        code.line("(void)topic;");
    }
    let mut at = 0;
    let mut text = String::new();
    let flush = |code: &mut Code, text: &mut String| {
        if !text.is_empty() {
            code.line(format!("ct_put(&writer, {}, {});", string(text), text.len()));
            text.clear();
        }
    };
    for (place, level) in binding.topic.levels.iter().enumerate() {
        if place > 0 {
            text.push('/');
        }
        match level {
            Level::Fixed(fixed) => text.push_str(fixed),
            Level::One(_) | Level::Rest(_) => {
                flush(code, &mut text);
                let rest = matches!(level, Level::Rest(_));
                code.open(format!("if (!ct_put_level(&writer, topic->{}, {rest})) {{", members[at]));
                code.line("return TW_ARGUMENT;");
                code.close("}");
                at += 1;
            }
        }
    }
    flush(code, &mut text);
    code.line("return ct_finish(&writer);");
    code.close("}");
    begin(code, &format!("bool {ty}_parse(tw_bytes name, {ty} *topic)"));
    if !binding.topic.levels.iter().all(|level| matches!(level, Level::Rest(_))) {
        code.line("tw_bytes level;");
    }
    code.line("memset(topic, 0, sizeof *topic);");
    let mut at = 0;
    for level in &binding.topic.levels {
        match level {
            Level::Fixed(fixed) => {
                code.open(format!("if (!ct_next_level(&name, &level) || !ct_same(level, {})) {{", string(fixed)));
                code.line("return false;");
                code.close("}");
            }
            Level::One(_) => {
                code.open("if (!ct_next_level(&name, &level)) {");
                code.line("return false;");
                code.close("}");
                code.line(format!("topic->{} = level;", members[at]));
                at += 1;
            }
            Level::Rest(_) => {
                code.line(format!("topic->{} = name;", members[at]));
                code.line("return true;");
                at += 1;
            }
        }
    }
    if !binding.topic.has_rest() {
        code.line("return name.data == NULL;");
    }
    code.close("}");
}

fn messages(code: &mut Code, c: &C<'_>, binding: &Binding) {
    let (package, name, ty) = (c.package, names::snake(&binding.name), c.record(binding.record));
    let topic = format!("{package}_{name}_topic");
    let content_type = string(binding.format.content_type());
    begin(
        code,
        &format!(
            "tw_result {package}_publish_{name}(tw_client *client, const {topic} *topic, const {ty} *value, tw_qos qos, bool retain, tw_memory work, uint16_t *packet_id)"
        ),
    );
    code.line("tw_publish message = tw_message(tw_view(NULL, 0), tw_view(NULL, 0), qos);");
    code.line(format!("tw_result topic_len = {topic}_name(topic, work), payload_len;"));
    code.open("if (topic_len < 0) {");
    code.line("return topic_len;");
    code.close("}");
    code.line("message.topic = tw_view(work.data, (size_t)topic_len);");
    code.line("work = tw_lend(work.data + topic_len, work.size - (size_t)topic_len);");
    code.line(format!("payload_len = {package}_encode_{name}(value, work);"));
    code.open("if (payload_len < 0) {");
    code.line("return payload_len;");
    code.close("}");
    code.line("message.payload = tw_view(work.data, (size_t)payload_len);");
    code.line("message.retain = retain;");
    code.line(format!(
        "return ct_publish(client, &message, {content_type}, {}, packet_id);",
        binding.format == Format::Json
    ));
    code.close("}");
    begin(code, &format!("tw_result {package}_subscribe_{name}(tw_client *client, tw_qos qos, uint16_t *packet_id)"));
    let accept = if binding.has_other_formats { content_type } else { "NULL".to_owned() };
    let filter = format!("{}_FILTER", names::upper(&format!("{package}_{name}")));
    code.line(format!("return ct_subscribe(client, {filter}, qos, {accept}, packet_id);"));
    code.close("}");
    begin(
        code,
        &format!(
            "tw_result {package}_read_{name}(const tw_publish *message, tw_memory scratch, {topic} *topic, {ty} *value)"
        ),
    );
    code.open(format!("if (!{topic}_parse(message->topic, topic)) {{"));
    code.line("return CT_OTHER_TOPIC;");
    code.close("}");
    code.open("if (ct_is_not_transcoded(message)) {");
    code.line("return CT_NOT_TRANSCODED;");
    code.close("}");
    code.line(format!("return {package}_decode_{name}(message->payload, scratch, value);"));
    code.close("}");
}
