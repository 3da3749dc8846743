//! What [`super`] does with several parts of a shard.

use tautwire_protocol::TopicFilter;

use super::{SHARED, ThrottledSessions};
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::session::throttle::ThrottleCause;
use crate::shard::ShardState;

/// How often sessions are looked at that have not given anything back, and how many at a time.
const CHECK_MS: u64 = 1_000;

const CHECKS_MAX: usize = 256;

impl<M: Mode> ShardState<M> {
    /// A session holds so much that a message of `topic` is too much for it. Publishers are stopped until it has given back enough.
    #[cold]
    pub(crate) fn throttle(&mut self, session: SessionIndex, topic: &str, cause: ThrottleCause) {
        let ShardState { memory, sessions, config, .. } = self;
        let ledger = memory.ledger().clone();
        let throttled = &mut memory.throttled;
        let is_new = match throttled.sessions.get(&session) {
            Some(known) if known.cause == cause || known.cause == ThrottleCause::Memory => {
                throttled.touch(session, topic);
                false
            }
            Some(_) => {
                throttled.open_all(session);
                throttled.close_all(session, &sessions[session], topic, cause, &ledger);
                false
            }
            None if throttled.blocked(topic, &config.settings().slow_consumer).is_some() => {
                throttled.add_covered(session)
            }
            None => {
                throttled.close_all(session, &sessions[session], topic, cause, &ledger);
                true
            }
        };
        self.counters().sessions_throttled.add(u64::from(is_new));
    }

    /// What a session holds has changed: where it has caught up, the filters that it has closed are opened.
    #[inline]
    pub(crate) fn open_throttled(&mut self, session: SessionIndex) {
        if !self.memory.throttled.is_empty() {
            self.open_if_caught_up(session);
        }
    }

    /// Looks at some sessions that have not given anything back, once a second. To be called once a turn.
    #[inline]
    pub(crate) fn check_throttled(&mut self) {
        if !self.memory.throttled.is_empty() && self.clock.now_ms() >= self.memory.throttled.next_check_ms {
            self.check_some_throttled();
        }
    }

    #[cold]
    fn check_some_throttled(&mut self) {
        let throttled = &mut self.memory.throttled;
        throttled.next_check_ms = self.clock.now_ms() + CHECK_MS;
        for _ in 0..CHECKS_MAX.min(throttled.turns.len()) {
            let throttled = &mut self.memory.throttled;
            let Some(session) = throttled.turns.pop_front() else { return };
            if throttled.sessions.contains_key(&session) {
                throttled.turns.push_back(session);
                self.open_if_caught_up(session);
            }
        }
    }

    #[cold]
    fn open_if_caught_up(&mut self, session: SessionIndex) {
        let throttled = self.memory.throttled.sessions.get(&session);
        if throttled.is_some_and(|throttled| self.has_caught_up(session, &throttled.cause)) {
            self.memory.throttled.open_all(session);
            self.close_for_next();
        }
    }

    /// Filters have been opened. Of the sessions that had relied on them, the first that still holds too much closes its own.
    fn close_for_next(&mut self) {
        while let Some(other) = self.memory.throttled.next_covered() {
            let cause = match self.has_caught_up(other, &ThrottleCause::Memory) {
                false => ThrottleCause::Memory,
                true => self.throttle_cause(other),
            };
            if !self.has_caught_up(other, &cause) {
                let ShardState { memory, sessions, .. } = self;
                let ledger = memory.ledger().clone();
                memory.throttled.close_all(other, &sessions[other], "", cause, &ledger);
                return;
            }
        }
    }

    /// Opens what is closed for a session that ends.
    #[inline]
    pub(crate) fn remove_throttled(&mut self, session: SessionIndex) {
        let throttled = &self.memory.throttled;
        if !throttled.is_empty() || !throttled.is_covered.is_empty() {
            self.reopen_all(session);
        }
    }

    #[cold]
    fn reopen_all(&mut self, session: SessionIndex) {
        self.memory.throttled.is_covered.remove(&session);
        if self.memory.throttled.open_all(session) {
            self.close_for_next();
        }
    }

    /// A session has subscribed. Where it holds too much, the new filter is closed like its others.
    pub(crate) fn close_new_filter(&mut self, session: SessionIndex, filter: &str) {
        let ThrottledSessions { closed, sessions, .. } = &mut self.memory.throttled;
        if let Some(throttled) = sessions.get_mut(&session)
            && !throttled.closes_topics
            && !filter.starts_with(SHARED)
            && !throttled.closed.iter().any(|closed| **closed == *filter)
        {
            throttled.close(closed, filter);
        }
    }

    /// Opens one filter of a session that gives it up.
    pub(crate) fn open_filter(&mut self, session: SessionIndex, filter: TopicFilter<'_>) {
        let ThrottledSessions { closed, sessions, .. } = &mut self.memory.throttled;
        if let Some(throttled) = sessions.get_mut(&session)
            && let Some(at) = throttled.closed.iter().position(|closed| **closed == *filter.as_str())
        {
            throttled.open(closed, at);
        }
    }
}
