use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::bystanders;
use super::client_group::StallTimer;
use super::context::Context;
use super::parameters::plain_payload;
use super::recovery::allocated_bytes;
use super::retained::retained_topic;
use super::session::STALL_TIMEOUT;
use super::store_client::{StoreClient, StoreResult};
use crate::failure::{ErrorContext, Failure, Result};
use crate::measure::{Account, Measurement};
use crate::mqtt::{self, Incoming, PacketId, PayloadForm, Publishes, QoS};
use crate::net::{Connection, Poller, ReadBuffer, connect_from};
use crate::system::{Memory, Meter};

const SETTLE: Duration = Duration::from_millis(300);
/// The number of publishes that are encoded at a time.
const CHUNK: u64 = 10_000;
const TOPIC_FILTER: &str = "r/#";
const RETAIN: u8 = 1;
/// The priority of a client that must not delay others.
pub(super) const NICENESS: i32 = 19;

/// Very many retained messages of a broker that stores them on disk: its memory, the time of a start with them after a kill,
/// and the effect on other clients while one subscribes to all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RetainedOnDisk {
    pub messages: u64,
    pub payload_bytes: usize,
    /// The maximum number of unacknowledged publishes (QoS 1).
    pub window: usize,
    /// How long the other clients are measured before.
    pub calm_ms: u64,
}

impl Default for RetainedOnDisk {
    fn default() -> Self {
        Self { messages: 10_000, payload_bytes: 1024, window: 100, calm_ms: 2000 }
    }
}

impl RetainedOnDisk {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        if self.messages == 0 || self.window == 0 {
            return Err(Failure::new("messages and window must not be 0"));
        }
        let form = plain_payload(self.payload_bytes)?;
        let violations = store_retained(context, &form, self.messages, self.window)?.violations;
        thread::sleep(SETTLE);
        let stored = Memory::read(context.broker.pid)?;
        let directory_bytes = allocated_bytes(&context.broker.data_folder()?)?;
        context.broker.kill()?;

        let begun = Instant::now();
        let broker = context.broker.start_again()?;
        let ready_s = begun.elapsed().as_secs_f64();
        thread::sleep(SETTLE);
        let started = Memory::read(broker.pid)?;
        let context = Context { broker: &broker, ..*context };
        let meter = Meter::begin(&broker)?;
        let calm = Duration::from_millis(self.calm_ms);
        let mut measurement = bystanders::beside(&context, calm, || self.subscribe_at_low_priority(&context, &form))?;
        let load = meter.end(&broker)?;
        measurement.account.published += self.messages;
        measurement.account.violations += violations;
        measurement.set("ready_s", ready_s);
        measurement.set("stored_rss_bytes", stored.rss_bytes as f64);
        measurement.set("started_rss_bytes", started.rss_bytes as f64);
        measurement.set("directory_bytes", directory_bytes as f64);
        load.describe(&broker, &mut measurement)?;
        broker.pin_all_threads()?;
        Ok(measurement)
    }

    // With low priority, so that the other clients wait for the broker and not for the client that reads everything.
    fn subscribe_at_low_priority(&self, context: &Context<'_>, form: &PayloadForm) -> Result<Measurement> {
        thread::scope(|scope| {
            let reading = scope.spawn(|| {
                rustix::process::nice(NICENESS).during(|| "lowering the priority".to_owned())?;
                subscribe_to_all(context, context.broker.address, form, self.messages)
            });
            reading.join().map_err(|_| Failure::new("the reading client panicked"))?
        })
    }
}

/// One client publishes retained messages, a topic each.
pub(super) fn store_retained(
    context: &Context<'_>,
    form: &PayloadForm,
    messages: u64,
    window: usize,
) -> Result<StoreResult> {
    let mut store_client = StoreClient::open(context, "bench-retain", window)?;
    let (mut first, mut all) = (0, StoreResult::default());
    while first < messages {
        let until = (first + CHUNK).min(messages);
        let topics: Vec<String> = (first..until).map(retained_topic).collect();
        let topics = topics.iter().map(String::as_str);
        let mut publishes = Publishes::encode(context.version, QoS::AtLeastOnce, form, topics)?;
        publishes.retain();
        let stored = store_client.store(context, &mut publishes, first)?;
        all.violations += stored.violations;
        all.elapsed += stored.elapsed;
        first = until;
    }
    Ok(all)
}

/// One client subscribes to all of them and counts.
pub(super) fn subscribe_to_all(
    context: &Context<'_>,
    address: SocketAddr,
    form: &PayloadForm,
    messages: u64,
) -> Result<Measurement> {
    let mut seen = vec![false; messages as usize];
    let mut account = Account { expected: messages, ..Account::default() };
    let mut connection = Connection::new(connect_from(None, address)?)?;
    let (mut poller, mut buffer) = (Poller::new()?, ReadBuffer::new());
    poller.add(connection.stream(), 0)?;
    let id = PacketId::new(1).ok_or_else(|| Failure::new("packet id 0"))?;
    let mut request = mqtt::connect(context.version, "bench-all", mqtt::KEEP_ALIVE_S)?;
    request.extend(mqtt::subscribe(context.version, id, [TOPIC_FILTER], QoS::AtMostOnce)?);
    let begun = Instant::now();
    connection.send(&request)?;
    let mut stall_timer = StallTimer::new(STALL_TIMEOUT);
    while account.delivered < messages {
        poller.wait(Some(Duration::from_millis(100)))?;
        let before = account.delivered;
        if poller.ready_count() > 0 {
            connection.read_frames(&mut buffer, |frame| {
                match frame.read(context.version.is_v5())? {
                    Incoming::ConnAck { refusal: 0, .. } | Incoming::SubAck { refused: false, .. } => {}
                    Incoming::Publish { qos: 0, payload, .. } if frame.first_byte & RETAIN != 0 => {
                        let stamp = form.read(payload, context.run);
                        match stamp.and_then(|stamp| seen.get_mut(stamp.seq as usize)) {
                            Some(seen) if *seen => account.duplicated += 1,
                            Some(seen) => {
                                *seen = true;
                                account.delivered += 1;
                            }
                            None => account.corrupted += 1,
                        }
                    }
                    _ => account.violations += 1,
                }
                Ok(())
            })?;
            connection.flush()?;
        }
        if stall_timer.is_over(account.delivered - before) {
            break;
        }
    }
    let took_s = begun.elapsed().as_secs_f64();
    account.lost = account.expected - account.delivered;
    let mut measurement = Measurement::of(account);
    measurement.set("to_all_retained_s", took_s);
    measurement.set("retained_deliveries_per_s", account.delivered as f64 / took_s);
    Ok(measurement)
}
