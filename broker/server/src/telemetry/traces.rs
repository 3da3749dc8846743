//! Engine spans as OTLP spans, with attributes of the OpenTelemetry semantic conventions for messaging.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tautwire_engine::{Span, SpanSink, Step, Tracer};

use super::otlp::push_attribute;
use super::plan::Plan;
use super::queue::{Queue, Record};
use crate::json::push_string;
use crate::time::since_epoch;

/// `SPAN_KIND_SERVER`: processing of a PUBLISH.
const SERVER: u8 = 2;
/// `SPAN_KIND_PRODUCER`: a delivery by the broker.
const PRODUCER: u8 = 4;
/// `STATUS_CODE_ERROR`
const ERROR: u8 = 2;
/// The sampled flag of W3C Trace Context.
const SAMPLED: u32 = 0x01;
/// Whether `IS_REMOTE` is meaningful.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// Spans waiting to be exported.
pub(super) struct SpanQueue {
    pub(super) queue: Queue<EndedSpan>,
    /// Whether spans include topics.
    includes_topics: AtomicBool,
}

/// A completed span with its end time.
#[derive(Debug)]
pub(super) struct EndedSpan {
    span: Span,
    end_ns: u64,
}

impl Record for EndedSpan {
    fn bytes(&self) -> usize {
        let Span { topic, client_id, trace_state, .. } = &self.span;
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        topic.len() + text(client_id) + text(trace_state)
    }
}

impl SpanSink for SpanQueue {
    fn take(&self, mut span: Span) {
        if !self.includes_topics.load(Ordering::Relaxed) {
            span.topic = Box::default();
        }
        self.queue.offer(EndedSpan { span, end_ns: since_epoch().as_nanos() as u64 });
    }

    fn skip(&self, spans: u64) {
        self.queue.count_dropped(spans);
    }
}

impl SpanQueue {
    pub(super) const fn new() -> SpanQueue {
        SpanQueue { queue: Queue::new(), includes_topics: AtomicBool::new(false) }
    }

    /// Enables the queue for a plan and returns the tracer for the engine; `None` if traces are off.
    pub(super) fn tracer(self: &Arc<SpanQueue>, plan: Option<&Plan>) -> Option<Arc<Tracer>> {
        let config = plan.map(|plan| &plan.config).filter(|config| config.traces);
        self.queue.enable(config.is_some());
        let config = config?;
        self.includes_topics.store(config.trace_topics, Ordering::Relaxed);
        Some(Arc::new(Tracer::new(config.trace_sample_ratio.millionths, self.clone())))
    }
}

impl EndedSpan {
    /// Encodes the span as a JSON object.
    pub(super) fn to_json(&self) -> String {
        let EndedSpan { span, end_ns } = self;
        let (name, kind) = match span.step {
            Step::Publish(_) => ("publish", SERVER),
            Step::Send | Step::Queue | Step::Resend | Step::Retained => ("deliver", PRODUCER),
        };
        let mut out = String::with_capacity(1_024);
        let _ = write!(out, "{{\"traceId\":\"{}\",\"spanId\":\"{}\"", hex(&span.trace_id), hex(&span.span_id));
        let mut flags = SAMPLED;
        if let Some(parent) = &span.parent_id {
            let _ = write!(out, ",\"parentSpanId\":\"{}\"", hex(parent));
            flags |= HAS_IS_REMOTE | if span.is_parent_remote { IS_REMOTE } else { 0 };
        }
        if let Some(state) = &span.trace_state {
            out.push_str(",\"traceState\":");
            push_string(&mut out, state);
        }
        // The start time has millisecond precision, so clamp it to the end.
        let start_ns = span.started_at_ms.saturating_mul(1_000_000).min(*end_ns);
        let _ = write!(out, ",\"flags\":{flags},\"name\":\"{name}\",\"kind\":{kind},");
        let _ = write!(out, "\"startTimeUnixNano\":\"{start_ns}\",\"endTimeUnixNano\":\"{end_ns}\",\"attributes\":[");
        self.push_attributes(&mut out, name);
        out.push(']');
        if let Step::Publish(reason) = span.step
            && reason.is_error()
        {
            let _ = write!(out, ",\"status\":{{\"code\":{ERROR},\"message\":");
            push_string(&mut out, &reason.to_string());
            out.push('}');
        }
        out.push('}');
        out
    }

    fn push_attributes(&self, out: &mut String, name: &str) {
        let span = &self.span;
        push_attribute(out, "messaging.system", "stringValue", "mqtt");
        push_attribute(out, "messaging.operation.name", "stringValue", name);
        push_attribute(out, "messaging.message.id", "stringValue", &span.message.to_string());
        push_attribute(out, "messaging.message.body.size", "intValue", &span.payload_bytes.to_string());
        if !span.topic.is_empty() {
            push_attribute(out, "messaging.destination.name", "stringValue", &span.topic);
        }
        if let Some(client_id) = &span.client_id {
            push_attribute(out, "messaging.client.id", "stringValue", client_id);
        }
        push_attribute(out, "mqtt.qos", "intValue", &span.qos.as_u8().to_string());
        match span.step {
            Step::Publish(reason) => push_attribute(out, "mqtt.reason_code", "intValue", &reason.as_u8().to_string()),
            Step::Send => push_attribute(out, "tautwire.delivery", "stringValue", "sent"),
            Step::Queue => push_attribute(out, "tautwire.delivery", "stringValue", "queued"),
            Step::Resend => push_attribute(out, "tautwire.delivery", "stringValue", "resent"),
            Step::Retained => push_attribute(out, "tautwire.delivery", "stringValue", "retained"),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use tautwire_message::MessageId;
    use tautwire_protocol::{QoS, ReasonCode};

    use super::*;
    use crate::json::is_json;

    fn span(step: Step) -> EndedSpan {
        let span = Span {
            step,
            trace_id: [0x0a; 16],
            span_id: [0x0b; 8],
            parent_id: Some([0x0c; 8]),
            is_parent_remote: true,
            trace_state: Some("x=1".into()),
            message: MessageId { run: 1, number: 2 },
            topic: "a/\"b\"".into(),
            client_id: Some("c".into()),
            qos: QoS::AtLeastOnce,
            payload_bytes: 3,
            started_at_ms: 1_700_000_000_000,
        };
        EndedSpan { span, end_ns: 1_700_000_000_000_500_000 }
    }

    #[test]
    fn a_span_has_a_parent_a_time_and_attributes() {
        let json = span(Step::Publish(ReasonCode::Success)).to_json();
        assert!(is_json(json.as_bytes()), "{json}");
        let begin = "{\"traceId\":\"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a\",\"spanId\":\"0b0b0b0b0b0b0b0b\",\"parentSpanId\":\"0c0c0c0c0c0c0c0c\",\
                     \"traceState\":\"x=1\",\"flags\":769,\"name\":\"publish\",\"kind\":2,\"startTimeUnixNano\":\"1700000000000000000\",\
                     \"endTimeUnixNano\":\"1700000000000500000\",\"attributes\":[{\"key\":\"messaging.system\",\
                     \"value\":{\"stringValue\":\"mqtt\"}},";
        assert!(json.starts_with(begin), "{json}");
        assert!(json.contains("{\"key\":\"mqtt.qos\",\"value\":{\"intValue\":\"1\"}}"), "{json}");
        assert!(json.contains("\"stringValue\":\"a/\\\"b\\\"\"") && !json.contains("status"), "{json}");
    }

    #[test]
    fn a_refusal_is_an_error() {
        let json = span(Step::Publish(ReasonCode::NotAuthorized)).to_json();
        assert!(is_json(json.as_bytes()), "{json}");
        assert!(
            json.contains("\"status\":{\"code\":2,\"message\":") && json.contains("\"intValue\":\"135\""),
            "{json}"
        );
    }

    #[test]
    fn no_span_ends_before_it_starts() {
        let early = EndedSpan { end_ns: 5, ..span(Step::Send) };
        assert!(early.to_json().contains("\"startTimeUnixNano\":\"5\",\"endTimeUnixNano\":\"5\""));
    }

    #[test]
    fn topics_are_included_only_if_configured() {
        let spans = SpanQueue::new();
        spans.queue.enable(true);
        spans.take(span(Step::Queue).span);
        spans.includes_topics.store(true, Ordering::Relaxed);
        spans.take(span(Step::Queue).span);
        let includes_topics: Vec<bool> =
            spans.queue.take(2).iter().map(|span| span.to_json().contains("messaging.destination.name")).collect();
        assert_eq!(includes_topics, [false, true]);
    }
}
