//! Whether the broker accepts a message of QoS 1 or 2. This is decided before the message is delivered or retained.

use tautwire_message::MessageRef;
use tautwire_protocol::QoS;
use tautwire_router::{Routes, ShardIndex};

use crate::mode::Mode;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::{Matches, MessageSource, RouteError};
use crate::session::slow_consumer::SlowConsumer;
use crate::session::throttle::ThrottleEffect;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// Checks that there is room for a message of QoS 1 or 2 for all receivers: in memory, on disk, and in queues.
    #[inline]
    pub(crate) fn check_capacity(&self, outgoing: &OutgoingPublish<'_>, matches: &Matches) -> Result<(), RouteError> {
        let MessageRef { topic, .. } = outgoing.message;
        let Routes { shards, shares, .. } = &matches.routes;
        let receivers = matches.subscriptions.len() + shares.len() + shards.without(self.context.shard()).count();
        if !self.memory.has_room_for_message(outgoing.message.allocated_bytes(), receivers) {
            return Err(RouteError::NoMemory);
        }
        match self.throttled.effect_on(topic, &self.config.settings().slow_consumer) {
            None => {}
            Some(ThrottleEffect::NoMemory) => return Err(RouteError::NoMemory),
            Some(ThrottleEffect::Refused) => return Err(RouteError::QueueFull(SlowConsumer::Refuse)),
            Some(ThrottleEffect::Paused) => return Err(RouteError::QueueFull(SlowConsumer::PausePublisher)),
        }
        if !shares.is_empty() && self.is_share_queue_full(shares, outgoing.message.allocated_bytes()) {
            return Err(RouteError::ShareQueueFull);
        }
        if let Some(state) = self.disk_error_for(outgoing, matches) {
            return Err(RouteError::DiskUnavailable(state));
        }
        Ok(())
    }

    /// The shard whose full channel prevents a message from being accepted now, if any.
    ///
    /// Only messages of QoS 1 or 2 from clients are delayed: such a publisher can be paused before its message has had any effect. If
    /// the receivers are not known yet, every full channel counts: the member of a shared subscription is picked later, and a message
    /// that violates its contract may be published to another topic.
    #[cold]
    pub(crate) fn congested(
        &self,
        outgoing: &OutgoingPublish<'_>,
        publisher: MessageSource,
        matches: &Matches,
    ) -> Option<ShardIndex> {
        let can_wait = matches!(publisher, MessageSource::Session(_)) && outgoing.message.qos != QoS::AtMostOnce;
        if !can_wait || outgoing.is_admitted {
            return None;
        }
        let first = self.outboxes.first_full()?;
        let Routes { shards, shares, .. } = &matches.routes;
        if !shares.is_empty() || matches.contract.is_some() || !M::KNOWS_RECEIVERS {
            return Some(first);
        }
        shards.without(self.context.shard()).into_iter().find(|shard| self.outboxes.is_full_to(*shard))
    }
}
