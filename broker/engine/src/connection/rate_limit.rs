//! Publish rate limits. Reading from a client over its rate is paused until it may continue. Nothing is dropped; packets behind the waiting
//! message wait too, and keep alive is suspended.

use crate::connection::authentication::identity_of;
use crate::connection::connections::PauseReason;
use crate::connection::quotas::PublishBucket;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::scheduling::jobs::{Job, JobProgress};
use crate::scheduling::work_budget::JOB_SLICE_STEPS;
use crate::shard::Shard;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// Counts a session's usage for the user of this connection, if there are user quotas.
    pub(crate) fn count_for_user(&mut self, index: ConnectionIndex, session: SessionIndex) {
        let ShardState { sessions, connections, quota_state, context, clock, .. } = self;
        let is_limited = quota_state.quotas().of_user.is_limited();
        let identity = identity_of(connections[index].auth_state()).filter(|_| is_limited);
        let user = identity.and_then(|identity| identity.user.clone());
        sessions.entry(session).assign_user(|session| {
            let user = user?;
            let owner = context.exchange().retained_owner(&retained_owner_of_user(&user));
            Some(quota_state.user_usage_of(&user, owner, session, clock.now_ms()))
        });
    }

    /// Starts the rate limit of a client with the bucket that it left when it was last connected.
    pub(crate) fn start_rate_limit(&mut self, index: ConnectionIndex, session: SessionIndex) {
        if let Some(bucket) = self.quota_state.take_bucket(self.sessions[session].name(), self.clock.now_ms()) {
            self.connections[index].set_publish_bucket(bucket);
        }
    }

    /// Stores the bucket of a client that disconnects.
    pub(crate) fn stop_rate_limit(&mut self, index: ConnectionIndex) {
        let Some(session) = self.connections[index].session() else { return };
        if let Some((bucket, resumes_at_ms)) = self.connections[index].clear_publish_bucket() {
            self.paused_readers.remove_rate(resumes_at_ms, self.connections.id(index));
            self.quota_state.store_bucket(self.sessions[session].name(), bucket, self.clock.now_ms());
        }
    }

    /// Takes a PUBLISH of `length` bytes from the client's rate, or pauses reading until it fits. Returns whether reading is paused.
    #[cold]
    pub(crate) fn pause_for_rate(&mut self, index: ConnectionIndex, length: usize) -> bool {
        let now_ms = self.clock.now_ms();
        let quotas = self.quota_state.quotas();
        let (rates, rates_of_user) = (quotas.publish, quotas.of_user.publish);
        let connection = &mut self.connections[index];
        let Some(session) = connection.session() else { return false };
        let bucket = connection.bucket_or_insert_with(|| PublishBucket::full(&rates, now_ms));
        bucket.apply_limits(&rates);
        let result = bucket.take(length, now_ms).and_then(|()| {
            let user = self.sessions.user(session);
            let result = user.map_or(Ok(()), |user| user.take_publish(length, &rates_of_user, now_ms));
            result.inspect_err(|_| bucket.refund(length))
        });
        let Err(resumes_at_ms) = result else { return false };
        let connection = &mut self.connections[index];
        connection.set_resume_at(resumes_at_ms);
        if connection.pause_reading(PauseReason::Rate) {
            self.counters().clients_paused_for_rate.add(1);
            self.paused_readers.wait_for_rate(resumes_at_ms, self.connections.id(index));
        }
        true
    }

    /// Refunds a PUBLISH that was not processed for another reason, and will be processed again.
    #[cold]
    pub(crate) fn refund_rate(&mut self, index: ConnectionIndex, length: usize) {
        if let Some(bucket) = self.connections[index].bucket() {
            bucket.refund(length);
        }
        if let Some(user) = self.connections[index].session().and_then(|session| self.sessions.user(session)) {
            user.refund_publish(length);
        }
    }

    /// Resumes clients whose rate allows it. Call it once a turn.
    #[inline]
    pub(crate) fn resume_rate_limited(&mut self) {
        if self.paused_readers.is_due_for_rate(self.clock.now_ms()) {
            self.resume_due_rate_limited();
        }
    }

    #[cold]
    fn resume_due_rate_limited(&mut self) {
        self.resume_rate_limited_until(self.clock.now_ms());
    }

    /// Resumes all: by a new rate they may continue sooner.
    #[cold]
    pub(crate) fn resume_all_rate_limited(&mut self) {
        self.resume_rate_limited_until(u64::MAX);
    }

    fn resume_rate_limited_until(&mut self, at_ms: u64) {
        while let Some(id) = self.paused_readers.next_for_rate(at_ms) {
            self.resume_reading(id, PauseReason::Rate);
        }
    }
}

impl<M: Mode> Shard<M> {
    /// Counts the usage of the sessions of connections from slot `next` on for their users, after user quotas were set.
    pub(crate) fn count_for_users(&mut self, next: usize) -> (JobProgress, usize) {
        let mut slots = self.state.connections.indices().skip(next);
        let slice: Vec<ConnectionIndex> = slots.by_ref().take(JOB_SLICE_STEPS).collect();
        let is_last = slots.next().is_none();
        for index in &slice {
            if let Some(session) = self.state.connections[*index].session() {
                self.state.count_for_user(*index, session);
            }
        }
        let steps = slice.len().max(1);
        (
            if is_last {
                JobProgress::Done
            } else {
                JobProgress::Unfinished(Job::CountSessionsOfUsers(next + slice.len()))
            },
            steps,
        )
    }
}

/// The name under which a user owns retained messages. No session has such a name, as a Client Identifier has no U+0000 [MQTT-1.5.4-2].
fn retained_owner_of_user(user: &str) -> String {
    format!("\0user\0{user}")
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::mode::Volatile;
    use tautwire_router::{Exchange, InterestChange, Placement, RetainedLimits, ShardIndex};

    use crate::{Chunk, ConnectionId, Settings, Shard, Shared};

    const NOW_MS: u64 = 1_700_000_000_000;
    /// QoS 1 to `t`.
    const PUBLISH: [u8; 8] = [0x32, 6, 0, 1, b't', 0, 1, b'x'];

    fn shard(messages: usize) -> Shard<Volatile> {
        let settings = Settings { publish_messages_per_s: 1, publish_burst_messages: messages, ..Settings::default() };
        let exchange = Exchange::with_placement(Placement::new(2, 0), RetainedLimits { messages: 1, bytes: 1_000 });
        let shared = Shared::new(settings, exchange);
        // A client on the other shard subscribes to the messages.
        let first = InterestChange { any: true, persistent: false };
        let (_, retained) = shared.exchange.subscribe(ShardIndex(1), "t", first, false);
        assert!(retained.is_none());
        Shard::new(ShardIndex(0), shared, Volatile, NOW_MS)
    }

    fn receive(shard: &mut Shard<Volatile>, id: ConnectionId, bytes: &[u8]) -> usize {
        shard.receive(id, &Chunk::from(bytes.to_vec()), 0..bytes.len(), NOW_MS)
    }

    fn connect(shard: &mut Shard<Volatile>) -> ConnectionId {
        let name = (b'a'..=b'z').find(|name| {
            let name = [*name];
            shard.state.context.exchange().owner(str::from_utf8(&name).expect("a letter")) == ShardIndex(0)
        });
        let id = shard.accept(NOW_MS).expect("there is room");
        let bytes = [0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, 1, name.expect("half of them are")];
        assert_eq!(receive(shard, id, &bytes), bytes.len());
        id
    }

    #[test]
    fn a_message_that_waits_for_another_shard_is_charged_once() {
        let mut shard = shard(2);
        let id = connect(&mut shard);
        shard.set_capacity(ShardIndex(1), 0);
        assert_eq!(receive(&mut shard, id, &PUBLISH), PUBLISH.len());
        for _ in 0..3 {
            assert_eq!(receive(&mut shard, id, &PUBLISH), 0, "the channel is full");
            let index = shard.state.connections.find(id).expect("it is there");
            assert!(shard.state.connections[index].clear_pause(PauseReason::ShardChannel, NOW_MS));
        }
        shard.state.outboxes.set_capacity(ShardIndex(1), 1);
        shard.state.outboxes.send(ShardIndex(1), |batches| batches.for_each(drop));
        assert_eq!(receive(&mut shard, id, &PUBLISH), PUBLISH.len());
        assert_eq!(receive(&mut shard, id, &PUBLISH), 0);
        let counters = shard.counters();
        assert_eq!((counters.clients_paused_for_rate.get(), counters.publishes_received.get()), (1, 2));
        // CONNECT is the third: a deferred packet is not counted as received.
        assert_eq!(counters.packets_received.get(), 3);
    }

    #[test]
    fn only_the_bucket_remains_of_a_client_that_disconnects_while_paused() {
        let mut shard = shard(1);
        shard.set_capacity(ShardIndex(1), 10);
        let id = connect(&mut shard);
        assert_eq!(receive(&mut shard, id, &PUBLISH.repeat(2)), PUBLISH.len());
        assert_eq!(shard.state.paused_readers.next_retry_ms(), Some(NOW_MS + 1_000));
        shard.connection_lost(id, NOW_MS);
        assert_eq!(shard.state.paused_readers.next_retry_ms(), None);
        let id = connect(&mut shard);
        assert_eq!(receive(&mut shard, id, &PUBLISH), 0);
    }
}
