use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::context::Context;
use super::super::parameters::plain_payload;
use super::super::session::{DRAIN_TIMEOUT, STALL_TIMEOUT, open_as};
use crate::broker::BrokerKind;
use crate::failure::{Failure, Result};
use crate::measure::{Account, Histogram, Measurement};
use crate::mqtt::{Incoming, PacketIds, PayloadStamp, Publishes, QoS};
use crate::nats::{NatsPublisher, Rate};
use crate::net::{Connection, Poller, ReadBuffer, Role};
use crate::system::{Load, Meter};

/// Clients publish at QoS 1 to one broker, without subscribers: how many messages are acknowledged, with this many in flight. If
/// there are nats-servers, a plain NATS client that publishes the same to the same servers alternates with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Acknowledged {
    /// Unacknowledged messages of all clients together.
    pub window: usize,
    /// The maximum number of clients; not more than the window.
    pub clients: usize,
    /// Enough topics that the partitions of a log have about the same load.
    pub topics_of_each: usize,
    pub payload_bytes: usize,
    pub slices: u32,
    pub slice_ms: u64,
}

impl Default for Acknowledged {
    fn default() -> Self {
        Self { window: 64, clients: 64, topics_of_each: 64, payload_bytes: 256, slices: 3, slice_ms: 1200 }
    }
}

impl Acknowledged {
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        if [self.window, self.clients, self.topics_of_each, self.slices as usize].contains(&0) {
            return Err(Failure::new("window, clients, topics and slices must not be 0"));
        }
        let mut client_group = Publishers::open(self, context)?;
        let slice = Duration::from_millis(self.slice_ms);
        let mut bare = match (context.broker.kind, &context.broker.cluster) {
            (BrokerKind::TautwireCluster { .. }, Some(cluster)) => {
                let servers: Vec<&str> = cluster.servers.iter().map(|server| server.address.as_str()).collect();
                Some(NatsPublisher::start(&servers, self.window, self.payload_bytes)?)
            }
            _ => None,
        };
        client_group.publish(context, slice / 4)?;
        if let Some(bare) = &mut bare {
            bare.publish(slice / 4)?;
        }
        (client_group.times, client_group.acknowledged) = (Histogram::default(), 0);
        let (mut load, mut of_bare) = (Load::default(), Rate::default());
        for _ in 0..self.slices {
            let meter = Meter::begin(context.broker)?;
            client_group.publish(context, slice)?;
            load.add(&meter.end(context.broker)?);
            if let Some(bare) = &mut bare {
                of_bare.add(bare.publish(slice)?);
            }
        }
        let mut measurement = Measurement::of(client_group.account);
        let acknowledged = client_group.acknowledged as f64;
        let rate = acknowledged / load.elapsed_s;
        measurement.set("acknowledged_per_s", rate);
        measurement.set("broker_cpu_us_per_publish", load.broker_cpu_s * 1e6 / acknowledged);
        measurement.set_latencies("", std::mem::take(&mut client_group.times));
        if bare.is_some() {
            measurement.set("async_nats_acknowledged_per_s", of_bare.per_s());
            measurement.set("ratio_to_async_nats", rate / of_bare.per_s());
            measurement.set("servers_cpu_us_per_publish", load.servers_cpu_s * 1e6 / acknowledged);
            measurement.set("async_nats_cpu_us_per_publish", of_bare.cpu_us_per_message());
        }
        load.describe(context.broker, &mut measurement)?;
        if let Some(reason) = load.generator_bottleneck(context.broker, context.placement) {
            measurement.invalidate(&reason, |name| name == "acknowledged_per_s");
        }
        Ok(measurement)
    }
}

struct Publishers {
    clients: Vec<Client>,
    poller: Poller,
    buffer: ReadBuffer,
    acknowledged: u64,
    /// The time from PUBLISH to PUBACK of each client's oldest message.
    times: Histogram,
    account: Account,
}

struct Client {
    connection: Connection,
    publishes: Publishes,
    /// The index of its next topic.
    next: usize,
    window: usize,
    in_flight: PacketIds,
    sent: u64,
    oldest_sent: Option<Instant>,
    waits_for_writable: bool,
}

impl Publishers {
    fn open(plan: &Acknowledged, context: &Context<'_>) -> Result<Self> {
        let form = plain_payload(plan.payload_bytes)?;
        let (count, poller) = (plan.clients.min(plan.window), Poller::new()?);
        let mut clients = Vec::new();
        for number in 0..count {
            let connection =
                open_as(context, Role::Publisher, &format!("bench-pub-{number}"), "", QoS::AtLeastOnce, 0)?;
            poller.add(connection.stream(), number)?;
            let topics: Vec<String> = (0..plan.topics_of_each).map(|topic| format!("bench/{number}/{topic}")).collect();
            let topics = topics.iter().map(String::as_str);
            clients.push(Client {
                connection,
                publishes: Publishes::encode(context.version, QoS::AtLeastOnce, &form, topics)?,
                next: 0,
                // The remainder goes to the first ones.
                window: plan.window / count + usize::from(number < plan.window % count),
                in_flight: PacketIds::new(),
                sent: 0,
                oldest_sent: None,
                waits_for_writable: false,
            });
        }
        let buffer = ReadBuffer::new();
        let (times, account) = (Histogram::default(), Account::default());
        Ok(Self { clients, poller, buffer, acknowledged: 0, times, account })
    }

    /// Keeps the window full for `duration`, then waits until everything is acknowledged.
    fn publish(&mut self, context: &Context<'_>, duration: Duration) -> Result<()> {
        let (begun, mut last_progress) = (Instant::now(), Instant::now());
        for number in 0..self.clients.len() {
            self.fill(context, number)?;
        }
        while begun.elapsed() < duration || self.clients.iter().any(|client| client.in_flight.len() > 0) {
            self.poller.wait(Some(Duration::from_millis(100)))?;
            for index in 0..self.poller.ready_count() {
                let number = self.poller.ready(index).token;
                self.read(context, number)?;
                if begun.elapsed() < duration {
                    self.fill(context, number)?;
                } else {
                    self.clients[number].connection.flush()?;
                }
                last_progress = Instant::now();
            }
            if last_progress.elapsed() > STALL_TIMEOUT || begun.elapsed() > duration + DRAIN_TIMEOUT {
                return Err(Failure::new("the broker has stopped acknowledging"));
            }
        }
        Ok(())
    }

    /// Sends what fits into the window of a client, in one write.
    fn fill(&mut self, context: &Context<'_>, number: usize) -> Result<()> {
        let client = &mut self.clients[number];
        while client.in_flight.len() < client.window && !client.connection.has_unsent() {
            let first = client.next;
            let until = (first + client.window - client.in_flight.len()).min(client.publishes.len());
            for index in first..until {
                let stamp = PayloadStamp { seq: client.sent, publisher: number as u32, run: context.run };
                client.publishes.stamp(index, stamp, client.in_flight.allocate());
                client.sent += 1;
            }
            client.oldest_sent.get_or_insert_with(Instant::now);
            client.connection.send(client.publishes.bytes(first..until))?;
            client.next = until % client.publishes.len();
            self.account.published += (until - first) as u64;
        }
        client.connection.flush()?;
        if client.connection.has_unsent() != client.waits_for_writable {
            client.waits_for_writable = client.connection.has_unsent();
            self.poller.set_writable_interest(client.connection.stream(), number, client.waits_for_writable)?;
        }
        Ok(())
    }

    fn read(&mut self, context: &Context<'_>, number: usize) -> Result<()> {
        let client = &mut self.clients[number];
        let (in_flight, mut acknowledged, mut violations) = (&mut client.in_flight, 0, 0);
        client.connection.read_frames(&mut self.buffer, |frame| {
            match frame.read(context.version.is_v5())? {
                Incoming::PubAck { packet_id, refused: false } if in_flight.remove(packet_id) => acknowledged += 1,
                _ => violations += 1,
            }
            Ok(())
        })?;
        if acknowledged > 0
            && let Some(sent) = client.oldest_sent.take()
        {
            self.times.record(sent.elapsed().as_nanos() as u64);
            client.oldest_sent = (client.in_flight.len() > 0).then(Instant::now);
        }
        self.acknowledged += acknowledged;
        self.account.violations += violations;
        Ok(())
    }
}
