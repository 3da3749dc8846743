use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Context;
use super::session_mill::{SessionMill, Steps, Until};
use crate::failure::Result;
use crate::measure::Measurement;
use crate::system::CpuClock;

/// Sessions that come and go: connect, subscribe to a topic of its own, publish to it, receive the message, disconnect.
/// Each step waits for the broker's answer to the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Churn {
    /// Sessions under way at the same time.
    pub parallel: u64,
    pub duration_ms: u64,
    pub warm_up_ms: u64,
}

impl Default for Churn {
    fn default() -> Self {
        Self { parallel: 50, duration_ms: 2000, warm_up_ms: 200 }
    }
}

impl Churn {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let steps = Steps { subscribe: true, publish: true, disconnect: true, keep_alive_s: 600 };
        let mut mill = SessionMill::new(context, steps)?;
        mill.run(self.parallel.max(1), &Until::Elapsed(Duration::from_millis(self.warm_up_ms)))?;
        let finished_before = mill.finished;
        let broker_before = CpuClock::read(context.broker.pid)?;
        let own_before = CpuClock::read(std::process::id())?;
        let elapsed = mill.run(self.parallel.max(1), &Until::Elapsed(Duration::from_millis(self.duration_ms)))?;
        let broker_cpu_s = CpuClock::read(context.broker.pid)?.seconds_since(&broker_before);
        let generator_cpu_s = CpuClock::read(std::process::id())?.seconds_since(&own_before);

        let cycles = (mill.finished - finished_before) as f64;
        let mut measurement = Measurement::of(mill.account());
        measurement.set("cycles_per_s", cycles / elapsed.as_secs_f64());
        measurement.set("broker_cpu_us_per_cycle", broker_cpu_s * 1e6 / cycles);
        measurement.set("generator_cpu_us_per_cycle", generator_cpu_s * 1e6 / cycles);
        Ok(measurement)
    }
}
