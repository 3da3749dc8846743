//! Messages of operators: none is there twice, and what they are told of each is true.

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
    /// The number of the next one, which is its ticket, too.
    pub(crate) fn begin(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn logged(&mut self, number: u64) {
        let before = self.known.insert(number, Known::Logged);
        assert_eq!(before, None, "message {number} of an operator comes into the log");
    }

    /// An operator is told.
    pub(crate) fn ended(&mut self, number: u64, is_stored: bool) {
        let told = if is_stored { Known::Stored } else { Known::Refused };
        let before = self.known.insert(number, told);
        assert_eq!(before, is_stored.then_some(Known::Logged), "message {number} of an operator: {told:?}");
    }

    pub(crate) fn stored(&self) -> u64 {
        self.known.values().filter(|known| **known == Known::Stored).count() as u64
    }
}
