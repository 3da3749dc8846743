//! Export of metrics, log records and traces to an OpenTelemetry collector, by OTLP over HTTP in JSON.
//!
//! One thread, started when first needed, encodes and sends everything. Other threads put records into bounded queues and never wait for
//! the collector. Decision 0031 has the reasons.

mod exporter;
pub(crate) mod logs;
mod metrics;
mod otlp;
mod plan;
mod queue;
mod traces;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tautwire_engine::Tracer;

use crate::time::since_epoch;
use exporter::Exporter;
pub(crate) use plan::Plan;
use traces::SpanQueue;

/// Longest wait for the last export at shutdown.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the metrics in the Prometheus text format.
type Source = Box<dyn Fn() -> String + Send + Sync>;

/// Control of the telemetry export.
pub(crate) struct Telemetry {
    shared: Arc<Shared>,
    /// Whether the thread has been started.
    is_started: Mutex<bool>,
}

struct Shared {
    state: Mutex<State>,
    /// Signaled when the plan changes or the broker stops.
    changed: Condvar,
    /// Signaled after the last export.
    ended: Condvar,
    source: OnceLock<Source>,
    spans: Arc<SpanQueue>,
    counters: Counters,
    /// When the counters started, in nanoseconds since the Unix epoch.
    start_ns: u64,
    /// Distinguishes this run of the broker from all others.
    instance: String,
}

#[derive(Default)]
struct State {
    plan: Option<Arc<Plan>>,
    tracer: Option<Arc<Tracer>>,
    /// The deadline of the last export, once the broker stops.
    end: Option<Instant>,
    has_ended: bool,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    requests_failed: AtomicU64,
    items_sent: AtomicU64,
    items_refused: AtomicU64,
}

impl Telemetry {
    /// Creates an instance that exports nothing yet.
    pub(crate) fn new() -> Telemetry {
        Telemetry {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                changed: Condvar::new(),
                ended: Condvar::new(),
                source: OnceLock::new(),
                spans: Arc::new(SpanQueue::new()),
                counters: Counters::default(),
                start_ns: since_epoch().as_nanos() as u64,
                instance: instance(),
            }),
            is_started: Mutex::new(false),
        }
    }

    /// Sets the source of metrics.
    pub(crate) fn set_metrics_source(&self, source: impl Fn() -> String + Send + Sync + 'static) {
        let _ = self.shared.source.set(Box::new(source));
    }

    /// Applies a plan, or turns the export off. Does not block.
    pub(crate) fn apply(&self, plan: Option<Plan>) {
        let exports_logs = plan.as_ref().is_some_and(|plan| plan.config.logs);
        if plan.is_some() && !self.start() {
            return;
        }
        logs::QUEUE.enable(exports_logs);
        let mut state = self.shared.state();
        state.tracer = self.shared.spans.tracer(plan.as_ref());
        // With an unchanged plan, connections are kept.
        if state.plan.as_deref() != plan.as_ref() {
            state.plan = plan.map(Arc::new);
            self.shared.changed.notify_all();
        }
    }

    /// The tracer for the engine, if traces are exported.
    pub(crate) fn tracer(&self) -> Option<Arc<Tracer>> {
        self.shared.state().tracer.clone()
    }

    /// Starts the thread if necessary. Returns whether it runs.
    fn start(&self) -> bool {
        let mut is_started = self.is_started.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_started {
            let exporter = Exporter::new(self.shared.clone());
            match thread::Builder::new().name("telemetry".to_owned()).spawn(move || exporter.run()) {
                Ok(_) => *is_started = true,
                Err(error) => log::error!("telemetry is disabled: cannot start its thread: {error}"),
            }
        }
        *is_started
    }

    /// Exports the remaining records at shutdown, waiting at most [`LAST_TIMEOUT`].
    pub(crate) fn stop(&self) {
        let is_started = *self.is_started.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.shared.state();
        if !is_started || state.plan.is_none() {
            return;
        }
        state.end = Some(Instant::now() + LAST_TIMEOUT);
        self.shared.changed.notify_all();
        let is_waiting = |state: &mut State| !state.has_ended;
        drop(self.shared.ended.wait_timeout_while(state, LAST_TIMEOUT, is_waiting));
    }

    /// The counters with name and help text.
    pub(crate) fn counters(&self) -> [(&'static str, &'static str, u64); 6] {
        let Counters { requests, requests_failed, items_sent, items_refused } = &self.shared.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("telemetry_requests", "Requests to the telemetry collector.", count(requests)),
            ("telemetry_requests_failed", "Failed requests to the telemetry collector.", count(requests_failed)),
            (
                "telemetry_items_sent",
                "Data points, log records and spans accepted by the collector.",
                count(items_sent),
            ),
            (
                "telemetry_items_refused",
                "Data points, log records and spans rejected by the collector.",
                count(items_refused),
            ),
            (
                "telemetry_log_records_dropped",
                "Log records dropped because the queue was full or the collector did not accept them in time.",
                logs::QUEUE.dropped(),
            ),
            (
                "telemetry_spans_dropped",
                "Spans dropped because the queue was full, the collector did not accept them in time, or a message had too many.",
                self.shared.spans.queue.dropped(),
            ),
        ]
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
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
