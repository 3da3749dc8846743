//! Filters that this shard announces to other nodes for messages of QoS 0, and sessions that wait until they are known.

use super::{ClusterRequest, ClusterState};
use crate::index::SessionIndex;

impl<F> ClusterState<F> {
    /// Announces a filter: matching messages of QoS 0 from other nodes are sent to this one.
    pub(crate) fn add_interest(&mut self, filter: &str) {
        self.push_request(ClusterRequest::AddInterest(filter.into()));
        let ClusterState { interest_syncs, last_number, .. } = self;
        interest_syncs.add_interest(filter, || {
            *last_number += 1;
            *last_number
        });
    }

    /// Withdraws a filter.
    pub(crate) fn remove_interest(&mut self, filter: &str) {
        self.push_request(ClusterRequest::RemoveInterest(filter.into()));
        self.interest_syncs.remove_interest(filter);
    }

    /// Delays later acknowledgements of a session until all nodes know a filter, unless they do.
    pub(crate) fn await_interest_sync(&mut self, session: SessionIndex, filter: &str) {
        if let Some(ticket) = self.interest_syncs.ticket_of(filter)
            && let Some(served) = self.served_mut(session)
            && served.await_interest_sync(ticket)
        {
            let client = served.client;
            self.interest_syncs.wait(ticket, client);
        }
    }

    /// Handles the answer that all nodes know the filters of a request. Returns the sessions that waited for it.
    pub(crate) fn sync_interest(&mut self, ticket: u64) -> Vec<SessionIndex> {
        let mut sessions = Vec::new();
        for client in self.interest_syncs.finish(ticket) {
            if let Some(session) = self.session_of(client)
                && let Some(served) = self.served_mut(session)
            {
                served.sync_interest(ticket);
                sessions.push(session);
            }
        }
        sessions
    }
}
