//! Formatting of log lines as text or JSON.

use std::fmt::{self, Write as _};

use log::Level;
use log::kv::{Error, Key, Source, Value, VisitSource};

use crate::config::LogFormat;
use crate::json;
use crate::time::UtcTime;

/// Longest field value. Client identifiers and topics can be longer.
const VALUE_MAX_BYTES: usize = 256;

/// The structured fields of a log line.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Fields(Vec<(String, FieldValue)>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldValue {
    Number(u64),
    Flag(bool),
    Text(String),
}

impl Fields {
    /// The fields of a log record.
    pub(super) fn of(source: &dyn Source) -> Fields {
        let mut fields = Fields::default();
        // The visitor never fails.
        let _ = source.visit(&mut fields);
        fields
    }

    pub(super) fn with(mut self, name: &str, value: FieldValue) -> Fields {
        self.0.push((name.to_owned(), value));
        self
    }

    /// Removes and returns a field.
    pub(super) fn take(&mut self, name: &str) -> Option<FieldValue> {
        let at = self.0.iter().position(|(named, _)| named == name)?;
        Some(self.0.remove(at).1)
    }

    /// Removes and returns a field as text; empty if there is none.
    pub(super) fn take_text(&mut self, name: &str) -> String {
        match self.take(name) {
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }

    /// The names and values as text.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.to_string()))
    }

    /// Appends ` name=value` for each field.
    pub(super) fn push_text(&self, out: &mut String) {
        for (name, value) in &self.0 {
            let _ = write!(out, " {name}=");
            match value {
                FieldValue::Text(text) if !is_word(text) => {
                    out.push('"');
                    for character in text.chars() {
                        match character {
                            '"' | '\\' => out.extend(['\\', character]),
                            _ => push_printable(out, character),
                        }
                    }
                    out.push('"');
                }
                value => _ = write!(out, "{value}"),
            }
        }
    }

    fn push_json(&self, out: &mut String) {
        for (name, value) in &self.0 {
            out.push(',');
            json::push_string(out, name);
            out.push(':');
            match value {
                FieldValue::Text(text) => json::push_string(out, text),
                value => _ = write!(out, "{value}"),
            }
        }
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldValue::Number(number) => number.fmt(f),
            FieldValue::Flag(flag) => flag.fmt(f),
            FieldValue::Text(text) => f.write_str(text),
        }
    }
}

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        let value = match (value.to_bool(), value.to_u64()) {
            (Some(flag), _) => FieldValue::Flag(flag),
            (None, Some(number)) => FieldValue::Number(number),
            (None, None) => FieldValue::Text(truncate(match value.to_borrowed_str() {
                Some(text) => text.to_owned(),
                None => value.to_string(),
            })),
        };
        self.0.push((key.as_str().to_owned(), value));
        Ok(())
    }
}

fn truncate(mut text: String) -> String {
    if text.len() > VALUE_MAX_BYTES {
        let end = (0..=VALUE_MAX_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Whether a value can be written without quotes.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'='))
}

pub(super) fn push_line(
    out: &mut String,
    format: LogFormat,
    now: &UtcTime,
    (level, target): (Level, &str),
    message: &str,
    fields: &Fields,
) {
    match format {
        LogFormat::Text => {
            now.push_rfc3339(out, 3);
            let _ = write!(out, " {level:<5} ");
            message.chars().for_each(|character| push_printable(out, character));
            fields.push_text(out);
        }
        LogFormat::Json => {
            out.push_str("{\"time\":\"");
            now.push_rfc3339(out, 3);
            let _ = write!(out, "\",\"level\":\"{}\",\"target\":", level.as_str().to_ascii_lowercase());
            json::push_string(out, target);
            out.push_str(",\"message\":");
            json::push_string(out, message);
            fields.push_json(out);
            out.push('}');
        }
    }
    out.push('\n');
}

/// Escapes control characters: client identifiers and topics are untrusted and must not forge lines or control the terminal.
fn push_printable(out: &mut String, character: char) {
    if character.is_control() {
        out.extend(character.escape_default());
    } else {
        out.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: fn() -> UtcTime = || UtcTime::from_unix(1_700_000_000, 250_000_000);

    fn line(format: LogFormat, message: &str, fields: &Fields) -> String {
        let mut out = String::new();
        push_line(&mut out, format, &NOW(), (Level::Error, "tautwire::serve"), message, fields);
        out
    }

    fn fields() -> Fields {
        let pairs: [(&str, Value<'_>); 5] = [
            ("address", Value::from("[::1]:50124")),
            ("client_id", Value::from("a \"b\"\n")),
            ("user", Value::from("")),
            ("code", Value::from(135_u8)),
            ("done", Value::from(false)),
        ];
        Fields::of(&pairs.as_slice())
    }

    #[test]
    fn text_lines_carry_time_level_message_and_fields() {
        assert_eq!(
            line(LogFormat::Text, "client \"a\" left", &fields()),
            "2023-11-14T22:13:20.250Z ERROR client \"a\" left address=[::1]:50124 client_id=\"a \\\"b\\\"\\n\" user=\"\" code=135 done=false\n"
        );
    }

    #[test]
    fn a_line_break_or_escape_in_a_message_or_a_field_cannot_forge_a_line() {
        let forged = "id x\n2023 ERROR \u{1b}[31m\u{9b}";
        let fields = Fields::default().with("client_id", FieldValue::Text(forged.to_owned()));
        let out = line(LogFormat::Text, forged, &fields);
        assert_eq!(out.matches('\n').count(), 1);
        assert_eq!(out.matches("id x\\n2023 ERROR \\u{1b}[31m\\u{9b}").count(), 2, "{out}");
    }

    #[test]
    fn json_lines_have_fields_as_members() {
        let out = line(LogFormat::Json, "a \"b\"\n", &fields());
        assert!(json::is_json(out.as_bytes()), "{out}");
        assert_eq!(
            out,
            "{\"time\":\"2023-11-14T22:13:20.250Z\",\"level\":\"error\",\"target\":\"tautwire::serve\",\"message\":\"a \\\"b\\\"\\n\",\
             \"address\":\"[::1]:50124\",\"client_id\":\"a \\\"b\\\"\\n\",\"user\":\"\",\"code\":135,\"done\":false}\n"
        );
    }

    #[test]
    fn a_long_value_is_truncated_at_a_character() {
        let long = "é".repeat(200);
        let pairs = [("client_id", long.as_str())];
        let mut fields = Fields::of(&pairs.as_slice());
        assert_eq!(fields.take_text("client_id"), format!("{}…", "é".repeat(128)));
    }
}
