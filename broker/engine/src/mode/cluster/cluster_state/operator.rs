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
    evicted_through: u64,
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
            self.evict();
        }
        bytes
    }

    /// Ends the node's incarnation: the outcome of pending messages is unknown. Returns their size in bytes.
    pub(crate) fn end_incarnation(&mut self) -> usize {
        let mut ended = 0;
        for message in self.messages.values_mut() {
            if let Message::Pending { bytes } = *message {
                ended += bytes;
                *message = Message::Failed(OperatorPublishOutcome::Unknown);
                self.failed += 1;
            }
        }
        self.evict();
        ended
    }

    pub(crate) fn outcome(&self, range: PublishRange) -> OperatorPublishOutcome {
        if range.first <= self.evicted_through {
            return OperatorPublishOutcome::Unknown;
        }
        let mut outcome = OperatorPublishOutcome::Stored;
        for message in self.messages.range(range.first..=range.last).map(|(_, message)| message) {
            match message {
                Message::Pending { .. } => return OperatorPublishOutcome::Open,
                Message::Failed(OperatorPublishOutcome::Unknown) => outcome = OperatorPublishOutcome::Unknown,
                Message::Failed(failed) if outcome == OperatorPublishOutcome::Stored => outcome = *failed,
                Message::Failed(_) => {}
            }
        }
        outcome
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

    fn evict(&mut self) {
        while self.failed > FAILED_MAX {
            let first = self.messages.iter().find(|(_, message)| matches!(message, Message::Failed(_)));
            let Some(ticket) = first.map(|(ticket, _)| *ticket) else { return };
            self.messages.remove(&ticket);
            self.evicted_through = self.evicted_through.max(ticket);
            self.failed -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_messages_are_durable_when_each_is() {
        let mut publishes = OperatorPublishes::default();
        let both = publishes.begin(3, 10).with(publishes.begin(7, 5));
        assert_eq!((publishes.end(3, true), publishes.outcome(both)), (10, OperatorPublishOutcome::Open));
        assert_eq!((publishes.end(7, true), publishes.outcome(both)), (5, OperatorPublishOutcome::Stored));
        assert_eq!(publishes.end(7, false), 0, "it has ended");
        let both = publishes.begin(8, 1).with(publishes.begin(9, 1));
        publishes.end(9, false);
        assert_eq!(publishes.outcome(both), OperatorPublishOutcome::Open);
        publishes.end(8, true);
        assert_eq!(publishes.outcome(both), OperatorPublishOutcome::Refused);
    }

    #[test]
    fn messages_in_flight_at_the_end_of_an_incarnation_are_not_confirmed() {
        let mut publishes = OperatorPublishes::default();
        let (one, other) = (publishes.begin(1, 1), publishes.begin(2, 1));
        publishes.end(1, true);
        assert_eq!(publishes.end_incarnation(), 1);
        assert_eq!(
            (publishes.outcome(one), publishes.outcome(other)),
            (OperatorPublishOutcome::Stored, OperatorPublishOutcome::Unknown)
        );
    }

    #[test]
    fn reported_messages_are_forgotten() {
        let mut publishes = OperatorPublishes::default();
        let (one, other, third) = (publishes.begin(1, 1), publishes.begin(2, 1), publishes.begin(3, 1));
        for ticket in 1..=3 {
            publishes.end(ticket, false);
        }
        // The second message belongs to another operator.
        publishes.remove_reported(one.with(third));
        assert_eq!((publishes.failed, publishes.outcome(other)), (3, OperatorPublishOutcome::Refused));
        publishes.remove_reported(one.with(other));
        assert_eq!(
            (publishes.failed, publishes.messages.len(), publishes.outcome(third)),
            (1, 1, OperatorPublishOutcome::Refused)
        );
        publishes.remove_reported(third);
        assert_eq!((publishes.failed, publishes.messages.len()), (0, 0));
        // A pending message stays.
        let open = publishes.begin(4, 1);
        publishes.remove_reported(open);
        assert_eq!((publishes.end(4, false), publishes.outcome(open)), (1, OperatorPublishOutcome::Refused));
    }

    #[test]
    fn forgotten_messages_are_not_reported_as_durable() {
        let mut publishes = OperatorPublishes::default();
        let first = publishes.begin(1, 1);
        publishes.end(1, false);
        for ticket in 2..FAILED_MAX as u64 + 2 {
            publishes.begin(ticket, 1);
            publishes.end(ticket, false);
        }
        assert_eq!((publishes.outcome(first), publishes.messages.len()), (OperatorPublishOutcome::Unknown, FAILED_MAX));
    }
}
