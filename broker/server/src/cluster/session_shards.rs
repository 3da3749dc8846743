//! Which shard hears what is decided about a client.

use std::collections::HashMap;

use tautwire_cluster::names::ClientKey;
use tautwire_router::ShardIndex;

/// The shards that serve clients, or are about to.
#[derive(Default)]
pub(super) struct SessionShards {
    /// The last claim of each client that waits for it, and who waits, by ticket.
    claimed: HashMap<ClientKey, ShardClaim>,
    waiting: HashMap<u64, ClientKey>,
    /// Clients whose last claim is served: most are, so nothing else is kept of them.
    served: HashMap<ClientKey, ShardIndex>,
}

struct ShardClaim {
    ticket: u64,
    shard: ShardIndex,
}

impl SessionShards {
    /// A shard claims the session of a client.
    pub(super) fn claim(&mut self, client: ClientKey, shard: ShardIndex, ticket: u64) {
        self.served.remove(&client);
        if let Some(earlier) = self.claimed.insert(client, ShardClaim { ticket, shard }) {
            self.waiting.remove(&earlier.ticket);
        }
        self.waiting.insert(ticket, client);
    }

    /// The claim of this ticket is served.
    pub(super) fn serve(&mut self, ticket: u64) {
        if let Some((client, shard)) = self.end_claim(ticket) {
            self.served.insert(client, shard);
        }
    }

    /// The claim of this ticket is not served, or nobody waits for it any more.
    pub(super) fn end_claim(&mut self, ticket: u64) -> Option<(ClientKey, ShardIndex)> {
        let client = self.waiting.remove(&ticket)?;
        let ShardClaim { shard, .. } = self.claimed.remove(&client)?;
        Some((client, shard))
    }

    /// A session is not served here any more. Its client may have come back already: then the shard hears of the claim that follows.
    pub(super) fn leave(&mut self, client: ClientKey) -> Option<ShardIndex> {
        self.served.remove(&client).or_else(|| self.of(client))
    }

    pub(super) fn of(&self, client: ClientKey) -> Option<ShardIndex> {
        let claimed = || self.claimed.get(&client).map(|claimed| claimed.shard);
        self.served.get(&client).copied().or_else(claimed)
    }

    /// No session is served any more.
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
    fn who_leaves_is_forgotten() {
        let mut homes = SessionShards::default();
        homes.claim(CLIENT, SHARD, 1);
        homes.serve(1);
        assert_eq!((homes.of(CLIENT), homes.leave(CLIENT), homes.of(CLIENT)), (Some(SHARD), Some(SHARD), None));
    }

    #[test]
    fn who_has_come_back_before_an_earlier_claim_was_left_is_not() {
        let mut homes = SessionShards::default();
        homes.claim(CLIENT, SHARD, 1);
        homes.end_claim(1);
        homes.claim(CLIENT, SHARD, 2);
        // The first claim was served all the same, and its session given back since nobody waited for it.
        homes.serve(1);
        assert_eq!((homes.leave(CLIENT), homes.of(CLIENT)), (Some(SHARD), Some(SHARD)));
        homes.serve(2);
        assert_eq!((homes.leave(CLIENT), homes.of(CLIENT)), (Some(SHARD), None));
    }

    #[test]
    fn a_claim_that_leads_to_nothing_leaves_nothing_behind() {
        let mut homes = SessionShards::default();
        for ticket in 1..=2 {
            homes.claim(CLIENT, SHARD, ticket);
        }
        homes.end_claim(1);
        assert_eq!(homes.of(CLIENT), Some(SHARD), "the other one goes on");
        homes.end_claim(2);
        assert!(homes.claimed.is_empty() && homes.waiting.is_empty() && homes.served.is_empty());
    }
}
