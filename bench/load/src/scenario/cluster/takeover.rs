use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::context::Context;
use super::client_nodes;
use super::probe_client::ProbeClient;
use crate::failure::{Failure, Result};
use crate::measure::{Account, Histogram, Measurement};
use crate::mqtt::{self, Incoming, PacketId, QoS};
use crate::system::Meter;

/// The timeout for a response of a broker; a claim that has to wait for a lease is answered before.
const PATIENCE: Duration = Duration::from_secs(20);
const DISCONNECT: u8 = 0xE0;
/// Then another client continues, because Tautwire delays clients whose connections break 60 times in a minute.
const TAKEOVERS_OF_ONE: u64 = 50;

/// A client with a persistent session connects to one broker after the other, while it is connected to the last one: from
/// CONNECT to CONNACK. TCP is connected before. With only one broker, the client takes its session over there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Takeover {
    pub takeovers: u64,
    /// The warm-up, which is not counted.
    pub warm_up: u64,
}

impl Default for Takeover {
    fn default() -> Self {
        Self { takeovers: 300, warm_up: 20 }
    }
}

impl Takeover {
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let client_nodes = client_nodes(context)?;
        let (mut times, mut account) = (Histogram::default(), Account::default());
        take_over(
            context,
            &client_nodes,
            "bench-first",
            self.warm_up.min(TAKEOVERS_OF_ONE),
            &mut Histogram::default(),
        )?;
        let meter = Meter::begin(context.broker)?;
        let mut left = self.takeovers;
        while left > 0 {
            let count = left.min(TAKEOVERS_OF_ONE);
            account.violations += take_over(context, &client_nodes, &format!("bench-mover-{left}"), count, &mut times)?;
            left -= count;
        }
        let load = meter.end(context.broker)?;
        let mut measurement = Measurement::of(account);
        measurement.set("takeovers", self.takeovers as f64);
        measurement.set("broker_cpu_us_per_takeover", load.broker_cpu_s * 1e6 / self.takeovers as f64);
        measurement.set_latencies("", times);
        load.describe(context.broker, &mut measurement)?;
        Ok(measurement)
    }
}

/// Runs one client for a number of takeovers. Returns how many responses were wrong.
fn take_over(
    context: &Context<'_>,
    client_nodes: &[SocketAddr],
    client_id: &str,
    count: u64,
    times: &mut Histogram,
) -> Result<u64> {
    let v5 = context.version.is_v5();
    let connect = mqtt::connect_persistent(context.version, client_id, mqtt::KEEP_ALIVE_S)?;
    let mut former = ProbeClient::reach(client_nodes[0], v5, PATIENCE)?;
    let welcome = former.connect(&connect)?;
    if welcome.refusal != 0 || welcome.session_present {
        return Err(Failure::new(format!("unexpected response to the first CONNECT: {welcome:?}")));
    }
    let id = PacketId::new(1).ok_or_else(|| Failure::new("packet id 0"))?;
    former.send(&mqtt::subscribe(context.version, id, [format!("bench/{client_id}").as_str()], QoS::AtLeastOnce)?)?;
    former.next(|_, incoming| match incoming {
        Incoming::SubAck { refused: false, .. } => Ok(()),
        other => Err(Failure::new(format!("unexpected response to SUBSCRIBE: {other:?}"))),
    })?;
    let mut violations = 0;
    for number in 1..=count {
        let mut probe_client = ProbeClient::reach(client_nodes[number as usize % client_nodes.len()], v5, PATIENCE)?;
        let begun = Instant::now();
        let welcome = probe_client.connect(&connect)?;
        times.record(begun.elapsed().as_nanos() as u64);
        violations += u64::from(welcome.refusal != 0 || !welcome.session_present);
        // The older connection ends [MQTT-3.1.4-3], and a 5.0 client gets the reason.
        let told = former.next(|first_byte, _| Ok(first_byte));
        violations += u64::from(v5 && !matches!(told, Ok(DISCONNECT)) || !v5 && told.is_ok());
        former = probe_client;
    }
    Ok(violations)
}
