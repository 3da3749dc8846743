use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::parameters::plain_payload;
use super::session::{DRAIN_TIMEOUT, STALL_TIMEOUT, Session, open_as};
use crate::failure::{Failure, Result};
use crate::measure::{Account, ExpectedOrder, Measurement};
use crate::mqtt::{Incoming, PayloadForm, PayloadStamp, Publishes, QoS, SMALLEST_PAYLOAD_BYTES};
use crate::net::{Connection, Poller, ReadBuffer, Role};
use crate::system::{CpuClock, Meter, resident_bytes};

const SETTLE: Duration = Duration::from_millis(300);
const DEVICES_PER_SITE: u64 = 100;
/// `w/+/d{device}/t` for the first half of the devices: half of all publishes match a third filter.
const WATCHED_DEVICES: u64 = DEVICES_PER_SITE / 2;

/// Very many distinct wildcard filters: the memory of each, and the broker's work for a publish that matches few of them.
///
/// With S sites of 100 devices, a publish to `w/s{site}/d{device}/t` is matched by `w/s{site}/d{device}/#` (of 100 S),
/// by `w/s{site}/+/t` (of S) and, for every second device, by `w/+/d{device}/t` (of 50): 2.5 deliveries on average. The rest of the
/// filters, `w/s{site}/+/+/x{n}`, match nothing. Each kind is spread over separate subscribers, so no subscriber has
/// two filters that match the same publish, and the deliveries are the same for every broker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Wildcards {
    pub filters: u64,
    /// At least 3, one for each kind of filter that matches.
    pub subscribers: usize,
    /// The maximum number of outstanding deliveries.
    pub outstanding: u64,
    /// The number of publishes in one write.
    pub batch: usize,
    pub duration_ms: u64,
    pub warm_up_ms: u64,
}

impl Default for Wildcards {
    fn default() -> Self {
        Self { filters: 100_000, subscribers: 99, outstanding: 1000, batch: 64, duration_ms: 2000, warm_up_ms: 200 }
    }
}

impl Wildcards {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let layout = Layout::of(self)?;
        let mut sessions = Vec::new();
        for number in 0..self.subscribers {
            sessions.push(Session::open(context, &format!("bench-wild-{number}"))?);
        }
        let publisher = open_as(context, Role::Publisher, "bench-wild-pub", "", QoS::AtMostOnce, 0)?;
        thread::sleep(SETTLE);
        let rss_before = resident_bytes(context.broker.pid)?;
        let subscribing_before = CpuClock::read(context.broker.pid)?;
        for (number, filters) in layout.filters_of_subscribers().iter().enumerate() {
            let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
            sessions[number].subscribe(context, &filters, QoS::AtMostOnce)?;
        }
        let subscribing_cpu_s = CpuClock::read(context.broker.pid)?.seconds_since(&subscribing_before);
        thread::sleep(SETTLE);
        let rss_after = resident_bytes(context.broker.pid)?;

        let mut run = Run::new(self, context, &layout, sessions, publisher)?;
        run.phase(Duration::from_millis(self.warm_up_ms))?;
        let (published_before, deliveries_before) = (run.published, run.deliveries);
        let meter = Meter::begin(context.broker)?;
        let elapsed = run.phase(Duration::from_millis(self.duration_ms))?;
        let load = meter.end(context.broker)?;

        let published = (run.published - published_before) as f64;
        let mut measurement = Measurement::of(run.account());
        measurement.set("bytes_per_filter", (rss_after as f64 - rss_before as f64) / self.filters as f64);
        measurement.set("broker_cpu_us_per_filter", subscribing_cpu_s * 1e6 / self.filters as f64);
        measurement.set("broker_cpu_us_per_publish", load.broker_cpu_s * 1e6 / published);
        measurement.set("publishes_per_s", published / elapsed.as_secs_f64());
        measurement.set("deliveries_per_publish", (run.deliveries - deliveries_before) as f64 / published);
        load.describe(context.broker, &mut measurement)?;
        if let Some(reason) = load.generator_bottleneck(context.broker, context.placement) {
            measurement.invalidate(&reason, |name| name == "publishes_per_s");
        }
        Ok(measurement)
    }
}

/// The filters and their subscribers.
#[derive(Debug, Clone, Copy)]
struct Layout {
    sites: u64,
    filters: u64,
    subscribers: usize,
}

impl Layout {
    fn of(parameters: &Wildcards) -> Result<Self> {
        let sites = parameters.filters.saturating_sub(WATCHED_DEVICES) / (DEVICES_PER_SITE + 1);
        if sites == 0 || parameters.subscribers < 3 || parameters.batch == 0 || parameters.outstanding == 0 {
            return Err(Failure::new("wildcards need 151 filters, 3 subscribers, a batch and outstanding deliveries"));
        }
        Ok(Self { sites, filters: parameters.filters, subscribers: parameters.subscribers })
    }

    /// The subscriber of the `index`th filter of a kind (0, 1, 2): each kind has a separate third of the subscribers.
    fn holder(self, kind: usize, index: u64) -> usize {
        let third = self.subscribers / 3;
        kind * third + (index % third as u64) as usize
    }

    fn filters_of_subscribers(self) -> Vec<Vec<String>> {
        let mut filters = vec![Vec::new(); self.subscribers];
        for site in 0..self.sites {
            for device in 0..DEVICES_PER_SITE {
                filters[self.holder(0, site * DEVICES_PER_SITE + device)].push(format!("w/s{site}/d{device}/#"));
            }
            filters[self.holder(1, site)].push(format!("w/s{site}/+/t"));
        }
        for device in 0..WATCHED_DEVICES {
            filters[self.holder(2, device)].push(format!("w/+/d{device}/t"));
        }
        let rest = self.filters - self.sites * (DEVICES_PER_SITE + 1) - WATCHED_DEVICES;
        for number in 0..rest {
            let site = number % self.sites;
            filters[self.holder(2, number)].push(format!("w/s{site}/+/+/x{number}"));
        }
        filters
    }

    fn topic_count(self) -> u64 {
        self.sites * DEVICES_PER_SITE
    }

    /// The `index`th topic of the round: all topics, far apart from one another.
    fn topic(self, index: u64) -> (u64, u64) {
        // A stride without a common divisor visits every topic once a round.
        let mut stride = (self.topic_count() * 5 / 8) | 1;
        while greatest_common_divisor(stride, self.topic_count()) != 1 {
            stride += 2;
        }
        let place = index * stride % self.topic_count();
        (place / DEVICES_PER_SITE, place % DEVICES_PER_SITE)
    }

    /// The subscribers that receive a publish to this topic.
    fn receivers(self, (site, device): (u64, u64)) -> impl Iterator<Item = usize> {
        let watcher = (device < WATCHED_DEVICES).then(|| self.holder(2, device));
        [self.holder(0, site * DEVICES_PER_SITE + device), self.holder(1, site)].into_iter().chain(watcher)
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

const PUBLISHER: usize = usize::MAX;

struct Run<'a> {
    parameters: &'a Wildcards,
    poller: Poller,
    buffer: ReadBuffer,
    publisher: Connection,
    publishes: Publishes,
    form: PayloadForm,
    /// The receivers of each prepared publish.
    receivers: Vec<Vec<u32>>,
    next_publish: usize,
    subscribers: Vec<(Connection, ExpectedOrder)>,
    run: u32,
    v5: bool,
    waits_for_writable: bool,
    published: u64,
    expected: u64,
    deliveries: u64,
    corrupted: u64,
    violations: u64,
}

impl<'a> Run<'a> {
    fn new(
        parameters: &'a Wildcards,
        context: &Context<'_>,
        layout: &Layout,
        sessions: Vec<Session>,
        publisher: Connection,
    ) -> Result<Self> {
        let route: Vec<(u64, u64)> = (0..layout.topic_count()).map(|index| layout.topic(index)).collect();
        let topics: Vec<String> = route.iter().map(|(site, device)| format!("w/s{site}/d{device}/t")).collect();
        let form = plain_payload(SMALLEST_PAYLOAD_BYTES)?;
        let publishes = Publishes::encode(context.version, QoS::AtMostOnce, &form, topics.iter().map(String::as_str))?;
        let receivers =
            route.iter().map(|&topic| layout.receivers(topic).map(|receiver| receiver as u32).collect()).collect();
        let poller = Poller::new()?;
        let mut subscribers = Vec::new();
        for session in sessions {
            let connection = session.into_connection()?;
            poller.add(connection.stream(), subscribers.len())?;
            subscribers.push((connection, ExpectedOrder::default()));
        }
        poller.add(publisher.stream(), PUBLISHER)?;
        Ok(Self {
            parameters,
            poller,
            buffer: ReadBuffer::new(),
            publisher,
            publishes,
            form,
            receivers,
            next_publish: 0,
            subscribers,
            run: context.run,
            v5: context.version.is_v5(),
            waits_for_writable: false,
            published: 0,
            expected: 0,
            deliveries: 0,
            corrupted: 0,
            violations: 0,
        })
    }

    /// Publishes for `duration`, then waits until everything is delivered. Returns the whole time.
    fn phase(&mut self, duration: Duration) -> Result<Duration> {
        let started = Instant::now();
        let mut last_progress = started;
        loop {
            let now = Instant::now();
            if now.duration_since(started) < duration {
                self.publish()?;
            } else if self.deliveries >= self.expected && !self.publisher.has_unsent() {
                return Ok(now.duration_since(started));
            }
            self.poller.wait(Some(Duration::from_millis(100)))?;
            for index in 0..self.poller.ready_count() {
                self.read(self.poller.ready(index).token)?;
            }
            self.publisher.flush()?;
            if self.publisher.has_unsent() != self.waits_for_writable {
                self.waits_for_writable = self.publisher.has_unsent();
                self.poller.set_writable_interest(self.publisher.stream(), PUBLISHER, self.waits_for_writable)?;
            }
            if self.poller.ready_count() > 0 {
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
        // A batch may produce three deliveries each.
        let batch_deliveries = 3 * self.parameters.batch as u64;
        while !self.publisher.has_unsent()
            && (self.expected - self.deliveries + batch_deliveries <= self.parameters.outstanding
                || self.expected == self.deliveries)
        {
            let end = (self.next_publish + self.parameters.batch).min(self.publishes.len());
            for index in self.next_publish..end {
                let stamp = PayloadStamp { seq: self.published, publisher: 0, run: self.run };
                self.publishes.stamp(index, stamp, None);
                for &receiver in &self.receivers[index] {
                    self.subscribers[receiver as usize].1.expect(self.published);
                    self.expected += 1;
                }
                self.published += 1;
            }
            self.publisher.send(self.publishes.bytes(self.next_publish..end))?;
            self.next_publish = end % self.publishes.len();
        }
        Ok(())
    }

    fn read(&mut self, token: usize) -> Result<()> {
        let (v5, run, form) = (self.v5, self.run, &self.form);
        let (mut deliveries, mut corrupted, mut violations) = (0, 0, 0);
        let mut nobody = ExpectedOrder::default();
        let (connection, order) = match self.subscribers.get_mut(token) {
            Some((connection, order)) => (connection, order),
            None => (&mut self.publisher, &mut nobody),
        };
        connection.read_frames(&mut self.buffer, |frame| {
            match frame.read(v5)? {
                Incoming::Publish { qos, payload, .. } => {
                    match form.read(payload, run) {
                        Some(stamp) => deliveries += u64::from(order.arrive(stamp.seq)),
                        None => corrupted += 1,
                    }
                    violations += u64::from(qos != 0);
                }
                _ => violations += 1,
            }
            Ok(())
        })?;
        self.deliveries += deliveries;
        self.corrupted += corrupted;
        self.violations += violations;
        Ok(())
    }

    fn account(&self) -> Account {
        let mut account = Account {
            published: self.published,
            corrupted: self.corrupted,
            violations: self.violations,
            ..Account::default()
        };
        for (_, order) in &self.subscribers {
            account.add(&order.account());
        }
        account
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn layout() -> Layout {
        let parameters = Wildcards { filters: 2_000, subscribers: 10, ..Wildcards::default() };
        Layout::of(&parameters).expect("enough filters")
    }

    #[test]
    fn all_filters_are_distinct_and_have_wildcards() {
        let held = layout().filters_of_subscribers();
        let all: Vec<&String> = held.iter().flatten().collect();
        assert_eq!(all.len(), 2_000);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 2_000);
        assert!(all.iter().all(|filter| filter.contains(['+', '#'])));
    }

    #[test]
    fn receivers_are_the_distinct_clients_with_matching_filters() {
        let layout = layout();
        let held = layout.filters_of_subscribers();
        let mut deliveries = 0;
        for index in 0..layout.topic_count() {
            let topic = layout.topic(index);
            let name = format!("w/s{}/d{}/t", topic.0, topic.1);
            let mut matching: Vec<usize> = Vec::new();
            for (subscriber, filters) in held.iter().enumerate() {
                let matches = filters.iter().filter(|filter| tautwire_protocol::topic_matches(filter, &name));
                matching.extend(matches.map(|_| subscriber));
            }
            let mut receivers: Vec<usize> = layout.receivers(topic).collect();
            receivers.sort_unstable();
            assert_eq!(matching, receivers, "{name}");
            deliveries += receivers.len();
        }
        assert_eq!(deliveries as f64 / layout.topic_count() as f64, 2.5);
    }

    #[test]
    fn a_round_visits_every_topic_once() {
        let layout = layout();
        let visited: BTreeSet<_> = (0..layout.topic_count()).map(|index| layout.topic(index)).collect();
        assert_eq!(visited.len() as u64, layout.topic_count());
    }
}
