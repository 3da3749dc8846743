use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::flood::Flood;
use super::open_load::{OpenLoad, OpenLoadPlan, Wiring};
use super::parameters::{PayloadKind, QosLevel};
use super::session::{STALL_TIMEOUT, open_as};
use crate::broker::BrokerKind;
use crate::failure::{Failure, Result};
use crate::measure::Measurement;
use crate::mqtt::{Incoming, PayloadStamp, Publishes, QoS};
use crate::net::{Poller, ReadBuffer, Role};

/// Messages of one size or kind: first at the maximum rate of delivery, then their latency at a fixed rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Delivery {
    pub qos: QosLevel,
    pub payload: PayloadKind,
    pub payload_bytes: usize,
    /// The maximum of bytes that are published and not delivered; but at least one message, and at most 1000.
    pub outstanding_bytes: usize,
    pub flood_ms: u64,
    pub latency_ms: u64,
    /// The maximum rate while latency is measured; lower for large messages, so that it stays below `bytes_per_s`.
    pub rate_per_s: u64,
    pub bytes_per_s: u64,
    pub warm_up_ms: u64,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            qos: QosLevel::default(),
            payload: PayloadKind::Plain,
            payload_bytes: 64,
            outstanding_bytes: 768 * 1024,
            flood_ms: 1000,
            latency_ms: 1000,
            rate_per_s: 2000,
            bytes_per_s: 50_000_000,
            warm_up_ms: 200,
        }
    }
}

impl Delivery {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let bytes = self.payload.form(self.payload_bytes)?.bytes();
        if context.broker.kind == BrokerKind::TautwireContracts {
            self.expect_contract_enforced(context)?;
        }
        let flood = Flood {
            qos: self.qos,
            payload: self.payload,
            payload_bytes: self.payload_bytes,
            outstanding: (self.outstanding_bytes / bytes).clamp(1, 1000) as u64,
            duration_ms: self.flood_ms,
            warm_up_ms: self.warm_up_ms,
            ..Flood::default()
        };
        let mut measurement = flood.run(context)?;
        let plan = OpenLoadPlan {
            wiring: Wiring::Pairs,
            publishers: 1,
            rate_per_s: (self.rate_per_s as f64).min(self.bytes_per_s as f64 / bytes as f64),
            qos: self.qos,
            payload: self.payload,
            payload_bytes: self.payload_bytes,
            name: "delivery",
        };
        let mut load = OpenLoad::open(plan, context)?;
        load.run_for(Duration::from_millis(self.warm_up_ms), 1)?;
        let outcome = load.run_for(Duration::from_millis(self.latency_ms), 1)?;
        measurement.account.add(&load.account());
        measurement.set("payload_bytes", bytes as f64);
        outcome.describe("", &mut measurement);
        Ok(measurement)
    }

    /// Fails if an invalid payload is delivered, because the figures would not include a contract.
    fn expect_contract_enforced(&self, context: &Context<'_>) -> Result<()> {
        // No format starts with this byte: it is not a tag, a map or a brace.
        const BROKEN: u8 = 0xFF;
        let form = self.payload.form(self.payload_bytes)?;
        let topic = self.payload.topic("contract");
        let mut subscriber = open_as(context, Role::Subscriber, "bench-contract-sub", &topic, QoS::AtMostOnce, 0)?;
        let mut publisher = open_as(context, Role::Publisher, "bench-contract-pub", &topic, QoS::AtMostOnce, 0)?;
        let mut publishes = Publishes::encode(context.version, QoS::AtMostOnce, &form, [topic.as_str()])?;
        publishes.stamp(0, PayloadStamp { seq: 0, publisher: 0, run: context.run }, None);
        let whole = publishes.bytes(0..1).to_vec();
        let mut broken = whole.clone();
        let payload_at = broken.len() - form.bytes();
        broken[payload_at] = BROKEN;
        publisher.send(&[broken, whole].concat())?;
        let (mut poller, mut buffer) = (Poller::new()?, ReadBuffer::new());
        poller.add(subscriber.stream(), 0)?;
        let mut first: Option<bool> = None;
        while first.is_none() {
            poller.wait(Some(STALL_TIMEOUT))?;
            if poller.ready_count() == 0 {
                return Err(Failure::new("no payload passes the contract: the reading does not match it"));
            }
            subscriber.read_frames(&mut buffer, |frame| {
                if let Incoming::Publish { payload, .. } = frame.read(context.version.is_v5())? {
                    first.get_or_insert(form.read(payload, context.run).is_some());
                }
                Ok(())
            })?;
        }
        match first {
            Some(true) => Ok(()),
            _ => Err(Failure::new("the contract is not enforced: an invalid payload was delivered")),
        }
    }
}
