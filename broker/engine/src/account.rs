//! What still fits into memory, and who has to wait or is refused because of it.
//!
//! QoS 0 is dropped where there is no room. A message of QoS 1 or 2 is let in by its publisher's shard or refused there: once
//! it has been acknowledged, every shard takes it. A session that has taken more than its share closes its filters for
//! further messages, on all shards, until its client has caught up.

use std::sync::Arc;

use tautwire_memory::{Charge, Kind, Ledger, Limits, Share};
use tautwire_session::Journal;

use crate::connections::{CONNECTION_BYTES, Reason};
use crate::hub::Hub;
use crate::place::{ConnectionIndex, SessionIndex};
use crate::sessions::Sessions;
use crate::throttle::Throttle;

/// What one more receiver of a message may take besides the message: its entry in a queue, with some for the growth of
/// the queue.
const RECEIVER_BYTES: usize = 160;
/// Output that each connection may have however scarce memory is: without it, nobody could be answered.
const OUTPUT_ALWAYS_BYTES: usize = 4 << 10;
/// Filters of a session that are closed. Of one that has more, the topics of what was too much for it are closed instead, as
/// many: closing all filters would take too long. What comes on more topics than that is kept as long as there is memory at all.
const CLOSED_MAX: usize = 8_192;
/// What a closed filter takes besides its text: a node of the tree and the session's key.
const CLOSED_FILTER_BYTES: usize = 128;

/// The account of memory as this shard sees it: what its clients hold, what it may still take, and who has taken more than its share.
pub(crate) struct Account {
    share: Share,
    /// Bytes that are free, less what has been taken since that was last looked at.
    spare_bytes: u64,
    /// As long as so many are spare, other shards need not be looked at.
    enough_bytes: u64,
    output_max_bytes: usize,
    /// Filters that are closed for the sake of sessions that hold too much, on all shards.
    closed: Arc<Throttle>,
    /// The sessions of this shard for which some are.
    throttled: Vec<Throttled>,
}

impl Account {
    /// Before it has been looked at. One connection may have so much output.
    pub(crate) fn new(share: Share, output_max_bytes: usize, closed: Arc<Throttle>) -> Account {
        Account { share, spare_bytes: u64::MAX, enough_bytes: 0, output_max_bytes, closed, throttled: Vec::new() }
    }

    /// What stands in it for this shard.
    #[inline]
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        self.share.ledger()
    }

    /// What fits, by the account of all shards.
    #[inline]
    pub(crate) fn share(&self) -> &Share {
        &self.share
    }

    /// From now on so much may be held.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.share.set_limits(limits);
    }

    /// Output of one connection beyond which it gets no more, and is not heard: the setting, or less where memory is scarce.
    #[inline]
    pub(crate) fn output_max_bytes(&self) -> usize {
        self.output_max_bytes
    }

    /// Whether an output in which so many bytes wait takes a message of QoS 0. An empty one takes any, so that one larger than the limit is not
    /// refused for ever.
    #[inline(always)]
    pub(crate) fn output_takes(&self, pending_bytes: usize, payload_bytes: usize) -> bool {
        pending_bytes == 0 || pending_bytes + payload_bytes <= self.output_max_bytes
    }

    /// Looks at all shards, at the beginning of each turn. One connection may have `output_max_bytes` of output.
    #[inline]
    fn look(&mut self, retained_bytes: u64, output_max_bytes: usize) {
        self.share.look(retained_bytes);
        self.note_spare(self.share.free_bytes());
        // A buffer that grows takes twice what is in it.
        let share_bytes = usize::try_from(self.share.common_of(self.spare_bytes) / 2).unwrap_or(usize::MAX);
        self.output_max_bytes = output_max_bytes.min(share_bytes.max(OUTPUT_ALWAYS_BYTES));
    }

    /// Whether there is room for more output of a client for whom `pending_bytes` wait.
    #[inline]
    pub(crate) fn has_spare(&self, pending_bytes: usize, more_bytes: usize) -> bool {
        (pending_bytes + more_bytes) as u64 <= self.spare_bytes
    }

    /// Takes room for output of a client for whom `pending_bytes` wait; false where there is none.
    #[inline]
    pub(crate) fn take_spare(&mut self, pending_bytes: usize, more_bytes: usize) -> bool {
        let fits = self.has_spare(pending_bytes, more_bytes);
        if fits {
            self.spare_bytes -= more_bytes as u64;
            if self.spare_bytes < self.enough_bytes {
                // Other shards take of it too.
                self.note_spare(self.spare_bytes.min(self.share.free_bytes()));
            }
        }
        fits
    }

    /// The spare bytes are as the account has them. They may fall so far before it is looked at again.
    #[inline]
    fn note_spare(&mut self, bytes: u64) {
        self.spare_bytes = bytes;
        self.enough_bytes = bytes.saturating_sub(self.share.step_bytes());
    }

    /// Whether one more connection may be there, before it holds anything. Connections take half of all at most.
    pub(crate) fn has_room_for_connection(&self) -> bool {
        let memory = self.share.memory();
        let held_bytes = memory.held(Kind::Connection) + memory.held(Kind::Transport);
        held_bytes + CONNECTION_BYTES as u64 <= self.share.limits().all_bytes / 2
    }

    /// Whether a message of QoS 1 or 2 for so many receivers of this shard can be let in.
    #[inline]
    pub(crate) fn has_room_for_message(&self, topic: &str, kept_bytes: usize, receivers: usize) -> bool {
        let wanted_bytes = kept_bytes.saturating_add(receivers.saturating_mul(RECEIVER_BYTES));
        self.share.admits(0, wanted_bytes).is_ok() && !self.closed.is_closed(topic)
    }

    /// What the messages of one session may take.
    #[inline]
    fn client_max_bytes(&self) -> u64 {
        self.spare_bytes.min(self.share.limits().client_bytes)
    }

    /// Closes the filters of a session that has more than its share, or the topic of what is too much for it. Says whether nothing was
    /// closed for it before.
    fn throttle(&mut self, sessions: &Sessions, session: SessionIndex, topic: &str) -> bool {
        let key = sessions.key(session);
        let known = self.throttled.iter().position(|throttled| throttled.session == session);
        let at = known.unwrap_or_else(|| {
            let subscriptions = sessions[session].subscriptions();
            let by_topic = subscriptions.len() > CLOSED_MAX;
            let mut charge = Charge::new(self.share.ledger(), Kind::Subscription);
            if !by_topic {
                for (filter, _) in subscriptions.iter() {
                    self.closed.close(filter, key);
                    charge.grow(filter.len() + CLOSED_FILTER_BYTES);
                }
            }
            self.throttled.push(Throttled { session, topics: by_topic.then(Vec::new), charge });
            self.throttled.len() - 1
        });
        let Throttled { topics, charge, .. } = &mut self.throttled[at];
        if let Some(topics) = topics
            && topics.len() < CLOSED_MAX
            && !topics.iter().any(|closed| **closed == *topic)
        {
            self.closed.close(topic, key);
            topics.push(topic.into());
            charge.grow(2 * topic.len() + CLOSED_FILTER_BYTES);
        }
        known.is_none()
    }

    /// Opens what is closed for sessions whose clients have caught up. To be called once a turn.
    #[inline]
    pub(crate) fn end_throttling(&mut self, sessions: &Sessions) {
        if !self.throttled.is_empty() {
            self.open_for_those_who_have_caught_up(sessions);
        }
    }

    #[cold]
    fn open_for_those_who_have_caught_up(&mut self, sessions: &Sessions) {
        let share_bytes = self.client_max_bytes() as usize;
        for throttled in std::mem::take(&mut self.throttled) {
            let outbound = sessions[throttled.session].outbound();
            if outbound.map_or(0, |outbound| outbound.memory_bytes()) > share_bytes / 2 {
                self.throttled.push(throttled);
            } else {
                self.open_all(sessions, throttled);
            }
        }
    }

    /// Opens what is closed for a session that ends.
    pub(crate) fn forget_throttled(&mut self, sessions: &Sessions, session: SessionIndex) {
        if let Some(at) = self.throttled.iter().position(|throttled| throttled.session == session) {
            let throttled = self.throttled.swap_remove(at);
            self.open_all(sessions, throttled);
        }
    }

    /// Opens one filter of a session that gives it up.
    pub(crate) fn open_filter(&mut self, sessions: &Sessions, session: SessionIndex, filter: &str) {
        let is_closed = |throttled: &&mut Throttled| throttled.session == session && throttled.topics.is_none();
        if let Some(throttled) = self.throttled.iter_mut().find(is_closed) {
            self.closed.open(filter, sessions.key(session));
            let Throttled { charge, .. } = throttled;
            charge.set(charge.bytes().saturating_sub(filter.len() + CLOSED_FILTER_BYTES));
        }
    }

    fn open_all(&self, sessions: &Sessions, Throttled { session, topics, charge: _given_back }: Throttled) {
        let key = sessions.key(session);
        match topics {
            Some(topics) => topics.iter().for_each(|topic| self.closed.open(topic, key)),
            None => {
                for (filter, _) in sessions[session].subscriptions().iter() {
                    self.closed.open(filter, key);
                }
            }
        }
    }
}

/// A session that holds more than its share.
#[derive(Debug)]
struct Throttled {
    session: SessionIndex,
    /// The topics that are closed for it; `None` where its filters are.
    topics: Option<Vec<Box<str>>>,
    /// What the closed filters or topics take.
    charge: Charge,
}

impl<J: Journal> Hub<J> {
    /// Looks at the account of all shards, at the beginning of each turn.
    #[inline]
    pub(crate) fn look_at_memory(&mut self) {
        self.connections.settle_pool();
        let output_max_bytes = self.regime.settings().connection_output_bytes;
        self.memory.look(self.common.exchange().retained_kept_bytes(), output_max_bytes);
    }

    /// What the client of a session holds.
    pub(crate) fn client_bytes(&self, session: SessionIndex) -> usize {
        let connection = self.sessions.connection(session);
        self.sessions[session].memory_bytes() + connection.map_or(0, |index| self.connection_bytes(index))
    }

    /// What a connection holds.
    pub(crate) fn connection_bytes(&self, index: ConnectionIndex) -> usize {
        self.connections[index].held_bytes()
    }

    /// Whether a session stays within its share with `more_bytes` on top.
    #[inline]
    pub(crate) fn is_within_share(&self, session: SessionIndex, more_bytes: usize) -> bool {
        let held_bytes = self.sessions[session].outbound().map_or(0, |outbound| outbound.memory_bytes()) as u64;
        held_bytes + more_bytes as u64 <= self.memory.client_max_bytes()
    }

    /// A session has more than its share, of which a message of `topic` is too much.
    #[cold]
    pub(crate) fn throttle(&mut self, session: SessionIndex, topic: &str) {
        let is_new = self.memory.throttle(&self.sessions, session, topic);
        self.counters().sessions_throttled.add(u64::from(is_new));
    }

    /// Hears publishers of 3.1.1 again that wait for memory. To be called once a turn.
    #[inline]
    pub(crate) fn retry_for_memory(&mut self) {
        for id in self.waiting.retries(self.clock.now_ms()) {
            self.hear_again(id, Reason::Memory);
        }
    }
}
