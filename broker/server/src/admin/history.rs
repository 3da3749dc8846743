//! Metrics of the last hour in rows of ten seconds: some 50 KiB, and one read of the counters per row.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tautwire_engine::{Latencies, Totals};
use tautwire_reactor::{Control, Durations};

use crate::fields::{Fields, Value};
use crate::time::since_epoch;

/// Interval between rows.
const STEP_MS: u64 = 10_000;
/// Limit for stored rows.
const ROWS_MAX: usize = 360;
/// Steps that percentiles cover: a minute.
const RECENT_STEPS: usize = 6;

/// The columns of a row; `true` marks rates, which are stored in tenths.
const SERIES: [(&str, bool); 8 + LatencyTotals::COUNT] = [
    ("connections", false),
    ("messages_received", true),
    ("messages_sent", true),
    ("bytes_received", true),
    ("bytes_sent", true),
    ("memory_bytes", false),
    ("disk_bytes", false),
    ("dropped", true),
    // Latencies, in the order of `LatencyTotals`.
    ("log_sync_p99_us", false),
    ("delivery_p99_us", false),
    ("acknowledgement_p99_us", false),
];

type Row = [Option<u64>; SERIES.len()];

/// The values for a row, in the order of [`SERIES`]; rates are running totals here.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at_ms: u64,
    pub(super) values: Row,
    pub(super) latencies: LatencyTotals,
}

/// Latency distributions since the start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LatencyTotals {
    /// From writing to the log until the data is durable; `None` without a log.
    pub(super) syncs: Option<Durations>,
    /// From reading a message to writing it to clients, for all QoS levels.
    pub(super) delivery: Durations,
    /// From reading a message to acknowledging it.
    pub(super) acknowledgement: Durations,
}

impl LatencyTotals {
    const COUNT: usize = 3;

    pub(super) fn now(control: &Control, syncs: Option<Durations>) -> LatencyTotals {
        let Latencies { delivery, acknowledgement } = control.latencies();
        let together = |parts: &[Durations]| parts.iter().fold(Durations::default(), |sum, part| sum.and(part));
        LatencyTotals { syncs, delivery: together(&delivery), acknowledgement: together(&acknowledgement) }
    }

    fn since(&self, earlier: &LatencyTotals) -> LatencyTotals {
        LatencyTotals {
            syncs: self.syncs.zip(earlier.syncs).map(|(now, earlier)| now.since(&earlier)),
            delivery: self.delivery.since(&earlier.delivery),
            acknowledgement: self.acknowledgement.since(&earlier.acknowledgement),
        }
    }

    fn p99_us(&self) -> [Option<u64>; LatencyTotals::COUNT] {
        [self.syncs, Some(self.delivery), Some(self.acknowledgement)].map(|durations| durations?.percentile_us(99))
    }
}

/// The rows.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<HistoryRows>);

#[derive(Debug, Default)]
struct HistoryRows {
    is_recording: bool,
    rows: VecDeque<Row>,
    last: Option<Sample>,
    /// Samples of the last minute, oldest first.
    latencies: VecDeque<LatencyTotals>,
}

impl History {
    /// Adds a row every ten seconds, until the process ends. Later calls do nothing.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start_recording(self: &Arc<History>, control: &Control) -> std::io::Result<()> {
        if mem::replace(&mut self.lock_rows().is_recording, true) {
            return Ok(());
        }
        let (history, control) = (self.clone(), control.clone());
        history.add(sample(&control));
        let run = move || loop {
            thread::sleep(Duration::from_millis(STEP_MS));
            history.add(sample(&control));
        };
        thread::Builder::new().name("admin-history".to_owned()).spawn(run).map(|_| ())
    }

    fn add(&self, sample: Sample) {
        let mut history = self.lock_rows();
        if let Some(last) = history.last.take() {
            let elapsed_ms = sample.at_ms.saturating_sub(last.at_ms);
            // The machine may have been suspended.
            let missed = ((elapsed_ms + STEP_MS / 2) / STEP_MS).saturating_sub(1).min(ROWS_MAX as u64);
            history.rows.extend((0..missed).map(|_| Row::default()));
            history.rows.push_back(row(&sample, &last, elapsed_ms));
        }
        let surplus = history.rows.len().saturating_sub(ROWS_MAX);
        history.rows.drain(..surplus);
        history.latencies.push_back(sample.latencies);
        let surplus = history.latencies.len().saturating_sub(RECENT_STEPS);
        history.latencies.drain(..surplus);
        history.last = Some(sample);
    }

    /// The latencies of the last minute at most, up to `now`.
    pub(super) fn recent(&self, now: &LatencyTotals) -> LatencyTotals {
        self.lock_rows().latencies.front().map_or(*now, |before| now.since(before))
    }

    /// The last hour as a JSON response.
    pub(super) fn to_fields(&self) -> Fields {
        let history = self.lock_rows();
        let mut series = Fields::default();
        for (at, (name, is_rate)) in SERIES.into_iter().enumerate() {
            let value = |row: &Row| match row[at] {
                Some(tenths) if is_rate => Value::Json(format!("{}.{}", tenths / 10, tenths % 10)),
                value => Value::from(value),
            };
            series.add(name, history.rows.iter().map(value).collect::<Vec<Value>>());
        }
        let end_ms = history.last.as_ref().map(|last| last.at_ms);
        Fields::default().with("step_ms", STEP_MS).with("end_ms", end_ms).with("series", series)
    }

    fn lock_rows(&self) -> MutexGuard<'_, HistoryRows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn row(sample: &Sample, last: &Sample, elapsed_ms: u64) -> Row {
    let mut row = sample.values;
    for ((value, before), (_, is_rate)) in row.iter_mut().zip(last.values).zip(SERIES) {
        if is_rate {
            let rate = |now: u64, before: u64| {
                (u128::from(now.wrapping_sub(before)) * 10_000)
                    .checked_div(u128::from(elapsed_ms))
                    .map(|rate| rate as u64)
            };
            *value = value.zip(before).and_then(|(now, before)| rate(now, before));
        }
    }
    row[SERIES.len() - LatencyTotals::COUNT..].copy_from_slice(&sample.latencies.since(&last.latencies).p99_us());
    row
}

fn sample(control: &Control) -> Sample {
    let totals = control.totals();
    let data = control.data();
    let values = [
        Some(totals.connections),
        Some(totals.publishes_received),
        Some(totals.publishes_sent),
        Some(totals.bytes_received),
        Some(totals.bytes_sent),
        Some(control.memory_bytes()),
        data.as_ref().map(|data| data.log_bytes + data.snapshot_bytes),
        Some(drops(&totals).iter().map(|(_, count)| count).sum()),
        None,
        None,
        None,
    ];
    Sample { at_ms: now_ms(), values, latencies: LatencyTotals::now(control, data.map(|data| data.sync_times)) }
}

/// Dropped messages by reason. The names match `drops` of a client where both exist.
pub(super) fn drops(totals: &Totals) -> [(&'static str, u64); 10] {
    [
        ("output_full", totals.dropped_output_full),
        ("queue_full", totals.dropped_queue_full),
        ("memory_full", totals.dropped_memory_full),
        ("shard_queue_full", totals.dropped_shard_queue_full),
        ("expired", totals.dropped_expired),
        ("too_large", totals.dropped_too_large),
        ("outside_mount", totals.dropped_outside_mount),
        ("no_member", totals.dropped_no_member),
        ("not_authorized", totals.dropped_not_authorized),
        ("untranscodable", totals.dropped_not_transcodable),
    ]
}

pub(super) fn now_ms() -> u64 {
    since_epoch().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(step: u64, received: u64, connections: u64) -> Sample {
        let mut values = Row::default();
        (values[0], values[1]) = (Some(connections), Some(received));
        Sample { at_ms: 1_000_000 + step * STEP_MS, values, latencies: LatencyTotals::default() }
    }

    fn to_fields(history: &History) -> String {
        let mut text = String::new();
        history.to_fields().push_json(&mut text);
        text
    }

    #[test]
    fn rates_are_per_second_and_missing_values_are_null() {
        let history = History::default();
        assert!(to_fields(&history).starts_with("{\"step_ms\":10000,\"end_ms\":null,\"series\":{\"connections\":[],"));
        history.add(sample(0, 5, 1));
        history.add(sample(1, 30, 2));
        history.add(sample(4, 35, 3));
        let to_fields = to_fields(&history);
        assert!(
            to_fields.contains("\"connections\":[2,null,null,3],\"messages_received\":[2.5,null,null,0.1],"),
            "{to_fields}"
        );
        assert!(to_fields.contains("\"disk_bytes\":[null,null,null,null]"), "{to_fields}");
        assert!(to_fields.starts_with("{\"step_ms\":10000,\"end_ms\":1040000,"), "{to_fields}");
    }

    #[test]
    fn at_most_an_hour_of_history_is_kept() {
        let history = History::default();
        (0..500).for_each(|step| history.add(sample(step, step, step)));
        assert_eq!(history.lock_rows().rows.len(), ROWS_MAX);
        history.add(sample(1_000_000, 0, 0));
        let locked = history.lock_rows();
        assert_eq!((locked.rows.len(), locked.rows[0]), (ROWS_MAX, Row::default()));
    }
}
