//! Messages of operators that are stored outside of this broker's log.

/// One message, or several with a common status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PublishRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The number of messages. If it equals the length of the range, no other messages are between them.
    pub(crate) count: u64,
}

impl PublishRange {
    /// A range of one message.
    pub(crate) fn one(number: u64) -> PublishRange {
        PublishRange { first: number, last: number, count: 1 }
    }

    /// A range that covers both.
    pub(crate) fn with(self, other: PublishRange) -> PublishRange {
        PublishRange {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            count: self.count.saturating_add(other.count),
        }
    }
}
