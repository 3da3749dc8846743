//! Blocking and unblocking filters as sessions fall behind and catch up.

use tautwire_protocol::TopicFilter;

use super::{SHARED, ThrottledSessions};
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::session::throttle::ThrottleCause;
use crate::shard::ShardState;

/// The interval between checks of sessions.
const CHECK_MS: u64 = 1_000;

/// The maximum number of sessions in one check.
const CHECKS_MAX: usize = 256;

impl<M: Mode> ShardState<M> {
    /// Blocks the filters of a session that has no room for a message of `topic`, until it has caught up.
    #[cold]
    pub(crate) fn throttle(&mut self, session: SessionIndex, topic: &str, cause: ThrottleCause) {
        let ShardState { throttled, memory, sessions, config, .. } = self;
        let is_new = match throttled.sessions.get(&session) {
            Some(known) if known.cause == cause || known.cause == ThrottleCause::Memory => {
                throttled.block_topic(session, topic);
                false
            }
            Some(_) => {
                throttled.unblock_filters(session);
                throttled.block_filters(session, &sessions[session], topic, cause, memory.ledger());
                false
            }
            None if throttled.effect_on(topic, &config.settings().slow_consumer).is_some() => {
                throttled.add_covered(session)
            }
            None => {
                throttled.block_filters(session, &sessions[session], topic, cause, memory.ledger());
                true
            }
        };
        self.counters().sessions_throttled.add(u64::from(is_new));
    }

    /// Unblocks the filters of a session if it has caught up. Called when the session has freed something.
    #[inline]
    pub(crate) fn unblock_caught_up(&mut self, session: SessionIndex) {
        if !self.throttled.is_empty() {
            self.unblock_if_caught_up(session);
        }
    }

    /// Checks some throttled sessions, once per second. Called once per turn.
    #[inline]
    pub(crate) fn check_throttled(&mut self) {
        if !self.throttled.is_empty() && self.clock.now_ms() >= self.throttled.next_check_ms {
            self.check_some_throttled();
        }
    }

    #[cold]
    fn check_some_throttled(&mut self) {
        let throttled = &mut self.throttled;
        throttled.next_check_ms = self.clock.now_ms() + CHECK_MS;
        for _ in 0..CHECKS_MAX.min(throttled.check_queue.len()) {
            let throttled = &mut self.throttled;
            let Some(session) = throttled.check_queue.pop_front() else { return };
            if throttled.sessions.contains_key(&session) {
                throttled.check_queue.push_back(session);
                self.unblock_if_caught_up(session);
            }
        }
    }

    #[cold]
    fn unblock_if_caught_up(&mut self, session: SessionIndex) {
        let throttled = self.throttled.sessions.get(&session);
        if throttled.is_some_and(|throttled| self.has_caught_up(session, &throttled.cause)) {
            self.throttled.unblock_filters(session);
            self.block_for_next_covered();
        }
    }

    /// After filters were unblocked, blocks those of the first covered session that is still over its limit.
    fn block_for_next_covered(&mut self) {
        while let Some(other) = self.throttled.next_covered() {
            let cause = match self.has_caught_up(other, &ThrottleCause::Memory) {
                false => ThrottleCause::Memory,
                true => self.throttle_cause(other),
            };
            if !self.has_caught_up(other, &cause) {
                let ShardState { throttled, memory, sessions, .. } = self;
                throttled.block_filters(other, &sessions[other], "", cause, memory.ledger());
                return;
            }
        }
    }

    /// Unblocks the filters of a session that ends.
    #[inline]
    pub(crate) fn remove_throttled(&mut self, session: SessionIndex) {
        let throttled = &self.throttled;
        if !throttled.is_empty() || !throttled.covered.is_empty() {
            self.unblock_session(session);
        }
    }

    #[cold]
    fn unblock_session(&mut self, session: SessionIndex) {
        self.throttled.covered.remove(&session);
        if self.throttled.unblock_filters(session) {
            self.block_for_next_covered();
        }
    }

    /// Blocks a new filter of a session whose other filters are blocked.
    pub(crate) fn block_new_filter(&mut self, session: SessionIndex, filter: &str) {
        let ThrottledSessions { throttle, sessions, .. } = &mut self.throttled;
        if let Some(throttled) = sessions.get_mut(&session)
            && !throttled.blocks_topics
            && !filter.starts_with(SHARED)
            && !throttled.blocked_filters.iter().any(|blocked| **blocked == *filter)
        {
            throttled.block(throttle, filter);
        }
    }

    /// Unblocks one filter of a session that has unsubscribed from it.
    pub(crate) fn unblock_filter(&mut self, session: SessionIndex, filter: TopicFilter<'_>) {
        let ThrottledSessions { throttle, sessions, .. } = &mut self.throttled;
        if let Some(throttled) = sessions.get_mut(&session)
            && let Some(at) = throttled.blocked_filters.iter().position(|blocked| **blocked == *filter.as_str())
        {
            throttled.unblock(throttle, at);
        }
    }
}
