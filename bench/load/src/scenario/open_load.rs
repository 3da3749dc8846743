//! Load at a fixed rate that does not wait for responses. Each message has a predetermined due time, from which its latency
//! is measured, however late it was sent: a pause delays all messages that fall into it, as for independent clients
//! (no coordinated omission).

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::parameters::{PayloadKind, QosLevel};
use super::session::{DRAIN_TIMEOUT, STALL_TIMEOUT, Session};
use crate::failure::{Failure, Result};
use crate::measure::{Account, Histogram, Measurement, Sequence};
use crate::mqtt::{Incoming, PacketIds, PayloadForm, PayloadStamp, Publishes, QoS, ack};
use crate::net::{Connection, Poller, ReadBuffer};
use crate::system::set_timer_slack;

/// The maximum number of consecutive late messages that are sent before the next read.
const CATCH_UP: usize = 64;

/// If messages are sent this late, and it is half of the measured latency, the figure is limited by the generator.
const TOLERATED_LAG_NS: u64 = 1_000_000;

/// The publishers and subscribers. Each topic has one publisher and one subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wiring {
    /// Each client publishes to the next, the last to the first; one client to itself.
    Ring,
    /// Publishers with a separate subscriber each.
    Pairs,
}

#[derive(Debug, Clone)]
pub(super) struct OpenLoadPlan {
    pub wiring: Wiring,
    pub publishers: usize,
    /// The rate of all publishers together.
    pub rate_per_s: f64,
    pub qos: QosLevel,
    pub payload: PayloadKind,
    pub payload_bytes: usize,
    /// The prefix of client identifiers and topics.
    pub name: &'static str,
}

pub(super) struct OpenLoad {
    plan: OpenLoadPlan,
    form: PayloadForm,
    poller: Poller,
    buffer: ReadBuffer,
    ends: Vec<End>,
    v5: bool,
    run: u32,
    /// Of all phases so far.
    published: u64,
    delivered: u64,
    /// The current phase: its start, and the number of its first message.
    phase_start: Instant,
    phase_first: u64,
    /// Latencies by window of the phase.
    windows: Vec<Histogram>,
    lag: Histogram,
    /// The time without arrivals at the end of a phase after which missing messages count as lost.
    stall_timer: Duration,
}

/// The result of a phase.
pub(super) struct OpenLoadOutcome {
    pub windows: Vec<Histogram>,
    /// How late messages were sent.
    pub lag: Histogram,
    pub deliveries: u64,
    pub elapsed: Duration,
}

/// One connection: a publisher, a subscriber or both.
struct End {
    connection: Connection,
    waits_for_writable: bool,
    publishes: Option<Publishes>,
    sent: u64,
    in_flight: Option<PacketIds>,
    /// The stream of the publisher it receives.
    stream: Option<(u32, Sequence)>,
    corrupted: u64,
    violations: u64,
}

impl OpenLoad {
    pub(super) fn open(plan: OpenLoadPlan, context: &Context<'_>) -> Result<Self> {
        if plan.publishers == 0 || plan.rate_per_s <= 0.0 || plan.qos.0 == QoS::ExactlyOnce {
            return Err(Failure::new("load at a fixed rate needs publishers, a rate, and QoS 0 or 1"));
        }
        set_timer_slack()?;
        let form = plan.payload.form(plan.payload_bytes)?;
        let mut ends = Vec::new();
        let end_count = match plan.wiring {
            Wiring::Ring => plan.publishers,
            Wiring::Pairs => 2 * plan.publishers,
        };
        let poller = Poller::new()?;
        for index in 0..end_count {
            let mut session = Session::open(context, &format!("bench-{}-{index}", plan.name))?;
            let received = plan.publisher_of(index);
            if let Some(publisher) = received {
                session.subscribe(context, &[&plan.topic(publisher)], plan.qos.0)?;
            }
            let publishes = match index < plan.publishers {
                true => Some(Publishes::encode(context.version, plan.qos.0, &form, [plan.topic(index).as_str()])?),
                false => None,
            };
            let connection = session.into_connection()?;
            poller.add(connection.stream(), index)?;
            ends.push(End {
                connection,
                waits_for_writable: false,
                in_flight: (publishes.is_some() && plan.qos.0 != QoS::AtMostOnce).then(PacketIds::new),
                publishes,
                sent: 0,
                stream: received.map(|publisher| (publisher as u32, Sequence::default())),
                corrupted: 0,
                violations: 0,
            });
        }
        Ok(Self {
            plan,
            form,
            poller,
            buffer: ReadBuffer::new(),
            ends,
            v5: context.version.is_v5(),
            run: context.run,
            published: 0,
            delivered: 0,
            phase_start: Instant::now(),
            phase_first: 0,
            windows: Vec::new(),
            lag: Histogram::default(),
            stall_timer: STALL_TIMEOUT,
        })
    }

    /// Publishes for `duration`, then waits for the outstanding messages. `windows` equal parts of the time get a histogram each,
    /// by the due time of the messages.
    pub(super) fn run_for(&mut self, duration: Duration, windows: usize) -> Result<OpenLoadOutcome> {
        let window_ns = (duration.as_nanos() as u64 / windows.max(1) as u64).max(1);
        let end = |elapsed| (elapsed >= duration).then_some(duration);
        self.run_until(end, windows, |due| (due.as_nanos() as u64 / window_ns) as usize)
    }

    /// The same until `end` returns the end time; `window_of` is called for each delivery, with its due time.
    pub(super) fn run_until(
        &mut self,
        end: impl Fn(Duration) -> Option<Duration>,
        windows: usize,
        window_of: impl Fn(Duration) -> usize,
    ) -> Result<OpenLoadOutcome> {
        self.windows = vec![Histogram::default(); windows.max(1)];
        self.lag = Histogram::default();
        let delivered_before = self.delivered;
        (self.phase_start, self.phase_first) = (Instant::now(), self.published);
        let mut ended: Option<Duration> = None;
        let mut last_progress = self.phase_start;
        loop {
            let now = Instant::now();
            let elapsed = now.duration_since(self.phase_start);
            ended = ended.or_else(|| end(elapsed));
            // Messages that were due before the end are sent, however late.
            let until_next = self.send_due(now, ended)?;
            let timeout = match ended {
                None => until_next,
                Some(_) if until_next == Duration::ZERO => until_next,
                Some(_) if self.is_drained() => break,
                Some(ended)
                    if now.duration_since(last_progress) > self.stall_timer || elapsed > ended + DRAIN_TIMEOUT =>
                {
                    break;
                }
                Some(_) => Duration::from_millis(20),
            };
            self.poller.wait(Some(timeout))?;
            for index in 0..self.poller.ready_count() {
                last_progress = now;
                let ready = self.poller.ready(index);
                self.serve(ready.token, ready.readable, &window_of)?;
            }
        }
        Ok(OpenLoadOutcome {
            windows: std::mem::take(&mut self.windows),
            lag: std::mem::take(&mut self.lag),
            deliveries: self.delivered - delivered_before,
            elapsed: ended.unwrap_or_default(),
        })
    }

    pub(super) fn account(&self) -> Account {
        let mut account = Account { published: self.published, ..Account::default() };
        for end in &self.ends {
            if let Some((publisher, stream)) = &end.stream {
                account.add(&stream.account(self.ends[*publisher as usize].sent));
            }
            account.corrupted += end.corrupted;
            account.violations += end.violations;
        }
        account
    }

    /// Sends the messages due at `now`, and returns the time until the next one: 0 if more are due already. `end` is the time after which
    /// nothing is due. It has been queried at `now`, too, so no message that is due after it is sent.
    fn send_due(&mut self, now: Instant, end: Option<Duration>) -> Result<Duration> {
        for _ in 0..CATCH_UP {
            let due = self.due(self.published);
            if end.is_some_and(|end| due >= self.phase_start + end) {
                return Ok(Duration::MAX);
            }
            if due > now {
                return Ok(due.duration_since(now));
            }
            self.lag.record(due.elapsed().as_nanos() as u64);
            let index = (self.published % self.plan.publishers as u64) as usize;
            self.ends[index].publish(index as u32, self.run)?;
            self.published += 1;
            self.settle(index)?;
        }
        Ok(Duration::ZERO)
    }

    /// The due time of a message, counted over all publishers and phases.
    fn due(&self, number: u64) -> Instant {
        let in_phase = number - self.phase_first;
        self.phase_start + Duration::from_secs_f64(in_phase as f64 / self.plan.rate_per_s)
    }

    fn serve(&mut self, token: usize, readable: bool, window_of: &impl Fn(Duration) -> usize) -> Result<()> {
        if readable {
            let mut arrived: Vec<(u64, Instant)> = Vec::new();
            self.ends[token].read(&mut self.buffer, &self.form, self.v5, self.run, &mut arrived)?;
            let publishers = self.plan.publishers as u64;
            for (number, at) in arrived.into_iter().map(|(seq, at)| {
                let publisher = self.ends[token].stream.as_ref().map_or(0, |(publisher, _)| u64::from(*publisher));
                (seq * publishers + publisher, at)
            }) {
                self.delivered += 1;
                // It belongs to an earlier phase, in which it counted as lost.
                if number < self.phase_first {
                    continue;
                }
                let due = self.due(number);
                let last = self.windows.len() - 1;
                let window = window_of(due.duration_since(self.phase_start)).min(last);
                self.windows[window].record(at.saturating_duration_since(due).as_nanos() as u64);
            }
        }
        self.ends[token].connection.flush()?;
        self.settle(token)
    }

    fn settle(&mut self, token: usize) -> Result<()> {
        let end = &mut self.ends[token];
        if end.connection.has_unsent() != end.waits_for_writable {
            end.waits_for_writable = end.connection.has_unsent();
            self.poller.set_writable_interest(end.connection.stream(), token, end.waits_for_writable)?;
        }
        Ok(())
    }

    fn is_drained(&self) -> bool {
        self.delivered >= self.published
            && self.ends.iter().all(|end| {
                !end.connection.has_unsent() && end.in_flight.as_ref().is_none_or(|in_flight| in_flight.len() == 0)
            })
    }
}

impl OpenLoadPlan {
    fn topic(&self, publisher: usize) -> String {
        self.payload.topic(&format!("{}/{publisher}", self.name))
    }

    /// The publisher whose messages the connection of this number receives.
    fn publisher_of(&self, index: usize) -> Option<usize> {
        match self.wiring {
            Wiring::Ring => Some((index + self.publishers - 1) % self.publishers),
            Wiring::Pairs => index.checked_sub(self.publishers),
        }
    }
}

impl OpenLoadOutcome {
    /// All windows together.
    pub(super) fn latencies(&self) -> Histogram {
        let mut all = Histogram::default();
        self.windows.iter().for_each(|window| all.add(window));
        all
    }

    /// The reason why these latencies are limited by the generator, or `None`.
    pub(super) fn lateness(&self) -> Option<String> {
        let (lag, latency) = (self.lag.quantile_ns(0.99), self.latencies().quantile_ns(0.99));
        (lag > TOLERATED_LAG_NS && lag * 2 > latency).then(|| {
            format!(
                "the generator was late: 1 % of messages were sent more than {} ms after they were due",
                lag / 1_000_000
            )
        })
    }

    // A few late messages do not affect the median.
    fn is_median_the_brokers(&self) -> bool {
        self.lag.quantile_ns(0.5) * 2 <= self.latencies().quantile_ns(0.5)
    }

    /// Sets the latency figures, whose names start with `prefix`, and removes them again if they are limited by the generator.
    pub(super) fn describe(&self, prefix: &str, measurement: &mut Measurement) {
        measurement.set_latencies(prefix, self.latencies());
        measurement.set(&format!("{prefix}send_lag_p99_us"), self.lag.quantile_us(0.99));
        if let Some(reason) = self.lateness() {
            let mut not_meant = vec![format!("{prefix}send_lag_p99_us")];
            not_meant.extend(self.is_median_the_brokers().then(|| format!("{prefix}p50_us")));
            measurement.invalidate(&reason, |name| {
                let is_latency = name.starts_with(prefix) && name.ends_with("_us") && !name.starts_with("broker_cpu");
                is_latency && not_meant.iter().all(|other| other != name)
            });
        }
    }
}

impl End {
    fn publish(&mut self, publisher: u32, run: u32) -> Result<()> {
        let Some(publishes) = self.publishes.as_mut() else {
            return Err(Failure::new("this connection does not publish"));
        };
        let packet_id = match self.in_flight.as_mut() {
            None => None,
            Some(in_flight) => match in_flight.allocate() {
                Some(packet_id) => Some(packet_id),
                None => return Err(Failure::new("65,535 messages are unacknowledged: the rate is too high")),
            },
        };
        publishes.stamp(0, PayloadStamp { seq: self.sent, publisher, run }, packet_id);
        self.sent += 1;
        self.connection.send(publishes.bytes(0..1))
    }

    /// Adds the sequence numbers of the deliveries, and their arrival times, to `arrived`.
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        form: &PayloadForm,
        v5: bool,
        run: u32,
        arrived: &mut Vec<(u64, Instant)>,
    ) -> Result<()> {
        let Self { connection, stream, in_flight, corrupted, violations, .. } = self;
        let mut acks = Vec::new();
        connection.read_frames(buffer, |frame| {
            match frame.read(v5)? {
                Incoming::Publish { qos, packet_id, payload } => {
                    if qos == 1 {
                        acks.extend_from_slice(&ack(0x40, packet_id));
                    }
                    match (form.read(payload, run), stream.as_mut()) {
                        (Some(stamp), Some((publisher, stream))) if stamp.publisher == *publisher => {
                            if stream.arrive(stamp.seq) {
                                arrived.push((stamp.seq, Instant::now()));
                            }
                        }
                        _ => *corrupted += 1,
                    }
                }
                Incoming::PubAck { packet_id, refused } => {
                    let is_due = in_flight.as_mut().is_some_and(|in_flight| in_flight.remove(packet_id));
                    *violations += u64::from(!is_due || refused);
                }
                _ => *violations += 1,
            }
            Ok(())
        })?;
        connection.queue(&acks);
        Ok(())
    }
}

#[cfg(test)]
#[path = "open_load_tests.rs"]
mod tests;
