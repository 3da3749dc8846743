//! The common parts of OTLP messages in JSON: lowerCamelCase names, 64-bit numbers as strings.

use std::fmt::Write as _;

use crate::json::push_string;

/// The name of the instrumentation scope.
const SCOPE: &str = "tautwire";

/// The kind of telemetry in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Metrics,
    Logs,
    Traces,
}

impl Signal {
    /// The path appended to the collector's URL.
    pub(super) fn path(self) -> &'static str {
        match self {
            Signal::Metrics => "/v1/metrics",
            Signal::Logs => "/v1/logs",
            Signal::Traces => "/v1/traces",
        }
    }

    /// The names of the nested fields: resource, scope, items.
    fn fields(self) -> [&'static str; 3] {
        match self {
            Signal::Metrics => ["resourceMetrics", "scopeMetrics", "metrics"],
            Signal::Logs => ["resourceLogs", "scopeLogs", "logRecords"],
            Signal::Traces => ["resourceSpans", "scopeSpans", "spans"],
        }
    }
}

/// Builds a message from items, each a JSON object. `resource` is a list of attributes as written by [`push_attributes`].
pub(super) fn message(signal: Signal, resource: &str, items: &[String]) -> String {
    let [resources, scopes, name] = signal.fields();
    let bytes = items.iter().map(|item| item.len() + 1).sum::<usize>() + resource.len() + 256;
    let mut out = String::with_capacity(bytes);
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(out, "{{\"{resources}\":[{{\"resource\":{{\"attributes\":{resource}}},\"{scopes}\":[");
    let _ = write!(out, "{{\"scope\":{{\"name\":\"{SCOPE}\",\"version\":\"{version}\"}},\"{name}\":[");
    push_separated(&mut out, items);
    out.push_str("]}]}]}");
    out
}

/// Appends a JSON list of string attributes.
pub(super) fn push_attributes<'a>(out: &mut String, attributes: impl IntoIterator<Item = (&'a str, &'a str)>) {
    out.push('[');
    for (name, value) in attributes {
        push_attribute(out, name, "stringValue", value);
    }
    out.push(']');
}

/// Appends an attribute, with a comma unless it is the first of its list. `kind` is `stringValue` or `intValue`, whose values are strings
/// as well.
pub(super) fn push_attribute(out: &mut String, name: &str, kind: &str, value: &str) {
    out.push_str(if out.ends_with('[') { "{\"key\":" } else { ",{\"key\":" });
    push_string(out, name);
    let _ = write!(out, ",\"value\":{{\"{kind}\":");
    push_string(out, value);
    out.push_str("}}");
}

/// Appends the items with commas in between.
pub(super) fn push_separated(out: &mut String, items: &[String]) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::is_json;

    #[test]
    fn a_message_nests_items_below_resource_and_scope() {
        let mut resource = String::new();
        push_attributes(&mut resource, [("service.name", "a \"b\"")]);
        let text = message(Signal::Logs, &resource, &["{}".to_owned(), "{}".to_owned()]);
        assert!(is_json(text.as_bytes()), "{text}");
        let begin = "{\"resourceLogs\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":\"a \\\"b\\\"\"}}]},\
                     \"scopeLogs\":[{\"scope\":{\"name\":\"tautwire\",\"version\":";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.ends_with("\"logRecords\":[{},{}]}]}]}"), "{text}");
    }
}
