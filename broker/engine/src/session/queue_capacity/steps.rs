//! Checking for room in a session, and applying the slow consumer policy.

use tautwire_session::{Change, Outbound, PendingMessage};

use super::SMALLEST_BYTES;
use crate::index::SessionIndex;
use crate::mode::{Acceptance, Mode};
use crate::operations::admin_query::QueueLimit;
use crate::session::drops::DropReason;
use crate::session::slow_consumer::SlowConsumer;
use crate::session::throttle::ThrottleCause;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// Makes room for a message in a session. Returns whether there is room.
    pub(crate) fn ensure_queue_space(&mut self, session: SessionIndex, delivery: &PendingMessage, topic: &str) -> bool {
        match M::accepts(self, session, delivery) {
            Acceptance::Yes => return true,
            Acceptance::No => return false,
            Acceptance::IfQueueHasRoom => {}
        }
        if !self.has_room_for(session, delivery.counted_bytes()) && !self.make_room_for(session, delivery, topic) {
            self.record_loss(session, topic);
            return false;
        }
        if !self.is_within_memory_limit(session, delivery.counted_bytes()) {
            self.throttle(session, topic, ThrottleCause::Memory);
        }
        true
    }

    /// Throttles publishers if a message of `topic` has filled the session and the policy affects them.
    #[inline]
    pub(crate) fn throttle_if_full(&mut self, session: SessionIndex, topic: &str) {
        if self.config.settings().slow_consumer.can_affect_publishers() {
            self.throttle_full_queue(session, topic);
        }
    }

    #[cold]
    fn throttle_full_queue(&mut self, session: SessionIndex, topic: &str) {
        if !self.has_room_for(session, SMALLEST_BYTES) && self.policy(session, topic).affects_publishers() {
            let cause = self.throttle_cause(session);
            self.throttle(session, topic, cause);
        }
    }

    /// The policy for a message of `topic` for which the session has no room.
    pub(crate) fn policy(&self, session: SessionIndex, topic: &str) -> SlowConsumer {
        self.config.settings().slow_consumer.policy(topic, self.user_of(session).map(|user| &**user))
    }

    /// The cause for blocking filters of a session with a full queue. The user is included only if there are rules for users.
    pub(crate) fn throttle_cause(&self, session: SessionIndex) -> ThrottleCause {
        let has_rules = !self.config.settings().slow_consumer.users.is_empty();
        ThrottleCause::Queue(self.user_of(session).filter(|_| has_rules).cloned())
    }

    /// Whether a throttled session has caught up so far that its filters can be unblocked.
    pub(crate) fn has_caught_up(&self, session: SessionIndex, cause: &ThrottleCause) -> bool {
        let Some(outbound) = self.sessions[session].outbound() else { return true };
        let quotas = self.quota_state.quotas();
        let has_memory = || outbound.memory_bytes() as u64 <= self.memory.client_max_bytes() / 2;
        match cause {
            ThrottleCause::Memory => has_memory(),
            ThrottleCause::Queue(_) => {
                outbound.queued() <= quotas.queue_messages / 2
                    && outbound.counted_bytes() <= quotas.queue_bytes / 2
                    && self.user_has_room_for(session, SMALLEST_BYTES)
                    && (!quotas.queue_memory || has_memory())
            }
        }
    }

    /// Whether the session has room for one more retained message of a replay. The first without room is counted as dropped, and the
    /// rest are omitted.
    pub(crate) fn can_queue_retained(&mut self, session: SessionIndex, topic: &str, counted_bytes: usize) -> bool {
        if !self.has_room_for(session, counted_bytes) {
            self.count_queue_full(session, counted_bytes);
            self.record_loss(session, topic);
            return false;
        }
        let held_bytes = self.sessions[session].outbound().map_or(0, Outbound::counted_bytes);
        let has_memory = self.memory.share().admits(held_bytes, 0).is_ok();
        if !has_memory {
            self.counters().dropped_memory_full.add(1);
            self.record_drop(session, DropReason::MemoryFull, topic);
        }
        has_memory
    }

    /// Whether changes of a session must be persisted before its client gets the acknowledgement.
    pub(crate) fn is_persisted(&self, session: SessionIndex) -> bool {
        self.is_fully_persistent(session) || M::is_session_persistent(self, session)
    }

    /// Whether the session and its user have room for one more message, queued or sent, of this counted size.
    #[inline]
    pub(crate) fn has_room_for(&self, session: SessionIndex, counted_bytes: usize) -> bool {
        self.session_has_room_for(session, counted_bytes) && self.user_has_room_for(session, counted_bytes)
    }

    /// Whether the session has room under its client's own quotas. An empty session accepts any message.
    #[inline]
    pub(crate) fn session_has_room_for(&self, session: SessionIndex, counted_bytes: usize) -> bool {
        let Some(outbound) = self.sessions[session].outbound() else { return true };
        let quotas = self.quota_state.quotas();
        let held_bytes = outbound.counted_bytes();
        let fits = held_bytes == 0 || held_bytes.saturating_add(counted_bytes) <= quotas.queue_bytes;
        fits && outbound.queued() < quotas.queue_messages && self.has_memory_for(outbound, counted_bytes)
    }

    /// Whether the session has room under its share of memory, if that limits the queue. A session with at most a sixteenth of all
    /// memory is never full, whatever others hold: if many of them use all memory, publishers are refused.
    #[inline]
    pub(crate) fn has_memory_for(&self, outbound: &Outbound, counted_bytes: usize) -> bool {
        if !self.quota_state.quotas().queue_memory {
            return true;
        }
        // The bytes in memory are at most the counted bytes.
        if self.memory.share().is_small_holder(outbound.counted_bytes().saturating_add(counted_bytes) as u64) {
            return true;
        }
        let held_bytes = outbound.memory_bytes().saturating_add(counted_bytes) as u64;
        self.memory.share().is_small_holder(held_bytes) || held_bytes <= self.memory.client_max_bytes()
    }

    /// The limit that leaves no room for one more message of this counted size, if any.
    pub(crate) fn queue_limit(&self, session: SessionIndex, counted_bytes: usize) -> Option<QueueLimit> {
        let outbound = self.sessions[session].outbound();
        if outbound.is_some_and(|outbound| !self.has_memory_for(outbound, counted_bytes)) {
            return Some(QueueLimit::Memory);
        }
        if !self.session_has_room_for(session, counted_bytes) {
            return Some(QueueLimit::Session);
        }
        (!self.user_has_room_for(session, counted_bytes)).then_some(QueueLimit::User)
    }

    /// Whether the user has room for one more message, over all of the user's clients.
    #[inline]
    pub(crate) fn user_has_room_for(&self, session: SessionIndex, counted_bytes: usize) -> bool {
        let user = self.sessions.user(session);
        user.is_none_or(|user| user.has_room_for_message(counted_bytes, &self.quota_state.quotas().of_user))
    }

    /// Whether one more message can be sent under the limits on bytes in flight and on the user's clients. A message larger than the
    /// limit is sent alone.
    #[inline]
    pub(crate) fn has_send_quota(&self, session: SessionIndex) -> bool {
        let quotas = self.quota_state.quotas();
        let sent_bytes = self.sessions[session].outbound().map_or(0, Outbound::sent_bytes);
        sent_bytes < quotas.in_flight_bytes
            && self.sessions.user(session).is_none_or(|user| user.can_send(&quotas.of_user))
    }

    /// Records the drop of the oldest queued message. Its topic is unknown if it is not in memory.
    #[cold]
    pub(crate) fn record_front_drop(&mut self, session: SessionIndex, reason: DropReason) {
        let front = self.sessions[session].outbound().and_then(Outbound::front).cloned();
        if let Some(front) = front {
            self.record_drop(session, reason, front.message.loaded().map_or("", |message| message.topic()));
        }
    }

    /// Whether dropping queued messages would make room. Unacknowledged messages may take it all.
    pub(crate) fn can_make_room_by_dropping(&self, session: SessionIndex, counted_bytes: usize) -> bool {
        let sent_bytes = self.sessions[session].outbound().map_or(0, Outbound::sent_bytes);
        sent_bytes == 0 || sent_bytes + counted_bytes <= self.quota_state.quotas().queue_bytes
    }

    /// Applies the slow consumer policy to a full session. Returns whether the session has room for the message now.
    #[cold]
    fn make_room_for(&mut self, session: SessionIndex, delivery: &PendingMessage, topic: &str) -> bool {
        let policy = self.policy(session, topic);
        if policy.affects_publishers() {
            // The message has been acknowledged already, or will be. Filters are blocked after it.
            return true;
        }
        self.count_queue_full(session, delivery.counted_bytes());
        match policy {
            SlowConsumer::DropNew | SlowConsumer::Refuse | SlowConsumer::PausePublisher => return false,
            SlowConsumer::Disconnect => {
                if let Some(connection) = self.sessions.connection(session) {
                    self.connections.end_for_overrun(connection);
                }
                return false;
            }
            SlowConsumer::DropOld => {}
        }
        if !self.can_make_room_by_dropping(session, delivery.counted_bytes()) {
            return false;
        }
        let mut dropped = 0;
        while !self.has_room_for(session, delivery.counted_bytes()) {
            if self.sessions[session].outbound().is_none_or(|outbound| outbound.queued() == 0) {
                self.counters().dropped_queue_full.add(dropped);
                return false;
            }
            self.record_front_loss(session);
            self.commit(session, Change::Unqueued);
            dropped += 1;
        }
        // The first was counted above.
        self.counters().dropped_queue_full.add(dropped - 1);
        true
    }

    /// Counts a message that is dropped because the session is full.
    pub(crate) fn count_queue_full(&self, session: SessionIndex, counted_bytes: usize) {
        self.counters().dropped_queue_full.add(1);
        if !self.user_has_room_for(session, counted_bytes) {
            self.counters().dropped_queue_full_for_user.add(1);
        }
        if self.queue_limit(session, counted_bytes) == Some(QueueLimit::Memory) {
            self.counters().dropped_queue_full_for_memory.add(1);
        }
    }
}
