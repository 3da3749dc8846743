//! A shard's consumer of the log: spans that are not routed yet, and which session or group needs which message.

use std::collections::VecDeque;
use std::sync::Arc;

use tautwire_cluster::delivery::{DeliverySource, ReadRequest, Receivers, Slot, Span};
use tautwire_cluster::names::{PARTITIONS, Partition};
use tautwire_cluster::record::Place;

use super::log_place::{LogPlace, Places};

/// A span of the log that is being routed.
#[derive(Debug, Clone)]
pub(crate) struct RoutingSpan {
    /// Whether it arrived live, or was read for lagging sessions.
    pub(in crate::mode::cluster) source: DeliverySource,
    pub(in crate::mode::cluster) span: Arc<Span>,
    /// Everything before this place was routed.
    pub(in crate::mode::cluster) next: Place,
}

/// The positions of the shard and its sessions in the log.
#[derive(Debug)]
pub(crate) struct LogConsumer {
    receivers: Receivers,
    /// The number of slots, and those that are free.
    slots: Slot,
    vacant: Vec<Slot>,
    spans: VecDeque<RoutingSpan>,
    /// The number of the current message, from 1.
    current_number: u64,
}

impl LogConsumer {
    /// Creates a consumer that begins at these places, by partition.
    pub(super) fn new(next: &[Place; PARTITIONS as usize]) -> LogConsumer {
        LogConsumer {
            receivers: Receivers::new(next),
            slots: 0,
            vacant: Vec::new(),
            spans: VecDeque::new(),
            current_number: 1,
        }
    }

    /// Everything before these places was routed.
    pub(super) fn positions(&self) -> Places {
        let mut positions = [Place::START; PARTITIONS as usize];
        for (partition, position) in Partition::all().zip(&mut positions) {
            *position = self.receivers.position(partition);
        }
        positions
    }

    // Routing.

    /// Adds a span that arrived live.
    pub(crate) fn push_live(&mut self, span: Arc<Span>) {
        let next = Place { sequence: span.from, index: 0 };
        self.spans.push_back(RoutingSpan { source: DeliverySource::Live, span, next });
    }

    /// Adds a span that was read for lagging sessions.
    pub(super) fn push_read(&mut self, number: u64, span: Arc<Span>) {
        if self.receivers.begin_walk(number, &span) {
            let next = Place { sequence: span.from, index: 0 };
            self.spans.push_back(RoutingSpan { source: DeliverySource::Read, span, next });
        }
    }

    pub(crate) fn has_spans(&self) -> bool {
        !self.spans.is_empty()
    }

    /// The span that is routed next.
    pub(crate) fn current_span(&self) -> Option<RoutingSpan> {
        self.spans.front().cloned()
    }

    /// Records that a message of the current span was routed.
    pub(crate) fn record_routed(&mut self, at: LogPlace) {
        let Some(routing) = self.spans.front_mut() else { return };
        self.current_number += 1;
        routing.next = at.place.behind();
        if routing.source == DeliverySource::Live {
            self.receivers.pass(at.partition, routing.next);
        }
    }

    /// The number of the current message, which differs when the same message is offered again.
    pub(super) fn current_number(&self) -> u64 {
        self.current_number
    }

    /// Finishes the current span. Returns how many messages that had to be delivered again to groups are no longer in the log.
    pub(super) fn finish_span(&mut self) -> Option<(RoutingSpan, usize)> {
        let routing = self.spans.pop_front()?;
        let lost = match routing.source {
            DeliverySource::Live => {
                self.receivers.pass(routing.span.partition, routing.span.end());
                0
            }
            DeliverySource::Read => self.receivers.end_walk(&routing.span).len(),
        };
        Some((routing, lost))
    }

    /// The next read for lagging sessions.
    pub(super) fn next_read_range(&mut self) -> Option<ReadRequest> {
        self.receivers.next_read_range()
    }

    // Followers of the log.

    /// Adds a session that follows the log from these places, or from the shard's position. Returns its slot.
    pub(super) fn follow(&mut self, next: Option<&[Place; PARTITIONS as usize]>) -> Slot {
        let slot = self.new_slot();
        self.receivers.follow(slot, next);
        slot
    }

    /// Allocates a slot.
    pub(crate) fn new_slot(&mut self) -> Slot {
        self.vacant.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    pub(crate) fn remove_follower(&mut self, slot: Slot) {
        self.receivers.remove(slot);
        self.vacant.push(slot);
    }

    /// Whether a session needs this copy of a message.
    pub(crate) fn wants(&self, slot: Slot, at: LogPlace) -> bool {
        let source = self.spans.front().map_or(DeliverySource::Live, |routing| routing.source);
        self.receivers.wants(slot, at.partition, at.place, source)
    }

    /// The first place in a partition that was not offered.
    pub(super) fn next_place(&self, slot: Slot, partition: Partition) -> Place {
        self.receivers.next(slot, partition)
    }

    /// Records that a session accepted a message.
    pub(super) fn take(&mut self, slot: Slot, at: LogPlace) {
        self.receivers.take(slot, at.partition, at.place);
    }

    /// Blocks a slot without room at a message, which is read again later.
    pub(crate) fn block(&mut self, slot: Slot, at: LogPlace) {
        self.receivers.block(slot, at.partition, at.place);
    }

    /// Unblocks a slot that has room.
    pub(crate) fn unblock(&mut self, slot: Slot) {
        self.receivers.unblock(slot);
    }

    // Groups of shared subscriptions.

    /// Starts delivery of a partition to a group, from a place and with the open messages before it.
    pub(crate) fn lease(&mut self, slot: Slot, partition: Partition, next: Place, open: Vec<Place>, now_ms: u64) {
        self.receivers.lease(slot, partition, next, open.into_iter(), now_ms);
    }

    /// Stops delivery of a partition; returns its position and open messages.
    pub(crate) fn recall(&mut self, slot: Slot, partition: Partition) -> (Place, Vec<Place>) {
        self.receivers.recall(slot, partition)
    }

    /// The partitions that this node delivers to a group, with positions and open messages.
    pub(crate) fn leases(&self, slot: Slot) -> Vec<(Partition, Place, Vec<Place>)> {
        self.receivers.leases(slot)
    }

    /// The groups that need the current message again.
    pub(crate) fn take_redeliveries(&mut self, at: LogPlace) -> Vec<Slot> {
        self.receivers.again(at.partition, at.place)
    }

    /// Whether the record of a group has no room for another open message.
    pub(crate) fn is_full(&self, slot: Slot, at: LogPlace) -> bool {
        self.receivers.is_full(slot, at.partition)
    }

    /// Marks a message as delivered to a member; it is open until [`complete`](LogConsumer::complete).
    pub(crate) fn mark_delivered(&mut self, slot: Slot, at: LogPlace) {
        self.receivers.mark_delivered(slot, at.partition, at.place);
    }

    /// Completes a message that a member acknowledged, or that has no receiver.
    pub(crate) fn complete(&mut self, slot: Slot, at: LogPlace, now_ms: u64) {
        self.receivers.complete(slot, at.partition, at.place, now_ms);
    }

    /// Requeues a message whose member is gone without having acknowledged it.
    pub(crate) fn requeue(&mut self, slot: Slot, at: LogPlace) {
        self.receivers.requeue(slot, at.partition, at.place);
    }

    /// The next group whose progress is due to be reported.
    pub(crate) fn next_due(&mut self, now_ms: u64) -> Option<Slot> {
        self.receivers.next_due(now_ms)
    }

    /// When the next report is due.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.receivers.next_due_ms()
    }
}
