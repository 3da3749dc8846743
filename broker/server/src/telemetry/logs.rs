//! Log lines as OTLP records.

use std::cell::Cell;
use std::fmt::Write as _;

use log::Level;

use super::otlp::push_attributes;
use super::queue::{Queue, Record};
use crate::json::push_string;
use crate::time::since_epoch;

/// Global like the logger of the process.
pub(super) static QUEUE: Queue<LogRecord> = Queue::new();

thread_local! {
    /// Log lines of the exporting thread are not exported, to avoid a loop.
    static IS_EXPORTER: Cell<bool> = const { Cell::new(false) };
}

/// A log line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogRecord {
    at_ns: u64,
    level: Level,
    target: String,
    message: String,
    fields: Vec<(String, String)>,
}

impl Record for LogRecord {
    fn bytes(&self) -> usize {
        let fields: usize = self.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.target.len() + self.message.len() + fields
    }
}

/// Excludes the log lines of the calling thread.
pub(super) fn exclude_this_thread() {
    IS_EXPORTER.set(true);
}

/// Queues a log line for export. Cheap if the export is off; never blocks.
pub(crate) fn offer<'f>(level: Level, target: &str, message: &str, fields: impl Iterator<Item = (&'f str, String)>) {
    if QUEUE.is_enabled() && !IS_EXPORTER.get() {
        let at_ns = since_epoch().as_nanos() as u64;
        let fields = fields.map(|(name, value)| (name.to_owned(), value)).collect();
        QUEUE.offer(LogRecord { at_ns, level, target: target.to_owned(), message: message.to_owned(), fields });
    }
}

impl LogRecord {
    /// Encodes the record as JSON, with the same attributes as a line of `log.format = "json"`.
    pub(super) fn to_json(&self) -> String {
        let LogRecord { at_ns, level, target, message, fields } = self;
        let mut out = String::with_capacity(message.len() + 256);
        let number = severity(*level);
        let _ = write!(out, "{{\"timeUnixNano\":\"{at_ns}\",\"observedTimeUnixNano\":\"{at_ns}\",");
        let _ = write!(out, "\"severityNumber\":{number},\"severityText\":\"{level}\",\"body\":{{\"stringValue\":");
        push_string(&mut out, message);
        out.push_str("},\"attributes\":");
        let fields = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        push_attributes(&mut out, std::iter::once(("target", target.as_str())).chain(fields));
        out.push('}');
        out
    }
}

/// The severity number in the OpenTelemetry log data model.
fn severity(level: Level) -> u8 {
    match level {
        Level::Error => 17,
        Level::Warn => 13,
        Level::Info => 9,
        Level::Debug => 5,
        Level::Trace => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::is_json;

    #[test]
    fn a_line_is_a_record() {
        let record = LogRecord {
            at_ns: 1_700_000_000_250_000_000,
            level: Level::Warn,
            target: "a::b".into(),
            message: "a \"b\"\n".into(),
            fields: vec![("user".into(), "ann".into())],
        };
        let json = record.to_json();
        assert!(is_json(json.as_bytes()), "{json}");
        assert_eq!(
            json,
            "{\"timeUnixNano\":\"1700000000250000000\",\"observedTimeUnixNano\":\"1700000000250000000\",\"severityNumber\":13,\
             \"severityText\":\"WARN\",\"body\":{\"stringValue\":\"a \\\"b\\\"\\n\"},\"attributes\":[{\"key\":\"target\",\
             \"value\":{\"stringValue\":\"a::b\"}},{\"key\":\"user\",\"value\":{\"stringValue\":\"ann\"}}]}"
        );
        assert_eq!(record.bytes(), 17);
    }
}
