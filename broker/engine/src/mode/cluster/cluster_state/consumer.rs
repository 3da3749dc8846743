//! The shard's way through the log: what has come of it and is not routed yet, and who is to get which message.

use std::collections::VecDeque;
use std::sync::Arc;

use tautwire_cluster::delivery::{DeliverySource, ReadRequest, Receivers, Slot, Span};
use tautwire_cluster::names::{PARTITIONS, Partition};
use tautwire_cluster::record::Place;

use super::log_place::{LogPlace, Places};

/// A part of the log that is being routed.
#[derive(Debug, Clone)]
pub(crate) struct RoutingSpan {
    /// Whether it has arrived, or was read for those who are behind.
    pub(crate) walk: DeliverySource,
    pub(crate) span: Arc<Span>,
    /// All before this place has been routed.
    pub(crate) next: Place,
}

/// How far the shard and its sessions have come in the log.
#[derive(Debug)]
pub(crate) struct LogConsumer {
    receivers: Receivers,
    /// How many slots there are, and which of them nobody has.
    slots: Slot,
    vacant: Vec<Slot>,
    passages: VecDeque<RoutingSpan>,
    /// Counts the messages that are routed, from 1. The one at hand has this number.
    offer: u64,
}

impl LogConsumer {
    /// A shard that begins here, by partition.
    pub(super) fn new(next: &[Place; PARTITIONS as usize]) -> LogConsumer {
        LogConsumer {
            receivers: Receivers::new(next),
            slots: 0,
            vacant: Vec::new(),
            passages: VecDeque::new(),
            offer: 1,
        }
    }

    /// All before these places has been routed.
    pub(super) fn positions(&self) -> Places {
        let mut positions = [Place::START; PARTITIONS as usize];
        for (partition, position) in Partition::all().zip(&mut positions) {
            *position = self.receivers.position(partition);
        }
        positions
    }

    // What is to be routed.

    /// The log has grown.
    pub(crate) fn arrived(&mut self, span: Arc<Span>) {
        let next = Place { sequence: span.from, index: 0 };
        self.passages.push_back(RoutingSpan { walk: DeliverySource::Live, span, next });
    }

    /// What was read for those who are behind is there.
    pub(super) fn push_read(&mut self, number: u64, span: Arc<Span>) {
        if self.receivers.begin_walk(number, &span) {
            let next = Place { sequence: span.from, index: 0 };
            self.passages.push_back(RoutingSpan { walk: DeliverySource::Read, span, next });
        }
    }

    pub(crate) fn has_spans(&self) -> bool {
        !self.passages.is_empty()
    }

    /// What is to be routed next.
    pub(crate) fn passage(&self) -> Option<RoutingSpan> {
        self.passages.front().cloned()
    }

    /// A message of it has been routed.
    pub(crate) fn record_routed(&mut self, at: LogPlace) {
        let Some(passage) = self.passages.front_mut() else { return };
        self.offer += 1;
        passage.next = at.place.behind();
        if passage.walk == DeliverySource::Live {
            self.receivers.pass(at.partition, passage.next);
        }
    }

    /// The number of the message at hand. The same message has another one when it is offered again.
    pub(super) fn offer(&self) -> u64 {
        self.offer
    }

    /// All of it has been routed. Gives how many messages groups had to get again that are not in the log any more.
    pub(super) fn finish_span(&mut self) -> Option<(RoutingSpan, usize)> {
        let passage = self.passages.pop_front()?;
        let lost = match passage.walk {
            DeliverySource::Live => {
                self.receivers.pass(passage.span.partition, passage.span.end());
                0
            }
            DeliverySource::Read => self.receivers.end_walk(&passage.span).len(),
        };
        Some((passage, lost))
    }

    /// What is to be read for those who are behind.
    pub(super) fn next_read_range(&mut self) -> Option<ReadRequest> {
        self.receivers.next_read_range()
    }

    // Those who follow the log.

    /// A session follows the log: from these places on, or from where the shard stands. Gives what it is called here.
    pub(super) fn follow(&mut self, next: Option<&[Place; PARTITIONS as usize]>) -> Slot {
        let slot = self.new_slot();
        self.receivers.follow(slot, next);
        slot
    }

    /// What the next one is called.
    pub(crate) fn new_slot(&mut self) -> Slot {
        self.vacant.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    pub(crate) fn forget(&mut self, slot: Slot) {
        self.receivers.remove(slot);
        self.vacant.push(slot);
    }

    /// Whether a session wants the copy of a message that is at hand.
    pub(crate) fn wants(&self, slot: Slot, at: LogPlace) -> bool {
        let walk = self.passages.front().map_or(DeliverySource::Live, |passage| passage.walk);
        self.receivers.wants(slot, at.partition, at.place, walk)
    }

    /// The first place in a partition that has not been offered.
    pub(super) fn next_place(&self, slot: Slot, partition: Partition) -> Place {
        self.receivers.next(slot, partition)
    }

    /// A session takes a message.
    pub(super) fn take(&mut self, slot: Slot, at: LogPlace) {
        self.receivers.take(slot, at.partition, at.place);
    }

    /// There is no room for a message now: it is read again when there is some.
    pub(crate) fn block(&mut self, slot: Slot, at: LogPlace) {
        self.receivers.block(slot, at.partition, at.place);
    }

    /// There is room.
    pub(crate) fn unblock(&mut self, slot: Slot) {
        self.receivers.unblock(slot);
    }

    // Groups of shared subscriptions.

    /// This node delivers a partition of a group from a place on, and what is open before it.
    pub(crate) fn lease(&mut self, slot: Slot, partition: Partition, next: Place, open: Vec<Place>, now_ms: u64) {
        self.receivers.lease(slot, partition, next, open.into_iter(), now_ms);
    }

    /// It does not any more: how far it has come, and what is open.
    pub(crate) fn recall(&mut self, slot: Slot, partition: Partition) -> (Place, Vec<Place>) {
        self.receivers.recall(slot, partition)
    }

    /// What this node delivers of a group, and how far that has come.
    pub(crate) fn leases(&self, slot: Slot) -> Vec<(Partition, Place, Vec<Place>)> {
        self.receivers.leases(slot)
    }

    /// Groups that are to have the message at hand again.
    pub(crate) fn again(&mut self, at: LogPlace) -> Vec<Slot> {
        self.receivers.again(at.partition, at.place)
    }

    /// Whether the record of a group may name no more open messages.
    pub(crate) fn is_full(&self, slot: Slot, at: LogPlace) -> bool {
        self.receivers.is_full(slot, at.partition)
    }

    /// A message goes to a member, and is open until [`complete`](LogConsumer::complete).
    pub(crate) fn mark_delivered(&mut self, slot: Slot, at: LogPlace) {
        self.receivers.mark_delivered(slot, at.partition, at.place);
    }

    /// A member has acknowledged a message, or nobody is to have it.
    pub(crate) fn complete(&mut self, slot: Slot, at: LogPlace, now_ms: u64) {
        self.receivers.complete(slot, at.partition, at.place, now_ms);
    }

    /// A member is gone without having acknowledged a message.
    pub(crate) fn requeue(&mut self, slot: Slot, at: LogPlace) {
        self.receivers.requeue(slot, at.partition, at.place);
    }

    /// The next group of which the record is to say how far it has come.
    pub(crate) fn next_due(&mut self, now_ms: u64) -> Option<Slot> {
        self.receivers.next_due(now_ms)
    }

    /// When there is one.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.receivers.next_due_ms()
    }
}
