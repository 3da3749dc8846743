//! The log on standard error, in the broker's formats.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::SystemTime;

use log::kv::{Error, Key, Value, VisitSource};
use log::{LevelFilter, Log, Metadata, Record};
use serde::Deserialize;

use crate::time::rfc3339;

/// The format of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Logs to standard error from now on.
pub(crate) fn install(level: LevelFilter, format: LogFormat) {
    if log::set_boxed_logger(Box::new(StderrLog { format })).is_ok() {
        log::set_max_level(level);
    }
}

struct StderrLog {
    format: LogFormat,
}

impl Log for StderrLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Drivers log connections and statements; their errors arrive here as results.
        metadata.level() <= log::max_level() && metadata.target().starts_with("tautwire")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = line(self.format, &rfc3339(SystemTime::now()), record);
            // Nothing can be done if standard error is closed.
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

fn line(format: LogFormat, time: &str, record: &Record<'_>) -> String {
    let mut fields = Fields { format, text: String::new() };
    // The visitor never fails.
    let _ = record.key_values().visit(&mut fields);
    let message = record.args().to_string();
    match format {
        LogFormat::Text => format!("{time} {:<5} {}{}\n", record.level(), message.escape_debug(), fields.text),
        LogFormat::Json => format!(
            "{{\"time\":\"{time}\",\"level\":\"{}\",\"target\":{},\"message\":{}{}}}\n",
            record.level().as_str().to_ascii_lowercase(),
            json(record.target()),
            json(&message),
            fields.text
        ),
    }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

struct Fields {
    format: LogFormat,
    text: String,
}

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        let is_plain = value.to_bool().is_some() || value.to_u64().is_some();
        let value = value.to_string();
        let is_word =
            !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\=".contains(&byte));
        let _ = match self.format {
            LogFormat::Text if is_plain || is_word => write!(self.text, " {key}={value}"),
            LogFormat::Text => write!(self.text, " {key}={}", json(&value)),
            LogFormat::Json if is_plain => write!(self.text, ",{}:{value}", json(key.as_str())),
            LogFormat::Json => write!(self.text, ",{}:{}", json(key.as_str()), json(&value)),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_fields_and_cannot_be_forged() {
        let fields = [("sink", "readings"), ("topic", "a\nb")];
        let record = |format| {
            let record = Record::builder()
                .args(format_args!("it\nfails"))
                .level(log::Level::Warn)
                .target("tautwire")
                .key_values(&fields)
                .build();
            line(format, "T", &record)
        };
        assert_eq!(record(LogFormat::Text), "T WARN  it\\nfails sink=readings topic=\"a\\nb\"\n");
        let expected =
            r#"{"time":"T","level":"warn","target":"tautwire","message":"it\nfails","sink":"readings","topic":"a\nb"}"#;
        assert_eq!(record(LogFormat::Json).trim_end(), expected);
    }
}
