//! How retained messages become cold: those that come while many are in memory in the order in which they come, the others by a walk.

mod steps;

use std::collections::VecDeque;

use tautwire_router::Exchange;

/// Topics whose messages are to leave memory without a walk that finds them: with a million others, it would find them late. Messages
/// themselves are not held: one that is replaced meanwhile is gone.
#[derive(Default)]
pub(super) struct RetainedSpillQueue {
    topics: VecDeque<(Box<str>, usize)>,
    bytes: usize,
}

impl RetainedSpillQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// The message of `topic`, which takes `bytes`, is to leave.
    fn push(&mut self, topic: &str, bytes: usize, exchange: &Exchange) {
        self.bytes += bytes;
        exchange.begin_spill(bytes);
        self.topics.push_back((topic.into(), bytes));
    }

    fn pop(&mut self, exchange: &Exchange) -> Option<Box<str>> {
        let (topic, bytes) = self.topics.pop_front()?;
        self.bytes -= bytes;
        exchange.end_spill(bytes);
        if self.topics.is_empty() {
            self.topics = VecDeque::new();
        }
        Some(topic)
    }
}
