//! The sessions of a shard that have closed filters, and when these are opened again.
//!
//! A session that is not touched costs nothing: its filters are opened when it has given something back, and besides that a few
//! sessions are looked at each second, because others may have made room for them.

mod steps;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_protocol::QoS;
use tautwire_session::Session;

use crate::index::SessionIndex;
use crate::session::slow_consumer::SlowConsumers;
use crate::session::throttle::{Throttle, ThrottleCause, ThrottleEffect};

/// Filters that one session closes. For a session that has more, the topics of what was too much for it are closed instead, at most as
/// many: closing all filters would take too long. What comes on more topics than that is kept as long as there is memory at all.
const CLOSED_MAX: usize = 8_192;

/// What a closed filter takes besides its text, in the tree and in the list of its session.
const CLOSED_FILTER_BYTES: usize = 128;

/// The beginning of the filters of shared subscriptions. Their messages wait in the queues of groups.
const SHARED: &str = "$share/";

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
