use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::context::Context;
use super::super::flood::Flood;
use super::super::parameters::QosLevel;
use crate::failure::Result;
use crate::measure::Measurement;
use crate::mqtt::QoS;
use crate::system::{Meter, resident_bytes};

/// Costs that grow with the number of brokers: when idle, and for a message from one of them to others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Nodes {
    pub idle_ms: u64,
    pub flood_ms: u64,
    pub payload_bytes: usize,
    /// The subscribers of the fan-out, spread over all brokers.
    pub subscribers: usize,
}

impl Default for Nodes {
    fn default() -> Self {
        Self { idle_ms: 2000, flood_ms: 1000, payload_bytes: 16, subscribers: 30 }
    }
}

impl Nodes {
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let mut whole = Measurement::default();
        let meter = Meter::begin(context.broker)?;
        thread::sleep(Duration::from_millis(self.idle_ms));
        let idle = meter.end(context.broker)?;
        let pids = context.broker.pids();
        let rss_bytes = pids.iter().map(|&pid| resident_bytes(pid)).sum::<Result<u64>>()?;
        let percent_of_each = |cpu_s: f64, count: usize| 100.0 * cpu_s / idle.elapsed_s / count.max(1) as f64;
        whole.set("idle_node_rss_bytes", rss_bytes as f64 / pids.len() as f64);
        whole.set("idle_node_cpu_percent", percent_of_each(idle.broker_cpu_s, pids.len()));
        let between = context.broker.nats_server_pids().len();
        if between > 0 {
            whole.set("idle_server_cpu_percent", percent_of_each(idle.servers_cpu_s, between));
        }
        let one_to_one = Flood { payload_bytes: self.payload_bytes, duration_ms: self.flood_ms, ..Flood::default() };
        let fan_out = Flood { subscribers: self.subscribers, outstanding: 100, ..one_to_one.clone() };
        // Pairs, so that more than one partition of a log has load.
        let acknowledged = Flood { qos: QosLevel(QoS::AtLeastOnce), pairs: 10, outstanding: 100, ..one_to_one.clone() };
        for (name, flood) in [("qos0", one_to_one), ("qos0_fan_out", fan_out), ("qos1", acknowledged)] {
            let part = flood.run(context)?;
            whole.account.add(&part.account);
            for of in ["broker_cpu", "with_servers_cpu"] {
                if let Some(cpu_s) = part.metrics.get(&format!("{of}_s_per_million_deliveries")) {
                    whole.set(&format!("{name}_{of}_s_per_million_deliveries"), *cpu_s);
                }
            }
        }
        Ok(whole)
    }
}
