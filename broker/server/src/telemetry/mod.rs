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
mod state;
mod traces;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tautwire_engine::Tracer;

use exporter::Exporter;
pub(crate) use plan::Plan;
use state::{Counters, ExportState, SharedState};

/// Longest wait for the last export at shutdown.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);

/// Control of the telemetry export.
pub(crate) struct Telemetry {
    shared: Arc<SharedState>,
    /// Whether the thread has been started.
    is_started: Mutex<bool>,
}

impl Telemetry {
    /// Creates an instance that exports nothing yet.
    pub(crate) fn new() -> Telemetry {
        Telemetry { shared: Arc::new(SharedState::new()), is_started: Mutex::new(false) }
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
        let is_waiting = |state: &mut ExportState| !state.has_ended;
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
