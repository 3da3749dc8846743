use std::ops::Range;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::parameters::{PayloadKind, QosLevel};
use super::session::{DRAIN_TIMEOUT, STALL_TIMEOUT, Session, open_as, open_at};
use crate::failure::{Failure, Result};
use crate::measure::{Account, Measurement, Sequence};
use crate::mqtt::{Frame, Incoming, PacketIds, PayloadForm, PayloadStamp, Publishes, ack};
use crate::net::{Connection, Poller, ReadBuffer, Role};
use crate::system::Meter;

/// Publishers send as fast as their credit allows to subscribers; every delivery is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Flood {
    pub publishers: usize,
    pub subscribers: usize,
    /// If not 0: this many independent pairs of one publisher and one subscriber, instead of the two numbers above.
    pub pairs: usize,
    /// The QoS of publishing and of subscribing.
    pub qos: QosLevel,
    /// Whether the sessions of subscribers outlive their connections, so that a broker with a disk must persist their messages.
    pub lasting: bool,
    pub payload: PayloadKind,
    /// The size of plain payloads.
    pub payload_bytes: usize,
    /// The maximum number of messages that are published and not delivered (to all subscribers); for each pair if there are pairs.
    pub outstanding: u64,
    /// The maximum number of messages of each publisher that the broker has not acknowledged (QoS > 0).
    pub window: usize,
    /// The maximum number of publishes in one write; a publisher waits for credit for this many, or for half its limit if that is less.
    pub batch: usize,
    pub duration_ms: u64,
    pub warm_up_ms: u64,
}

impl Default for Flood {
    fn default() -> Self {
        Self {
            publishers: 1,
            subscribers: 1,
            pairs: 0,
            qos: QosLevel::default(),
            lasting: false,
            payload: PayloadKind::Plain,
            payload_bytes: 16,
            outstanding: 1000,
            window: 100,
            batch: 64,
            duration_ms: 2000,
            warm_up_ms: 200,
        }
    }
}

impl Flood {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let form = self.payload.form(self.payload_bytes)?;
        let mut run = Run::open(self, context, &form)?;
        run.phase(Duration::from_millis(self.warm_up_ms))?;
        let deliveries_before = run.deliveries();
        let meter = Meter::begin(context.broker)?;
        let elapsed = run.phase(Duration::from_millis(self.duration_ms))?;
        let load = meter.end(context.broker)?;

        let deliveries = (run.deliveries() - deliveries_before) as f64;
        let seconds = elapsed.as_secs_f64();
        let mut measurement = Measurement::of(run.account());
        measurement.set("deliveries_per_s", deliveries / seconds);
        measurement.set("megabytes_per_s", deliveries * form.bytes() as f64 / seconds / 1e6);
        measurement.set("broker_cpu_s_per_million_deliveries", load.broker_cpu_s * 1e6 / deliveries);
        if context.broker.kind.is_cluster() {
            let of_all = load.broker_cpu_s + load.servers_cpu_s;
            measurement.set("with_servers_cpu_s_per_million_deliveries", of_all * 1e6 / deliveries);
        }
        measurement.set("generator_cpu_s_per_million_deliveries", load.generator_cpu_s * 1e6 / deliveries);
        // On one core: below 1 by what other processes used. A broker that hid its work elsewhere would show here, too.
        measurement.set("busy_cores", (load.broker_cpu_s + load.servers_cpu_s + load.generator_cpu_s) / seconds);
        load.describe(context.broker, &mut measurement)?;
        if let Some(reason) = load.generator_bottleneck(context.broker, context.placement) {
            measurement.invalidate(&reason, |name| matches!(name, "deliveries_per_s" | "megabytes_per_s"));
        }
        Ok(measurement)
    }
}

/// The relay forwards to a subscriber by the frame lengths of publishers; the subscriber's own does not matter.
const ANY_FRAME_BYTES: usize = 1;

/// Tokens: publishers first, then subscribers.
struct Run<'a> {
    flood: &'a Flood,
    poller: Poller,
    buffer: ReadBuffer,
    groups: Vec<Group>,
    publishers: Vec<Publisher>,
    subscribers: Vec<Subscriber>,
    shape: Shape<'a>,
    /// Connections to flush at the end of the turn.
    dirty: Vec<usize>,
}

/// The expectations for incoming packets.
#[derive(Clone, Copy)]
struct Shape<'a> {
    qos: u8,
    v5: bool,
    form: &'a PayloadForm,
    run: u32,
}

/// Publishers and subscribers of one topic.
struct Group {
    publishers: Range<usize>,
    subscribers: Range<usize>,
    next_publisher: usize,
    published: u64,
    deliveries: u64,
}

struct Publisher {
    connection: Connection,
    publishes: Publishes,
    waits_for_writable: bool,
    sent: u64,
    in_flight: PacketIds,
    awaiting_completion: PacketIds,
    violations: u64,
}

struct Subscriber {
    connection: Connection,
    group: usize,
    first_publisher: usize,
    waits_for_writable: bool,
    streams: Vec<Sequence>,
    unreleased: PacketIds,
    corrupted: u64,
    violations: u64,
}

impl<'a> Run<'a> {
    fn open(flood: &'a Flood, context: &Context<'_>, form: &'a PayloadForm) -> Result<Self> {
        let group_count = flood.pairs.max(1);
        let (publishers_each, subscribers_each) =
            if flood.pairs > 0 { (1, 1) } else { (flood.publishers, flood.subscribers) };
        if [publishers_each, subscribers_each, flood.batch, flood.window].contains(&0) || flood.outstanding == 0 {
            return Err(Failure::new("publishers, subscribers, batch, window and outstanding must not be 0"));
        }
        let mut run = Self {
            flood,
            poller: Poller::new()?,
            buffer: ReadBuffer::new(),
            groups: Vec::new(),
            publishers: Vec::new(),
            subscribers: Vec::new(),
            shape: Shape { qos: flood.qos.0.as_u8(), v5: context.version.is_v5(), form, run: context.run },
            dirty: Vec::new(),
        };
        for group in 0..group_count {
            let topic = flood.payload.topic(&format!("flood/{group}"));
            for _ in 0..subscribers_each {
                let first_publisher = group * publishers_each;
                let id = format!("bench-sub-{}", run.subscribers.len());
                let address = context.broker.address_of_subscriber(run.subscribers.len())?;
                let connection = if flood.lasting {
                    let mut session = Session::open_persistent(context, address, &id)?;
                    session.subscribe(context, &[&topic], flood.qos.0)?;
                    session.into_connection()?
                } else {
                    open_at(context, address, Role::Subscriber, &id, &topic, flood.qos.0, ANY_FRAME_BYTES)?
                };
                run.subscribers.push(Subscriber {
                    connection,
                    group,
                    first_publisher,
                    waits_for_writable: false,
                    streams: (0..publishers_each).map(|_| Sequence::default()).collect(),
                    unreleased: PacketIds::new(),
                    corrupted: 0,
                    violations: 0,
                });
            }
            for _ in 0..publishers_each {
                run.open_publisher(context, &topic)?;
            }
            run.groups.push(Group {
                publishers: group * publishers_each..(group + 1) * publishers_each,
                subscribers: group * subscribers_each..(group + 1) * subscribers_each,
                next_publisher: group * publishers_each,
                published: 0,
                deliveries: 0,
            });
        }
        let streams = run.publishers.iter().map(|publisher| publisher.connection.stream());
        for (token, stream) in streams.chain(run.subscribers.iter().map(|s| s.connection.stream())).enumerate() {
            run.poller.add(stream, token)?;
        }
        Ok(run)
    }

    fn open_publisher(&mut self, context: &Context<'_>, topic: &str) -> Result<()> {
        let topics = std::iter::repeat_n(topic, self.flood.batch);
        let publishes = Publishes::encode(context.version, self.flood.qos.0, self.shape.form, topics)?;
        let id = format!("bench-pub-{}", self.publishers.len());
        let packet_bytes = publishes.bytes(0..1).len();
        let connection = open_as(context, Role::Publisher, &id, topic, self.flood.qos.0, packet_bytes)?;
        self.publishers.push(Publisher {
            connection,
            publishes,
            waits_for_writable: false,
            sent: 0,
            in_flight: PacketIds::new(),
            awaiting_completion: PacketIds::new(),
            violations: 0,
        });
        Ok(())
    }

    /// Publishes for `duration`, then waits until everything is delivered and acknowledged. Returns the whole time.
    fn phase(&mut self, duration: Duration) -> Result<Duration> {
        let started = Instant::now();
        let mut last_progress = started;
        let mut progress_mark = self.deliveries();
        loop {
            let now = Instant::now();
            let publishing = now.duration_since(started) < duration;
            if publishing {
                self.publish()?;
            } else if self.is_drained() {
                return Ok(now.duration_since(started));
            }
            self.flush_dirty()?;
            self.poller.wait(Some(Duration::from_millis(100)))?;
            for index in 0..self.poller.ready_count() {
                let ready = self.poller.ready(index);
                self.dirty.push(ready.token);
                if ready.readable {
                    self.read(ready.token)?;
                }
            }
            if self.deliveries() != progress_mark || self.poller.ready_count() > 0 {
                progress_mark = self.deliveries();
                last_progress = now;
            }
            if now.duration_since(last_progress) > STALL_TIMEOUT
                || now.duration_since(started) > duration + DRAIN_TIMEOUT
            {
                // Missing messages show in the account; the timeout is not the broker's time.
                return Ok(last_progress.duration_since(started));
            }
        }
    }

    fn publish(&mut self) -> Result<()> {
        let flood = self.flood;
        let stall_timer = (flood.batch as u64).min(flood.outstanding.div_ceil(2));
        let window_patience = flood.batch.min(flood.window.div_ceil(2));
        for group in &mut self.groups {
            let fan = group.subscribers.len() as u64;
            let mut idle_publishers = 0;
            while idle_publishers < group.publishers.len() {
                let undelivered = (group.published * fan).saturating_sub(group.deliveries);
                let credit = (flood.outstanding * fan).saturating_sub(undelivered) / fan;
                if credit < stall_timer {
                    break;
                }
                let index = group.next_publisher;
                group.next_publisher += 1;
                if group.next_publisher == group.publishers.end {
                    group.next_publisher = group.publishers.start;
                }
                let publisher = &mut self.publishers[index];
                let mut count = flood.batch.min(credit as usize);
                if self.shape.qos > 0 {
                    let room = flood.window - publisher.in_flight.len();
                    count = if room < window_patience { 0 } else { count.min(room) };
                }
                if count == 0 || publisher.waits_for_writable {
                    idle_publishers += 1;
                    continue;
                }
                idle_publishers = 0;
                publisher.publish(count, (index - group.publishers.start) as u32, self.shape)?;
                group.published += count as u64;
                self.dirty.push(index);
            }
        }
        Ok(())
    }

    fn read(&mut self, token: usize) -> Result<()> {
        let shape = self.shape;
        if let Some(publisher) = self.publishers.get_mut(token) {
            return publisher.read(&mut self.buffer, shape);
        }
        let subscriber = &mut self.subscribers[token - self.publishers.len()];
        self.groups[subscriber.group].deliveries += subscriber.read(&mut self.buffer, shape)?;
        Ok(())
    }

    fn flush_dirty(&mut self) -> Result<()> {
        for token in self.dirty.drain(..) {
            let (connection, waits_for_writable) = match self.publishers.get_mut(token) {
                Some(publisher) => (&mut publisher.connection, &mut publisher.waits_for_writable),
                None => {
                    let subscriber = &mut self.subscribers[token - self.publishers.len()];
                    (&mut subscriber.connection, &mut subscriber.waits_for_writable)
                }
            };
            connection.flush()?;
            if connection.has_unsent() != *waits_for_writable {
                *waits_for_writable = connection.has_unsent();
                self.poller.set_writable_interest(connection.stream(), token, *waits_for_writable)?;
            }
        }
        Ok(())
    }

    fn deliveries(&self) -> u64 {
        self.groups.iter().map(|group| group.deliveries).sum()
    }

    fn is_drained(&self) -> bool {
        self.groups.iter().all(|group| group.deliveries >= group.published * group.subscribers.len() as u64)
            && self.publishers.iter().all(|p| p.in_flight.len() == 0 && !p.connection.has_unsent())
            && self.subscribers.iter().all(|s| s.unreleased.len() == 0 && !s.connection.has_unsent())
    }

    fn account(&self) -> Account {
        let mut account = Account::default();
        for publisher in &self.publishers {
            account.published += publisher.sent;
            account.violations += publisher.violations;
        }
        for subscriber in &self.subscribers {
            for (index, stream) in subscriber.streams.iter().enumerate() {
                account.add(&stream.account(self.publishers[subscriber.first_publisher + index].sent));
            }
            account.corrupted += subscriber.corrupted;
            account.violations += subscriber.violations;
        }
        account
    }
}

impl Publisher {
    fn publish(&mut self, count: usize, number: u32, shape: Shape<'_>) -> Result<()> {
        for index in 0..count {
            let stamp = PayloadStamp { seq: self.sent, publisher: number, run: shape.run };
            let packet_id = if shape.qos > 0 { self.in_flight.allocate() } else { None };
            self.publishes.stamp(index, stamp, packet_id);
            self.sent += 1;
        }
        self.connection.send(self.publishes.bytes(0..count))
    }

    fn read(&mut self, buffer: &mut ReadBuffer, shape: Shape<'_>) -> Result<()> {
        let (in_flight, awaiting_completion) = (&mut self.in_flight, &mut self.awaiting_completion);
        let mut violations = 0;
        let mut releases = Vec::new();
        self.connection.read_frames(buffer, |frame| {
            let as_it_should_be = match frame.read(shape.v5)? {
                Incoming::PubAck { packet_id, refused } => shape.qos == 1 && in_flight.remove(packet_id) && !refused,
                Incoming::PubRec { packet_id, refused } => {
                    releases.extend_from_slice(&ack(0x62, packet_id));
                    in_flight.contains(packet_id) && shape.qos == 2 && awaiting_completion.insert(packet_id) && !refused
                }
                Incoming::PubComp { packet_id, refused } => {
                    awaiting_completion.remove(packet_id) && in_flight.remove(packet_id) && !refused
                }
                _ => false,
            };
            violations += u64::from(!as_it_should_be);
            Ok(())
        })?;
        self.connection.queue(&releases);
        self.violations += violations;
        Ok(())
    }
}

impl Subscriber {
    /// Returns the number of deliveries.
    fn read(&mut self, buffer: &mut ReadBuffer, shape: Shape<'_>) -> Result<u64> {
        let mut intake = BatchReader {
            streams: &mut self.streams,
            unreleased: &mut self.unreleased,
            acks: Vec::new(),
            deliveries: 0,
            corrupted: 0,
            violations: 0,
            shape,
        };
        self.connection.read_frames(buffer, |frame| intake.take(frame))?;
        let BatchReader { acks, deliveries, corrupted, violations, .. } = intake;
        self.corrupted += corrupted;
        self.violations += violations;
        self.connection.queue(&acks);
        Ok(deliveries)
    }
}

/// The work for one read of a subscriber.
struct BatchReader<'a> {
    streams: &'a mut [Sequence],
    unreleased: &'a mut PacketIds,
    acks: Vec<u8>,
    deliveries: u64,
    corrupted: u64,
    violations: u64,
    shape: Shape<'a>,
}

impl BatchReader<'_> {
    #[inline]
    fn take(&mut self, frame: Frame<'_>) -> Result<()> {
        match frame.read(self.shape.v5)? {
            Incoming::Publish { qos, packet_id, payload } => {
                let stamp = self.shape.form.read(payload, self.shape.run);
                match stamp.and_then(|stamp| Some((self.streams.get_mut(stamp.publisher as usize)?, stamp.seq))) {
                    Some((stream, seq)) => self.deliveries += u64::from(stream.arrive(seq)),
                    None => self.corrupted += 1,
                }
                self.violations += u64::from(qos != self.shape.qos);
                match qos {
                    1 => self.acks.extend_from_slice(&ack(0x40, packet_id)),
                    2 => {
                        self.violations += u64::from(!self.unreleased.insert(packet_id));
                        self.acks.extend_from_slice(&ack(0x50, packet_id));
                    }
                    _ => {}
                }
            }
            Incoming::PubRel { packet_id } => {
                self.violations += u64::from(!self.unreleased.remove(packet_id));
                self.acks.extend_from_slice(&ack(0x70, packet_id));
            }
            _ => self.violations += 1,
        }
        Ok(())
    }
}
