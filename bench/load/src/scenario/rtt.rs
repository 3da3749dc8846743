use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::parameters::{QosLevel, plain_payload};
use super::session::open_as;
use crate::broker::Helper;
use crate::failure::{Failure, Result};
use crate::measure::{Account, Histogram, Measurement, Sequence};
use crate::mqtt::{Incoming, PacketIds, PayloadForm, PayloadStamp, Publishes, ack};
use crate::net::{Connection, Poller, ReadBuffer, Role, connect_from, measure_ping_pong};
use crate::system::{Load, Meter};

const TOPIC: &str = "bench/rtt";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Round trips: one client subscribed to its own topic publishes the next message when the last has arrived and, for
/// QoS > 0, the broker's part of the publishing handshake (PUBACK, PUBCOMP), too. Slices alternate with a raw
/// blocking TCP ping-pong of the same packet size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rtt {
    pub qos: QosLevel,
    pub payload_bytes: usize,
    /// The measured time of MQTT; raw TCP takes as long.
    pub duration_ms: u64,
    /// The number of alternating slices.
    pub slices: u32,
    pub warm_up_ms: u64,
}

impl Default for Rtt {
    fn default() -> Self {
        Self { qos: QosLevel::default(), payload_bytes: 16, duration_ms: 2000, slices: 8, warm_up_ms: 200 }
    }
}

impl Rtt {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let form = plain_payload(self.payload_bytes)?;
        let publishes = Publishes::encode(context.version, self.qos.0, &form, [TOPIC])?;
        let packet_bytes = publishes.bytes(0..1).len();
        let connection = open_as(context, Role::Echo, "bench-rtt", TOPIC, self.qos.0, packet_bytes)?;
        let mut client = Client::new(context, connection, publishes, self.qos, form)?;
        let echo = Helper::start("echo", context.placement)?;
        let mut raw = connect_from(None, echo.address)?;

        let warm_up = Duration::from_millis(self.warm_up_ms);
        client.exchange_for(warm_up)?;
        measure_ping_pong(&mut raw, packet_bytes, warm_up, &mut Histogram::default())?;
        client.latencies = Histogram::default();

        let slice = Duration::from_millis(self.duration_ms) / self.slices.max(1);
        let totals = self.alternate(context, &mut client, &mut raw, packet_bytes, slice)?;
        let load = totals.load;
        let mut measurement = totals.into_measurement(&client);
        load.describe(context.broker, &mut measurement)?;
        Ok(measurement)
    }

    fn alternate(
        &self,
        context: &Context<'_>,
        client: &mut Client,
        raw: &mut TcpStream,
        packet_bytes: usize,
        slice: Duration,
    ) -> Result<Totals> {
        let mut totals = Totals::default();
        for _ in 0..self.slices.max(1) {
            let (round_trips, elapsed) = measure_ping_pong(raw, packet_bytes, slice, &mut totals.raw_latencies)?;
            totals.raw.add(round_trips, elapsed);
            let meter = Meter::begin(context.broker)?;
            let (round_trips, elapsed) = client.exchange_for(slice)?;
            totals.mqtt.add(round_trips, elapsed);
            totals.load.add(&meter.end(context.broker)?);
        }
        Ok(totals)
    }
}

#[derive(Default)]
struct Totals {
    raw: RoundTrips,
    mqtt: RoundTrips,
    raw_latencies: Histogram,
    load: Load,
}

#[derive(Default)]
struct RoundTrips {
    count: u64,
    elapsed: Duration,
}

impl RoundTrips {
    fn add(&mut self, count: u64, elapsed: Duration) {
        self.count += count;
        self.elapsed += elapsed;
    }

    fn per_second(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64()
    }
}

impl Totals {
    fn into_measurement(self, client: &Client) -> Measurement {
        let mut measurement = Measurement::of(client.account());
        measurement.set("round_trips_per_s", self.mqtt.per_second());
        measurement.set("raw_tcp_round_trips_per_s", self.raw.per_second());
        measurement.set("ratio_to_raw_tcp", self.mqtt.per_second() / self.raw.per_second());
        measurement.set("ratio_of_p50", self.raw_latencies.quantile_us(0.5) / client.latencies.quantile_us(0.5));
        measurement.set_latencies("", client.latencies.clone());
        measurement.set_latencies("raw_tcp_", self.raw_latencies);
        measurement.set("broker_cpu_us_per_exchange", self.load.broker_cpu_s * 1e6 / self.mqtt.count as f64);
        measurement.set("generator_cpu_us_per_exchange", self.load.generator_cpu_s * 1e6 / self.mqtt.count as f64);
        measurement
    }
}

/// The client: everything due after a read (acknowledgements, the next publish) is one write.
struct Client {
    connection: Connection,
    poller: Poller,
    buffer: ReadBuffer,
    publishes: Publishes,
    latencies: Histogram,
    due: Vec<u8>,
    state: State,
}

/// The received packets of the current exchange.
struct State {
    qos: u8,
    v5: bool,
    form: PayloadForm,
    run: u32,
    sent: u64,
    stream: Sequence,
    message_is_back: bool,
    publishing: PacketIds,
    awaiting_completion: PacketIds,
    unreleased: PacketIds,
    corrupted: u64,
    violations: u64,
}

impl Client {
    fn new(
        context: &Context<'_>,
        connection: Connection,
        publishes: Publishes,
        qos: QosLevel,
        form: PayloadForm,
    ) -> Result<Self> {
        let poller = Poller::new()?;
        poller.add(connection.stream(), 0)?;
        Ok(Self {
            connection,
            poller,
            buffer: ReadBuffer::new(),
            publishes,
            latencies: Histogram::default(),
            due: Vec::new(),
            state: State {
                qos: qos.0.as_u8(),
                v5: context.version.is_v5(),
                form,
                run: context.run,
                sent: 0,
                stream: Sequence::default(),
                message_is_back: false,
                publishing: PacketIds::new(),
                awaiting_completion: PacketIds::new(),
                unreleased: PacketIds::new(),
                corrupted: 0,
                violations: 0,
            },
        })
    }

    /// Exchanges messages for `duration`, and finishes the last. Returns the count and the exact time.
    fn exchange_for(&mut self, duration: Duration) -> Result<(u64, Duration)> {
        let started = Instant::now();
        let mut last = started;
        let mut exchanges = 0;
        self.publish_next();
        loop {
            self.connection.send(&self.due)?;
            self.due.clear();
            self.take_input()?;
            if self.state.is_exchange_complete() {
                let now = Instant::now();
                self.latencies.record(now.duration_since(last).as_nanos() as u64);
                last = now;
                exchanges += 1;
                if now.duration_since(started) >= duration {
                    break;
                }
                self.publish_next();
            }
        }
        let elapsed = last.duration_since(started);
        // Outside the measured time: the rest of the QoS exchange of the last message.
        while self.state.unreleased.len() > 0 || !self.due.is_empty() || self.connection.has_unsent() {
            self.connection.send(&self.due)?;
            self.due.clear();
            if self.state.unreleased.len() > 0 {
                self.take_input()?;
            }
        }
        Ok((exchanges, elapsed))
    }

    fn publish_next(&mut self) {
        let packet_id = if self.state.qos > 0 { self.state.publishing.allocate() } else { None };
        let stamp = PayloadStamp { seq: self.state.sent, publisher: 0, run: self.state.run };
        self.publishes.stamp(0, stamp, packet_id);
        self.due.extend_from_slice(self.publishes.bytes(0..1));
        self.state.sent += 1;
        self.state.message_is_back = false;
    }

    fn take_input(&mut self) -> Result<()> {
        self.poller.wait(Some(ANSWER_TIMEOUT))?;
        if self.poller.ready_count() == 0 {
            return Err(Failure::new(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())));
        }
        let (state, due) = (&mut self.state, &mut self.due);
        self.connection.read_frames(&mut self.buffer, |frame| {
            state.take(frame.read(state.v5)?, due);
            Ok(())
        })?;
        if self.connection.has_unsent() {
            self.connection.flush()?;
        }
        Ok(())
    }

    fn account(&self) -> Account {
        let mut account = self.state.stream.account(self.state.sent);
        account.published = self.state.sent;
        account.corrupted = self.state.corrupted;
        account.violations = self.state.violations;
        account
    }
}

impl State {
    fn is_exchange_complete(&self) -> bool {
        self.message_is_back && self.publishing.len() == 0
    }

    fn take(&mut self, incoming: Incoming<'_>, due: &mut Vec<u8>) {
        let as_it_should_be = match incoming {
            Incoming::Publish { qos, packet_id, payload } => {
                match self.form.read(payload, self.run) {
                    Some(stamp) => self.message_is_back |= self.stream.arrive(stamp.seq),
                    None => self.corrupted += 1,
                }
                match qos {
                    1 => due.extend_from_slice(&ack(0x40, packet_id)),
                    2 => {
                        self.unreleased.insert(packet_id);
                        due.extend_from_slice(&ack(0x50, packet_id));
                    }
                    _ => {}
                }
                qos == self.qos
            }
            Incoming::PubAck { packet_id, refused } => self.qos == 1 && self.publishing.remove(packet_id) && !refused,
            Incoming::PubRec { packet_id, refused } => {
                due.extend_from_slice(&ack(0x62, packet_id));
                self.publishing.contains(packet_id) && self.awaiting_completion.insert(packet_id) && !refused
            }
            Incoming::PubRel { packet_id } => {
                due.extend_from_slice(&ack(0x70, packet_id));
                self.unreleased.remove(packet_id)
            }
            Incoming::PubComp { packet_id, refused } => {
                self.awaiting_completion.remove(packet_id) && self.publishing.remove(packet_id) && !refused
            }
            Incoming::ConnAck { .. } | Incoming::SubAck { .. } | Incoming::PingResp | Incoming::Unexpected => false,
        };
        self.violations += u64::from(!as_it_should_be);
    }
}
