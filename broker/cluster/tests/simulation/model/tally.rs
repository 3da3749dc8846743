//! Counts the events of this model in a run.

use std::ops::AddAssign;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) timeouts: u64,
    pub(crate) looks: u64,
    pub(crate) moved: u64,
    pub(crate) drained: u64,
    pub(crate) wills: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
    pub(crate) configured: u64,
    /// Messages of operators that were stored.
    pub(crate) own: u64,
    pub(crate) ordered: u64,
    pub(crate) members_removed: u64,
    pub(crate) groups_removed: u64,
}

impl Tally {
    fn all(&mut self) -> [&mut u64; 12] {
        let Tally { timeouts, looks, moved, drained, wills, cancelled, expired, configured, .. } = self;
        let Tally { own, ordered, members_removed, groups_removed, .. } = self;
        [
            timeouts,
            looks,
            moved,
            drained,
            wills,
            cancelled,
            expired,
            configured,
            own,
            ordered,
            members_removed,
            groups_removed,
        ]
    }

    pub(crate) fn has_coverage(mut self) -> bool {
        // A group has to be without members for long.
        let groups_removed = std::mem::replace(&mut self.groups_removed, u64::MAX);
        groups_removed > 5 && self.all().iter().all(|count| **count > 50)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, mut other: Tally) {
        for (count, more) in self.all().into_iter().zip(other.all()) {
            *count += *more;
        }
    }
}
