//! Which messages become cold, and when.

use tautwire_message::{Cold, ColdOrder, Message, Slot};
use tautwire_router::ShardIndex;
use tautwire_session::Journal;

use super::{Holder, RETRY_MS, WRITING_MAX_BYTES};
use crate::hub::Hub;
use crate::place::SessionIndex;

/// Entries of queues looked at in a turn, or twice as many as have come since the last turn.
const TURN_STEPS: usize = 1_024;
/// Those of one session before another one has its turn.
const SESSION_STEPS: usize = 256;
/// Places of the tree of retained messages looked at in a turn.
const WALK_STEPS: u64 = 4 << 10;
/// Bytes posted with one order.
const ORDER_BYTES: usize = 1 << 20;
/// So many messages at the front of the queue of a connected client stay hot, and bytes of them; but always one.
const HOT_AT_FRONT: usize = 64;
const HOT_AT_FRONT_BYTES: usize = 64 << 10;
/// A message that takes less stays hot: its record would take as much.
const COLD_MIN_BYTES: usize = 192;

/// Messages to be written with one order.
#[derive(Default)]
struct Picked {
    messages: Vec<Message>,
    bytes: usize,
}

impl<J: Journal> Hub<J> {
    /// The session's queue has more messages, or fewer that must stay hot.
    #[inline]
    pub(crate) fn list_for_cooling(&mut self, session: SessionIndex) {
        if J::KEEPS && self.cold.port.is_some() {
            self.cold.queued += 1;
            if self.sessions.place(session).outbound().is_some_and(|outbound| outbound.list_for_cooling()) {
                self.cold.sessions.push_back(session);
            }
        }
    }

    /// The client has gone: what was to be sent next need not be hot any more.
    pub(crate) fn list_all_for_cooling(&mut self, session: SessionIndex) {
        if J::KEEPS {
            if let Some(outbound) = self.sessions.place(session).outbound() {
                outbound.look_again_from(0);
            }
            self.list_for_cooling(session);
        }
    }

    /// Whether there are messages to be made cold, and the store takes them.
    #[inline]
    pub(super) fn can_make_cold(&self) -> bool {
        self.cold.port.is_some()
            && (!self.cold.sessions.is_empty() || self.has_to_walk())
            && self.cold.writing_bytes < WRITING_MAX_BYTES
            && self.now_ms >= self.cold.write_again_ms
            && self.excess_bytes() > 0
    }

    /// Bytes that are to leave memory, besides those that are about to.
    fn excess_bytes(&self) -> u64 {
        self.hot_bytes().saturating_sub(self.cold.hot_max_bytes + self.cold.writing_bytes as u64)
    }

    pub(super) fn make_cold(&mut self) {
        let queued = std::mem::take(&mut self.cold.queued);
        if !self.can_make_cold() {
            if self.cold.writing.is_empty() && (self.cold.sessions.is_empty() || self.excess_bytes() == 0) {
                self.cold.known.forget();
            }
            return;
        }
        let most_bytes = ORDER_BYTES.min(usize::try_from(self.excess_bytes()).unwrap_or(usize::MAX));
        let mut picked = Picked::default();
        if self.has_to_walk() {
            self.pick_retained(&mut picked, most_bytes);
        }
        let mut steps = TURN_STEPS.max(2 * queued);
        while steps > 0
            && picked.bytes < most_bytes
            && let Some(session) = self.cold.sessions.pop_front()
        {
            let mut slice = SESSION_STEPS.min(steps);
            let before = slice;
            self.pick_queued(session, &mut picked, most_bytes, &mut slice);
            steps -= (before - slice).max(1);
        }
        self.write_cold(picked);
    }

    /// Picks messages of one session's queue, and has the session stand in line again where there are more.
    fn pick_queued(&mut self, session: SessionIndex, picked: &mut Picked, most_bytes: usize, steps: &mut usize) {
        if !self.sessions.is_alive(session) {
            return;
        }
        let is_connected = self.sessions.connection(session).is_some();
        let key = self.sessions.key(session);
        let Some(outbound) = self.sessions.place(session).outbound() else { return };
        let hot_at_front = if is_connected { outbound.front_within(HOT_AT_FRONT, HOT_AT_FRONT_BYTES) } else { 0 };
        while picked.bytes < most_bytes
            && let Some((number, message)) = outbound.next_to_cool(hot_at_front, COLD_MIN_BYTES, steps)
        {
            let message = message.clone();
            if let Some(cold) = self.cold.known.get(message.id()) {
                outbound.cool(number, cold);
                continue;
            }
            let holders = self.cold.writing.entry(message.id()).or_default();
            holders.push(Holder::Queue { session: key, number });
            if holders.len() == 1 {
                picked.bytes += message.kept_bytes();
                picked.messages.push(message);
            }
        }
        if outbound.has_more_to_cool(hot_at_front) {
            self.cold.sessions.push_back(session);
        } else {
            outbound.unlist_for_cooling();
        }
    }

    /// The first shard makes retained messages cold, for all: when they are half of what may be hot, but not before many have
    /// come or gone since the last walk.
    fn has_to_walk(&self) -> bool {
        let hot_bytes = self.exchange.retained_hot_bytes();
        self.shard == ShardIndex(0)
            && hot_bytes > self.cold.hot_max_bytes / 2
            && (self.cold.walk.is_under_way()
                || hot_bytes.abs_diff(self.cold.walked_hot_bytes) > self.cold.hot_max_bytes / 8)
    }

    fn pick_retained(&mut self, picked: &mut Picked, most_bytes: usize) {
        let mut found = Vec::new();
        let mut steps = WALK_STEPS;
        let excess_bytes = self.exchange.retained_hot_bytes().saturating_sub(self.cold.hot_max_bytes / 4);
        let most_bytes = most_bytes.min(usize::try_from(excess_bytes).unwrap_or(usize::MAX));
        self.exchange.hot_retained(&mut self.cold.walk, &mut steps, COLD_MIN_BYTES, most_bytes, &mut found);
        if !self.cold.walk.is_under_way() {
            self.cold.walked_hot_bytes = self.exchange.retained_hot_bytes();
        }
        for message in found {
            let holders = self.cold.writing.entry(message.id()).or_default();
            holders.push(Holder::Retained);
            if holders.len() == 1 {
                picked.bytes += message.kept_bytes();
                picked.messages.push(message);
            }
        }
    }

    fn write_cold(&mut self, Picked { messages, bytes }: Picked) {
        if messages.is_empty() {
            return;
        }
        let ticket = self.cold.ticket();
        self.cold.writing_bytes += bytes;
        let ids: Vec<_> = messages.iter().map(Message::id).collect();
        if !self.cold.post(ColdOrder::Write { ticket, messages }) {
            self.cold.writing_bytes -= bytes;
            ids.into_iter().for_each(|id| self.stays_hot(id));
        }
    }

    /// Replaces messages by their records wherever they were found, now that they are written.
    pub(super) fn note_written_cold(&mut self, messages: Vec<(Message, Option<Slot>)>) {
        let Some(shelf) = self.cold.shelf() else { return };
        let (mut written, mut retained) = (Vec::new(), Vec::new());
        for (message, slot) in messages {
            self.cold.writing_bytes = self.cold.writing_bytes.saturating_sub(message.kept_bytes());
            let Some(slot) = slot else {
                self.stays_hot(message.id());
                continue;
            };
            let cold = Cold::new(&message, slot, &shelf);
            for holder in self.cold.writing.remove(&message.id()).unwrap_or_default() {
                match holder {
                    Holder::Queue { session, number } => {
                        if let Some(session) = self.sessions.at(&session)
                            && let Some(outbound) = self.sessions.place(session).outbound()
                        {
                            outbound.cool(number, &cold);
                        }
                    }
                    Holder::Retained => retained.push((message.clone(), cold.clone())),
                }
            }
            written.push((message, cold));
        }
        if !retained.is_empty() {
            self.exchange.cool_retained(retained);
        }
        for (message, cold) in written {
            if message.is_shared() {
                self.cold.known.insert(message.id(), cold);
            }
        }
    }

    /// A message could not be written. Its holders are looked at again later.
    #[cold]
    fn stays_hot(&mut self, id: tautwire_message::MessageId) {
        self.cold.write_again_ms = self.now_ms + RETRY_MS;
        for holder in self.cold.writing.remove(&id).unwrap_or_default() {
            match holder {
                Holder::Queue { session, number } => {
                    let Some(session) = self.sessions.at(&session) else { continue };
                    if let Some(outbound) = self.sessions.place(session).outbound() {
                        outbound.look_again_from(number);
                    }
                    self.list_for_cooling(session);
                }
                Holder::Retained => self.cold.walked_hot_bytes = 0,
            }
        }
    }
}
