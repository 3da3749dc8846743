//! The thread that exports telemetry.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tautwire_identity::{HttpClient as _, HttpRequest, HttpResponse, Secret};

use super::logs::{self, LogRecord};
use super::metrics::{self, CollectionInterval};
use super::otlp::{self, Signal};
use super::plan::Plan;
use super::queue::RECORDS_MAX;
use super::state::{Counters, SharedState};
use super::traces::EndedSpan;
use crate::identity::UreqClient;
use crate::json;
use crate::time::since_epoch;

/// Longest wait before records are sent, while the collector is reachable.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Largest number of records in one request.
const BATCH_RECORDS_MAX: usize = 512;
/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest accepted response of the collector.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Pause after the first failure; it doubles with each further one.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// Longest pause.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Longest pause that the collector can request with `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);
/// How long the same records are retried.
const RETRY_PERIOD: Duration = Duration::from_secs(300);

/// Retryable status codes (OTLP 1.x, "Retryable Response Codes").
const RETRYABLE: [u16; 4] = [429, 502, 503, 504];

/// The state of the exporting thread.
pub(super) struct Exporter {
    shared: Arc<SharedState>,
    /// When the metrics are due.
    metrics_at: Instant,
    /// When the queues of records are checked next.
    records_at: Instant,
    /// Records that the collector has not accepted yet.
    pending: Option<Batch>,
    /// Consecutive failures.
    failures: u32,
    /// Nothing is sent before this time.
    pause_until: Instant,
}

/// The records of one request.
struct Batch {
    signal: Signal,
    items: Vec<String>,
    since: Instant,
}

/// A plan in execution, with its HTTP client.
struct ActiveExport {
    plan: Arc<Plan>,
    http: UreqClient,
    resource: String,
}

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Accepted, except for this number of items.
    Accepted { refused: u64 },
    /// Failed, but may be retried, after the pause that the collector requests, if it does.
    Retry { why: String, retry_after: Option<Duration> },
    /// Permanently rejected.
    Rejected(String),
}

impl Exporter {
    pub(super) fn new(shared: Arc<SharedState>) -> Exporter {
        let now = Instant::now();
        Exporter { shared, metrics_at: now, records_at: now, pending: None, failures: 0, pause_until: now }
    }

    /// Runs until the process ends.
    pub(super) fn run(mut self) {
        logs::exclude_this_thread();
        let mut running: Option<ActiveExport> = None;
        loop {
            let (plan, end) = self.next(running.as_ref());
            if let Some(plan) = &plan
                && running.as_ref().is_none_or(|running| !Arc::ptr_eq(&running.plan, plan))
            {
                self.reset(plan);
                let resource = plan.resource(&self.shared.instance);
                running = Some(ActiveExport { http: plan.http(), resource, plan: plan.clone() });
            } else if plan.is_none() {
                running = None;
                self.clear_pending();
            }
            if let Some(running) = &running {
                self.send_due(running, end);
            }
            if end.is_some() {
                self.shared.state().has_ended = true;
                self.shared.ended.notify_all();
                return;
            }
        }
    }

    /// Waits for work. Returns the plan, and the deadline for the last export if the broker is stopping.
    fn next(&self, running: Option<&ActiveExport>) -> (Option<Arc<Plan>>, Option<Instant>) {
        let mut state = self.shared.state();
        loop {
            let is_new = match (&state.plan, running) {
                (Some(plan), Some(running)) => !Arc::ptr_eq(plan, &running.plan),
                (plan, running) => plan.is_some() != running.is_some(),
            };
            let wait = match running {
                Some(running) => self.due(&running.plan).saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if is_new || state.end.is_some() || wait.is_zero() {
                return (state.plan.clone(), state.end);
            }
            let woken = self.shared.changed.wait_timeout(state, wait.min(MAX_BACKOFF));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The time of the next export.
    fn due(&self, plan: &Plan) -> Instant {
        let metrics = plan.config.metrics.then_some(self.metrics_at);
        let records = (plan.config.logs || plan.config.traces).then_some(self.records_at);
        let first = metrics.into_iter().chain(records).min();
        first.unwrap_or_else(|| Instant::now() + MAX_BACKOFF).max(self.pause_until)
    }

    /// Resets the schedule for a new plan: earlier failures do not count.
    fn reset(&mut self, plan: &Plan) {
        let now = Instant::now();
        self.metrics_at = now + Duration::from_secs(plan.config.metrics_interval_s.into());
        self.records_at = now + FLUSH_INTERVAL;
        self.pause_until = now;
        self.failures = 0;
    }

    /// Drops all pending records.
    fn clear_pending(&mut self) {
        if let Some(batch) = self.pending.take() {
            self.count_dropped(&batch);
        }
        logs::QUEUE.count_dropped(logs::QUEUE.take(usize::MAX).len() as u64);
        let spans = &self.shared.spans.queue;
        spans.count_dropped(spans.take(usize::MAX).len() as u64);
    }

    /// Counts the records of a batch as dropped.
    fn count_dropped(&self, batch: &Batch) {
        let count = batch.items.len() as u64;
        match batch.signal {
            Signal::Metrics => {}
            Signal::Logs => logs::QUEUE.count_dropped(count),
            Signal::Traces => self.shared.spans.queue.count_dropped(count),
        }
    }

    /// Sends what is due; at shutdown, everything.
    fn send_due(&mut self, running: &ActiveExport, end: Option<Instant>) {
        if end.is_none() && Instant::now() < self.pause_until {
            return;
        }
        let config = &running.plan.config;
        if config.metrics && (end.is_some() || Instant::now() >= self.metrics_at) {
            let interval = Duration::from_secs(config.metrics_interval_s.into());
            if !self.send_metrics(running, end) {
                return;
            }
            self.metrics_at = Instant::now() + interval;
        }
        self.records_at = Instant::now() + FLUSH_INTERVAL;
        if self.pending.is_some() && !self.send_pending(running, end) {
            return;
        }
        for signal in [Signal::Logs, Signal::Traces] {
            // A bounded number of batches: records that arrive meanwhile wait for the next time.
            for _ in 0..RECORDS_MAX / BATCH_RECORDS_MAX + 1 {
                let items = self.take(signal);
                if items.is_empty() {
                    break;
                }
                self.pending = Some(Batch { signal, items, since: Instant::now() });
                if !self.send_pending(running, end) {
                    return;
                }
            }
        }
    }

    /// The oldest records of a signal, as many as fit into one request.
    fn take(&self, signal: Signal) -> Vec<String> {
        match signal {
            Signal::Metrics => Vec::new(),
            Signal::Logs => logs::QUEUE.take(BATCH_RECORDS_MAX).iter().map(LogRecord::to_json).collect(),
            Signal::Traces => self.shared.spans.queue.take(BATCH_RECORDS_MAX).iter().map(EndedSpan::to_json).collect(),
        }
    }

    /// Sends the metrics. Returns whether to continue. Failed metrics are not kept: the next ones include them.
    fn send_metrics(&mut self, running: &ActiveExport, end: Option<Instant>) -> bool {
        let Some(source) = self.shared.source.get() else { return true };
        let span = CollectionInterval { start_ns: self.shared.start_ns, now_ns: since_epoch().as_nanos() as u64 };
        let metric_items = metrics::metric_items(&source(), span);
        let outcome = self.send(running, Signal::Metrics, &metric_items.items, end);
        let is_accepted = self.record_outcome(Signal::Metrics, &outcome, metric_items.points);
        if matches!(outcome, Outcome::Rejected(_)) {
            // The next metrics are due as if these had been accepted.
            return true;
        }
        is_accepted
    }

    /// Sends the pending batch. Returns whether to continue.
    fn send_pending(&mut self, running: &ActiveExport, end: Option<Instant>) -> bool {
        let Some(batch) = self.pending.take() else { return true };
        let outcome = self.send(running, batch.signal, &batch.items, end);
        let count = batch.items.len() as u64;
        let is_accepted = self.record_outcome(batch.signal, &outcome, count);
        if matches!(outcome, Outcome::Retry { .. }) {
            if end.is_some() || batch.since.elapsed() >= RETRY_PERIOD {
                self.count_dropped(&batch);
            } else {
                self.pending = Some(batch);
            }
        }
        is_accepted
    }

    fn send(&self, running: &ActiveExport, signal: Signal, items: &[String], end: Option<Instant>) -> Outcome {
        let left = end.map_or(REQUEST_TIMEOUT, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Outcome::retryable("the broker is stopping".to_owned());
        }
        let url = format!("{}{}", running.plan.url, signal.path());
        let body = Secret::new(otlp::message(signal, &running.resource, items));
        let request = HttpRequest {
            url: &url,
            fields: &running.plan.headers,
            body: Some(&body),
            timeout_ms: left.min(REQUEST_TIMEOUT).as_millis() as u64,
            response_bytes_max: ANSWER_BYTES_MAX,
        };
        match running.http.request(&request) {
            Ok(answer) => outcome(&answer),
            Err(failure) => Outcome::retryable(failure.to_string()),
        }
    }

    /// Counts the result of a request, and schedules a pause after a failure. Returns whether to continue.
    fn record_outcome(&mut self, signal: Signal, outcome: &Outcome, count: u64) -> bool {
        let Counters { requests, requests_failed, items_sent, items_refused } = &self.shared.counters;
        requests.fetch_add(1, Ordering::Relaxed);
        let (why, requested) = match outcome {
            Outcome::Accepted { refused } => {
                let refused = (*refused).min(count);
                items_sent.fetch_add(count - refused, Ordering::Relaxed);
                items_refused.fetch_add(refused, Ordering::Relaxed);
                if self.failures > 0 {
                    log::info!("the telemetry collector accepts requests again");
                }
                self.failures = 0;
                return true;
            }
            Outcome::Rejected(why) => {
                items_refused.fetch_add(count, Ordering::Relaxed);
                (why, None)
            }
            Outcome::Retry { why, retry_after } => (why, *retry_after),
        };
        requests_failed.fetch_add(1, Ordering::Relaxed);
        if self.failures == 0 {
            log::warn!("cannot send telemetry to the collector ({}): {why}; retrying", signal.path());
        }
        self.pause_until = Instant::now() + requested.map_or_else(|| backoff(self.failures), requested_pause);
        self.failures = self.failures.saturating_add(1);
        false
    }
}

/// The pause after this many earlier failures, with jitter so that many brokers do not return at once.
fn backoff(failures: u32) -> Duration {
    let whole = INITIAL_BACKOFF.saturating_mul(1 << failures.min(5)).min(MAX_BACKOFF);
    whole - jitter(whole)
}

/// The pause requested by a collector (OTLP 1.x, "OTLP/HTTP Throttling"): never shorter, and extended by jitter.
fn requested_pause(requested: Duration) -> Duration {
    let whole = requested.clamp(INITIAL_BACKOFF, MAX_RETRY_AFTER);
    whole + jitter(whole)
}

/// A random part of a pause, up to half of it.
fn jitter(whole: Duration) -> Duration {
    whole * (since_epoch().subsec_nanos() % 512) / 1_024
}

impl Outcome {
    fn retryable(why: String) -> Outcome {
        Outcome::Retry { why, retry_after: None }
    }
}

fn outcome(answer: &HttpResponse) -> Outcome {
    match answer.status {
        200..=299 => Outcome::Accepted { refused: rejected_items(&answer.body) },
        status if RETRYABLE.contains(&status) => Outcome::Retry {
            why: format!("the response has status {status}"),
            retry_after: answer.retry_after_s.map(|seconds| Duration::from_secs(seconds.into())),
        },
        status => Outcome::Rejected(format!("the response has status {status}")),
    }
}

/// The number of items rejected in an accepted request: `partialSuccess`.
fn rejected_items(body: &[u8]) -> u64 {
    let Some(answer) = str::from_utf8(body).ok().and_then(|text| json::parse(text).ok()) else { return 0 };
    let Some(partial) = answer.get("partialSuccess") else { return 0 };
    let names = ["rejectedDataPoints", "rejectedLogRecords", "rejectedSpans"];
    let count = names.iter().find_map(|name| partial.get(name));
    match count {
        // The JSON encoding of Protocol Buffers writes 64-bit numbers as strings, and allows plain numbers.
        Some(json::Value::Text(count) | json::Value::Number(count)) => count.parse().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(status: u16, body: &str) -> Outcome {
        outcome(&HttpResponse::new(status, body))
    }

    #[test]
    fn retryable_and_permanent_failures_are_distinguished() {
        assert_eq!(outcome_of(200, "{}"), Outcome::Accepted { refused: 0 });
        for status in RETRYABLE {
            assert!(matches!(outcome_of(status, ""), Outcome::Retry { retry_after: None, .. }), "{status}");
            let answer = HttpResponse { retry_after_s: Some(7), ..HttpResponse::new(status, "") };
            let requested = Some(Duration::from_secs(7));
            assert!(
                matches!(outcome(&answer), Outcome::Retry { retry_after, .. } if retry_after == requested),
                "{status}"
            );
        }
        for status in [301, 400, 401, 404, 500, 501] {
            assert!(matches!(outcome_of(status, ""), Outcome::Rejected(_)), "{status}");
        }
    }

    #[test]
    fn a_collector_can_refuse_some_items() {
        assert_eq!(
            outcome_of(200, "{\"partialSuccess\":{\"rejectedDataPoints\":\"3\"}}"),
            Outcome::Accepted { refused: 3 }
        );
        assert_eq!(
            outcome_of(200, "{\"partialSuccess\":{\"rejectedLogRecords\":4}}"),
            Outcome::Accepted { refused: 4 }
        );
        for body in
            ["", "null", "{\"partialSuccess\":{}}", "{\"partialSuccess\":{\"rejectedSpans\":\"x\"}}", "\u{fffd}"]
        {
            assert_eq!(outcome_of(200, body), Outcome::Accepted { refused: 0 }, "{body}");
        }
    }

    #[test]
    fn retry_after_is_respected_and_bounded() {
        for (requested_s, least_s) in [(0, 1), (1, 1), (120, 120), (u32::MAX, 3_600)] {
            let pause = requested_pause(Duration::from_secs(requested_s.into()));
            let least = Duration::from_secs(least_s);
            assert!(pause >= least && pause < least * 3 / 2, "{requested_s}: {pause:?}");
        }
    }

    #[test]
    fn retry_delays_grow_to_half_a_minute() {
        for failures in [0, 1, 4, 5, 31, 32, u32::MAX] {
            let pause = backoff(failures);
            let whole = INITIAL_BACKOFF.saturating_mul(1 << failures.min(5)).min(MAX_BACKOFF);
            assert!(pause > whole / 2 - Duration::from_millis(1) && pause <= whole, "{failures}: {pause:?}");
        }
    }
}
