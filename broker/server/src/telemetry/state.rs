//! The state of the export: its plan, its queues and its counters.

use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tautwire_engine::Tracer;

use super::plan::Plan;
use super::traces::SpanQueue;
use crate::time::since_epoch;

/// Returns the metrics in the Prometheus text format.
type MetricsSource = Box<dyn Fn() -> String + Send + Sync>;

/// What the exporting thread shares with the others.
pub(super) struct SharedState {
    state: Mutex<ExportState>,
    /// Signaled when the plan changes or the broker stops.
    pub(super) changed: Condvar,
    /// Signaled after the last export.
    pub(super) ended: Condvar,
    pub(super) source: OnceLock<MetricsSource>,
    pub(super) spans: Arc<SpanQueue>,
    pub(super) counters: Counters,
    /// When the counters started, in nanoseconds since the Unix epoch.
    pub(super) start_ns: u64,
    /// Distinguishes this run of the broker from all others.
    pub(super) instance: String,
}

/// The plan, and the end of the export.
#[derive(Default)]
pub(super) struct ExportState {
    pub(super) plan: Option<Arc<Plan>>,
    pub(super) tracer: Option<Arc<Tracer>>,
    /// The deadline of the last export, once the broker stops.
    pub(super) end: Option<Instant>,
    pub(super) has_ended: bool,
}

/// Counters of requests, and of the items in them.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) requests_failed: AtomicU64,
    pub(super) items_sent: AtomicU64,
    pub(super) items_refused: AtomicU64,
}

impl SharedState {
    /// A state without a plan.
    pub(super) fn new() -> SharedState {
        SharedState {
            state: Mutex::default(),
            changed: Condvar::new(),
            ended: Condvar::new(),
            source: OnceLock::new(),
            spans: Arc::new(SpanQueue::new()),
            counters: Counters::default(),
            start_ns: since_epoch().as_nanos() as u64,
            instance: instance(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ExportState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A random UUID (RFC 9562, version 4).
fn instance() -> String {
    let mut bytes = [0; 16];
    if crate::identity::random(&mut bytes).is_err() {
        // Uniqueness is enough; nothing depends on secrecy.
        bytes = since_epoch().as_nanos().to_be_bytes();
    }
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        text.push_str(if [4, 6, 8, 10].contains(&at) { "-" } else { "" });
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_its_own_uuid() {
        let (one, other) = (instance(), instance());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15], one.matches('-').count()), (36, "4", 4), "{one}");
    }
}
