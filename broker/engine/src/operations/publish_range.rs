//! Messages of an operator that are stored elsewhere than in the log of this broker.

/// One message, or several that somebody wants to know of together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PublishRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// How many messages these are. There are no others between them where the range has no more numbers.
    pub(crate) count: u64,
}

impl PublishRange {
    /// The message with this number.
    pub(crate) fn one(number: u64) -> PublishRange {
        PublishRange { first: number, last: number, count: 1 }
    }

    /// What is known when both are.
    pub(crate) fn with(self, other: PublishRange) -> PublishRange {
        PublishRange {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            count: self.count.saturating_add(other.count),
        }
    }
}
