//! What only routing knows of a shard, besides its subscriptions.

use tautwire_router::SessionKey;

use crate::connection::connections::{LoadQueue, Replay};
use crate::routing::discovery::PublishedContracts;
use crate::routing::metered::MeteredFilters;
use crate::routing::publish_packets::PublishPackets;
use crate::routing::scans::Scans;
use crate::routing::share_queue::ShareQueues;

/// The state of routing. Its parts are visible to routing only.
pub(crate) struct RoutingState {
    /// The encoded packets of the current message.
    pub(super) packets: PublishPackets,
    /// Searches for retained messages.
    pub(super) scans: Scans,
    /// Queues of shared subscriptions.
    pub(super) share_queues: ShareQueues,
    /// The topic filters by which messages are counted.
    pub(super) metered: MeteredFilters,
    /// The contracts that clients can discover.
    pub(super) published_contracts: PublishedContracts,
}

impl RoutingState {
    pub(crate) fn new(metered: MeteredFilters, has_discovery: bool) -> RoutingState {
        RoutingState {
            packets: PublishPackets::default(),
            scans: Scans::default(),
            share_queues: ShareQueues::default(),
            metered,
            published_contracts: PublishedContracts::new(has_discovery),
        }
    }

    /// Applies the metered filters of a new configuration. Returns whether they have changed.
    pub(crate) fn apply_metered(&mut self, metered: &MeteredFilters) -> bool {
        self.metered.apply(metered)
    }

    /// Continues to move the replay of an offline session to its queue.
    pub(crate) fn resume_replay(&mut self, replay: (SessionKey, Replay)) {
        self.scans.resume_replay(replay);
    }

    /// The messages read from disk for the queue of a shared subscription.
    pub(crate) fn share_load_queue(&mut self, share: &str) -> Option<&mut LoadQueue> {
        self.share_queues.load_queue(share)
    }

    /// Whether members of shared subscriptions have unanswered credit requests.
    #[inline]
    pub(crate) fn any_unanswered(&self) -> bool {
        self.share_queues.any_unanswered()
    }

    /// The time of the next check of a member of a shared subscription.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.share_queues.next_due_ms()
    }
}
