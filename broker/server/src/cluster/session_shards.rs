//! Which shard is notified of decisions about a client.

use std::collections::HashMap;

use tautwire_cluster::names::ClientKey;
use tautwire_router::ShardIndex;

/// The shards that serve clients, or are about to.
#[derive(Default)]
pub(super) struct SessionShards {
    /// The last pending claim of each client, and the pending claims by ticket.
    claimed: HashMap<ClientKey, ShardClaim>,
    waiting: HashMap<u64, ClientKey>,
    /// Clients whose last claim is served. Most are, so nothing else is stored about them.
    served: HashMap<ClientKey, ShardIndex>,
}

struct ShardClaim {
    ticket: u64,
    shard: ShardIndex,
}

impl SessionShards {
    /// Records that a shard claims the session of a client.
    pub(super) fn claim(&mut self, client: ClientKey, shard: ShardIndex, ticket: u64) {
        self.served.remove(&client);
        if let Some(earlier) = self.claimed.insert(client, ShardClaim { ticket, shard }) {
            self.waiting.remove(&earlier.ticket);
        }
        self.waiting.insert(ticket, client);
    }

    /// Records that the claim of this ticket is served.
    pub(super) fn serve(&mut self, ticket: u64) {
        if let Some((client, shard)) = self.end_claim(ticket) {
            self.served.insert(client, shard);
        }
    }

    /// Removes a claim that is not served, or that nobody waits for any more.
    pub(super) fn end_claim(&mut self, ticket: u64) -> Option<(ClientKey, ShardIndex)> {
        let client = self.waiting.remove(&ticket)?;
        let ShardClaim { shard, .. } = self.claimed.remove(&client)?;
        Some((client, shard))
    }

    /// Records that a session is no longer served here. If its client has already reconnected, returns the shard of the new claim.
    pub(super) fn leave(&mut self, client: ClientKey) -> Option<ShardIndex> {
        self.served.remove(&client).or_else(|| self.of(client))
    }

    pub(super) fn of(&self, client: ClientKey) -> Option<ShardIndex> {
        let claimed = || self.claimed.get(&client).map(|claimed| claimed.shard);
        self.served.get(&client).copied().or_else(claimed)
    }

    /// Removes all sessions.
    pub(super) fn clear(&mut self) {
        *self = SessionShards::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientKey = ClientKey(7);
    const SHARD: ShardIndex = ShardIndex(1);

    #[test]
    fn a_disconnected_session_is_forgotten() {
        let mut sessions = SessionShards::default();
        sessions.claim(CLIENT, SHARD, 1);
        sessions.serve(1);
        assert_eq!(
            (sessions.of(CLIENT), sessions.leave(CLIENT), sessions.of(CLIENT)),
            (Some(SHARD), Some(SHARD), None)
        );
    }

    #[test]
    fn a_reclaimed_session_is_not_forgotten() {
        let mut sessions = SessionShards::default();
        sessions.claim(CLIENT, SHARD, 1);
        sessions.end_claim(1);
        sessions.claim(CLIENT, SHARD, 2);
        // The first claim was served all the same, and its session released, since nobody waited for it.
        sessions.serve(1);
        assert_eq!((sessions.leave(CLIENT), sessions.of(CLIENT)), (Some(SHARD), Some(SHARD)));
        sessions.serve(2);
        assert_eq!((sessions.leave(CLIENT), sessions.of(CLIENT)), (Some(SHARD), None));
    }

    #[test]
    fn a_failed_claim_leaves_nothing() {
        let mut sessions = SessionShards::default();
        for ticket in 1..=2 {
            sessions.claim(CLIENT, SHARD, ticket);
        }
        sessions.end_claim(1);
        assert_eq!(sessions.of(CLIENT), Some(SHARD), "the other claim is still pending");
        sessions.end_claim(2);
        assert!(sessions.claimed.is_empty() && sessions.waiting.is_empty() && sessions.served.is_empty());
    }
}
