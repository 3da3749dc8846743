use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Context;
use super::session_mill::{SessionMill, Steps, Until};
use crate::failure::{Failure, Result};
use crate::measure::Measurement;
use crate::system::{CpuClock, raise_open_files_limit, resident_bytes};

/// File descriptors left to each process for everything that is not one of the connections.
const RESERVED_DESCRIPTORS: u64 = 100;

/// What allocators and the kernel may still have to do after the last answer, before memory is read.
const SETTLE: Duration = Duration::from_millis(300);

/// Connections that do nothing: the rate at which they open, and the memory each holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Idle {
    /// 0: as many as the limit of open files allows, less 100.
    pub connections: u64,
    /// Each connection subscribes to one topic of its own.
    pub subscribe: bool,
    /// Handshakes under way at the same time.
    pub parallel: u64,
    pub keep_alive_s: u16,
}

impl Default for Idle {
    fn default() -> Self {
        Self { connections: 10_000, subscribe: false, parallel: 50, keep_alive_s: 600 }
    }
}

impl Idle {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let possible = raise_open_files_limit()?.saturating_sub(RESERVED_DESCRIPTORS);
        let connections = if self.connections == 0 { possible } else { self.connections };
        if connections > possible {
            return Err(Failure::new(format!(
                "{connections} connections need more open files than the limit allows ({possible} connections)"
            )));
        }
        let steps =
            Steps { subscribe: self.subscribe, publish: false, disconnect: false, keep_alive_s: self.keep_alive_s };
        let mut mill = SessionMill::new(context, steps)?;
        let rss_before = resident_bytes(context.broker.pid)?;
        let broker_before = CpuClock::read(context.broker.pid)?;
        let elapsed = mill.run(self.parallel.max(1), &Until::Sessions(connections))?;
        let broker_cpu_s = CpuClock::read(context.broker.pid)?.seconds_since(&broker_before);
        thread::sleep(SETTLE);
        let rss_after = resident_bytes(context.broker.pid)?;
        mill.expect_silence()?;

        let mut measurement = Measurement::of(mill.account());
        measurement.set("connections", connections as f64);
        measurement.set("connects_per_s", connections as f64 / elapsed.as_secs_f64());
        measurement.set("broker_cpu_us_per_connect", broker_cpu_s * 1e6 / connections as f64);
        measurement.set("rss_at_start_bytes", context.broker.rss_at_start_bytes as f64);
        measurement.set("bytes_per_connection", (rss_after as f64 - rss_before as f64) / connections as f64);
        Ok(measurement)
    }
}
