use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::open_load::{OpenLoad, OpenLoadPlan, Wiring};
use super::session_mill::{SessionMill, Steps, Topic};
use super::{Context, PayloadKind, QosLevel, RESERVED_DESCRIPTORS};
use crate::failure::{Failure, Result};
use crate::measure::Measurement;
use crate::system::{Meter, raise_open_files_limit, resident_bytes};

/// What allocators and the kernel may still have to do after the last answer, before memory is read.
const SETTLE: Duration = Duration::from_millis(300);

/// Sessions that come and go before memory is read for the first time.
const FIRST_CLIENTS: u64 = 20;

const PROBE_PAYLOAD_BYTES: usize = 16;

/// Connections that do nothing: the rate at which they open, the memory each holds, and what a single client that does
/// something notices of them: its messages to itself, at a fixed rate.
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
    pub probe_rate_per_s: u64,
    pub probe_ms: u64,
}

impl Default for Idle {
    fn default() -> Self {
        Self {
            connections: 10_000,
            subscribe: false,
            parallel: 50,
            keep_alive_s: 600,
            probe_rate_per_s: 1000,
            probe_ms: 1000,
        }
    }
}

impl Idle {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let possible = raise_open_files_limit()?.saturating_sub(RESERVED_DESCRIPTORS);
        let connections = if self.connections == 0 { possible } else { self.connections };
        if connections > possible {
            return Err(Failure::new(format!("{connections} connections: the limit of open files allows {possible}")));
        }
        let steps = Steps {
            subscribe: self.subscribe.then_some(Topic::Own),
            publish: false,
            disconnect: false,
            keep_alive_s: self.keep_alive_s,
            client_ids: "bench-idle",
        };
        // What a broker loads or compiles for its first clients is not the price of a connection.
        let mut first = SessionMill::new(context, Steps { disconnect: true, client_ids: "bench-first", ..steps })?;
        first.run(1, FIRST_CLIENTS)?;
        let mut mill = SessionMill::new(context, steps)?;
        let rss_before = resident_bytes(context.broker.pid)?;
        let meter = Meter::begin(context.broker)?;
        let elapsed = mill.run(self.parallel.max(1), connections)?;
        let load = meter.end(context.broker)?;
        thread::sleep(SETTLE);
        let rss_after = resident_bytes(context.broker.pid)?;
        mill.expect_silence()?;

        let mut measurement = Measurement::of(mill.account());
        measurement.set("connections", connections as f64);
        measurement.set("connects_per_s", connections as f64 / elapsed.as_secs_f64());
        measurement.set("broker_cpu_us_per_connect", load.broker_cpu_s * 1e6 / connections as f64);
        measurement.set("rss_at_start_bytes", context.broker.rss_at_start_bytes as f64);
        measurement.set("bytes_per_connection", (rss_after as f64 - rss_before as f64) / connections as f64);
        load.describe(context.broker, &mut measurement)?;
        if let Some(reason) = load.generator_bottleneck(context.broker, context.placement) {
            measurement.invalidate(&reason, |name| name == "connects_per_s");
        }
        self.probe(context, &mut measurement)?;
        mill.expect_silence()?;
        Ok(measurement)
    }

    fn probe(&self, context: &Context<'_>, measurement: &mut Measurement) -> Result<()> {
        let plan = OpenLoadPlan {
            wiring: Wiring::Ring,
            publishers: 1,
            rate_per_s: self.probe_rate_per_s as f64,
            qos: QosLevel::default(),
            payload: PayloadKind::Plain,
            payload_bytes: PROBE_PAYLOAD_BYTES,
            name: "probe",
        };
        let mut load = OpenLoad::open(plan, context)?;
        load.run_for(Duration::from_millis(self.probe_ms / 5), 1)?;
        let outcome = load.run_for(Duration::from_millis(self.probe_ms), 1)?;
        measurement.account.add(&load.account());
        outcome.describe("probe_", measurement);
        Ok(())
    }
}
