//! The sessions of a shard that have closed filters, and when these are opened again.
//!
//! A session that is not touched costs nothing: its filters are opened when it has given something back, and besides that a few
//! sessions are looked at each second, because others may have made room for them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_protocol::{QoS, TopicFilter};
use tautwire_session::Session;

use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::slow_consumer::SlowConsumers;
use crate::state::ShardState;
use crate::throttle::{Throttle, ThrottleCause, ThrottleEffect};

/// Filters that one session closes. For a session that has more, the topics of what was too much for it are closed instead, at most as
/// many: closing all filters would take too long. What comes on more topics than that is kept as long as there is memory at all.
const CLOSED_MAX: usize = 8_192;
/// What a closed filter takes besides its text, in the tree and in the list of its session.
const CLOSED_FILTER_BYTES: usize = 128;
/// The beginning of the filters of shared subscriptions. Their messages wait in the queues of groups.
const SHARED: &str = "$share/";
/// How often sessions are looked at that have not given anything back, and how many at a time.
const CHECK_MS: u64 = 1_000;
const CHECKS_MAX: usize = 256;

/// The sessions of one shard that have closed filters.
#[derive(Debug)]
pub(crate) struct ThrottledSessions {
    closed: Arc<Throttle>,
    sessions: HashMap<SessionIndex, ThrottledSession>,
    /// The order in which they are looked at. Some may have opened their filters since.
    turns: VecDeque<SessionIndex>,
    next_check_ms: u64,
    /// Sessions that have closed nothing, because the topic was closed already. One of them closes its filters when others are opened.
    others: VecDeque<SessionIndex>,
    is_covered: HashSet<SessionIndex>,
}

/// A session that has closed filters.
#[derive(Debug)]
struct ThrottledSession {
    cause: ThrottleCause,
    /// Filters, or the topics of what was too much.
    closed: Vec<Box<str>>,
    closes_topics: bool,
    /// What they take.
    charge: Charge,
}

impl ThrottledSession {
    fn close(&mut self, throttle: &Throttle, filter: &str) {
        if self.closed.len() < CLOSED_MAX {
            throttle.close(filter, &self.cause);
            self.closed.push(filter.into());
            self.charge.grow(2 * filter.len() + CLOSED_FILTER_BYTES);
        }
    }

    fn open(&mut self, throttle: &Throttle, at: usize) {
        let filter = self.closed.swap_remove(at);
        throttle.open(&filter, &self.cause);
        self.charge.set(self.charge.bytes().saturating_sub(2 * filter.len() + CLOSED_FILTER_BYTES));
    }
}

impl ThrottledSessions {
    pub(crate) fn new(closed: Arc<Throttle>) -> ThrottledSessions {
        ThrottledSessions {
            closed,
            sessions: HashMap::new(),
            turns: VecDeque::new(),
            next_check_ms: 0,
            others: VecDeque::new(),
            is_covered: HashSet::new(),
        }
    }

    /// What stops a message of `topic`, if something does.
    #[inline]
    pub(crate) fn blocked(&self, topic: &str, policies: &SlowConsumers) -> Option<ThrottleEffect> {
        self.closed.blocked(topic, policies)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// When a session is looked at although it has not given anything back.
    #[inline]
    pub(crate) fn next_check_ms(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.next_check_ms)
    }

    /// A message of `topic` was too much for a session that closes filters already.
    fn touch(&mut self, session: SessionIndex, topic: &str) {
        let ThrottledSessions { closed, sessions, .. } = self;
        if let Some(throttled) = sessions.get_mut(&session)
            && throttled.closes_topics
            && !throttled.closed.iter().any(|closed| **closed == *topic)
        {
            throttled.close(closed, topic);
        }
    }

    fn close_all(
        &mut self,
        index: SessionIndex,
        session: &Session,
        topic: &str,
        cause: ThrottleCause,
        ledger: &Arc<MemoryLedger>,
    ) {
        if self.sessions.contains_key(&index) {
            return;
        }
        let subscriptions = session.subscriptions();
        let closes_topics = subscriptions.len() > CLOSED_MAX;
        let charge = Charge::new(ledger, Kind::Subscription);
        let mut throttled = ThrottledSession { cause, closed: Vec::new(), closes_topics, charge };
        if closes_topics {
            throttled.close(&self.closed, topic);
        } else {
            // What is delivered at QoS 0 does not wait.
            let waits = subscriptions
                .iter()
                .filter(|(filter, record)| record.options.qos != QoS::AtMostOnce && !filter.starts_with(SHARED));
            waits.for_each(|(filter, _)| throttled.close(&self.closed, filter));
        }
        self.sessions.insert(index, throttled);
        self.turns.push_back(index);
    }

    /// Opens what a session has closed; says whether it had closed something.
    fn open_all(&mut self, session: SessionIndex) -> bool {
        let Some(mut throttled) = self.sessions.remove(&session) else { return false };
        while let Some(last) = throttled.closed.len().checked_sub(1) {
            throttled.open(&self.closed, last);
        }
        true
    }

    fn add_covered(&mut self, session: SessionIndex) -> bool {
        let is_new = self.is_covered.insert(session);
        if is_new {
            self.others.push_back(session);
        }
        is_new
    }

    fn next_covered(&mut self) -> Option<SessionIndex> {
        loop {
            let session = self.others.pop_front()?;
            // Those that have ended since are not in the set any more.
            if self.is_covered.remove(&session) {
                return Some(session);
            }
        }
    }
}

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
