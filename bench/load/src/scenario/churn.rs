use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::session_mill::{SessionMill, Steps, Topic};
use crate::failure::Result;
use crate::measure::Measurement;
use crate::system::{Meter, open_descriptors, resident_bytes};

/// The time for the broker to process the last disconnections.
const SETTLE: Duration = Duration::from_millis(300);

/// Short sessions: connect, subscribe to a unique topic, publish to it, receive the message, disconnect.
/// Each step waits for the broker's response to the last. A tenth as many run first, so that warm-up does not count as a leak.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Churn {
    pub cycles: u64,
    /// The number of concurrent sessions.
    pub parallel: u64,
}

impl Default for Churn {
    fn default() -> Self {
        Self { cycles: 100_000, parallel: 50 }
    }
}

impl Churn {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let steps = Steps {
            subscribe: Some(Topic::Own),
            publish: true,
            disconnect: true,
            keep_alive_s: 600,
            client_ids: "bench-churn",
        };
        let pid = context.broker.pid;
        let mut mill = SessionMill::new(context, steps)?;
        let warm_up = self.cycles / 10;
        mill.run(self.parallel.max(1), warm_up)?;
        thread::sleep(SETTLE);
        let (rss_before, descriptors_before) = (resident_bytes(pid)?, open_descriptors(pid)?);
        let meter = Meter::begin(context.broker)?;
        let elapsed = mill.run(self.parallel.max(1), warm_up + self.cycles)?;
        let load = meter.end(context.broker)?;
        thread::sleep(SETTLE);

        let cycles = self.cycles as f64;
        let mut measurement = Measurement::of(mill.account());
        measurement.set("cycles_per_s", cycles / elapsed.as_secs_f64());
        measurement.set("broker_cpu_us_per_cycle", load.broker_cpu_s * 1e6 / cycles);
        measurement.set("generator_cpu_us_per_cycle", load.generator_cpu_s * 1e6 / cycles);
        measurement.set("rss_growth_bytes", resident_bytes(pid)? as f64 - rss_before as f64);
        measurement.set("descriptors_left_open", open_descriptors(pid)? as f64 - descriptors_before as f64);
        load.describe(context.broker, &mut measurement)?;
        if let Some(reason) = load.generator_bottleneck(context.broker, context.placement) {
            measurement.invalidate(&reason, |name| name == "cycles_per_s");
        }
        Ok(measurement)
    }
}
