//! Clients whose SUBSCRIBE waits until this node has all earlier retained messages.

use std::collections::{BTreeMap, HashMap};

use super::log_place::Places;
use crate::index::ConnectionId;

/// The progress of a search.
#[derive(Debug)]
enum Step {
    /// The cluster was asked for the position that the store has to reach.
    Requested(u64),
    /// The store has reached it, and the shard waits until it has routed as much of the log, so that no retained message is delivered
    /// twice. The wait ends at this time at the latest.
    Lagging(Box<Places>, u64),
    Ready,
}

/// The waiting clients of a shard.
#[derive(Debug, Default)]
pub(crate) struct RetainedSearches {
    steps: BTreeMap<ConnectionId, Step>,
    by_ticket: HashMap<u64, ConnectionId>,
}

impl RetainedSearches {
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub(crate) fn begin(&mut self, id: ConnectionId, ticket: u64) {
        self.remove(id);
        self.by_ticket.insert(ticket, id);
        self.steps.insert(id, Step::Requested(ticket));
    }

    /// Whether the client still waits.
    pub(crate) fn has(&self, id: ConnectionId) -> bool {
        matches!(self.steps.get(&id), Some(Step::Requested(_) | Step::Lagging(..)))
    }

    /// Returns whether the client's search can begin, and removes it if so.
    pub(crate) fn take_ready(&mut self, id: ConnectionId) -> bool {
        let is_ready = matches!(self.steps.get(&id), Some(Step::Ready));
        if is_ready {
            self.steps.remove(&id);
        }
        is_ready
    }

    /// Records that the store has everything that was retained at the time of the request.
    pub(crate) fn record_reached(&mut self, ticket: u64, reached: Places, until_ms: u64) {
        if let Some(id) = self.by_ticket.remove(&ticket) {
            self.steps.insert(id, Step::Lagging(Box::new(reached), until_ms));
        }
    }

    /// Clients whose wait is over, in order, and whether it timed out.
    pub(crate) fn release(&mut self, positions: &Places, now_ms: u64) -> Vec<(ConnectionId, bool)> {
        let mut released = Vec::new();
        for (id, step) in &mut self.steps {
            if let Step::Lagging(reached, until_ms) = step {
                let is_routed = reached.iter().zip(positions).all(|(reached, position)| reached < position);
                if is_routed || *until_ms <= now_ms {
                    *step = Step::Ready;
                    released.push((*id, !is_routed));
                }
            }
        }
        released
    }

    /// When the first wait times out.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        let due_ms = |step: &Step| if let Step::Lagging(_, until_ms) = step { Some(*until_ms) } else { None };
        self.steps.values().filter_map(due_ms).min()
    }

    /// Removes a disconnected client.
    pub(crate) fn remove(&mut self, id: ConnectionId) {
        if let Some(Step::Requested(ticket)) = self.steps.remove(&id) {
            self.by_ticket.remove(&ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_cluster::Sequence;
    use tautwire_cluster::names::PARTITIONS;
    use tautwire_cluster::record::Place;

    #[test]
    fn a_scan_waits_for_the_sync_and_the_log_with_a_timeout() {
        let at = |sequence| [Place { sequence: Sequence(sequence), index: 0 }; PARTITIONS as usize];
        let id = |index| ConnectionId { index, generation: 1 };
        let mut retained_searches = RetainedSearches::default();
        retained_searches.begin(id(1), 10);
        retained_searches.begin(id(2), 11);
        assert!(
            retained_searches.has(id(1))
                && !retained_searches.has(id(3))
                && retained_searches.release(&at(99), 99).is_empty()
        );
        retained_searches.record_reached(10, at(5), 1_000);
        assert_eq!((retained_searches.release(&at(5), 0), retained_searches.next_due_ms()), (Vec::new(), Some(1_000)));
        assert_eq!(retained_searches.release(&at(6), 0), [(id(1), false)]);
        assert!(
            !retained_searches.has(id(1))
                && retained_searches.take_ready(id(1))
                && !retained_searches.take_ready(id(1))
        );
        retained_searches.record_reached(11, at(5), 1_000);
        assert_eq!(retained_searches.release(&at(5), 1_000), [(id(2), true)]);
        // A removed search is not completed, and the next search of the connection is another one.
        retained_searches.begin(id(3), 12);
        retained_searches.remove(id(3));
        retained_searches.begin(id(3), 13);
        retained_searches.record_reached(12, at(1), 0);
        assert!(retained_searches.has(id(3)) && retained_searches.release(&at(9), 9).is_empty());
        retained_searches.remove(id(3));
        retained_searches.remove(id(2));
        assert!(retained_searches.is_empty());
    }
}
