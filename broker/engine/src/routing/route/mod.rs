//! Routing of a published message to the sessions with a matching subscription.

mod steps;

use std::sync::Arc;

use tautwire_access::TopicStamp;
use tautwire_contracts::Contract;
use tautwire_message::Format;
use tautwire_protocol::{QoS, SubscriptionId};
use tautwire_router::{RetainError, Routes, ShardIndex};
use tautwire_session::LogState;
use tautwire_topics::{FilterTree, MatchCache, Reusable};

use crate::access::TopicStamps;
use crate::index::SessionIndex;
use crate::routing::contracts::ViolatedContract;
use crate::routing::metered::Meters;
use crate::session::slow_consumer::SlowConsumer;

/// The generation of a subscription that migrated here with its session. It is treated as if it had always existed here.
pub(crate) const MIGRATED: u64 = 0;

/// A subscription of one of the shard's sessions, as stored in the filter tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subscription {
    pub(super) session: SessionIndex,
    pub(super) identifier: Option<SubscriptionId>,
    /// The exchange's generation when the subscription was created, or [`MIGRATED`].
    pub(super) since: u64,
    pub(super) qos: QoS,
    pub(super) no_local: bool,
    pub(super) retain_as_published: bool,
    /// The requested payload format.
    pub(super) format: Option<Format>,
    /// The filter names the format (`$as/…`). The same session may also have the filter without a format.
    pub(super) format_from_filter: bool,
    /// The session is persistent.
    pub(super) is_persistent: bool,
}

impl Subscription {
    /// The key of a subscription among those with the same filter.
    pub(crate) fn key(&self) -> (SessionIndex, Option<Format>, bool) {
        (self.session, self.format, self.format_from_filter)
    }
}

/// The subscriptions, routes and contract that match a topic, as stored in the cache.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// Sorted by format (none first), then by session.
    pub(super) subscriptions: Vec<Subscription>,
    /// The number of subscriptions without a requested format.
    plain: usize,
    pub(crate) routes: Routes,
    /// The contract that payloads must satisfy.
    pub(super) contract: Option<Arc<Contract>>,
    /// Identifies the cache entry; `None` if the result is not cached.
    stamp: Option<TopicStamp>,
    /// The metered filters that match the topic.
    meters: Meters,
}

impl Reusable for Matches {
    fn clear(&mut self) {
        self.subscriptions.clear();
        self.routes.shares.clear();
        self.contract = None;
    }

    fn heap_bytes(&self) -> usize {
        self.subscriptions.capacity() * size_of::<Subscription>() + self.routes.shares.capacity() * size_of::<usize>()
    }
}

impl Matches {
    fn take_from(&mut self, tree: &FilterTree<Subscription>, topic: &str, is_selected: impl Fn(SessionIndex) -> bool) {
        let Matches { subscriptions, plain, .. } = self;
        tree.matches(topic, &mut |_, found| {
            subscriptions.extend(found.iter().filter(|subscription| is_selected(subscription.session)));
        });
        subscriptions.sort_unstable_by_key(|subscription| (subscription.format, subscription.session));
        *plain = subscriptions.partition_point(|subscription| subscription.format.is_none());
    }
}

impl Matches {
    /// Whether any matching subscription of QoS 1 or 2, on any shard, belongs to a persistent session.
    pub(crate) fn has_persistent(&self) -> bool {
        let is_persistent =
            |subscription: &Subscription| subscription.is_persistent && subscription.qos != QoS::AtMostOnce;
        !self.routes.persistent.is_empty()
            || self.subscriptions.iter().any(is_persistent)
            || self.routes.shares.iter().any(|group| group.is_persistent())
    }
}

impl SubscriptionTable {
    /// Makes all cached lookups stale.
    pub(crate) fn invalidate_matches(&mut self) {
        self.generation += 1;
    }

    /// Whether sessions of this shard have subscribed to a filter without a group.
    pub(crate) fn has_subscribers(&self, filter: &str) -> bool {
        self.tree.find(filter).is_some_and(|node| !self.tree.values(node).is_empty())
    }

    /// The subscriptions of selected sessions that match a topic.
    pub(crate) fn find_for_sessions(&self, topic: &str, is_selected: impl Fn(SessionIndex) -> bool) -> Matches {
        let mut matches = Matches::default();
        matches.take_from(&self.tree, topic, is_selected);
        matches
    }

    /// The matching subscriptions of selected sessions that were created on this node, no later than `generation`.
    #[cold]
    pub(crate) fn find_local(
        &self,
        topic: &str,
        generation: u64,
        is_selected: impl Fn(SessionIndex) -> bool,
    ) -> Matches {
        let mut matches = self.find_for_sessions(topic, is_selected);
        matches.subscriptions.retain(|held| held.since != MIGRATED && held.since <= generation);
        matches.plain = matches.subscriptions.partition_point(|subscription| subscription.format.is_none());
        matches
    }

    /// The matching subscriptions of selected sessions with QoS 1 or 2.
    pub(crate) fn find_acknowledged(&self, topic: &str, is_selected: impl Fn(SessionIndex) -> bool) -> Matches {
        let mut matches = self.find_for_sessions(topic, is_selected);
        matches.subscriptions.retain(|subscription| subscription.qos != QoS::AtMostOnce);
        matches.plain = matches.subscriptions.partition_point(|subscription| subscription.format.is_none());
        matches
    }
}

/// Why a message was not routed.
#[derive(Debug)]
pub(crate) enum RouteError {
    /// The access rules do not allow it.
    NotAuthorized,
    /// It violates the contract of its topic.
    ContractViolation(Box<ViolatedContract>),
    /// It cannot be retained.
    NotRetained(RetainError),
    /// There is no memory to queue it for its receivers.
    NoMemory,
    /// The queue of a receiver is full, and the policy affects the publisher.
    QueueFull(SlowConsumer),
    /// The channel to a shard with possible receivers is full.
    Congested(ShardIndex),
    /// The queue of a shared subscription has no room for it.
    ShareQueueFull,
    /// The message must be persisted, and the log accepts no writes.
    DiskUnavailable(LogState),
}

/// The source of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageSource {
    /// A session of this shard.
    Session(SessionIndex),
    /// The broker itself, or a session that has ended.
    Broker,
    /// Another shard, which has already handled shared subscriptions and the other shards.
    Shard,
    /// A replicated log or another node, which delivers it to all shards. The publisher's session, if it is on this shard.
    Log(Option<SessionIndex>),
}

impl MessageSource {
    /// Whether each shard receives the message independently.
    #[inline]
    pub(crate) fn reaches_all_shards(self) -> bool {
        matches!(self, MessageSource::Shard | MessageSource::Log(_))
    }
}

/// The shard's subscriptions, and the cache of lookups.
#[derive(Debug, Default)]
pub(crate) struct SubscriptionTable {
    pub(super) tree: FilterTree<Subscription>,
    cache: MatchCache<Matches>,
    stamps: TopicStamps,
    /// Incremented on every change of the tree or the contracts.
    pub(super) generation: u64,
}
