//! The `$SYS` topics, with the names that mosquitto uses.

mod steps;

use tautwire_router::ShardIndex;

use crate::counters::Totals;
use crate::settings::values::Settings;

/// A counter with the name of its topic.
pub(crate) struct CounterTopic {
    pub(crate) name: &'static str,
    pub(crate) counter: fn(&Totals) -> u64,
}

/// The counters that each broker of a cluster publishes, and that are summed over brokers.
pub(crate) const SUMMED: [CounterTopic; 10] = [
    CounterTopic { name: "clients/connected", counter: |totals| totals.sessions_connected },
    CounterTopic { name: "messages/received", counter: |totals| totals.packets_received },
    CounterTopic { name: "messages/sent", counter: |totals| totals.packets_sent },
    CounterTopic { name: "publish/messages/received", counter: |totals| totals.publishes_received },
    CounterTopic { name: "publish/messages/sent", counter: |totals| totals.publishes_sent },
    CounterTopic { name: "publish/messages/dropped", counter: Totals::dropped },
    CounterTopic { name: "publish/bytes/received", counter: |totals| totals.publish_bytes_received },
    CounterTopic { name: "publish/bytes/sent", counter: |totals| totals.publish_bytes_sent },
    CounterTopic { name: "bytes/received", counter: |totals| totals.bytes_received },
    CounterTopic { name: "bytes/sent", counter: |totals| totals.bytes_sent },
];

/// The counters that are averaged, below `load/`.
const RATES: [CounterTopic; 9] = [
    CounterTopic { name: "messages/received", counter: |totals| totals.packets_received },
    CounterTopic { name: "messages/sent", counter: |totals| totals.packets_sent },
    CounterTopic { name: "publish/dropped", counter: Totals::dropped },
    CounterTopic { name: "publish/received", counter: |totals| totals.publishes_received },
    CounterTopic { name: "publish/sent", counter: |totals| totals.publishes_sent },
    CounterTopic { name: "bytes/received", counter: |totals| totals.bytes_received },
    CounterTopic { name: "bytes/sent", counter: |totals| totals.bytes_sent },
    CounterTopic { name: "sockets", counter: |totals| totals.connections_accepted },
    CounterTopic { name: "connections", counter: |totals| totals.connects },
];

const WINDOWS: [(&str, f64); 3] = [("1min", 60.0), ("5min", 300.0), ("15min", 900.0)];

/// The schedule of the topics, and the last values. Shard 0 publishes for all shards.
#[derive(Debug)]
pub(crate) struct SysTopics {
    started_ms: u64,
    interval_ms: u64,
    next_ms: Option<u64>,
    last_ms: u64,
    last: Totals,
    maximum_connected: u64,
    /// Exponential averages per minute, for each rate and window.
    loads: [[f64; WINDOWS.len()]; RATES.len()],
}

impl SysTopics {
    pub(crate) fn new(shard: ShardIndex, settings: &Settings, now_ms: u64) -> SysTopics {
        let interval_ms = u64::from(settings.sys_interval_s) * 1000;
        SysTopics {
            started_ms: now_ms,
            interval_ms,
            // The first time immediately, so that later clients find them.
            next_ms: (shard == ShardIndex(0) && interval_ms > 0).then_some(now_ms),
            last_ms: now_ms,
            last: Totals::default(),
            maximum_connected: 0,
            loads: Default::default(),
        }
    }

    /// Changes the interval.
    pub(crate) fn change(&mut self, shard: ShardIndex, settings: &Settings, now_ms: u64) {
        let interval_ms = u64::from(settings.sys_interval_s) * 1000;
        if interval_ms != self.interval_ms {
            self.interval_ms = interval_ms;
            self.next_ms = (shard == ShardIndex(0) && interval_ms > 0).then_some(now_ms);
        }
    }

    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.next_ms
    }

    fn average(&mut self, totals: &Totals, now_ms: u64) {
        let elapsed_s = (now_ms - self.last_ms) as f64 / 1000.0;
        if elapsed_s > 0.0 {
            for (averages, CounterTopic { counter, .. }) in self.loads.iter_mut().zip(RATES) {
                let per_minute = counter(totals).wrapping_sub(counter(&self.last)) as f64 * 60.0 / elapsed_s;
                for (average, (_, window_s)) in averages.iter_mut().zip(WINDOWS) {
                    let keep = (-elapsed_s / window_s).exp();
                    *average = per_minute + keep * (*average - per_minute);
                }
            }
        }
        self.last = totals.clone();
        self.last_ms = now_ms;
        self.maximum_connected = self.maximum_connected.max(totals.sessions_connected);
    }
}
