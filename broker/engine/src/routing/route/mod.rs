//! From a published message to the sessions that want it.

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

/// A subscription with which its session came from another node. It is as if it had always been there.
pub(crate) const MIGRATED: u64 = 0;

/// A subscription of one of the shard's sessions, as the tree holds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subscription {
    pub(crate) session: SessionIndex,
    pub(crate) identifier: Option<SubscriptionId>,
    /// The exchange's generation when the subscription was made, or [`MIGRATED`].
    pub(crate) since: u64,
    pub(crate) qos: QoS,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
    /// The format in which payloads are wanted.
    pub(crate) format: Option<Format>,
    /// The filter says so itself, and the same filter without that may be there too.
    pub(crate) by_filter: bool,
    /// The session is written down.
    pub(crate) is_persistent: bool,
}

impl Subscription {
    /// What tells subscriptions of one filter apart.
    pub(crate) fn key(&self) -> (SessionIndex, Option<Format>, bool) {
        (self.session, self.format, self.by_filter)
    }
}

/// What a topic matches, as the cache holds it.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// Sorted by format, those without one first, then by session.
    pub(crate) subscriptions: Vec<Subscription>,
    /// How many want payloads as they were published.
    plain: usize,
    pub(crate) routes: Routes,
    /// The contract that payloads must keep to.
    pub(crate) contract: Option<Arc<Contract>>,
    /// Names the entry; `None` for what is not remembered.
    stamp: Option<TopicStamp>,
    /// The filters by which its messages are counted.
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
    fn take_from(&mut self, tree: &FilterTree<Subscription>, topic: &str, is_meant: impl Fn(SessionIndex) -> bool) {
        let Matches { subscriptions, plain, .. } = self;
        tree.matches(topic, &mut |_, found| {
            subscriptions.extend(found.iter().filter(|subscription| is_meant(subscription.session)));
        });
        subscriptions.sort_unstable_by_key(|subscription| (subscription.format, subscription.session));
        *plain = subscriptions.partition_point(|subscription| subscription.format.is_none());
    }
}

impl Matches {
    /// Whether there is a session among all who want QoS 1 or 2 that is written down, on whichever shard.
    pub(crate) fn has_persistent(&self) -> bool {
        let wants_kept =
            |subscription: &Subscription| subscription.is_persistent && subscription.qos != QoS::AtMostOnce;
        !self.routes.persistent.is_empty()
            || self.subscriptions.iter().any(wants_kept)
            || self.routes.shares.iter().any(|group| group.is_persistent())
    }
}

impl SubscriptionTable {
    /// The subscriptions of some sessions that match a topic.
    pub(crate) fn find_for_sessions(&self, topic: &str, is_meant: impl Fn(SessionIndex) -> bool) -> Matches {
        let mut matches = Matches::default();
        matches.take_from(&self.tree, topic, is_meant);
        matches
    }

    /// The subscriptions of some sessions that match a topic, were made while the session was served here, and no later than `generation`.
    #[cold]
    pub(crate) fn find_local(&self, topic: &str, generation: u64, is_meant: impl Fn(SessionIndex) -> bool) -> Matches {
        let mut matches = self.find_for_sessions(topic, is_meant);
        matches.subscriptions.retain(|held| held.since != MIGRATED && held.since <= generation);
        matches.plain = matches.subscriptions.partition_point(|subscription| subscription.format.is_none());
        matches
    }

    /// The subscriptions of some sessions by which they get acknowledged messages of a topic.
    pub(crate) fn find_acknowledged(&self, topic: &str, is_meant: impl Fn(SessionIndex) -> bool) -> Matches {
        let mut matches = self.find_for_sessions(topic, is_meant);
        matches.subscriptions.retain(|subscription| subscription.qos != QoS::AtMostOnce);
        matches.plain = matches.subscriptions.partition_point(|subscription| subscription.format.is_none());
        matches
    }
}

/// Why a message went to nobody.
#[derive(Debug)]
pub(crate) enum RouteError {
    /// The access rules do not allow it.
    NotAuthorized,
    /// It breaks the contract of its topic.
    ContractBroken(Box<ViolatedContract>),
    /// It may not be retained.
    NotRetained(RetainError),
    /// There is no memory to keep it for those who want it.
    NoMemory,
    /// The queue of somebody who wants it is full, and the publisher takes the consequence.
    QueueFull(SlowConsumer),
    /// The channel to a shard is full on which somebody may want it.
    Congested(ShardIndex),
    /// The queue of a shared subscription has no room for it.
    ShareQueueFull,
    /// The log does not take what would have to be kept.
    DiskUnavailable(LogState),
}

/// Where a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageSource {
    /// A session of this shard.
    Session(SessionIndex),
    /// The broker itself, or a session that has ended.
    Broker,
    /// Another shard. It has seen to shared subscriptions and to the other shards.
    Shard,
    /// A log of several nodes, or another node, which brings it to all shards. The session of its publisher where that is here.
    Log(Option<SessionIndex>),
}

impl MessageSource {
    /// Whether each shard gets the message by itself.
    #[inline]
    pub(crate) fn reaches_all_shards(self) -> bool {
        matches!(self, MessageSource::Shard | MessageSource::Log(_))
    }
}

/// The shard's subscriptions and what is remembered of looking them up.
#[derive(Debug, Default)]
pub(crate) struct SubscriptionTable {
    pub(crate) tree: FilterTree<Subscription>,
    cache: MatchCache<Matches>,
    stamps: TopicStamps,
    /// Counts the changes of the tree and of the contracts.
    pub(crate) generation: u64,
}
