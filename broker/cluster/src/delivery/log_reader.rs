//! Follows the log for the node: each partition is followed once, and all shards receive the groups.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::mutant::{Mutant, is};
use crate::names::{PARTITIONS, Partition};
use crate::numbers::Sequence;
use crate::operation::{Answer, Decision, Operation, OperationId};
use crate::outbox::{Outbox, Purpose};
use crate::queue::pop_front_if;
use crate::record::{Place, RecordError};
use crate::settings::Settings;

use super::ReadRequest;
use super::counters::DeliveryCounters;
use super::decode::{Gaps, span_of};
use super::reads::Reads;

#[derive(Debug)]
pub(crate) struct LogReader {
    followers: Vec<Follower>,
    has_begun: bool,
    reads: Reads,
    pub(crate) counters: DeliveryCounters,
}

#[derive(Debug)]
struct Follower {
    partition: Partition,
    /// The first sequence that has not arrived.
    next: Option<Sequence>,
    step: Step,
    /// The position up to which each shard has processed the groups.
    processed: Vec<Sequence>,
    /// The ends of spans that not all shards have processed, with their sizes.
    in_flight: VecDeque<(Sequence, usize)>,
    in_flight_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Idle {
        until_ms: u64,
    },
    /// Locating the end of the log.
    LocatingEnd(OperationId),
    Tailing(OperationId),
    /// Reading a gap, because the followed stream started too late.
    Reading(OperationId),
    /// The next group needs a newer version of the broker.
    Stopped,
}

impl LogReader {
    pub(crate) fn new(settings: &Settings) -> LogReader {
        let follower = |partition| Follower {
            partition,
            next: None,
            step: Step::Idle { until_ms: 0 },
            processed: vec![Sequence(0); settings.shards.max(1)],
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
        };
        LogReader {
            followers: Partition::all().map(follower).collect(),
            has_begun: false,
            reads: Reads::default(),
            counters: DeliveryCounters::default(),
        }
    }

    /// Whether the start of all partitions is known, so that clients may be served.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Returns the position of the node in each partition.
    pub(crate) fn position(&self) -> [Place; PARTITIONS as usize] {
        let mut next = [Place::START; PARTITIONS as usize];
        for (next, follower) in next.iter_mut().zip(&self.followers) {
            *next = Place { sequence: follower.next.unwrap_or(Sequence(0)), index: 0 };
        }
        next
    }

    pub(crate) fn advance(&mut self, now_ms: u64, settings: &Settings, out: &mut Outbox) {
        let has_begun = self.has_begun;
        for follower in self.followers.iter_mut().filter(|follower| has_begun || follower.next.is_none()) {
            follower.proceed(now_ms, settings, &mut self.counters, out);
        }
        self.reads.advance(now_ms, settings, &mut self.counters, out);
    }

    pub(crate) fn answer(
        &mut self,
        now_ms: u64,
        partition: Partition,
        id: OperationId,
        answer: &Answer,
        settings: &Settings,
        out: &mut Outbox,
    ) {
        let LogReader { followers, reads, counters, .. } = self;
        let Some(follower) = followers.get_mut(partition.index()) else { return };
        match (follower.step, answer) {
            (Step::LocatingEnd(op), Answer::End(end)) if op == id => {
                follower.next = Some(*end);
                follower.step = Step::Idle { until_ms: now_ms };
                return self.begin(now_ms, settings, out);
            }
            (Step::Tailing(op), Answer::Groups { first, groups }) if op == id => {
                let begins = groups.first().map_or(*first, |(sequence, _)| *sequence);
                let is_late = follower.next.is_some_and(|next| next < begins);
                let gaps = if is(Mutant::TrustsGaps) { Gaps::Lost } else { Gaps::End };
                let arrived = follower.arrive(*first, groups, gaps, reads, counters, settings, out);
                if !arrived && is_late {
                    counters.gaps += 1;
                    return follower.read_gap(settings, out);
                }
                follower.wait_until(now_ms);
            }
            (Step::Reading(op), Answer::Groups { first, groups }) if op == id => {
                let arrived = follower.arrive(*first, groups, Gaps::Lost, reads, counters, settings, out);
                follower.wait_until(now_ms + if arrived { 0 } else { settings.retry_ms });
            }
            (Step::LocatingEnd(op) | Step::Tailing(op) | Step::Reading(op), _) if op == id => {
                follower.step = Step::Idle { until_ms: now_ms + settings.retry_ms };
            }
            _ => return,
        }
        follower.proceed(now_ms, settings, counters, out);
    }

    /// Begins only when all ends are known, so that the engine starts there.
    fn begin(&mut self, now_ms: u64, settings: &Settings, out: &mut Outbox) {
        if !self.has_begun && self.followers.iter().all(|follower| follower.next.is_some()) {
            self.has_begun = true;
            out.decide(Decision::Begin { next: Box::new(self.position()) });
            self.advance(now_ms, settings, out);
        }
    }

    /// A shard has processed everything up to a sequence.
    pub(crate) fn mark_received(
        &mut self,
        now_ms: u64,
        shard: usize,
        partition: Partition,
        until: Sequence,
        settings: &Settings,
        out: &mut Outbox,
    ) {
        let follower = &mut self.followers[partition.index()];
        if let Some(processed) = follower.processed.get_mut(shard) {
            *processed = until.max(*processed);
        }
        let all = follower.processed.iter().min().copied().unwrap_or(until);
        while let Some((_, bytes)) = pop_front_if(&mut follower.in_flight, |(until, _)| *until <= all) {
            follower.in_flight_bytes -= bytes;
        }
        follower.proceed(now_ms, settings, &mut self.counters, out);
    }

    /// A shard requests a read for its lagging sessions.
    pub(crate) fn read(&mut self, shard: usize, request: ReadRequest, settings: &Settings, out: &mut Outbox) {
        self.reads.ask(shard, request, settings, &mut self.counters, out);
    }

    pub(crate) fn read_answer(
        &mut self,
        now_ms: u64,
        id: OperationId,
        answer: &Answer,
        settings: &Settings,
        out: &mut Outbox,
    ) {
        self.reads.answer(now_ms, id, answer, settings, &mut self.counters, out);
    }
}

impl Follower {
    fn wait_until(&mut self, until_ms: u64) {
        if !matches!(self.step, Step::Stopped) {
            self.step = Step::Idle { until_ms };
        }
    }

    /// Requests the next groups, if the shards have capacity.
    fn proceed(&mut self, now_ms: u64, settings: &Settings, counters: &mut DeliveryCounters, out: &mut Outbox) {
        let Step::Idle { until_ms } = self.step else { return };
        if now_ms < until_ms {
            return;
        }
        let (partition, max_bytes) = (self.partition, settings.read_max_bytes);
        self.step = match self.next {
            None => Step::LocatingEnd(out.ask(Purpose::Log(partition), Operation::End(partition))),
            Some(_) if self.in_flight_bytes >= settings.in_flight_max_bytes => {
                counters.stalls += 1;
                return;
            }
            Some(from) => {
                Step::Tailing(out.ask(Purpose::Log(partition), Operation::Follow { partition, from, max_bytes }))
            }
        };
    }

    fn read_gap(&mut self, settings: &Settings, out: &mut Outbox) {
        let Some(from) = self.next else { return };
        let (partition, max_bytes) = (self.partition, settings.read_max_bytes);
        self.step = Step::Reading(out.ask(Purpose::Log(partition), Operation::Read { partition, from, max_bytes }));
    }

    /// Passes groups that continue at the node's position to the shards. Returns whether there were any.
    #[expect(clippy::too_many_arguments, reason = "parts of one node")]
    fn arrive(
        &mut self,
        first: Sequence,
        groups: &[(Sequence, Vec<u8>)],
        gaps: Gaps,
        reads: &mut Reads,
        counters: &mut DeliveryCounters,
        settings: &Settings,
        out: &mut Outbox,
    ) -> bool {
        let Some(from) = self.next else { return false };
        let (span, stop) = span_of(self.partition, from, first, groups, gaps);
        let has_arrived = from < span.until;
        if has_arrived {
            self.next = Some(span.until);
            let bytes = span.groups.iter().map(|group| group.messages.bytes()).sum();
            self.in_flight.push_back((span.until, bytes));
            self.in_flight_bytes += bytes;
            counters.groups += span.groups.len() as u64;
            counters.lost_groups += span.lost;
            reads.insert(&span, settings, counters);
            out.decide(Decision::Arrived(Arc::new(span)));
        }
        if let Some(error) = stop {
            self.stop(error, out);
        }
        has_arrived
    }

    fn stop(&mut self, error: RecordError, out: &mut Outbox) {
        self.step = Step::Stopped;
        let sequence = self.next.unwrap_or(Sequence(0));
        out.decide(Decision::Unreadable { partition: self.partition, sequence, error });
    }
}
