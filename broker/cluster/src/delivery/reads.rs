//! Reads for lagging sessions. Shards that request the same range share one read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::names::Partition;
use crate::numbers::Sequence;
use crate::operation::{Answer, Decision, Operation, OperationId};
use crate::outbox::{Outbox, Purpose};
use crate::queue::pop_front_if;
use crate::settings::Settings;

use super::Span;
use super::counters::DeliveryCounters;
use super::decode::{Gaps, span_of};
use super::group_cache::GroupCache;

/// A read request of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// Returned with the answer.
    pub number: u64,
    /// The partition.
    pub partition: Partition,
    /// The first sequence to read.
    pub from: Sequence,
}

#[derive(Debug, Default)]
pub(crate) struct Reads {
    in_flight: BTreeMap<OperationId, Read>,
    waiting: VecDeque<Read>,
    /// Failed reads with the time of the next attempt, in order.
    retries: VecDeque<(u64, Read)>,
    cache: GroupCache,
}

#[derive(Debug)]
struct Read {
    partition: Partition,
    from: Sequence,
    /// The shard and the request number of each requester.
    requesters: Vec<(usize, u64)>,
}

impl Reads {
    pub(crate) fn insert(&mut self, span: &Span, settings: &Settings, counters: &mut DeliveryCounters) {
        counters.cache_evictions += self.cache.insert(span, settings.cache_max_bytes);
    }

    pub(crate) fn ask(
        &mut self,
        shard: usize,
        request: ReadRequest,
        settings: &Settings,
        counters: &mut DeliveryCounters,
        out: &mut Outbox,
    ) {
        let ReadRequest { number, partition, from } = request;
        if let Some(span) = self.cache.span(partition, from, settings.read_max_bytes) {
            counters.reads_cached += 1;
            return notify(span, &[(shard, number)], out);
        }
        let retries = self.retries.iter_mut().map(|(_, read)| read);
        let same = self.in_flight.values_mut().chain(&mut self.waiting).chain(retries);
        match { same }.find(|read| read.partition == partition && read.from == from) {
            Some(read) => read.requesters.push((shard, number)),
            None => self.start(Read { partition, from, requesters: vec![(shard, number)] }, settings, counters, out),
        }
    }

    fn start(&mut self, read: Read, settings: &Settings, counters: &mut DeliveryCounters, out: &mut Outbox) {
        if self.in_flight.len() >= settings.reads_max {
            counters.reads_waited += 1;
            return self.waiting.push_back(read);
        }
        counters.reads_stored += 1;
        let (partition, from, max_bytes) = (read.partition, read.from, settings.read_max_bytes);
        let id = out.ask(Purpose::Read, Operation::Read { partition, from, max_bytes });
        self.in_flight.insert(id, read);
    }

    pub(crate) fn advance(
        &mut self,
        now_ms: u64,
        settings: &Settings,
        counters: &mut DeliveryCounters,
        out: &mut Outbox,
    ) {
        while let Some((_, read)) = pop_front_if(&mut self.retries, |(at_ms, _)| *at_ms <= now_ms) {
            self.start(read, settings, counters, out);
        }
    }

    pub(crate) fn answer(
        &mut self,
        now_ms: u64,
        id: OperationId,
        answer: &Answer,
        settings: &Settings,
        counters: &mut DeliveryCounters,
        out: &mut Outbox,
    ) {
        let Some(read) = self.in_flight.remove(&id) else { return };
        let span = match answer {
            Answer::Groups { first, groups } => Some(span_of(read.partition, read.from, *first, groups, Gaps::Lost).0),
            _ => None,
        };
        match span.filter(|span| read.from < span.until) {
            Some(span) => {
                counters.lost_groups_behind += span.lost;
                self.insert(&span, settings, counters);
                notify(span, &read.requesters, out);
            }
            // The replica lags behind, or the next group needs a newer version of the broker.
            None => self.retries.push_back((now_ms + settings.retry_ms, read)),
        }
        if let Some(read) = self.waiting.pop_front() {
            self.start(read, settings, counters, out);
        }
    }
}

fn notify(span: Span, requesters: &[(usize, u64)], out: &mut Outbox) {
    let span = Arc::new(span);
    for (shard, number) in requesters {
        out.decide(Decision::Read { shard: *shard, number: *number, span: span.clone() });
    }
}
