//! Counts all events.

use std::ops::AddAssign;

use crate::model;

/// The events of a run, which prove that it has tested anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) messages: u64,
    pub(crate) acknowledged: u64,
    pub(crate) done: u64,
    pub(crate) done_once: u64,
    pub(crate) sessions: u64,
    pub(crate) resumed: u64,
    pub(crate) refused: u64,
    pub(crate) takeovers: u64,
    pub(crate) suspended: u64,
    pub(crate) fenced: u64,
    pub(crate) fences: u64,
    pub(crate) delivered: u64,
    pub(crate) delivered_once: u64,
    pub(crate) delivered_again: u64,
    pub(crate) reads_stored: u64,
    pub(crate) reads_cached: u64,
    pub(crate) gaps: u64,
    pub(crate) stalls: u64,
    pub(crate) leases: u64,
    pub(crate) shared: u64,
    pub(crate) shared_again: u64,
    pub(crate) keeping: model::Tally,
}

impl Tally {
    pub(crate) fn has_coverage(&self) -> bool {
        let all = [self.done, self.done_once, self.resumed, self.refused, self.takeovers, self.suspended, self.fenced];
        let delivery =
            [self.delivered_again, self.shared_again, self.reads_cached, self.reads_stored, self.gaps, self.stalls];
        let is_delivered = self.delivered_once > 10_000 && self.shared > 10_000 && self.leases > 1000;
        self.keeping.has_coverage()
            && is_delivered
            && self.acknowledged > 10_000
            && self.fences > 100
            && all.iter().chain(&delivery).all(|count| *count > 10)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.messages += other.messages;
        self.acknowledged += other.acknowledged;
        self.done += other.done;
        self.done_once += other.done_once;
        self.sessions += other.sessions;
        self.resumed += other.resumed;
        self.refused += other.refused;
        self.takeovers += other.takeovers;
        self.suspended += other.suspended;
        self.fenced += other.fenced;
        self.fences += other.fences;
        self.delivered += other.delivered;
        self.delivered_once += other.delivered_once;
        self.delivered_again += other.delivered_again;
        self.reads_stored += other.reads_stored;
        self.reads_cached += other.reads_cached;
        self.gaps += other.gaps;
        self.stalls += other.stalls;
        self.leases += other.leases;
        self.shared += other.shared;
        self.shared_again += other.shared_again;
        self.keeping += other.keeping;
    }
}
