use serde::{Deserialize, Serialize};

use super::context::Context;
use super::session_mill::{SessionMill, Steps};
use crate::failure::Result;
use crate::measure::Measurement;
use crate::mqtt;
use crate::net::client_config;
use crate::system::Meter;

/// Clients that connect over TLS 1.3, are accepted, and disconnect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Handshakes {
    pub handshakes: u64,
    /// The warm-up before the measurement.
    pub warm_up: u64,
    /// Whether each resumes the session of an earlier one.
    pub resumed: bool,
    /// The number of concurrent handshakes. The generator has eight tickets for resumption.
    pub parallel: u64,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self { handshakes: 5_000, warm_up: 200, resumed: false, parallel: 4 }
    }
}

/// A few find no ticket.
const RESUMED_MIN_PERCENT: f64 = 95.0;

impl Handshakes {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let steps = Steps {
            subscribe: None,
            publish: false,
            disconnect: true,
            keep_alive_s: mqtt::KEEP_ALIVE_S,
            client_ids: "bench-tls",
        };
        let parallel = self.parallel.max(1);
        let mut mill = SessionMill::new(context, steps)?.connecting_by(client_config(self.resumed)?);
        mill.run(parallel, self.warm_up)?;
        let resumed_before = mill.resumed;
        let meter = Meter::begin(context.broker)?;
        let elapsed = mill.run(parallel, self.warm_up + self.handshakes)?;
        let load = meter.end(context.broker)?;

        let handshakes = self.handshakes as f64;
        let mut measurement = Measurement::of(mill.account());
        measurement.set("handshakes_per_s", handshakes / elapsed.as_secs_f64());
        measurement.set("broker_cpu_us_per_handshake", load.broker_cpu_s * 1e6 / handshakes);
        measurement.set("handshakes_per_broker_cpu_s", handshakes / load.broker_cpu_s);
        let resumed_percent = (mill.resumed - resumed_before) as f64 * 100.0 / handshakes;
        measurement.set("resumed_percent", resumed_percent);
        load.describe(context.broker, &mut measurement)?;
        if let Some(reason) = load.generator_bottleneck(context.broker, context.placement) {
            measurement.invalidate(&reason, |name| name == "handshakes_per_s");
        }
        if self.resumed != (resumed_percent >= RESUMED_MIN_PERCENT) || (!self.resumed && resumed_percent > 0.0) {
            measurement
                .invalidate("the share of resumed handshakes is not as requested", |name| name.contains("handshake"));
        }
        Ok(measurement)
    }
}
