//! Choosing messages of sessions to spill, and replacing them once written.

use std::collections::HashSet;

use tautwire_message::{Message, SpillRequest, SpillSlot, Spilled};
use tautwire_protocol::PacketId;
use tautwire_router::SessionKey;
use tautwire_session::Outbound;

use super::{ORDER_BYTES, SPILL_MIN_BYTES, SpillBatch};
use crate::connection::ack::Ack;
use crate::connection::connections::Connection;
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::shard::ShardState;
use crate::storage::spill::{Holder, RETRY_MS, WRITING_MAX_BYTES};

/// Queue entries visited in a turn, or twice as many as were queued since the last turn.
const TURN_STEPS: usize = 1_024;

/// Queue entries of one session before another has its turn.
const SESSION_STEPS: usize = 256;

/// Messages at the front of a connected client's queue that stay in memory; at least one.
const FRONT_IN_MEMORY: usize = 64;

const FRONT_IN_MEMORY_BYTES: usize = 64 << 10;

/// A sent message may be spilled when it has not been acknowledged for so long, a queued one when nothing has been sent for so long. A
/// client that keeps up makes the broker write nothing.
const SPILL_DELAY_MS: u64 = 1_000;

/// Sessions checked in a turn because their delay is over.
const DELAYED_CHECKS_MAX: usize = 1_024;

/// The minimum length of the queues at which ended sessions are removed.
const PRUNE_MIN: usize = 1_024;

impl<M: Mode> ShardState<M> {
    /// Queues a session whose queue has more messages that can be spilled.
    #[inline]
    pub(crate) fn queue_for_spill(&mut self, session: SessionIndex) {
        if self.can_use_spill_store() {
            self.spill.queued += 1;
            if self.sessions.entry(session).outbound().is_some_and(|outbound| outbound.queue_for_spill()) {
                let key = self.sessions.key(session);
                self.spill.sessions.push_back(key);
                self.prune_queues();
            }
        }
    }

    /// Queues all messages of a session for spilling after its client has disconnected.
    pub(crate) fn queue_all_for_spill(&mut self, session: SessionIndex) {
        if M::SPILLS {
            if let Some(outbound) = self.sessions.entry(session).outbound() {
                outbound.rescan_from(0);
                outbound.rescan_sent();
            }
            self.queue_for_spill(session);
        }
    }

    /// Starts the delay after which sent or queued messages can be spilled if the client does not acknowledge them.
    #[inline]
    pub(crate) fn delay_spill(&mut self, session: SessionIndex) {
        if self.can_use_spill_store() {
            let is_new = |outbound: &mut Outbound| !outbound.is_queue_idle() && outbound.begin_spill_delay();
            if self.sessions.entry(session).outbound().is_some_and(is_new) {
                let key = self.sessions.key(session);
                self.spill.delayed.push_back((self.clock.now_ms() + SPILL_DELAY_MS, key));
                self.prune_queues();
            }
        }
    }

    /// Removes sessions that have ended, and duplicates, from the queues.
    #[inline]
    fn prune_queues(&mut self) {
        if self.spill.sessions.len() + self.spill.delayed.len() > self.spill.prune_at.max(PRUNE_MIN) {
            self.prune_long_queues();
        }
    }

    #[cold]
    fn prune_long_queues(&mut self) {
        let ShardState { sessions, spill, .. } = self;
        let mut seen = HashSet::new();
        let outbound = |key: &SessionKey| sessions.at(key).and_then(|session| sessions[session].outbound());
        spill.sessions.retain(|key| outbound(key).is_some_and(Outbound::is_queued_for_spill) && seen.insert(*key));
        seen.clear();
        spill.delayed.retain(|(_, key)| outbound(key).is_some_and(Outbound::is_spill_delayed) && seen.insert(*key));
        spill.prune_at = 2 * (spill.sessions.len() + spill.delayed.len());
    }

    /// The end of the next delay, if there is something to spill.
    pub(in crate::storage::spill) fn next_delayed_ms(&self) -> Option<u64> {
        let (at_ms, _) = self.spill.delayed.front()?;
        (*at_ms > self.clock.now_ms() && self.excess_bytes() > 0).then_some(*at_ms)
    }

    fn has_delay_over(&self) -> bool {
        self.spill.delayed.front().is_some_and(|(at_ms, _)| *at_ms <= self.clock.now_ms())
    }

    /// Queues the sessions whose delay is over.
    fn end_spill_delays(&mut self) {
        for _ in 0..DELAYED_CHECKS_MAX {
            if !self.has_delay_over() {
                return;
            }
            let Some((_, key)) = self.spill.delayed.pop_front() else { return };
            let Some(session) = self.sessions.at(&key) else { continue };
            let Some(outbound) = self.sessions.entry(session).outbound().filter(|outbound| outbound.is_spill_delayed())
            else {
                continue;
            };
            if outbound.end_spill_delay() {
                self.spill.delayed.push_back((self.clock.now_ms() + SPILL_DELAY_MS, key));
            }
            if outbound.queue_for_spill() {
                self.spill.sessions.push_back(key);
            }
        }
    }

    /// Whether there are messages to spill, and the store accepts them.
    #[inline]
    pub(in crate::storage::spill) fn can_spill(&self) -> bool {
        self.spill.port.is_some()
            && (!self.spill.sessions.is_empty()
                || self.has_delay_over()
                || !self.spill.retained.is_empty()
                || self.must_walk())
            && self.spill.writing_bytes < WRITING_MAX_BYTES
            && self.clock.now_ms() >= self.spill.write_again_ms
            && self.excess_bytes() > 0
    }

    /// Bytes above the limit, without those that are being written.
    pub(in crate::storage::spill) fn excess_bytes(&self) -> u64 {
        self.loaded_bytes().saturating_sub(self.spill.loaded_max_bytes + self.spill.writing_bytes as u64)
    }

    pub(in crate::storage::spill) fn spill_messages(&mut self) {
        let queued = std::mem::take(&mut self.spill.queued);
        if !self.can_spill() {
            if self.spill.writing.is_empty() && (self.spill.sessions.is_empty() || self.excess_bytes() == 0) {
                self.spill.known.forget();
            }
            return;
        }
        self.write_retained();
        if !self.can_spill() {
            return;
        }
        let most_bytes = ORDER_BYTES.min(usize::try_from(self.excess_bytes()).unwrap_or(usize::MAX));
        let mut picked = SpillBatch::default();
        if self.must_walk() {
            self.pick_retained(&mut picked, most_bytes);
        }
        self.end_spill_delays();
        let mut steps = TURN_STEPS.max(2 * queued);
        while steps > 0
            && picked.bytes < most_bytes
            && let Some(key) = self.spill.sessions.pop_front()
        {
            let mut slice = SESSION_STEPS.min(steps);
            let before = slice;
            self.pick_from_session(key, &mut picked, most_bytes, &mut slice);
            steps -= (before - slice).max(1);
        }
        self.write_spilled(picked);
    }

    /// Picks messages of one session, and queues it again if there are more.
    fn pick_from_session(&mut self, key: SessionKey, picked: &mut SpillBatch, most_bytes: usize, steps: &mut usize) {
        let Some(session) = self.sessions.at(&key) else { return };
        let connection = self.sessions.connection(session);
        let ShardState { sessions, connections, spill, .. } = self;
        let Some(outbound) = sessions.entry(session).outbound() else { return };
        let keeps_front_loaded = connection.is_some() && !outbound.is_queue_idle();
        let loaded_at_front =
            if keeps_front_loaded { outbound.front_within(FRONT_IN_MEMORY, FRONT_IN_MEMORY_BYTES) } else { 0 };
        while picked.bytes < most_bytes
            && let Some((number, message)) = outbound.next_to_spill(loaded_at_front, SPILL_MIN_BYTES, steps)
        {
            let message = message.clone();
            match spill.known.get(message.id()) {
                Some(spill) => {
                    outbound.spill(number, spill);
                }
                None => spill.pick(message, Holder::Queue { session: key, number }, picked),
            }
        }
        while picked.bytes < most_bytes
            && let Some((packet_id, message)) = outbound.next_sent_to_spill(SPILL_MIN_BYTES, steps)
        {
            let message = message.clone();
            let is_needed = connection.is_some_and(|index| is_about_to_get(&connections[index], packet_id));
            match spill.known.get(message.id()) {
                Some(_) if is_needed => {}
                Some(spill) => {
                    outbound.spill_sent(packet_id, spill);
                }
                None => spill.pick(message, Holder::Window { session: key, packet_id }, picked),
            }
        }
        if outbound.has_more_to_spill(loaded_at_front) || outbound.has_more_sent_to_spill() {
            spill.sessions.push_back(key);
        } else {
            outbound.unqueue_for_spill();
        }
        self.unblock_caught_up(session);
    }

    pub(in crate::storage::spill) fn write_spilled(&mut self, SpillBatch { messages, bytes }: SpillBatch) {
        if messages.is_empty() {
            return;
        }
        let ticket = self.spill.ticket();
        self.spill.writing_bytes += bytes;
        self.context.backlog().add(bytes, self.clock.now_ms());
        let ids: Vec<_> = messages.iter().map(Message::id).collect();
        if !self.spill.post(SpillRequest::Write { ticket, messages }) {
            self.record_answered(bytes);
            ids.into_iter().for_each(|id| self.cancel_spill(id));
        }
    }

    /// Counts bytes that the store has handled.
    fn record_answered(&mut self, bytes: usize) {
        self.spill.writing_bytes -= bytes;
        self.context.backlog().take(bytes, self.clock.now_ms());
    }

    /// Replaces written messages by their records in all holders.
    pub(in crate::storage::spill) fn replace_spilled(&mut self, messages: Vec<(Message, Option<SpillSlot>)>) {
        let Some(account) = self.spill.slots() else { return };
        let (mut written, mut retained) = (Vec::new(), Vec::new());
        for (message, slot) in messages {
            self.record_answered(message.allocated_bytes());
            let Some(slot) = slot else {
                self.cancel_spill(message.id());
                continue;
            };
            let spilled = Spilled::new(&message, slot, &account);
            for holder in self.spill.writing.remove(&message.id()).unwrap_or_default() {
                match holder {
                    Holder::Queue { session, number } => self.spill_queued(&session, number, &spilled),
                    Holder::Window { session, packet_id } => self.spill_sent(&session, packet_id, &spilled),
                    Holder::Retained => retained.push((message.clone(), spilled.clone())),
                }
            }
            written.push((message, spilled));
        }
        if !retained.is_empty() {
            self.context.exchange().spill_retained(retained);
        }
        for (message, spilled) in written {
            if message.is_shared() {
                self.spill.known.insert(message.id(), spilled);
            }
        }
    }

    fn spill_queued(&mut self, session: &SessionKey, number: u64, spilled: &Spilled) {
        if let Some(session) = self.sessions.at(session)
            && let Some(outbound) = self.sessions.entry(session).outbound()
        {
            outbound.spill(number, spilled);
            self.unblock_caught_up(session);
        }
    }

    /// Spills a sent message, unless it waits for the log before it is first sent.
    fn spill_sent(&mut self, session: &SessionKey, packet_id: PacketId, spilled: &Spilled) {
        let Some(session) = self.sessions.at(session) else { return };
        let connection = self.sessions.connection(session);
        if connection.is_some_and(|index| is_about_to_get(&self.connections[index], packet_id)) {
            return;
        }
        if let Some(outbound) = self.sessions.entry(session).outbound() {
            outbound.spill_sent(packet_id, spilled);
            self.unblock_caught_up(session);
        }
    }

    /// Handles a message that could not be written. Its holders are checked again later.
    #[cold]
    fn cancel_spill(&mut self, id: tautwire_message::MessageId) {
        self.spill.write_again_ms = self.clock.now_ms() + RETRY_MS;
        for holder in self.spill.writing.remove(&id).unwrap_or_default() {
            match holder {
                Holder::Queue { session, number } => {
                    let Some(session) = self.sessions.at(&session) else { continue };
                    if let Some(outbound) = self.sessions.entry(session).outbound() {
                        outbound.rescan_from(number);
                    }
                    self.queue_for_spill(session);
                }
                Holder::Window { session, .. } => {
                    let Some(session) = self.sessions.at(&session) else { continue };
                    if let Some(outbound) = self.sessions.entry(session).outbound() {
                        outbound.rescan_sent();
                    }
                    self.queue_for_spill(session);
                }
                Holder::Retained => self.spill.walked_bytes = 0,
            }
        }
    }
}

/// Whether a message of the window waits for the log before it is sent for the first time.
fn is_about_to_get(connection: &Connection, id: PacketId) -> bool {
    connection.has_delayed_ack(|ack| matches!(ack, Ack::Deliver(delivered, _) if *delivered == id))
}
