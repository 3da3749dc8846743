//! Taps: operators receive copies of published messages that match a filter, up to a rate.
//!
//! Without taps, a message costs one check of an empty list.

mod steps;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tautwire_protocol::QoS;

use crate::operations::trace::{TraceState, Tracer};

/// A copy of a message for a tap.
#[derive(Clone, PartialEq, Eq)]
pub struct TappedMessage {
    /// When it was published, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Its topic, mount point included.
    pub topic: Box<str>,
    /// QoS at which it was published.
    pub qos: QoS,
    /// RETAIN flag as published.
    pub retain: bool,
    /// The publisher; `None` for the broker itself, operators, and wills of ended sessions.
    pub client_id: Option<Box<str>>,
    /// Properties in wire format.
    pub properties: Box<[u8]>,
    /// The payload, at most 4 KiB of it.
    pub payload: Box<[u8]>,
    /// The size of the complete payload in bytes.
    pub payload_bytes: usize,
}

/// Omits the payload.
impl fmt::Debug for TappedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TappedMessage { topic, payload_bytes, .. } = self;
        f.debug_struct("TappedMessage")
            .field("topic", topic)
            .field("payload_bytes", payload_bytes)
            .finish_non_exhaustive()
    }
}

/// A tap on all shards.
pub struct Tap {
    filter: Box<str>,
    rate_per_s: u32,
    /// The current second, and the number of messages sent in it.
    window: AtomicU64,
    skipped: AtomicU64,
    sink: Box<dyn Fn(TappedMessage) -> bool + Send + Sync>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("filter", &self.filter)
            .field("rate_per_s", &self.rate_per_s)
            .finish_non_exhaustive()
    }
}

impl Tap {
    /// Creates a tap for the messages that `filter` covers, at most `rate_per_s` per second over all shards. `sink` is called on the
    /// shards' threads: it must not block, and returns whether it had room.
    pub fn new(filter: Box<str>, rate_per_s: u32, sink: impl Fn(TappedMessage) -> bool + Send + Sync + 'static) -> Tap {
        let (window, skipped) = (AtomicU64::new(0), AtomicU64::new(0));
        Tap { filter, rate_per_s, window, skipped, sink: Box::new(sink) }
    }

    /// The number of messages that were skipped since the last call.
    pub fn take_skipped(&self) -> u64 {
        self.skipped.swap(0, Ordering::Relaxed)
    }

    fn try_send(&self, now_ms: u64, make: impl FnOnce() -> TappedMessage) {
        if !self.admits(now_ms) || !(self.sink)(make()) {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts one message of this second, if the rate allows it.
    fn admits(&self, now_ms: u64) -> bool {
        let second = (now_ms / 1_000) << 32;
        let take = |window: u64| {
            let taken = if window & !u64::from(u32::MAX) == second { window & u64::from(u32::MAX) } else { 0 };
            (taken < u64::from(self.rate_per_s)).then_some(second | (taken + 1))
        };
        self.window.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// The taps and the tracer of one shard.
#[derive(Debug, Default)]
pub(crate) struct TapState {
    is_open: bool,
    taps: Arc<[Arc<Tap>]>,
    pub(super) traces: TraceState,
}

impl TapState {
    pub(crate) fn apply(&mut self, taps: &Arc<[Arc<Tap>]>, tracer: Option<Arc<Tracer>>) {
        self.taps = taps.clone();
        self.traces.apply(tracer);
        self.is_open = !self.taps.is_empty() || self.traces.has_tracer();
    }

    /// Whether there is a tap or a tracer.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_is_limited_per_second_and_counts_the_rest() {
        let tapped = || TappedMessage {
            at_ms: 0,
            topic: "t".into(),
            qos: QoS::AtMostOnce,
            retain: false,
            client_id: None,
            properties: [].into(),
            payload: [].into(),
            payload_bytes: 0,
        };
        let taken = Arc::new(AtomicU64::new(0));
        let counted = taken.clone();
        // A sink that accepts 12 messages.
        let tap = Tap::new("#".into(), 5, move |_| counted.fetch_add(1, Ordering::Relaxed) < 12);
        let offered = |now_ms| (0..8).for_each(|_| tap.try_send(now_ms, tapped));
        offered(1_000_000);
        assert_eq!((taken.load(Ordering::Relaxed), tap.take_skipped()), (5, 3));
        offered(1_000_999);
        assert_eq!((taken.load(Ordering::Relaxed), tap.take_skipped()), (5, 8));
        // The clock is set back.
        offered(999_000);
        assert_eq!((taken.load(Ordering::Relaxed), tap.take_skipped()), (10, 3));
        offered(2_000_000);
        assert_eq!((taken.load(Ordering::Relaxed), tap.take_skipped()), (15, 6), "the sink accepts 12 messages in all");
        assert_eq!(tap.take_skipped(), 0);
    }
}
