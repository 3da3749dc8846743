//! Traces: what becomes of a message whose publisher says by `traceparent` (W3C Trace Context) that it is followed, or that is picked by chance.
//!
//! While nobody wants traces, a message costs the one look that [taps](crate::operations::tap) cost already. The user property stays as it is
//! [MQTT-3.3.2-17]: what is told here stands beside what the subscribers tell, below what the publisher tells.

mod steps;

use std::fmt;
use std::sync::Arc;

use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::{Properties, PropertyContext, QoS, ReasonCode};
use tautwire_session::LogPosition;

use crate::index::ConnectionId;
use crate::operations::trace_parent::TraceParent;

/// Longest `tracestate` that is told; a longer one is left out (W3C Trace Context, section 3.3.1.5).
const TRACE_STATE_MAX_BYTES: usize = 512;

/// A share of all messages is so many of these.
const ALL: u64 = 1_000_000;

/// One step of a message through the broker. It ends when it is handed to the [`SpanSink`].
#[derive(Clone, PartialEq, Eq)]
pub struct Span {
    /// Which step.
    pub step: Step,
    /// The trace that it belongs to.
    pub trace_id: [u8; 16],
    /// Its own name in that trace.
    pub span_id: [u8; 8],
    /// The span below which it stands; `None` where the trace begins here.
    pub parent_id: Option<[u8; 8]>,
    /// Whether the parent is the publisher's own.
    pub is_parent_remote: bool,
    /// `tracestate`, as the publisher has sent it.
    pub trace_state: Option<Box<str>>,
    /// Which message.
    pub message: MessageId,
    /// Its topic, mount point included.
    pub topic: Box<str>,
    /// Who has published the message, or is to get it.
    pub client_id: Option<Box<str>>,
    /// QoS of this step.
    pub qos: QoS,
    /// Bytes of the payload.
    pub payload_bytes: usize,
    /// The beginning of the turn in which it began, in milliseconds since the Unix epoch.
    pub began_at_ms: u64,
}

/// A step of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// From receiving it to its acknowledgement; without one, until it has been handed to all who want it. Here is how it was answered.
    Publish(ReasonCode),
    /// To one receiver: until it is in its output.
    Send,
    /// The same for a receiver that is away, or has enough to acknowledge: until it is in its queue. [`Step::Send`] follows when it leaves that.
    Queue,
    /// To a receiver that has had it before, on an earlier connection, and has not acknowledged it.
    Resend,
    /// To a new subscription, as its topic retains it.
    Retained,
}

/// Says sizes, and never the topic.
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("step", &self.step).field("message", &self.message).finish_non_exhaustive()
    }
}

/// Whoever takes spans, on the threads of the shards: it must not wait.
pub trait SpanSink: Send + Sync {
    /// A span ends now.
    fn take(&self, span: Span);

    /// So many spans were left out, because a message has more receivers, or more acknowledgements wait, than are followed.
    fn skip(&self, spans: u64);
}

/// Which messages are followed, and who is told.
pub struct Tracer {
    millionths: u64,
    sink: Arc<dyn SpanSink>,
}

impl Tracer {
    /// Follows the messages whose publisher wants that, and of those whose publisher does not say, so many of a million.
    pub fn new(millionths: u32, sink: Arc<dyn SpanSink>) -> Tracer {
        Tracer { millionths: millionths.into(), sink }
    }

    /// The trace of a message, if it is followed. All shards come to the same.
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
            None if mixed(message.id, 0) % ALL < self.millionths => {
                let [high, low] = [1, 2].map(|salt| mixed(message.id, salt).to_be_bytes());
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

/// A number that looks random, and is the same on all shards: the run of a message is random already.
fn mixed(id: MessageId, salt: u64) -> u64 {
    // The finalizer of SplitMix64, twice.
    let mix = |number: u64| {
        let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    };
    mix(mix(id.run.wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15))).wrapping_add(id.number))
}

/// The name of a span; never that which means none.
fn span_id(id: MessageId, salt: u64) -> [u8; 8] {
    mixed(id, salt).max(1).to_be_bytes()
}

/// Who wants traces, as one shard knows it, and what has not ended yet.
#[derive(Debug, Default)]
pub(crate) struct TraceState {
    tracer: Option<Arc<Tracer>>,
    open: Vec<OpenSpan>,
    /// Messages that were sent once more.
    again: u64,
}

#[derive(Debug)]
struct OpenSpan {
    span: Span,
    connection: ConnectionId,
    /// The last acknowledgement that waited when the turn of the message was over; `None` before that.
    until: Option<LogPosition>,
}

impl TraceState {
    pub(crate) fn apply(&mut self, tracer: Option<Arc<Tracer>>) {
        if tracer.is_none() {
            self.open = Vec::new();
        }
        self.tracer = tracer;
    }

    pub(crate) fn is_wanted(&self) -> bool {
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

    struct Nobody;

    impl SpanSink for Nobody {
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
        Tracer::new(millionths, Arc::new(Nobody)).trace_of(&message)
    }

    #[test]
    fn whose_publisher_wants_it_is_followed_in_its_trace() {
        let found = trace(0, 1, &[("a", "b"), ("traceparent", PARENT), ("tracestate", "x=1")]).expect("it is followed");
        assert_eq!((found.trace_id[0], found.parent_id.map(|id| id[0])), (0x0a, Some(0xb7)));
        assert_eq!(found.state.as_deref(), Some("x=1"));
    }

    #[test]
    fn whose_publisher_does_not_want_it_is_not_followed_by_chance_either() {
        assert!(trace(1_000_000, 1, &[("traceparent", &PARENT.replace("-01", "-00"))]).is_none());
    }

    #[test]
    fn what_is_no_parent_counts_as_none() {
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
    fn a_long_state_is_left_out() {
        let long = "x".repeat(TRACE_STATE_MAX_BYTES + 1);
        assert_eq!(trace(0, 1, &[("traceparent", PARENT), ("tracestate", &long)]).and_then(|trace| trace.state), None);
    }

    #[test]
    fn chance_picks_the_share_that_is_asked_for_and_traces_differ() {
        let picked: Vec<Trace> = (1..=20_000).filter_map(|number| trace(100_000, number, &[])).collect();
        assert!((1_800..2_200).contains(&picked.len()), "{}", picked.len());
        let mut ids: Vec<[u8; 16]> = picked.iter().map(|trace| trace.trace_id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), picked.len());
        assert!((1..=20_000).all(|number| trace(0, number, &[]).is_none()));
    }
}
