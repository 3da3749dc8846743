use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::client_group::StallTimer;
use super::context::Context;
use super::parameters::plain_payload;
use super::session::{STALL_TIMEOUT, Session};
use super::store_client::{StoreClient, StoreResult};
use crate::failure::{Failure, Result};
use crate::measure::{Account, Histogram, Measurement};
use crate::mqtt::{self, Incoming, PacketId, PacketIds, PayloadForm, Publishes, QoS, ack};
use crate::net::{Connection, Poller, ReadBuffer};
use crate::system::{Meter, resident_bytes};

const DEVICES_PER_SITE: u64 = 100;
const SETTLE: Duration = Duration::from_millis(300);
/// A topic that is not looked up.
const FIRST_TOPIC: &str = "bench/first";

/// Very many retained messages, on a topic each: the memory of each, the CPU time to store one, and the time of a subscription to
/// `r/s{site}/+` that matches 100 of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Retained {
    /// A multiple of 100.
    pub messages: u64,
    pub payload_bytes: usize,
    /// The maximum number of unacknowledged publishes (QoS 1).
    pub window: usize,
    /// Sequential subscriptions, each to a different site as far as there are enough.
    pub lookups: u64,
}

impl Default for Retained {
    fn default() -> Self {
        Self { messages: 10_000, payload_bytes: 64, window: 100, lookups: 200 }
    }
}

impl Retained {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let sites = self.messages / DEVICES_PER_SITE;
        if sites == 0 || !self.messages.is_multiple_of(DEVICES_PER_SITE) || self.window == 0 {
            return Err(Failure::new(
                "the number of retained messages must be a multiple of 100, and the window must not be 0",
            ));
        }
        let form = plain_payload(self.payload_bytes)?;
        // The first operations map code and buffers of the broker, which belong to no message, and would be the greater
        // part for 1,000 small messages.
        store(context, &form, &[FIRST_TOPIC.to_owned()], self.window)?;
        thread::sleep(SETTLE);
        let rss_before = resident_bytes(context.broker.pid)?;
        let meter = Meter::begin(context.broker)?;
        let topics: Vec<String> = (0..self.messages).map(retained_topic).collect();
        let storing = store(context, &form, &topics, self.window)?;
        let load = meter.end(context.broker)?;
        thread::sleep(SETTLE);
        let rss_after = resident_bytes(context.broker.pid)?;
        let meter = Meter::begin(context.broker)?;
        let mut lookups = Lookups::open(context)?;
        for number in 0..self.lookups {
            // A repeated site would hit warm caches, so use others while there are any.
            lookups.subscribe(context, &form, number * 7919 % sites)?;
        }
        let lookup_load = meter.end(context.broker)?;

        let mut account = lookups.account;
        account.published = self.messages;
        account.lost += account.expected - account.delivered;
        account.violations += storing.violations;
        let mut measurement = Measurement::of(account);
        let messages = self.messages as f64;
        measurement.set("bytes_per_retained_message", (rss_after as f64 - rss_before as f64) / messages);
        measurement.set("broker_cpu_us_per_retained_publish", load.broker_cpu_s * 1e6 / messages);
        measurement.set("retained_publishes_per_s", messages / storing.elapsed.as_secs_f64());
        load.describe(context.broker, &mut measurement)?;
        measurement.set("broker_cpu_us_per_lookup", lookup_load.broker_cpu_s * 1e6 / self.lookups as f64);
        measurement.set_latencies("lookup_", lookups.times);
        if let Some(reason) = load.generator_bottleneck(context.broker, context.placement) {
            measurement.invalidate(&reason, |name| name == "retained_publishes_per_s");
        }
        Ok(measurement)
    }
}

fn store(context: &Context<'_>, form: &PayloadForm, topics: &[String], window: usize) -> Result<StoreResult> {
    let topics = topics.iter().map(String::as_str);
    let mut publishes = Publishes::encode(context.version, QoS::AtLeastOnce, form, topics)?;
    publishes.retain();
    StoreClient::open(context, "bench-retain", window)?.store(context, &mut publishes, 0)
}

/// The message `number` of those that are looked up by site.
pub(super) fn retained_topic(number: u64) -> String {
    format!("r/s{}/d{}", number / DEVICES_PER_SITE, number % DEVICES_PER_SITE)
}

struct Lookups {
    connection: Connection,
    poller: Poller,
    buffer: ReadBuffer,
    packet_ids: PacketIds,
    times: Histogram,
    account: Account,
}

impl Lookups {
    fn open(context: &Context<'_>) -> Result<Self> {
        let connection = Session::open(context, "bench-lookup")?.into_connection()?;
        let poller = Poller::new()?;
        poller.add(connection.stream(), 0)?;
        Ok(Self {
            connection,
            poller,
            buffer: ReadBuffer::new(),
            packet_ids: PacketIds::new(),
            times: Histogram::default(),
            account: Account::default(),
        })
    }

    /// Subscribes to the messages of one site and waits for all of them.
    fn subscribe(&mut self, context: &Context<'_>, form: &PayloadForm, site: u64) -> Result<()> {
        const RETAIN: u8 = 1;
        let (v5, run) = (context.version.is_v5(), context.run);
        let id: PacketId = self.packet_ids.allocate().ok_or_else(|| Failure::new("no packet id is free"))?;
        let filter = format!("r/s{site}/+");
        let begun = Instant::now();
        self.connection.send(&mqtt::subscribe(context.version, id, [filter.as_str()], QoS::AtMostOnce)?)?;
        self.account.expected += DEVICES_PER_SITE;
        let first = site * DEVICES_PER_SITE;
        let (mut seen, mut delivered, mut is_answered) = (0u128, 0, false);
        let mut stall_timer = StallTimer::new(STALL_TIMEOUT);
        while delivered < DEVICES_PER_SITE || !is_answered {
            self.poller.wait(Some(Duration::from_millis(100)))?;
            let before = delivered;
            if self.poller.ready_count() > 0 {
                let account = &mut self.account;
                let mut acks = Vec::new();
                self.connection.read_frames(&mut self.buffer, |frame| {
                    match frame.read(v5)? {
                        Incoming::Publish { qos, packet_id, payload } => {
                            if qos == 1 {
                                acks.extend_from_slice(&ack(0x40, packet_id));
                            }
                            account.violations += u64::from(frame.first_byte & RETAIN == 0);
                            let place = form.read(payload, run).and_then(|stamp| stamp.seq.checked_sub(first));
                            match place {
                                Some(place) if place < DEVICES_PER_SITE => {
                                    account.duplicated += u64::from(seen & 1 << place != 0);
                                    delivered += u64::from(seen & 1 << place == 0);
                                    seen |= 1 << place;
                                }
                                _ => account.corrupted += 1,
                            }
                        }
                        Incoming::SubAck { refused: false, .. } => is_answered = true,
                        _ => account.violations += 1,
                    }
                    Ok(())
                })?;
                self.connection.send(&acks)?;
            }
            if stall_timer.is_over(delivered - before) {
                break;
            }
        }
        self.times.record(begun.elapsed().as_nanos() as u64);
        self.account.delivered += delivered;
        Ok(())
    }
}
