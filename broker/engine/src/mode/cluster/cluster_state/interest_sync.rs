//! Filters that other nodes may not know yet, and the sessions that wait until they do.

use std::collections::HashMap;

use tautwire_cluster::names::ClientKey;

/// One request for all filters of a turn.
#[derive(Debug, Default)]
struct InterestSyncRequest {
    filters: Vec<Box<str>>,
    waiting: Vec<ClientKey>,
}

#[derive(Debug, Default)]
pub(crate) struct InterestSyncs {
    /// The pending request that contains each filter.
    format_from_filter: HashMap<Box<str>, u64>,
    requests: HashMap<u64, InterestSyncRequest>,
    /// The request of this turn.
    next: Option<u64>,
}

impl InterestSyncs {
    /// Adds an announced filter. `ticket` numbers the request of this turn, if it is the first filter.
    pub(super) fn add_interest(&mut self, filter: &str, ticket: impl FnOnce() -> u64) {
        let ticket = *self.next.get_or_insert_with(ticket);
        self.format_from_filter.insert(filter.into(), ticket);
        self.requests.entry(ticket).or_default().filters.push(filter.into());
    }

    /// Removes a withdrawn filter.
    pub(super) fn remove_interest(&mut self, filter: &str) {
        self.format_from_filter.remove(filter);
    }

    /// The request that has to be answered before all nodes know a filter.
    pub(super) fn ticket_of(&self, filter: &str) -> Option<u64> {
        self.format_from_filter.get(filter).copied()
    }

    pub(super) fn wait(&mut self, ticket: u64, client: ClientKey) {
        if let Some(request) = self.requests.get_mut(&ticket) {
            request.waiting.push(client);
        }
    }

    /// Takes the request of this turn at its end.
    pub(super) fn take_next(&mut self) -> Option<u64> {
        self.next.take()
    }

    /// Ends an answered request. Returns the clients that waited for it.
    pub(super) fn finish(&mut self, ticket: u64) -> Vec<ClientKey> {
        let InterestSyncRequest { filters, waiting } = self.requests.remove(&ticket).unwrap_or_default();
        for filter in filters {
            if self.format_from_filter.get(&filter) == Some(&ticket) {
                self.format_from_filter.remove(&filter);
            }
        }
        if self.requests.is_empty() {
            *self = InterestSyncs { next: self.next, ..InterestSyncs::default() };
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_one_turn_are_synchronized_together() {
        let mut interest_syncs = InterestSyncs::default();
        interest_syncs.add_interest("a", || 1);
        interest_syncs.add_interest("b", || 2);
        assert_eq!((interest_syncs.ticket_of("a"), interest_syncs.ticket_of("b")), (Some(1), Some(1)));
        interest_syncs.wait(1, ClientKey(7));
        assert_eq!((interest_syncs.take_next(), interest_syncs.take_next()), (Some(1), None));
        // A filter that is announced again needs a new request.
        interest_syncs.remove_interest("b");
        assert_eq!(interest_syncs.ticket_of("b"), None);
        interest_syncs.add_interest("b", || 3);
        assert_eq!(interest_syncs.finish(1), [ClientKey(7)]);
        assert_eq!((interest_syncs.ticket_of("a"), interest_syncs.ticket_of("b")), (None, Some(3)));
        assert_eq!(interest_syncs.take_next(), Some(3));
        assert!(interest_syncs.finish(3).is_empty() && interest_syncs.finish(1).is_empty());
        assert_eq!(interest_syncs.ticket_of("b"), None);
    }
}
