//! Telemetry for a collector of OpenTelemetry: metrics, log records and traces, by OTLP over HTTP, in JSON.
//!
//! One thread makes and sends all of it, and there is none before somebody wants it. What others have to tell waits in bounded queues; nobody waits
//! for the collector. Why it is so stands in decision 0031.

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

/// How long the end of the broker waits for the collector to take the last of it.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);

/// Gives the metrics in the format of Prometheus.
type Source = Box<dyn Fn() -> String + Send + Sync>;

/// What is sent, for those who start and steer it.
pub(crate) struct Telemetry {
    shared: Arc<Shared>,
    /// Whether the thread has been started.
    is_started: Mutex<bool>,
}

struct Shared {
    state: Mutex<State>,
    /// There is another plan, or the end.
    changed: Condvar,
    /// The last has been sent.
    ended: Condvar,
    source: OnceLock<Source>,
    spans: Arc<SpanQueue>,
    counters: Counters,
    /// When the process began to count, in nanoseconds since the Unix epoch.
    start_ns: u64,
    /// Tells this run of the broker from all others.
    instance: String,
}

#[derive(Default)]
struct State {
    plan: Option<Arc<Plan>>,
    tracer: Option<Arc<Tracer>>,
    /// When all must have been sent, once the broker ends.
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
    /// One that sends nothing yet.
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

    /// Metrics come from here.
    pub(crate) fn measure(&self, source: impl Fn() -> String + Send + Sync + 'static) {
        let _ = self.shared.source.set(Box::new(source));
    }

    /// From now on this is sent, or nothing. Takes no time.
    pub(crate) fn adopt(&self, plan: Option<Plan>) {
        let wants_logs = plan.as_ref().is_some_and(|plan| plan.config.logs);
        if plan.is_some() && !self.start() {
            return;
        }
        logs::QUEUE.enable(wants_logs);
        let mut state = self.shared.state();
        state.tracer = self.shared.spans.tracer(plan.as_ref());
        // With the same plan, connections stay.
        if state.plan.as_deref() != plan.as_ref() {
            state.plan = plan.map(Arc::new);
            self.shared.changed.notify_all();
        }
    }

    /// What the engine is to follow.
    pub(crate) fn tracer(&self) -> Option<Arc<Tracer>> {
        self.shared.state().tracer.clone()
    }

    /// Starts the thread, if there is none; says whether there is one.
    fn start(&self) -> bool {
        let mut is_started = self.is_started.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_started {
            let exporter = Exporter::new(self.shared.clone());
            match thread::Builder::new().name("telemetry".to_owned()).spawn(move || exporter.run()) {
                Ok(_) => *is_started = true,
                Err(error) => log::error!("no telemetry is sent: its thread cannot be started: {error}"),
            }
        }
        *is_started
    }

    /// The broker has ended: sends what there is, and waits for that at most [`LAST_TIMEOUT`].
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

    /// What has been counted, by name and meaning.
    pub(crate) fn counters(&self) -> [(&'static str, &'static str, u64); 6] {
        let Counters { requests, requests_failed, items_sent, items_refused } = &self.shared.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("telemetry_requests", "Requests to the collector of telemetry.", count(requests)),
            (
                "telemetry_requests_failed",
                "Requests to the collector of telemetry that failed.",
                count(requests_failed),
            ),
            ("telemetry_items_sent", "Data points, log records and spans that the collector took.", count(items_sent)),
            (
                "telemetry_items_refused",
                "Data points, log records and spans that the collector refused for good.",
                count(items_refused),
            ),
            (
                "telemetry_log_records_dropped",
                "Log records for which there was no room, or that the collector did not take in time.",
                logs::QUEUE.dropped(),
            ),
            (
                "telemetry_spans_dropped",
                "Spans for which there was no room, that the collector did not take in time, or of which a message had too many.",
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

/// A UUID of random bits (RFC 9562, version 4).
fn instance() -> String {
    let mut bytes = [0; 16];
    if crate::identity::random(&mut bytes).is_err() {
        // It has to be told from others, and nothing else.
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
    fn an_instance_is_a_uuid_of_its_own() {
        let (one, other) = (instance(), instance());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15], one.matches('-').count()), (36, "4", 4), "{one}");
    }
}
