//! Which shard hears what is decided about a client.

use std::collections::HashMap;

use tautwire_cluster::names::ClientKey;
use tautwire_router::ShardIndex;

/// The shards that serve clients, or are about to.
#[derive(Default)]
pub(super) struct Homes(HashMap<ClientKey, Home>);

struct Home {
    /// The ticket of the last claim.
    claimed: u64,
    shard: ShardIndex,
    /// That claim is served, and none before it.
    is_served: bool,
}

impl Homes {
    /// A shard claims the session of a client.
    pub(super) fn claim(&mut self, client: ClientKey, shard: ShardIndex, ticket: u64) {
        self.0.insert(client, Home { claimed: ticket, shard, is_served: false });
    }

    /// The claim of this ticket is served.
    pub(super) fn serve(&mut self, client: ClientKey, ticket: u64) {
        if let Some(home) = self.0.get_mut(&client) {
            home.is_served = home.claimed == ticket;
        }
    }

    /// Nobody waits for the claim of this ticket any more.
    pub(super) fn abandon(&mut self, client: ClientKey, ticket: u64) {
        if self.0.get(&client).is_some_and(|home| home.claimed == ticket) {
            self.0.remove(&client);
        }
    }

    /// A session is not served here any more. Its client may have come back already: then the shard hears of the claim that follows.
    pub(super) fn leave(&mut self, client: ClientKey) -> Option<ShardIndex> {
        let home = self.0.get(&client)?;
        let shard = home.shard;
        if home.is_served {
            self.0.remove(&client);
        }
        Some(shard)
    }

    pub(super) fn of(&self, client: ClientKey) -> Option<ShardIndex> {
        self.0.get(&client).map(|home| home.shard)
    }

    /// No session is served any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientKey = ClientKey(7);
    const SHARD: ShardIndex = ShardIndex(1);

    #[test]
    fn who_leaves_is_forgotten() {
        let mut homes = Homes::default();
        homes.claim(CLIENT, SHARD, 1);
        homes.serve(CLIENT, 1);
        assert_eq!((homes.of(CLIENT), homes.leave(CLIENT), homes.of(CLIENT)), (Some(SHARD), Some(SHARD), None));
    }

    #[test]
    fn who_has_come_back_before_an_earlier_claim_was_left_is_not() {
        let mut homes = Homes::default();
        homes.claim(CLIENT, SHARD, 1);
        homes.abandon(CLIENT, 1);
        homes.claim(CLIENT, SHARD, 2);
        // The first claim was served all the same, and its session given back since nobody waited for it.
        homes.serve(CLIENT, 1);
        assert_eq!((homes.leave(CLIENT), homes.of(CLIENT)), (Some(SHARD), Some(SHARD)));
        homes.serve(CLIENT, 2);
        assert_eq!((homes.leave(CLIENT), homes.of(CLIENT)), (Some(SHARD), None));
    }

    #[test]
    fn a_claim_that_was_abandoned_leaves_nothing_behind() {
        let mut homes = Homes::default();
        homes.claim(CLIENT, SHARD, 1);
        homes.abandon(CLIENT, 1);
        assert_eq!(homes.of(CLIENT), None);
    }
}
