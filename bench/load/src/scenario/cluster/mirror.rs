use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::context::Context;
use super::super::parameters::plain_payload;
use super::super::retained_on_disk::{store_retained, subscribe_to_all};
use super::probe_client::ProbeClient;
use crate::broker::Member;
use crate::failure::{Failure, Result};
use crate::measure::Measurement;
use crate::mqtt;
use crate::system::{Meter, resident_bytes};

const LOOK: Duration = Duration::from_millis(5);
const START_MAX: Duration = Duration::from_secs(120);

/// Very many retained messages, and a broker that joins: from the start of its process until it accepts the first client, which it does
/// when it has all of them. A broker that joined before there were any shows the cost of the start itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Mirror {
    pub messages: u64,
    pub payload_bytes: usize,
    /// The maximum number of unacknowledged publishes (QoS 1).
    pub window: usize,
}

impl Default for Mirror {
    fn default() -> Self {
        Self { messages: 100_000, payload_bytes: 128, window: 1000 }
    }
}

impl Mirror {
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        if self.messages == 0 || self.window == 0 {
            return Err(Failure::new("messages and window must not be 0"));
        }
        let form = plain_payload(self.payload_bytes)?;
        let mut spare = context.broker.cluster()?.spare.clone();
        let [empty, fresh, ..] = spare.as_mut_slice() else {
            return Err(Failure::new("not enough brokers to start"));
        };
        // Each ends with the value that its start gives.
        let (empty_s, _empty) = first_service(context, empty)?;
        let meter = Meter::begin(context.broker)?;
        let stored = store_retained(context, &form, self.messages, self.window)?;
        let load = meter.end(context.broker)?;
        let (fresh_s, _fresh) = first_service(context, fresh)?;
        let mut measurement = subscribe_to_all(context, fresh.mqtt()?, &form, self.messages)?;
        measurement.account.published += self.messages;
        measurement.account.violations += stored.violations;
        let messages = self.messages as f64;
        measurement.set("empty_node_serves_s", empty_s);
        measurement.set("mirrored_s", fresh_s);
        measurement.set("retained_publishes_per_s", messages / stored.elapsed.as_secs_f64());
        measurement.set("broker_cpu_us_per_retained_publish", load.broker_cpu_s * 1e6 / messages);
        measurement.set("servers_cpu_us_per_retained_publish", load.servers_cpu_s * 1e6 / messages);
        measurement.set("fresh_node_rss_bytes", resident_bytes(fresh.pid()?)? as f64);
        load.describe(context.broker, &mut measurement)?;
        Ok(measurement)
    }
}

/// Starts a broker, and waits until it accepts a client.
fn first_service(context: &Context<'_>, member: &mut Member) -> Result<(f64, crate::broker::RunningProcess)> {
    let address = member.mqtt()?;
    let begun = Instant::now();
    let process = member.start()?;
    let connect = mqtt::connect(context.version, "bench-first", mqtt::KEEP_ALIVE_S)?;
    loop {
        let asked = ProbeClient::reach(address, context.version.is_v5(), START_MAX)
            .and_then(|mut probe_client| probe_client.connect(&connect));
        if asked.is_ok_and(|welcome| welcome.refusal == 0) {
            return Ok((begun.elapsed().as_secs_f64(), process));
        }
        if begun.elapsed() > START_MAX {
            return Err(Failure::new(format!("{} lets nobody in", member.name)));
        }
        thread::sleep(LOOK);
    }
}
