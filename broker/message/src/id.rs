//! Message identifiers.

use std::cell::Cell;
use std::fmt;

/// Identifies one message among all that any broker has ever accepted: the run of the shard that accepted it, and its number in that run.
/// The identifier stays with the message when it is forwarded or stored, so that a message that arrives twice on different paths can be
/// distinguished from two messages with the same content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MessageId {
    /// The run of a shard: a number drawn at random when the shard starts.
    pub run: u64,
    /// The number of the message within the run, from 1. 0 means that no broker has accepted it.
    pub number: u64,
}

impl MessageId {
    /// A message that no broker has accepted: one of a client, or of a test.
    pub const NONE: MessageId = MessageId { run: 0, number: 0 };
}

impl fmt::Display for MessageId {
    /// Both numbers as hexadecimal digits, such as `9f86d081884c7d65-1a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:x}", self.run, self.number)
    }
}

/// Generates the identifiers of one run.
#[derive(Debug)]
pub struct MessageIds {
    run: u64,
    last: Cell<u64>,
}

impl MessageIds {
    /// The identifiers of `run`.
    pub fn new(run: u64) -> MessageIds {
        MessageIds { run, last: Cell::new(0) }
    }

    /// The run.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// The next identifier.
    #[inline]
    pub fn next_id(&self) -> MessageId {
        self.last.set(self.last.get() + 1);
        MessageId { run: self.run, number: self.last.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_one_run_differ_and_are_readable() {
        let ids = MessageIds::new(0x9f);
        let (first, second) = (ids.next_id(), ids.next_id());
        assert!(first < second);
        assert_eq!(second.to_string(), "000000000000009f-2");
        assert_ne!(MessageIds::new(0xa0).next_id(), first);
    }
}
