use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::context::{Context, RESERVED_DESCRIPTORS};
use super::open_load::{OpenLoad, OpenLoadPlan, Wiring};
use super::parameters::{PayloadKind, QosLevel};
use super::session_mill::{SessionMill, Steps, Topic};
use crate::broker::{BrokerKind, Cluster};
use crate::failure::{Failure, Result};
use crate::measure::Measurement;
use crate::system::{Meter, raise_open_files_limit, resident_bytes};

/// The time for allocators and the kernel after the last response, before memory is read.
const SETTLE: Duration = Duration::from_millis(300);

/// The number of sessions that connect and disconnect before memory is read for the first time.
const FIRST_CLIENTS: u64 = 20;

/// The time until the records of offline sessions are written.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// The time without a decrease after which memory counts as stable.
const MEMORY_PAUSE: Duration = Duration::from_secs(2);

const PROBE_PAYLOAD_BYTES: usize = 16;

/// Idle connections: the rate at which they open, the memory of each, and the latency of a single active
/// client among them: its messages to itself, at a fixed rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Idle {
    /// 0: the maximum that the limit of open files allows, minus 100.
    pub connections: u64,
    /// Whether each connection subscribes to a unique topic.
    pub subscribe: bool,
    /// Whether sessions outlive their connections, with a subscription at QoS 1. Afterwards all disconnect, and the rest is measured.
    pub lasting: bool,
    /// The number of concurrent handshakes.
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
            lasting: false,
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
            subscribe: match (self.lasting, self.subscribe) {
                (true, _) => Some(Topic::OwnPersistent),
                (false, true) => Some(Topic::Own),
                (false, false) => None,
            },
            publish: false,
            disconnect: false,
            keep_alive_s: self.keep_alive_s,
            client_ids: "bench-idle",
        };
        // The code that a broker loads or compiles for its first clients is not the cost of a connection.
        let mut first = SessionMill::new(context, Steps { disconnect: true, client_ids: "bench-first", ..steps })?;
        first.run(1, FIRST_CLIENTS)?;
        let mut mill = SessionMill::new(context, steps)?;
        let assets_before = context.broker.cluster.as_ref().map(Cluster::assets).transpose()?;
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
        if let (Some(cluster), Some(before)) = (&context.broker.cluster, assets_before) {
            let after = cluster.assets()?;
            let added = (after.streams + after.consumers) as f64 - (before.streams + before.consumers) as f64;
            measurement.set("jetstream_assets_added", added);
            if after.session_writes > 0 {
                let writes = after.session_writes - before.session_writes;
                measurement.set("session_writes_per_connect", writes as f64 / connections as f64);
            }
        }
        self.probe(context, &mut measurement)?;
        mill.expect_silence()?;
        if self.lasting && matches!(context.broker.kind, BrokerKind::TautwireCluster { .. }) {
            drop(mill);
            self.measure_disconnects(context, rss_before, &mut measurement)?;
        }
        Ok(measurement)
    }

    /// What the node still stores of sessions whose clients are offline.
    fn measure_disconnects(&self, context: &Context<'_>, rss_before: u64, measurement: &mut Measurement) -> Result<()> {
        let node = &context.broker.cluster()?.brokers[0];
        let begun = Instant::now();
        while node.metric("tautwire_sessions")? > 0.0 && begun.elapsed() < DISCONNECT_TIMEOUT {
            thread::sleep(SETTLE);
        }
        // The state of their filters follows them, and memory returns to the system last.
        let mut rss = resident_bytes(context.broker.pid)?;
        loop {
            thread::sleep(MEMORY_PAUSE);
            let now = resident_bytes(context.broker.pid)?;
            if now >= rss || begun.elapsed() > DISCONNECT_TIMEOUT {
                break;
            }
            rss = now;
        }
        measurement.set("sessions_held_away", node.metric("tautwire_sessions")?);
        measurement.set("memory_held_away_bytes", node.metric("tautwire_memory_used_bytes")?);
        // The memory that an allocator retains for reuse belongs to no session.
        measurement.set("rss_bytes_per_session_away", (rss as f64 - rss_before as f64) / self.connections as f64);
        Ok(())
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
