//! What the clients of this shard want of other nodes at QoS 0, and who waits until those know it.

use super::{ClusterRequest, ClusterState};
use crate::index::SessionIndex;

impl<F> ClusterState<F> {
    /// Messages of QoS 0 from other nodes are wanted that match a filter.
    pub(crate) fn add_interest(&mut self, filter: &str) {
        self.ask(ClusterRequest::AddInterest(filter.into()));
        let ClusterState { interest_syncs, last_number, .. } = self;
        interest_syncs.add_interest(filter, || {
            *last_number += 1;
            *last_number
        });
    }

    /// They are not any more.
    pub(crate) fn remove_interest(&mut self, filter: &str) {
        self.ask(ClusterRequest::RemoveInterest(filter.into()));
        self.interest_syncs.remove_interest(filter);
    }

    /// A session has subscribed to a filter: what is acknowledged from now on waits until all nodes know it, where they may not yet.
    pub(crate) fn await_interest_sync(&mut self, session: SessionIndex, filter: &str) {
        if let Some(ticket) = self.interest_syncs.ticket_of(filter)
            && let Some(served) = self.served_mut(session)
            && served.await_interest_sync(ticket)
        {
            let client = served.client;
            self.interest_syncs.wait(ticket, client);
        }
    }

    /// All nodes know what this question was about. Gives who has waited for that.
    pub(crate) fn sync_interest(&mut self, ticket: u64) -> Vec<SessionIndex> {
        let mut sessions = Vec::new();
        for client in self.interest_syncs.answered(ticket) {
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
