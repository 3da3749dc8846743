//! The sessions of a shard that block filters, and when these are unblocked.
//!
//! An idle session costs nothing: its filters are unblocked when it frees something. In addition, some sessions are checked each
//! second, because others may have made room for them.

mod steps;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_protocol::QoS;
use tautwire_session::Session;

use crate::index::SessionIndex;
use crate::session::slow_consumer::SlowConsumers;
use crate::session::throttle::{Throttle, ThrottleCause, ThrottleEffect};

/// The maximum number of filters that one session blocks. For a session with more, the topics of the messages beyond its limit are
/// blocked instead, up to the same number: blocking all filters would take too long. Messages on further topics are queued as long as
/// there is any memory.
const BLOCKED_MAX: usize = 8_192;

/// The memory of a blocked filter besides its text, in the tree and in the list of its session.
const BLOCKED_FILTER_BYTES: usize = 128;

/// The prefix of the filters of shared subscriptions. Their messages are in the queues of groups.
const SHARED: &str = "$share/";

/// The sessions of one shard that block filters.
#[derive(Debug)]
pub(crate) struct ThrottledSessions {
    throttle: Arc<Throttle>,
    sessions: HashMap<SessionIndex, ThrottledSession>,
    /// The order of the checks. Some entries may have unblocked their filters since.
    check_queue: VecDeque<SessionIndex>,
    next_check_ms: u64,
    /// Sessions that block nothing because the topic was blocked already. When filters are unblocked, one of these blocks its own.
    covered_queue: VecDeque<SessionIndex>,
    covered: HashSet<SessionIndex>,
}

/// A session that blocks filters.
#[derive(Debug)]
struct ThrottledSession {
    cause: ThrottleCause,
    /// Filters, or with `blocks_topics` the topics of messages beyond the limit.
    blocked_filters: Vec<Box<str>>,
    blocks_topics: bool,
    /// The memory for them.
    charge: Charge,
}

impl ThrottledSession {
    fn block(&mut self, throttle: &Throttle, filter: &str) {
        if self.blocked_filters.len() < BLOCKED_MAX {
            throttle.block(filter, &self.cause);
            self.blocked_filters.push(filter.into());
            self.charge.grow(2 * filter.len() + BLOCKED_FILTER_BYTES);
        }
    }

    fn unblock(&mut self, throttle: &Throttle, at: usize) {
        let filter = self.blocked_filters.swap_remove(at);
        throttle.unblock(&filter, &self.cause);
        self.charge.set(self.charge.bytes().saturating_sub(2 * filter.len() + BLOCKED_FILTER_BYTES));
    }
}

impl ThrottledSessions {
    pub(crate) fn new(throttle: Arc<Throttle>) -> ThrottledSessions {
        ThrottledSessions {
            throttle,
            sessions: HashMap::new(),
            check_queue: VecDeque::new(),
            next_check_ms: 0,
            covered_queue: VecDeque::new(),
            covered: HashSet::new(),
        }
    }

    /// The effect of blocked filters on a message of `topic`, if any.
    #[inline]
    pub(crate) fn effect_on(&self, topic: &str, policies: &SlowConsumers) -> Option<ThrottleEffect> {
        self.throttle.effect_on(topic, policies)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The time of the next check of sessions.
    #[inline]
    pub(crate) fn next_check_ms(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.next_check_ms)
    }

    /// Blocks `topic` too for a session that blocks topics instead of filters.
    fn block_topic(&mut self, session: SessionIndex, topic: &str) {
        let ThrottledSessions { throttle, sessions, .. } = self;
        if let Some(throttled) = sessions.get_mut(&session)
            && throttled.blocks_topics
            && !throttled.blocked_filters.iter().any(|blocked| **blocked == *topic)
        {
            throttled.block(throttle, topic);
        }
    }

    fn block_filters(
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
        let blocks_topics = subscriptions.len() > BLOCKED_MAX;
        let charge = Charge::new(ledger, Kind::Subscription);
        let mut throttled = ThrottledSession { cause, blocked_filters: Vec::new(), blocks_topics, charge };
        if blocks_topics {
            throttled.block(&self.throttle, topic);
        } else {
            // Messages that are delivered at QoS 0 are not queued.
            let queueing = subscriptions
                .iter()
                .filter(|(filter, record)| record.options.qos != QoS::AtMostOnce && !filter.starts_with(SHARED));
            queueing.for_each(|(filter, _)| throttled.block(&self.throttle, filter));
        }
        self.sessions.insert(index, throttled);
        self.check_queue.push_back(index);
    }

    /// Unblocks the filters of a session. Returns whether it had blocked any.
    fn unblock_filters(&mut self, session: SessionIndex) -> bool {
        let Some(mut throttled) = self.sessions.remove(&session) else { return false };
        while let Some(last) = throttled.blocked_filters.len().checked_sub(1) {
            throttled.unblock(&self.throttle, last);
        }
        true
    }

    fn add_covered(&mut self, session: SessionIndex) -> bool {
        let is_new = self.covered.insert(session);
        if is_new {
            self.covered_queue.push_back(session);
        }
        is_new
    }

    fn next_covered(&mut self) -> Option<SessionIndex> {
        loop {
            let session = self.covered_queue.pop_front()?;
            // Sessions that have ended are no longer in the set.
            if self.covered.remove(&session) {
                return Some(session);
            }
        }
    }
}
