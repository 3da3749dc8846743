use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::client_group::{ClientGroup, StallTimer};
use super::context::Context;
use super::parameters::plain_payload;
use super::session::{STALL_TIMEOUT, Session, open_as};
use crate::failure::{Failure, Result};
use crate::measure::{Account, Measurement};
use crate::mqtt::{Incoming, PayloadStamp, Publishes, QoS, SMALLEST_PAYLOAD_BYTES};
use crate::net::{Poller, ReadBuffer, Role};
use crate::system::{Memory, Meter};

const TRIGGER: &str = "bench/herd/trigger";
const REPLIES: &str = "bench/herd/replies";

/// All clients connect at once; on a trigger all of them publish at once; one subscriber receives everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Herd {
    pub clients: u64,
    /// How often the trigger is sent, each time when all replies to the last have arrived.
    pub triggers: u64,
}

impl Default for Herd {
    fn default() -> Self {
        Self { clients: 10_000, triggers: 5 }
    }
}

impl Herd {
    pub(super) fn connections(&self) -> u64 {
        self.clients + 2
    }

    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        if self.clients == 0 || self.triggers == 0 {
            return Err(Failure::new("clients and triggers must not be 0"));
        }
        let form = plain_payload(SMALLEST_PAYLOAD_BYTES)?;
        let connecting = Meter::begin(context.broker)?;
        let (mut client_group, connect_time) = ClientGroup::connect_all(context, self.clients, TRIGGER, form.clone())?;
        let connect_load = connecting.end(context.broker)?;
        let mut collector = Session::open(context, "bench-herd-collector")?;
        collector.subscribe(context, &[REPLIES], QoS::AtMostOnce)?;
        let mut collector = collector.into_connection()?;
        let mut publisher = open_as(context, Role::Publisher, "bench-herd-trigger", TRIGGER, QoS::AtMostOnce, 0)?;
        let mut trigger = Publishes::encode(context.version, QoS::AtMostOnce, &form, [TRIGGER])?;
        let mut reply = Publishes::encode(context.version, QoS::AtMostOnce, &form, [REPLIES])?;
        let (mut poller, mut buffer) = (Poller::new()?, ReadBuffer::new());
        poller.add(collector.stream(), 0)?;

        let (v5, run) = (context.version.is_v5(), context.run);
        let mut replies: Vec<crate::measure::Sequence> = Vec::new();
        replies.resize_with(self.clients as usize, Default::default);
        let (mut corrupted, mut violations) = (0, 0);
        let (mut fan_out_s, mut fan_in_s) = (Vec::new(), Vec::new());
        let meter = Meter::begin(context.broker)?;
        for seq in 0..self.triggers {
            trigger.stamp(0, PayloadStamp { seq, publisher: 0, run }, None);
            let begun = Instant::now();
            publisher.send(trigger.bytes(0..1))?;
            let (mut triggered, mut collected) = (0, 0);
            let mut stall_timer = StallTimer::new(STALL_TIMEOUT);
            while collected < self.clients {
                let news = client_group.turn(Duration::from_millis(1), |member, connection| {
                    reply.stamp(0, PayloadStamp { seq, publisher: member as u32, run }, None);
                    connection.send(reply.bytes(0..1))
                })?;
                triggered += news;
                if news > 0 && triggered == self.clients {
                    fan_out_s.push(begun.elapsed().as_secs_f64());
                }
                poller.wait(Some(Duration::ZERO))?;
                let before = collected;
                if poller.ready_count() > 0 {
                    collector.read_frames(&mut buffer, |frame| {
                        match frame.read(v5)? {
                            Incoming::Publish { payload, .. } => match form.read(payload, run) {
                                Some(stamp) if u64::from(stamp.publisher) < self.clients => {
                                    collected += u64::from(replies[stamp.publisher as usize].arrive(stamp.seq));
                                }
                                _ => corrupted += 1,
                            },
                            _ => violations += 1,
                        }
                        Ok(())
                    })?;
                }
                if stall_timer.is_over(news + collected - before) {
                    break;
                }
            }
            fan_in_s.push(begun.elapsed().as_secs_f64());
        }
        let load = meter.end(context.broker)?;

        let mut account =
            Account { published: self.triggers * (1 + self.clients), corrupted, violations, ..Account::default() };
        account.corrupted += client_group.corrupted;
        account.violations += client_group.violations;
        for (member, replies) in client_group.members.iter().zip(&replies) {
            account.add(&member.received.account(self.triggers));
            account.add(&replies.account(self.triggers));
        }
        let mut measurement = Measurement::of(account);
        let clients = self.clients as f64;
        measurement.set("connect_s", connect_time.as_secs_f64());
        measurement.set("connects_per_s", clients / connect_time.as_secs_f64());
        measurement.set("broker_cpu_us_per_connect", connect_load.broker_cpu_s * 1e6 / clients);
        load.describe(context.broker, &mut measurement)?;
        // Each trigger is delivered to all, and all reply.
        let messages = 2.0 * clients * self.triggers as f64;
        measurement.set("broker_cpu_us_per_delivery", load.broker_cpu_s * 1e6 / messages);
        measurement.set("peak_rss_bytes", Memory::read(context.broker.pid)?.peak_rss_bytes as f64);
        measurement.set("trigger_to_last_client_s", median(fan_out_s));
        measurement.set("trigger_to_last_reply_s", median(fan_in_s));
        if let Some(reason) = connect_load.generator_bottleneck(context.broker, context.placement) {
            measurement.invalidate(&reason, |name| matches!(name, "connect_s" | "connects_per_s"));
        }
        if let Some(reason) = load.generator_bottleneck(context.broker, context.placement) {
            measurement.invalidate(&reason, |name| name.starts_with("trigger_to"));
        }
        Ok(measurement)
    }
}

/// Returns 0 without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
