//! Messages of operators: none is duplicated, and the reported outcomes are true.

use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct OperatorPublishes {
    last: u64,
    known: BTreeMap<u64, Known>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Logged,
    Stored,
    Refused,
}

impl OperatorPublishes {
    /// Returns the number of the next message, which is also its ticket.
    pub(crate) fn begin(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn logged(&mut self, number: u64) {
        let before = self.known.insert(number, Known::Logged);
        assert_eq!(before, None, "message {number} of an operator is appended to the log");
    }

    /// The outcome of a message was reported.
    pub(crate) fn ended(&mut self, number: u64, is_stored: bool) {
        let told = if is_stored { Known::Stored } else { Known::Refused };
        let before = self.known.insert(number, told);
        assert_eq!(before, is_stored.then_some(Known::Logged), "message {number} of an operator: {told:?}");
    }

    pub(crate) fn stored(&self) -> u64 {
        self.known.values().filter(|known| **known == Known::Stored).count() as u64
    }
}
