use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::open_load::{OpenLoad, OpenLoadPlan, Wiring};
use super::parameters::{PayloadKind, QosLevel};
use crate::failure::Result;
use crate::measure::Measurement;
use crate::system::{Meter, resident_bytes};

/// The time is divided into this many windows; the first and the last show growth over time.
const WINDOWS: usize = 10;

/// Many clients at a fixed rate, for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Steady {
    pub wiring: Wiring,
    pub publishers: usize,
    /// The rate of all publishers together.
    pub rate_per_s: u64,
    pub qos: QosLevel,
    pub payload: PayloadKind,
    pub payload_bytes: usize,
    pub duration_ms: u64,
    pub warm_up_ms: u64,
}

impl Default for Steady {
    fn default() -> Self {
        Self {
            wiring: Wiring::Ring,
            publishers: 100,
            rate_per_s: 5000,
            qos: QosLevel::default(),
            payload: PayloadKind::Plain,
            payload_bytes: 64,
            duration_ms: 5000,
            warm_up_ms: 500,
        }
    }
}

impl Steady {
    pub(super) fn connections(&self) -> u64 {
        match self.wiring {
            Wiring::Ring => self.publishers as u64,
            Wiring::Pairs => 2 * self.publishers as u64,
        }
    }

    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let plan = OpenLoadPlan {
            wiring: self.wiring,
            publishers: self.publishers,
            rate_per_s: self.rate_per_s as f64,
            qos: self.qos,
            payload: self.payload,
            payload_bytes: self.payload_bytes,
            name: "steady",
        };
        let begun = Instant::now();
        let mut load = OpenLoad::open(plan, context)?;
        let connected = begun.elapsed();
        load.run_for(Duration::from_millis(self.warm_up_ms), 1)?;
        let rss_before = resident_bytes(context.broker.pid)?;
        let meter = Meter::begin(context.broker)?;
        let outcome = load.run_for(Duration::from_millis(self.duration_ms), WINDOWS)?;
        let spent = meter.end(context.broker)?;

        let mut measurement = Measurement::of(load.account());
        let deliveries = outcome.deliveries as f64;
        measurement.set("connect_s", connected.as_secs_f64());
        measurement.set("deliveries_per_s", deliveries / outcome.elapsed.as_secs_f64());
        measurement.set("broker_cpu_us_per_delivery", spent.broker_cpu_s * 1e6 / deliveries);
        measurement.set("rss_at_start_bytes", context.broker.rss_at_start_bytes as f64);
        spent.describe(context.broker, &mut measurement)?;
        measurement.set("rss_growth_bytes", resident_bytes(context.broker.pid)? as f64 - rss_before as f64);
        for (name, window) in [("first_tenth_p99_us", 0), ("last_tenth_p99_us", WINDOWS - 1)] {
            measurement.set(name, outcome.windows[window].quantile_us(0.99));
        }
        outcome.describe("", &mut measurement);
        if let Some(reason) = spent.generator_bottleneck(context.broker, context.placement) {
            measurement.invalidate(&reason, |name| name.ends_with("_us"));
        }
        Ok(measurement)
    }
}
