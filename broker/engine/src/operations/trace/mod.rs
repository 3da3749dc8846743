//! Traces of messages whose publisher sends a sampled `traceparent` (W3C Trace Context), and of a random sample of the others.
//!
//! Without a tracer, a message costs only the check that [taps](crate::operations::tap) cost already. The user property is forwarded
//! unchanged [MQTT-3.3.2-17]: the broker's spans are siblings of the subscribers' and children of the publisher's.

mod steps;

use std::fmt;
use std::sync::Arc;

use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::{Properties, PropertyContext, QoS, ReasonCode};
use tautwire_session::LogPosition;

use crate::index::ConnectionId;
use crate::operations::trace_parent::TraceParent;

/// The longest `tracestate` that is reported; a longer one is omitted (W3C Trace Context, section 3.3.1.5).
const TRACE_STATE_MAX_BYTES: usize = 512;

/// The denominator of the sampling rate.
const MILLION: u64 = 1_000_000;

/// One step of a message through the broker. It ends when it is passed to the [`SpanSink`].
#[derive(Clone, PartialEq, Eq)]
pub struct Span {
    /// The step.
    pub step: Step,
    /// The trace that it belongs to.
    pub trace_id: [u8; 16],
    /// Its identifier in that trace.
    pub span_id: [u8; 8],
    /// The parent span; `None` if the trace begins here.
    pub parent_id: Option<[u8; 8]>,
    /// Whether the parent is a span of the publisher.
    pub is_parent_remote: bool,
    /// `tracestate`, as the publisher sent it.
    pub trace_state: Option<Box<str>>,
    /// The message.
    pub message: MessageId,
    /// Its topic, mount point included.
    pub topic: Box<str>,
    /// The publisher or the receiver of the message.
    pub client_id: Option<Box<str>>,
    /// QoS of this step.
    pub qos: QoS,
    /// Bytes of the payload.
    pub payload_bytes: usize,
    /// The beginning of the turn in which it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
}

/// A step of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// From its receipt to its acknowledgement or, without one, until it was delivered to all receivers. Contains the reason code of the
    /// acknowledgement.
    Publish(ReasonCode),
    /// Delivery to one receiver, until it is in the receiver's output.
    Send,
    /// The same for a receiver that is offline or has too many unacknowledged messages: until it is in its queue. [`Step::Send`] follows
    /// when it leaves the queue.
    Queue,
    /// Delivery to a receiver that got it on an earlier connection and has not acknowledged it.
    Resend,
    /// Delivery to a new subscription, as the topic's retained message.
    Retained,
}

/// Omits the topic.
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("step", &self.step).field("message", &self.message).finish_non_exhaustive()
    }
}

/// Receives spans, on the threads of the shards: it must not block.
pub trait SpanSink: Send + Sync {
    /// Receives a span that ends now.
    fn take(&self, span: Span);

    /// Counts spans that were omitted, because a message has more receivers, or more acknowledgements wait, than are traced.
    fn skip(&self, spans: u64);
}

/// Selects messages to trace, and sends their spans to a sink.
pub struct Tracer {
    millionths: u64,
    sink: Arc<dyn SpanSink>,
}

impl Tracer {
    /// Traces sampled messages and, of those without a `traceparent`, `millionths` of a million.
    pub fn new(millionths: u32, sink: Arc<dyn SpanSink>) -> Tracer {
        Tracer { millionths: millionths.into(), sink }
    }

    /// The trace of a message, if it is traced. All shards come to the same result.
    fn trace_of(&self, message: &MessageRef<'_>) -> Option<Trace> {
        let properties = Properties::from_wire(message.properties, PropertyContext::Publish).ok()?;
        let of_name =
            |name| properties.user_properties().filter(move |(known, _)| *known == name).map(|(_, text)| text);
        let mut parents = of_name("traceparent");
        let only = parents.next().filter(|_| parents.next().is_none());
        match only.and_then(TraceParent::parse) {
            Some(parent) if !parent.is_sampled => None,
            Some(TraceParent { trace_id, parent_id, .. }) => {
                let mut states = of_name("tracestate");
                let state =
                    states.next().filter(|state| state.len() <= TRACE_STATE_MAX_BYTES && states.next().is_none());
                Some(Trace { trace_id, parent_id: Some(parent_id), state: state.map(Box::from) })
            }
            None if mix_id(message.id, 0) % MILLION < self.millionths => {
                let [high, low] = [1, 2].map(|salt| mix_id(message.id, salt).to_be_bytes());
                let mut trace_id = [0; 16];
                trace_id[..8].copy_from_slice(&high);
                trace_id[8..].copy_from_slice(&low);
                Some(Trace { trace_id, parent_id: None, state: None })
            }
            None => None,
        }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("millionths", &self.millionths).finish_non_exhaustive()
    }
}

/// The trace of one message.
struct Trace {
    trace_id: [u8; 16],
    parent_id: Option<[u8; 8]>,
    state: Option<Box<str>>,
}

/// A pseudorandom number that is the same on all shards; the run of a message is random.
fn mix_id(id: MessageId, salt: u64) -> u64 {
    // The finalizer of SplitMix64, twice.
    let mix = |number: u64| {
        let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    };
    mix(mix(id.run.wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15))).wrapping_add(id.number))
}

/// The identifier of a span; never 0, which means none.
fn span_id(id: MessageId, salt: u64) -> [u8; 8] {
    mix_id(id, salt).max(1).to_be_bytes()
}

/// The tracer and the open spans of a shard.
#[derive(Debug, Default)]
pub(crate) struct TraceState {
    tracer: Option<Arc<Tracer>>,
    open: Vec<OpenSpan>,
    /// The number of messages that were sent again.
    resends: u64,
}

#[derive(Debug)]
struct OpenSpan {
    span: Span,
    connection: ConnectionId,
    /// The last acknowledgement that was delayed at the end of the message's turn; `None` before that.
    until: Option<LogPosition>,
}

impl TraceState {
    pub(crate) fn apply(&mut self, tracer: Option<Arc<Tracer>>) {
        if tracer.is_none() {
            self.open = Vec::new();
        }
        self.tracer = tracer;
    }

    pub(crate) fn has_tracer(&self) -> bool {
        self.tracer.is_some()
    }

    /// Whether a span waits for the log.
    #[inline]
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoopSink;

    impl SpanSink for NoopSink {
        fn take(&self, _: Span) {}
        fn skip(&self, _: u64) {}
    }

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn wire(properties: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        for text in properties.iter().flat_map(|(name, value)| [None, Some(name), Some(value)]) {
            match text {
                None => out.push(0x26),
                Some(text) => {
                    out.extend((text.len() as u16).to_be_bytes());
                    out.extend(text.bytes());
                }
            }
        }
        out
    }

    fn trace(millionths: u32, number: u64, properties: &[(&str, &str)]) -> Option<Trace> {
        let properties = wire(properties);
        let id = MessageId { run: 0x9f86_d081_884c_7d65, number };
        let message = MessageRef {
            id,
            topic: "t",
            properties: &properties,
            payload: b"",
            qos: QoS::AtMostOnce,
            retain: false,
            expires_at_ms: None,
        };
        Tracer::new(millionths, Arc::new(NoopSink)).trace_of(&message)
    }

    #[test]
    fn a_sampled_publisher_trace_is_continued() {
        let found =
            trace(0, 1, &[("a", "b"), ("traceparent", PARENT), ("tracestate", "x=1")]).expect("the message is traced");
        assert_eq!((found.trace_id[0], found.parent_id.map(|id| id[0])), (0x0a, Some(0xb7)));
        assert_eq!(found.state.as_deref(), Some("x=1"));
    }

    #[test]
    fn an_unsampled_publisher_trace_is_never_sampled() {
        assert!(trace(1_000_000, 1, &[("traceparent", &PARENT.replace("-01", "-00"))]).is_none());
    }

    #[test]
    fn an_invalid_parent_is_ignored() {
        for properties in [
            &[("traceparent", "x")][..],
            &[("traceparent", PARENT), ("traceparent", PARENT)],
            &[("Traceparent", PARENT)],
        ] {
            assert!(trace(0, 1, properties).is_none(), "{properties:?}");
            assert!(trace(1_000_000, 1, properties).is_some_and(|trace| trace.parent_id.is_none()), "{properties:?}");
        }
    }

    #[test]
    fn a_long_state_is_omitted() {
        let long = "x".repeat(TRACE_STATE_MAX_BYTES + 1);
        assert_eq!(trace(0, 1, &[("traceparent", PARENT), ("tracestate", &long)]).and_then(|trace| trace.state), None);
    }

    #[test]
    fn sampling_follows_the_configured_ratio_and_trace_ids_differ() {
        let picked: Vec<Trace> = (1..=20_000).filter_map(|number| trace(100_000, number, &[])).collect();
        assert!((1_800..2_200).contains(&picked.len()), "{}", picked.len());
        let mut ids: Vec<[u8; 16]> = picked.iter().map(|trace| trace.trace_id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), picked.len());
        assert!((1..=20_000).all(|number| trace(0, number, &[]).is_none()));
    }
}
