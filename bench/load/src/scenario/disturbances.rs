//! Actions of some clients that others should not notice.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::bystanders::beside;
use super::client_group::{ClientGroup, StallTimer};
use super::context::Context;
use super::parameters::plain_payload;
use super::session::{STALL_TIMEOUT, open_as};
use super::session_mill::{SessionMill, Steps, Topic};
use crate::failure::{Failure, Result};
use crate::measure::{Account, Histogram, Measurement, Sequence};
use crate::mqtt::{Incoming, PayloadStamp, Publishes, QoS};
use crate::net::{Poller, ReadBuffer, Role};
use crate::system::{Memory, Meter, resident_bytes};

/// A subscriber that does not read while a publisher sends far more than any buffer holds. Afterwards it reads the
/// rest: messages may be missing (QoS 0), but none may be torn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SlowConsumer {
    pub payload_bytes: usize,
    pub rate_per_s: u64,
    pub duration_ms: u64,
    pub calm_ms: u64,
}

/// All of very many clients lose their connection and reconnect at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ReconnectStorm {
    pub clients: u64,
    /// The number of concurrent handshakes.
    pub parallel: u64,
    pub storms: u64,
    pub calm_ms: u64,
}

/// One publisher to very many subscribers; the next message when all have received the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FanOut {
    pub subscribers: u64,
    pub messages: u64,
    pub payload_bytes: usize,
    pub calm_ms: u64,
}

impl Default for SlowConsumer {
    fn default() -> Self {
        Self { payload_bytes: 1024, rate_per_s: 20_000, duration_ms: 4000, calm_ms: 1500 }
    }
}

impl Default for ReconnectStorm {
    fn default() -> Self {
        Self { clients: 5000, parallel: 500, storms: 3, calm_ms: 1500 }
    }
}

impl Default for FanOut {
    fn default() -> Self {
        Self { subscribers: 10_000, messages: 30, payload_bytes: 64, calm_ms: 1500 }
    }
}

impl SlowConsumer {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        beside(context, Duration::from_millis(self.calm_ms), || self.disturb(context))
    }

    fn disturb(&self, context: &Context<'_>) -> Result<Measurement> {
        const TOPIC: &str = "bench/slow";
        // The publisher's own socket and queue may hold this much before the broker slows it down.
        const UNSENT_BYTES: usize = 1 << 20;
        let form = plain_payload(self.payload_bytes)?;
        let mut consumer = open_as(context, Role::Subscriber, "bench-slow", TOPIC, QoS::AtMostOnce, 0)?;
        let mut publisher = open_as(context, Role::Publisher, "bench-fast", TOPIC, QoS::AtMostOnce, 0)?;
        let mut publish = Publishes::encode(context.version, QoS::AtMostOnce, &form, [TOPIC])?;
        let rss_before = resident_bytes(context.broker.pid)?;
        let meter = Meter::begin(context.broker)?;
        let (begun, duration) = (Instant::now(), Duration::from_millis(self.duration_ms));
        let (mut sent, mut held_back) = (0, 0);
        while begun.elapsed() < duration {
            let due = (begun.elapsed().as_secs_f64() * self.rate_per_s as f64) as u64;
            while sent + held_back < due {
                if publisher.unsent_bytes() > UNSENT_BYTES {
                    held_back += 1;
                    continue;
                }
                publish.stamp(0, PayloadStamp { seq: sent, publisher: 0, run: context.run }, None);
                publisher.queue(publish.bytes(0..1));
                sent += 1;
            }
            publisher.flush()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        let load = meter.end(context.broker)?;
        let peak = Memory::read(context.broker.pid)?.peak_rss_bytes;

        let mut stream = Sequence::default();
        let (mut corrupted, mut violations) = (0, 0);
        let (mut poller, mut buffer) = (Poller::new()?, ReadBuffer::new());
        poller.add(consumer.stream(), 0)?;
        let mut was_ended = false;
        loop {
            publisher.flush()?;
            poller.wait(Some(Duration::from_millis(300)))?;
            if poller.ready_count() == 0 && !publisher.has_unsent() {
                break;
            }
            if poller.ready_count() == 0 {
                continue;
            }
            let read = consumer.read_frames(&mut buffer, |frame| {
                match frame.read(context.version.is_v5())? {
                    Incoming::Publish { payload, .. } => match form.read(payload, context.run) {
                        Some(stamp) => _ = stream.arrive(stamp.seq),
                        None => corrupted += 1,
                    },
                    _ => violations += 1,
                }
                Ok(())
            });
            // A broker may disconnect a client that does not read.
            if read.is_err() {
                was_ended = true;
                break;
            }
        }
        let received = stream.account(sent);
        // Missing messages are the policy of the broker and not an error; everything else is.
        let account = Account {
            published: sent,
            expected: received.delivered,
            delivered: received.delivered,
            duplicated: received.duplicated,
            reordered: received.reordered,
            corrupted,
            violations,
            ..Account::default()
        };
        let mut measurement = Measurement::of(account);
        load.describe(context.broker, &mut measurement)?;
        measurement.set("sent", sent as f64);
        measurement.set("sent_per_s", sent as f64 / duration.as_secs_f64());
        measurement.set("held_back_by_the_broker", held_back as f64);
        measurement.set("reached_slow_consumer_percent", 100.0 * received.delivered as f64 / sent.max(1) as f64);
        measurement.set("slow_consumer_was_disconnected", f64::from(u8::from(was_ended)));
        measurement.set("peak_rss_growth_bytes", peak.saturating_sub(rss_before) as f64);
        Ok(measurement)
    }
}

impl ReconnectStorm {
    pub(super) fn connections(&self) -> u64 {
        // The broker may not have closed the dropped connections yet.
        2 * self.clients + 20
    }

    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        if self.storms == 0 || self.clients == 0 {
            return Err(Failure::new("a storm needs clients"));
        }
        let steps = Steps {
            subscribe: Some(Topic::Own),
            publish: false,
            disconnect: false,
            keep_alive_s: 600,
            client_ids: "bench-storm",
        };
        let connect_all = || -> Result<(SessionMill<'_>, Duration)> {
            let mut mill = SessionMill::new(context, steps)?;
            let took = mill.run(self.parallel.max(1), self.clients)?;
            Ok((mill, took))
        };
        let (mut connected, _) = connect_all()?;
        beside(context, Duration::from_millis(self.calm_ms), || {
            let mut times = Vec::new();
            let meter = Meter::begin(context.broker)?;
            for _ in 0..self.storms {
                // Closes all sockets, without DISCONNECT.
                drop(connected);
                let took;
                (connected, took) = connect_all()?;
                times.push(took.as_secs_f64());
            }
            let load = meter.end(context.broker)?;
            connected.expect_silence()?;
            let mut measurement = Measurement::of(connected.account());
            load.describe(context.broker, &mut measurement)?;
            let clients = self.clients as f64;
            times.sort_by(f64::total_cmp);
            let median_s = times[times.len() / 2];
            measurement.set("all_back_s", median_s);
            measurement.set("reconnects_per_s", clients / median_s);
            measurement.set("broker_cpu_us_per_reconnect", load.broker_cpu_s * 1e6 / (clients * self.storms as f64));
            if let Some(reason) = load.generator_bottleneck(context.broker, context.placement) {
                measurement.invalidate(&reason, |name| matches!(name, "all_back_s" | "reconnects_per_s"));
            }
            Ok(measurement)
        })
    }
}

impl FanOut {
    pub(super) fn connections(&self) -> u64 {
        self.subscribers + 21
    }

    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        const TOPIC: &str = "bench/fan-out";
        if self.subscribers == 0 || self.messages == 0 {
            return Err(Failure::new("subscribers and messages must not be 0"));
        }
        let form = plain_payload(self.payload_bytes)?;
        let (mut client_group, _) = ClientGroup::connect_all(context, self.subscribers, TOPIC, form.clone())?;
        let mut publisher = open_as(context, Role::Publisher, "bench-fan-out", TOPIC, QoS::AtMostOnce, 0)?;
        let mut publish = Publishes::encode(context.version, QoS::AtMostOnce, &form, [TOPIC])?;
        beside(context, Duration::from_millis(self.calm_ms), || {
            let mut times = Histogram::default();
            let meter = Meter::begin(context.broker)?;
            let begun = Instant::now();
            for seq in 0..self.messages {
                publish.stamp(0, PayloadStamp { seq, publisher: 0, run: context.run }, None);
                let sent_at = Instant::now();
                publisher.send(publish.bytes(0..1))?;
                let mut delivered = 0;
                let mut stall_timer = StallTimer::new(STALL_TIMEOUT);
                while delivered < self.subscribers {
                    let news = client_group.turn(Duration::from_millis(100), |_, _| Ok(()))?;
                    delivered += news;
                    if stall_timer.is_over(news) {
                        break;
                    }
                }
                times.record(sent_at.elapsed().as_nanos() as u64);
            }
            let elapsed_s = begun.elapsed().as_secs_f64();
            let load = meter.end(context.broker)?;
            let mut account = Account {
                published: self.messages,
                corrupted: client_group.corrupted,
                violations: client_group.violations,
                ..Account::default()
            };
            client_group.members.iter().for_each(|member| account.add(&member.received.account(self.messages)));
            let mut measurement = Measurement::of(account);
            load.describe(context.broker, &mut measurement)?;
            let deliveries = (self.subscribers * self.messages) as f64;
            measurement.set("deliveries_per_s", deliveries / elapsed_s);
            measurement.set("broker_cpu_us_per_delivery", load.broker_cpu_s * 1e6 / deliveries);
            measurement.set_latencies("to_all_", times);
            if let Some(reason) = load.generator_bottleneck(context.broker, context.placement) {
                measurement.invalidate(&reason, |name| name == "deliveries_per_s" || name.starts_with("to_all_"));
            }
            Ok(measurement)
        })
    }
}
