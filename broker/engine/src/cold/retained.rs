//! How retained messages become cold: those that come while many are in memory in the order in which they come, the others by a walk.

use std::collections::VecDeque;

use tautwire_message::Message;
use tautwire_router::{Exchange, ShardIndex};
use tautwire_session::Journal;

use super::cooling::{COLD_MIN_BYTES, ORDER_BYTES, Picked};
use super::{ColdRoom, Holder};
use crate::frames::Outgoing;
use crate::hub::Hub;

/// Places of the tree of retained messages looked at in a turn.
const WALK_STEPS: u64 = 4 << 10;

/// Messages that are to leave memory without a walk that finds them: with a million others, it would find them late.
#[derive(Default)]
pub(super) struct Leaving {
    messages: VecDeque<Message>,
    bytes: usize,
}

impl Leaving {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn push(&mut self, message: Message, exchange: &Exchange) {
        self.bytes += message.kept_bytes();
        exchange.note_leaving(message.kept_bytes());
        self.messages.push_back(message);
    }

    fn pop(&mut self, exchange: &Exchange) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.kept_bytes();
        exchange.note_left(message.kept_bytes());
        if self.messages.is_empty() {
            self.messages = VecDeque::new();
        }
        Some(message)
    }
}

impl ColdRoom {
    /// More are left to the walk. It is as much as may be hot: the store has failed, or is too slow.
    fn leaving_max_bytes(&self) -> u64 {
        self.hot_max_bytes
    }
}

impl<J: Journal> Hub<J> {
    /// A message has been retained. Where many are in memory, it is among the next to leave.
    #[inline]
    pub(crate) fn list_retained_for_cooling(&mut self, outgoing: &Outgoing<'_>) {
        if J::KEEPS && self.cold.port.is_some() && self.exchange.retained_hot_bytes() > self.cold.hot_max_bytes / 4 {
            self.list_retained(outgoing);
        }
    }

    #[cold]
    fn list_retained(&mut self, outgoing: &Outgoing<'_>) {
        let Some(message) = outgoing.kept.as_ref().filter(|message| message.kept_bytes() >= COLD_MIN_BYTES) else {
            return;
        };
        if outgoing.message.payload.is_empty() || outgoing.message.topic.starts_with("$SYS/") {
            return;
        }
        let Hub { cold, exchange, .. } = self;
        cold.retained.push(message.clone(), exchange);
        while cold.retained.bytes as u64 > cold.leaving_max_bytes() {
            cold.retained.pop(exchange);
        }
    }

    /// Has messages written that have been retained here, as far as the store takes them now.
    pub(super) fn write_retained(&mut self) {
        while !self.cold.retained.is_empty() && self.can_make_cold() {
            let mut picked = Picked::default();
            let mut written = Vec::new();
            let most_bytes = ORDER_BYTES.min(usize::try_from(self.excess_bytes()).unwrap_or(usize::MAX));
            let Hub { cold, exchange, .. } = self;
            while picked.bytes < most_bytes
                && let Some(message) = cold.retained.pop(exchange)
            {
                if !message.is_shared() {
                    // It has been replaced.
                    continue;
                }
                match cold.known.get(message.id()).cloned() {
                    Some(cold) => written.push((message, cold)),
                    None => cold.pick(message, Holder::Retained, &mut picked),
                }
            }
            if !written.is_empty() {
                self.exchange.cool_retained(written);
            }
            self.write_cold(picked);
        }
    }

    /// The first shard makes retained messages cold, for all: when they are half of what may be hot, but not before many have
    /// come or gone since the last walk.
    pub(super) fn has_to_walk(&self) -> bool {
        let hot_bytes = self.exchange.retained_staying_bytes();
        self.shard == ShardIndex(0)
            && hot_bytes > self.cold.hot_max_bytes / 2
            && (self.cold.walk.is_under_way()
                || hot_bytes.abs_diff(self.cold.walked_hot_bytes) > self.cold.hot_max_bytes / 8)
    }

    pub(super) fn pick_retained(&mut self, picked: &mut Picked, most_bytes: usize) {
        let mut found = Vec::new();
        let mut steps = WALK_STEPS;
        let excess_bytes = self.exchange.retained_staying_bytes().saturating_sub(self.cold.hot_max_bytes / 4);
        let most_bytes = most_bytes.min(usize::try_from(excess_bytes).unwrap_or(usize::MAX));
        self.exchange.hot_retained(&mut self.cold.walk, &mut steps, COLD_MIN_BYTES, most_bytes, &mut found);
        if !self.cold.walk.is_under_way() {
            self.cold.walked_hot_bytes = self.exchange.retained_staying_bytes();
        }
        for message in found {
            self.cold.pick(message, Holder::Retained, picked);
        }
    }
}
