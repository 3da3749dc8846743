use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::client_group::StallTimer;
use super::context::Context;
use super::parameters::plain_payload;
use super::session::{STALL_TIMEOUT, Session, open_as};
use crate::failure::{Failure, Result};
use crate::measure::{Account, Measurement, Sequence};
use crate::mqtt::{Incoming, PayloadForm, PayloadStamp, Publishes, QoS, SMALLEST_PAYLOAD_BYTES};
use crate::net::{Connection, Poller, ReadBuffer, Role};
use crate::system::{Load, Meter};

/// Overlapping wildcard subscriptions: of four subscribers two to `sensor/+/temp`, one to `sensor/1/#` and one to
/// `sensor/+/+`. Publisher N publishes to `sensor/N/temp`: three quarters of all subscribers get each message, and all of
/// them get those of publisher 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Explosion {
    pub subscribers: usize,
    pub publishers: usize,
    pub messages_each: u64,
    /// The maximum number of outstanding deliveries.
    pub outstanding: u64,
}

impl Default for Explosion {
    fn default() -> Self {
        Self { subscribers: 1000, publishers: 100, messages_each: 100, outstanding: 50_000 }
    }
}

/// The publisher whose messages match `sensor/1/#`.
const MATCHED_PUBLISHER: usize = 1;

impl Explosion {
    pub(super) fn connections(&self) -> u64 {
        (self.subscribers + self.publishers) as u64
    }

    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        if self.subscribers == 0 || self.publishers <= MATCHED_PUBLISHER || self.messages_each == 0 {
            return Err(Failure::new("it takes subscribers, two publishers and messages"));
        }
        let mut run = Run::open(self, context)?;
        let warm_up = 1.min(self.messages_each);
        run.publish_each(warm_up)?;
        let delivered_before = run.delivered;
        let meter = Meter::begin(context.broker)?;
        let elapsed = run.publish_each(self.messages_each)?;
        let load = meter.end(context.broker)?;
        let deliveries = (run.delivered - delivered_before) as f64;
        self.describe(context, &run, &load, deliveries, elapsed)
    }

    fn describe(
        &self,
        context: &Context<'_>,
        run: &Run<'_>,
        load: &Load,
        deliveries: f64,
        elapsed: Duration,
    ) -> Result<Measurement> {
        let account = run.account();
        let published = (self.publishers as u64 * self.messages_each) as f64;
        let mut measurement = Measurement::of(account);
        measurement.set("correct_percent", 100.0 * account.delivered as f64 / account.expected as f64);
        measurement.set("all_delivered_s", elapsed.as_secs_f64());
        measurement.set("deliveries_per_s", deliveries / elapsed.as_secs_f64());
        measurement.set("deliveries_per_publish", deliveries / published);
        measurement.set("broker_cpu_us_per_publish", load.broker_cpu_s * 1e6 / published);
        measurement.set("broker_cpu_s_per_million_deliveries", load.broker_cpu_s * 1e6 / deliveries);
        load.describe(context.broker, &mut measurement)?;
        if let Some(reason) = load.generator_bottleneck(context.broker, context.placement) {
            measurement.invalidate(&reason, |name| matches!(name, "all_delivered_s" | "deliveries_per_s"));
        }
        Ok(measurement)
    }

    fn filter_of(&self, subscriber: usize) -> &'static str {
        match 4 * subscriber / self.subscribers {
            0 | 1 => "sensor/+/temp",
            2 => "sensor/1/#",
            _ => "sensor/+/+",
        }
    }

    fn is_due(&self, subscriber: usize, publisher: usize) -> bool {
        publisher == MATCHED_PUBLISHER || self.filter_of(subscriber) != "sensor/1/#"
    }
}

/// Tokens: subscribers, then publishers.
struct Run<'a> {
    parameters: &'a Explosion,
    poller: Poller,
    buffer: ReadBuffer,
    form: PayloadForm,
    subscribers: Vec<Subscriber>,
    publishers: Vec<(Connection, Publishes)>,
    /// Messages of each publisher so far.
    sent_each: u64,
    published: u64,
    expected: u64,
    delivered: u64,
    v5: bool,
    run: u32,
}

struct Subscriber {
    connection: Connection,
    /// By publisher.
    streams: Vec<Sequence>,
    corrupted: u64,
    violations: u64,
}

impl<'a> Run<'a> {
    fn open(parameters: &'a Explosion, context: &Context<'_>) -> Result<Self> {
        let form = plain_payload(SMALLEST_PAYLOAD_BYTES)?;
        let poller = Poller::new()?;
        let mut subscribers = Vec::new();
        for number in 0..parameters.subscribers {
            let mut session = Session::open(context, &format!("bench-sub-{number}"))?;
            session.subscribe(context, &[parameters.filter_of(number)], QoS::AtMostOnce)?;
            let connection = session.into_connection()?;
            poller.add(connection.stream(), number)?;
            let mut streams = Vec::new();
            streams.resize_with(parameters.publishers, Sequence::default);
            subscribers.push(Subscriber { connection, streams, corrupted: 0, violations: 0 });
        }
        let mut publishers = Vec::new();
        for number in 0..parameters.publishers {
            let topic = format!("sensor/{number}/temp");
            let connection =
                open_as(context, Role::Publisher, &format!("bench-pub-{number}"), &topic, QoS::AtMostOnce, 0)?;
            poller.add(connection.stream(), parameters.subscribers + number)?;
            publishers
                .push((connection, Publishes::encode(context.version, QoS::AtMostOnce, &form, [topic.as_str()])?));
        }
        Ok(Self {
            parameters,
            poller,
            buffer: ReadBuffer::new(),
            form,
            subscribers,
            publishers,
            sent_each: 0,
            published: 0,
            expected: 0,
            delivered: 0,
            v5: context.version.is_v5(),
            run: context.run,
        })
    }

    /// Each publisher in turn publishes `count` messages. Returns the time until the last delivery.
    fn publish_each(&mut self, count: u64) -> Result<Duration> {
        let begun = Instant::now();
        let receivers: Vec<u64> = (0..self.publishers.len())
            .map(|publisher| {
                (0..self.subscribers.len()).filter(|&s| self.parameters.is_due(s, publisher)).count() as u64
            })
            .collect();
        let (last, mut next) = (self.publishers.len() as u64 * count, 0);
        let mut stall_timer = StallTimer::new(STALL_TIMEOUT);
        while next < last || self.delivered < self.expected {
            while next < last && self.expected.saturating_sub(self.delivered) < self.parameters.outstanding {
                let publisher = (next % self.publishers.len() as u64) as usize;
                let (connection, publish) = &mut self.publishers[publisher];
                let seq = self.sent_each + next / receivers.len() as u64;
                publish.stamp(0, PayloadStamp { seq, publisher: publisher as u32, run: self.run }, None);
                connection.send(publish.bytes(0..1))?;
                self.expected += receivers[publisher];
                self.published += 1;
                next += 1;
            }
            self.poller.wait(Some(Duration::from_millis(100)))?;
            let before = self.delivered;
            for index in 0..self.poller.ready_count() {
                self.read(self.poller.ready(index).token)?;
            }
            // The number of small messages is limited, so a publisher's socket is never full for long.
            for (connection, _) in self.publishers.iter_mut().filter(|(connection, _)| connection.has_unsent()) {
                connection.flush()?;
            }
            if stall_timer.is_over(self.delivered - before) {
                break;
            }
        }
        self.sent_each += count;
        Ok(begun.elapsed())
    }

    fn read(&mut self, token: usize) -> Result<()> {
        let Some(subscriber) = self.subscribers.get_mut(token) else {
            let (publisher, _) = &mut self.publishers[token - self.parameters.subscribers];
            return publisher.read_frames(&mut self.buffer, |_| Err(Failure::new("a publisher was sent a packet")));
        };
        let (v5, run, form) = (self.v5, self.run, &self.form);
        let Subscriber { connection, streams, corrupted, violations } = subscriber;
        let mut delivered = 0;
        connection.read_frames(&mut self.buffer, |frame| {
            match frame.read(v5)? {
                Incoming::Publish { payload, .. } => {
                    let stamp = form.read(payload, run);
                    match stamp.and_then(|stamp| Some((streams.get_mut(stamp.publisher as usize)?, stamp.seq))) {
                        Some((stream, seq)) => delivered += u64::from(stream.arrive(seq)),
                        None => *corrupted += 1,
                    }
                }
                _ => *violations += 1,
            }
            Ok(())
        })?;
        self.delivered += delivered;
        Ok(())
    }

    fn account(&self) -> Account {
        let mut account = Account { published: self.published, ..Account::default() };
        for (number, subscriber) in self.subscribers.iter().enumerate() {
            account.corrupted += subscriber.corrupted;
            account.violations += subscriber.violations;
            for (publisher, stream) in subscriber.streams.iter().enumerate() {
                let due = self.parameters.is_due(number, publisher);
                let of_stream = stream.account(if due { self.sent_each } else { 0 });
                if !due {
                    // No filter of this subscriber matches, so any message is wrong.
                    account.corrupted += of_stream.delivered;
                    continue;
                }
                account.add(&of_stream);
            }
        }
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_messages_are_split_into_a_half_and_two_quarters() {
        let explosion = Explosion::default();
        let count = |filter: &str| (0..1000).filter(|&subscriber| explosion.filter_of(subscriber) == filter).count();
        assert_eq!((count("sensor/+/temp"), count("sensor/1/#"), count("sensor/+/+")), (500, 250, 250));
    }

    #[test]
    fn expected_receivers_are_those_that_match() {
        let explosion = Explosion::default();
        for subscriber in [0, 499, 500, 749, 750, 999] {
            for publisher in [0, 1, 2, 99] {
                let topic = format!("sensor/{publisher}/temp");
                let matches = tautwire_protocol::topic_matches(explosion.filter_of(subscriber), &topic);
                assert_eq!(explosion.is_due(subscriber, publisher), matches, "{subscriber} {topic}");
            }
        }
    }
}
