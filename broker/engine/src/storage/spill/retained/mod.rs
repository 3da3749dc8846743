//! Spilling retained messages: new ones in order of arrival while many are in memory, the others by a walk.

mod steps;

use std::collections::VecDeque;

use tautwire_router::Exchange;

/// Topics whose messages are to be spilled without a walk, which would find them late among a million others. The messages themselves
/// are not held, so replaced ones are freed.
#[derive(Default)]
pub(super) struct RetainedSpillQueue {
    topics: VecDeque<(Box<str>, usize)>,
    bytes: usize,
}

impl RetainedSpillQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Adds the message of `topic`, which takes `bytes`.
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
