//! Every message is accounted for: each stream (one publisher as seen by one subscriber) is checked for loss,
//! duplication and order by the sequence numbers inside the payloads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

/// The sum over all streams of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Account {
    /// Messages sent to the broker.
    pub published: u64,
    /// Expected deliveries.
    pub expected: u64,
    /// Actual deliveries, each counted once.
    pub delivered: u64,
    pub lost: u64,
    pub duplicated: u64,
    /// Deliveries that arrived after one that was published later.
    pub reordered: u64,
    /// Deliveries with a wrong payload, or that no one published.
    pub corrupted: u64,
    /// Packets that break the protocol: an acknowledgement for nothing, an unexpected packet, a refusal.
    pub violations: u64,
}

impl Account {
    /// Whether everything arrived exactly once, whole and in order.
    pub(crate) fn is_exact(&self) -> bool {
        self.expected == self.delivered
            && self.lost + self.duplicated + self.reordered + self.corrupted + self.violations == 0
    }

    pub(crate) fn add(&mut self, other: &Account) {
        self.published += other.published;
        self.expected += other.expected;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.violations += other.violations;
    }
}

/// A stream in which every sequence number from 0 on must arrive, in order.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    next: u64,
    gaps: Gaps,
    delivered: u64,
    duplicated: u64,
    reordered: u64,
}

impl Sequence {
    /// Records an arrival. Returns true if it counts as a delivery (is not a duplicate).
    #[inline]
    pub(crate) fn arrive(&mut self, seq: u64) -> bool {
        if seq == self.next {
            self.next += 1;
            self.delivered += 1;
            return true;
        }
        self.arrive_out_of_order(seq)
    }

    /// Returns the account of this stream after `sent` messages were published to it.
    pub(crate) fn account(&self, sent: u64) -> Account {
        Account {
            expected: sent,
            delivered: self.delivered,
            lost: self.gaps.len() + sent.saturating_sub(self.next),
            duplicated: self.duplicated,
            reordered: self.reordered,
            ..Account::default()
        }
    }

    #[cold]
    fn arrive_out_of_order(&mut self, seq: u64) -> bool {
        if seq > self.next {
            self.gaps.open(self.next, seq);
            self.next = seq + 1;
        } else if self.gaps.fill(seq) {
            self.reordered += 1;
        } else {
            self.duplicated += 1;
            return false;
        }
        self.delivered += 1;
        true
    }
}

/// A stream whose expected sequence numbers are added one by one: for a subscriber that receives only
/// some of the messages of one publisher.
#[derive(Debug, Default)]
pub(crate) struct ExpectedOrder {
    due: VecDeque<u64>,
    overtaken: BTreeSet<u64>,
    expected: u64,
    delivered: u64,
    duplicated: u64,
    reordered: u64,
    unexpected: u64,
    highest_arrived: Option<u64>,
}

impl ExpectedOrder {
    #[inline]
    pub(crate) fn expect(&mut self, seq: u64) {
        self.due.push_back(seq);
        self.expected += 1;
    }

    /// Records an arrival. Returns true if it counts as a delivery.
    #[inline]
    pub(crate) fn arrive(&mut self, seq: u64) -> bool {
        if self.due.front() == Some(&seq) {
            self.due.pop_front();
            self.highest_arrived = Some(seq);
            self.delivered += 1;
            return true;
        }
        self.arrive_out_of_order(seq)
    }

    pub(crate) fn account(&self) -> Account {
        Account {
            expected: self.expected,
            delivered: self.delivered,
            lost: (self.due.len() + self.overtaken.len()) as u64,
            duplicated: self.duplicated,
            reordered: self.reordered,
            corrupted: self.unexpected,
            ..Account::default()
        }
    }

    #[cold]
    fn arrive_out_of_order(&mut self, seq: u64) -> bool {
        if self.overtaken.remove(&seq) {
            self.reordered += 1;
        } else if let Some(position) = self.due.iter().position(|&due| due == seq) {
            self.overtaken.extend(self.due.drain(..position));
            self.due.pop_front();
            self.highest_arrived = Some(seq);
        } else if self.highest_arrived.is_some_and(|highest| seq <= highest) {
            self.duplicated += 1;
            return false;
        } else {
            self.unexpected += 1;
            return false;
        }
        self.delivered += 1;
        true
    }
}

/// Missing sequence numbers as ranges, so that a million dropped messages take no memory here.
#[derive(Debug, Default)]
struct Gaps {
    /// First missing number → first number after the gap.
    ranges: BTreeMap<u64, u64>,
}

impl Gaps {
    fn open(&mut self, from: u64, until: u64) {
        self.ranges.insert(from, until);
    }

    /// Removes `seq`. Returns false if it was not missing.
    fn fill(&mut self, seq: u64) -> bool {
        let Some((&from, &until)) = self.ranges.range(..=seq).next_back() else {
            return false;
        };
        if seq >= until {
            return false;
        }
        self.ranges.remove(&from);
        if from < seq {
            self.ranges.insert(from, seq);
        }
        if seq + 1 < until {
            self.ranges.insert(seq + 1, until);
        }
        true
    }

    fn len(&self) -> u64 {
        self.ranges.iter().map(|(from, until)| until - from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(arrivals: &[u64], sent: u64) -> Account {
        let mut stream = Sequence::default();
        for &seq in arrivals {
            stream.arrive(seq);
        }
        stream.account(sent)
    }

    #[test]
    fn messages_in_order_are_counted_exactly() {
        let account = sequence(&[0, 1, 2, 3], 4);
        assert!(account.is_exact());
        assert_eq!(account.delivered, 4);
    }

    #[test]
    fn a_gap_and_a_missing_tail_are_lost() {
        let account = sequence(&[0, 1, 4, 5], 8);
        assert_eq!((account.lost, account.delivered), (4, 4));
        assert_eq!((account.duplicated, account.reordered), (0, 0));
        assert!(!account.is_exact());
    }

    #[test]
    fn a_late_arrival_is_reordered_and_not_lost() {
        let account = sequence(&[0, 2, 3, 1, 4], 5);
        assert_eq!((account.lost, account.reordered, account.duplicated, account.delivered), (0, 1, 0, 5));
        assert!(!account.is_exact());
    }

    #[test]
    fn a_second_copy_is_a_duplicate_and_not_a_delivery() {
        let account = sequence(&[0, 1, 1, 2, 0], 3);
        assert_eq!((account.lost, account.duplicated, account.delivered), (0, 2, 3));
        assert!(!account.is_exact());
    }

    #[test]
    fn a_gap_filled_from_its_middle_keeps_both_sides_missing() {
        let account = sequence(&[0, 10, 5, 5], 11);
        assert_eq!((account.lost, account.reordered, account.duplicated), (8, 1, 1));
    }

    #[test]
    fn announced_messages_in_order_are_counted_exactly() {
        let mut stream = ExpectedOrder::default();
        for seq in [3, 7, 9] {
            stream.expect(seq);
            assert!(stream.arrive(seq));
        }
        assert!(stream.account().is_exact());
    }

    #[test]
    fn lost_reordered_duplicated_and_unknown_announced_messages_are_distinguished() {
        let mut stream = ExpectedOrder::default();
        for seq in [3, 7, 9, 12, 20] {
            stream.expect(seq);
        }
        for seq in [3, 9, 7, 9, 4000, 12] {
            stream.arrive(seq);
        }
        let account = stream.account();
        assert_eq!((account.expected, account.delivered, account.lost), (5, 4, 1));
        assert_eq!((account.reordered, account.duplicated, account.corrupted), (1, 1, 1));
    }
}
