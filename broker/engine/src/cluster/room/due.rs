//! Sessions that are to be looked at, in the order in which that comes due.

use std::collections::VecDeque;

use super::queue::pop_front_if;
use crate::place::SessionIndex;

/// A session, by its place and the epoch of its claim: that tells it from whichever has the place after it, even with the same client.
pub(super) type Claimed = (SessionIndex, u64);

#[derive(Debug, Default)]
pub(super) struct Dues(VecDeque<(u64, Claimed)>);

impl Dues {
    /// None of those before comes due later.
    pub(super) fn push(&mut self, at_ms: u64, claimed: Claimed) {
        self.0.push_back((at_ms, claimed));
    }

    /// The next one that has come due.
    pub(super) fn next(&mut self, now_ms: u64) -> Option<Claimed> {
        pop_front_if(&mut self.0, |(at_ms, _)| *at_ms <= now_ms).map(|(_, claimed)| claimed)
    }

    /// When the first one comes due.
    pub(super) fn first_ms(&self) -> Option<u64> {
        self.0.front().map(|(at_ms, _)| *at_ms)
    }
}

#[cfg(test)]
mod tests {
    use tautwire_cluster::names::{ClientKey, PARTITIONS, Seed};
    use tautwire_cluster::record::Place;

    use super::super::{ClusterRoom, ClusterSettings};
    use super::*;
    use crate::place::ConnectionId;

    #[test]
    fn a_client_that_comes_and_goes_leaves_nothing_behind() {
        let settings = ClusterSettings::default();
        let every_ms = settings.passed_save_ms;
        let mut room = ClusterRoom::<()>::new(Seed([1; 16]), 0, settings);
        room.begin_life([Place::START; PARTITIONS as usize], usize::MAX);
        let session = SessionIndex::new(0).expect("a place");
        let connection = ConnectionId { index: 0, generation: 1 };
        for epoch in 1..=100 {
            room.serve(session, ClientKey(7), (connection, epoch), None, epoch);
            if epoch < 100 {
                assert!(room.leave(session).is_some());
            }
        }
        for turn in 1..=3 {
            room.look_for_due(100 + turn * every_ms);
            assert_eq!(room.passing.0.len(), 1, "one session is looked at once in a while");
        }
    }
}
