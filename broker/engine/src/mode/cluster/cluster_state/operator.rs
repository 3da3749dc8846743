//! Messages of operators that are being stored in the log, and their outcomes.

use std::collections::BTreeMap;

use crate::operations::publish_range::PublishRange;

/// The maximum number of failed messages whose outcome is stored until the operator gets it.
const FAILED_MAX: usize = 4096;

/// The outcome of one or more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperatorPublishOutcome {
    /// Some of them are pending.
    Open,
    Stored,
    /// One of them is not in the log and never will be.
    Refused,
    /// It is not known whether one of them is in the log.
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct OperatorPublishes {
    /// Messages that are not known to be in the log, by ticket.
    messages: BTreeMap<u64, Message>,
    failed: usize,
    /// Outcomes up to this ticket may have been evicted.
    forgotten: u64,
}

#[derive(Debug)]
enum Message {
    Pending { bytes: usize },
    Failed(OperatorPublishOutcome),
}

impl OperatorPublishes {
    pub(crate) fn begin(&mut self, ticket: u64, bytes: usize) -> PublishRange {
        self.messages.insert(ticket, Message::Pending { bytes });
        PublishRange::one(ticket)
    }

    /// Ends a pending message and returns its size in bytes.
    pub(crate) fn end(&mut self, ticket: u64, is_stored: bool) -> usize {
        let Some(Message::Pending { bytes }) = self.messages.get(&ticket) else { return 0 };
        let bytes = *bytes;
        if is_stored {
            self.messages.remove(&ticket);
        } else {
            self.messages.insert(ticket, Message::Failed(OperatorPublishOutcome::Refused));
            self.failed += 1;
            self.forget();
        }
        bytes
    }

    /// Ends the node's incarnation: the outcome of pending messages is unknown. Returns their size in bytes.
    pub(crate) fn end_life(&mut self) -> usize {
        let mut ended = 0;
        for message in self.messages.values_mut() {
            if let Message::Pending { bytes } = *message {
                ended += bytes;
                *message = Message::Failed(OperatorPublishOutcome::Unknown);
                self.failed += 1;
            }
        }
        self.forget();
        ended
    }

    pub(crate) fn fate(&self, range: PublishRange) -> OperatorPublishOutcome {
        if range.first <= self.forgotten {
            return OperatorPublishOutcome::Unknown;
        }
        let mut fate = OperatorPublishOutcome::Stored;
        for message in self.messages.range(range.first..=range.last).map(|(_, message)| message) {
            match message {
                Message::Pending { .. } => return OperatorPublishOutcome::Open,
                Message::Failed(OperatorPublishOutcome::Unknown) => fate = OperatorPublishOutcome::Unknown,
                Message::Failed(failed) if fate == OperatorPublishOutcome::Stored => fate = *failed,
                Message::Failed(_) => {}
            }
        }
        fate
    }

    /// Removes outcomes that were reported. If messages of others may be in the range, the outcomes stay.
    pub(crate) fn remove_reported(&mut self, range: PublishRange) {
        if range.last - range.first + 1 != range.count {
            return;
        }
        for ticket in range.first..=range.last {
            if matches!(self.messages.get(&ticket), Some(Message::Failed(_))) {
                self.messages.remove(&ticket);
                self.failed -= 1;
            }
        }
    }

    fn forget(&mut self) {
        while self.failed > FAILED_MAX {
            let first = self.messages.iter().find(|(_, message)| matches!(message, Message::Failed(_)));
            let Some(ticket) = first.map(|(ticket, _)| *ticket) else { return };
            self.messages.remove(&ticket);
            self.forgotten = self.forgotten.max(ticket);
            self.failed -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_messages_are_safe_when_each_is() {
        let mut own = OperatorPublishes::default();
        let both = own.begin(3, 10).with(own.begin(7, 5));
        assert_eq!((own.end(3, true), own.fate(both)), (10, OperatorPublishOutcome::Open));
        assert_eq!((own.end(7, true), own.fate(both)), (5, OperatorPublishOutcome::Stored));
        assert_eq!(own.end(7, false), 0, "it has ended");
        let both = own.begin(8, 1).with(own.begin(9, 1));
        own.end(9, false);
        assert_eq!(own.fate(both), OperatorPublishOutcome::Open);
        own.end(8, true);
        assert_eq!(own.fate(both), OperatorPublishOutcome::Refused);
    }

    #[test]
    fn what_was_on_its_way_when_a_life_ended_is_not_known_to_be_safe() {
        let mut own = OperatorPublishes::default();
        let (one, other) = (own.begin(1, 1), own.begin(2, 1));
        own.end(1, true);
        assert_eq!(own.end_life(), 1);
        assert_eq!((own.fate(one), own.fate(other)), (OperatorPublishOutcome::Stored, OperatorPublishOutcome::Unknown));
    }

    #[test]
    fn what_has_been_told_is_not_remembered() {
        let mut own = OperatorPublishes::default();
        let (one, other, third) = (own.begin(1, 1), own.begin(2, 1), own.begin(3, 1));
        for ticket in 1..=3 {
            own.end(ticket, false);
        }
        // The second message belongs to another operator.
        own.remove_reported(one.with(third));
        assert_eq!((own.failed, own.fate(other)), (3, OperatorPublishOutcome::Refused));
        own.remove_reported(one.with(other));
        assert_eq!((own.failed, own.messages.len(), own.fate(third)), (1, 1, OperatorPublishOutcome::Refused));
        own.remove_reported(third);
        assert_eq!((own.failed, own.messages.len()), (0, 0));
        // A pending message stays.
        let open = own.begin(4, 1);
        own.remove_reported(open);
        assert_eq!((own.end(4, false), own.fate(open)), (1, OperatorPublishOutcome::Refused));
    }

    #[test]
    fn what_has_been_forgotten_is_not_taken_for_safe() {
        let mut own = OperatorPublishes::default();
        let first = own.begin(1, 1);
        own.end(1, false);
        for ticket in 2..FAILED_MAX as u64 + 2 {
            own.begin(ticket, 1);
            own.end(ticket, false);
        }
        assert_eq!((own.fate(first), own.messages.len()), (OperatorPublishOutcome::Unknown, FAILED_MAX));
    }
}
