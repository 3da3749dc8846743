//! What still fits into memory, and who has to wait or is refused because of it.
//!
//! QoS 0 is dropped where there is no room. A message of QoS 1 or 2 is let in by its publisher's shard or refused there: once
//! it has been acknowledged, every shard takes it. A session that has taken more than its share closes its filters for
//! further messages, on all shards, until its client has caught up.

use std::sync::Arc;

use tautwire_memory::{Charge, Kind};
use tautwire_session::Journal;

use crate::connections::{CONNECTION_BYTES, Reason};
use crate::hub::Hub;
use crate::place::{ConnectionIndex, SessionIndex};
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

/// What this shard may still take, and who has taken more than its share.
#[derive(Debug)]
pub(crate) struct Spare {
    /// Bytes that are free, less what has been taken since that was last looked at.
    bytes: u64,
    /// As long as so many are spare, other shards need not be looked at.
    enough_bytes: u64,
    output_max_bytes: usize,
    /// Filters that are closed for the sake of sessions that hold too much, on all shards.
    closed: Arc<Throttle>,
    /// The sessions of this shard for which some are.
    throttled: Vec<Throttled>,
}

impl Spare {
    /// Before the account has been looked at. One connection may have so much output.
    pub(crate) fn new(output_max_bytes: usize, closed: Arc<Throttle>) -> Spare {
        Spare { bytes: u64::MAX, enough_bytes: 0, output_max_bytes, closed, throttled: Vec::new() }
    }

    /// Output of one connection beyond which it gets no more, and is not heard: the setting, or less where memory is scarce.
    #[inline]
    pub(crate) fn output_max_bytes(&self) -> usize {
        self.output_max_bytes
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
        self.pool.settle();
        self.memory.look(self.exchange.retained_kept_bytes());
        self.spare.bytes = self.memory.free_bytes();
        self.note_spare();
        // A buffer that grows takes twice what is in it.
        let share_bytes = usize::try_from(self.memory.common_of(self.spare.bytes) / 2).unwrap_or(usize::MAX);
        self.spare.output_max_bytes = self.settings.connection_output_bytes.min(share_bytes.max(OUTPUT_ALWAYS_BYTES));
    }

    /// Whether one more connection may be there, before it holds anything. Connections take half of all at most.
    pub(crate) fn has_room_for_connection(&self) -> bool {
        let memory = self.memory.memory();
        let held_bytes = memory.held(Kind::Connection) + memory.held(Kind::Transport);
        held_bytes + CONNECTION_BYTES as u64 <= self.memory.limits().all_bytes / 2
    }

    /// Takes room for output of a client for whom `pending_bytes` wait; false where there is none.
    #[inline]
    pub(crate) fn take_spare(&mut self, pending_bytes: usize, more_bytes: usize) -> bool {
        let fits = (pending_bytes + more_bytes) as u64 <= self.spare.bytes;
        if fits {
            self.spare.bytes -= more_bytes as u64;
            if self.spare.bytes < self.spare.enough_bytes {
                // Other shards take of it too.
                self.spare.bytes = self.spare.bytes.min(self.memory.free_bytes());
                self.note_spare();
            }
        }
        fits
    }

    /// The spare bytes are as the account has them. They may fall so far before it is looked at again.
    #[inline]
    fn note_spare(&mut self) {
        self.spare.enough_bytes = self.spare.bytes.saturating_sub(self.memory.step_bytes());
    }

    /// Whether a message of QoS 1 or 2 for so many receivers of this shard can be let in.
    #[inline]
    pub(crate) fn has_room_for_message(&self, topic: &str, kept_bytes: usize, receivers: usize) -> bool {
        let wanted_bytes = kept_bytes.saturating_add(receivers.saturating_mul(RECEIVER_BYTES));
        self.memory.admits(0, wanted_bytes).is_ok() && !self.spare.closed.is_closed(topic)
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
        held_bytes + more_bytes as u64 <= self.spare.bytes.min(self.memory.limits().client_bytes)
    }

    /// Closes the filters of a session that has more than its share, or the topic of what is too much for it.
    #[cold]
    pub(crate) fn throttle(&mut self, session: SessionIndex, topic: &str) {
        let key = self.sessions.key(session);
        let at = self.spare.throttled.iter().position(|throttled| throttled.session == session);
        let at = at.unwrap_or_else(|| {
            self.counters().sessions_throttled.add(1);
            let by_topic = self.sessions[session].subscriptions().len() > CLOSED_MAX;
            let mut charge = Charge::new(self.memory.ledger(), Kind::Subscription);
            if !by_topic {
                for (filter, _) in self.sessions[session].subscriptions().iter() {
                    self.spare.closed.close(filter, key);
                    charge.grow(filter.len() + CLOSED_FILTER_BYTES);
                }
            }
            self.spare.throttled.push(Throttled { session, topics: by_topic.then(Vec::new), charge });
            self.spare.throttled.len() - 1
        });
        let Throttled { topics, charge, .. } = &mut self.spare.throttled[at];
        if let Some(topics) = topics
            && topics.len() < CLOSED_MAX
            && !topics.iter().any(|closed| **closed == *topic)
        {
            self.spare.closed.close(topic, key);
            topics.push(topic.into());
            charge.grow(2 * topic.len() + CLOSED_FILTER_BYTES);
        }
    }

    /// Opens the filters of sessions whose clients have caught up. To be called once a turn.
    pub(crate) fn end_throttling(&mut self) {
        if self.spare.throttled.is_empty() {
            return;
        }
        let share_bytes = self.spare.bytes.min(self.memory.limits().client_bytes) as usize;
        for throttled in std::mem::take(&mut self.spare.throttled) {
            let outbound = self.sessions[throttled.session].outbound();
            if outbound.map_or(0, |outbound| outbound.memory_bytes()) > share_bytes / 2 {
                self.spare.throttled.push(throttled);
            } else {
                self.open_all(throttled);
            }
        }
    }

    /// Hears publishers of 3.1.1 again that wait for memory. To be called once a turn.
    #[inline]
    pub(crate) fn retry_for_memory(&mut self) {
        for id in self.waiting.retries(self.now_ms) {
            self.hear_again(id, Reason::Memory);
        }
    }

    /// Opens what is closed for a session that ends.
    pub(crate) fn forget_throttled(&mut self, session: SessionIndex) {
        if let Some(at) = self.spare.throttled.iter().position(|throttled| throttled.session == session) {
            let throttled = self.spare.throttled.swap_remove(at);
            self.open_all(throttled);
        }
    }

    /// Opens one filter of a session that gives it up.
    pub(crate) fn open_filter(&mut self, session: SessionIndex, filter: &str) {
        let key = self.sessions.key(session);
        let is_closed = |throttled: &&mut Throttled| throttled.session == session && throttled.topics.is_none();
        if let Some(throttled) = self.spare.throttled.iter_mut().find(is_closed) {
            self.spare.closed.open(filter, key);
            let Throttled { charge, .. } = throttled;
            charge.set(charge.bytes().saturating_sub(filter.len() + CLOSED_FILTER_BYTES));
        }
    }

    fn open_all(&mut self, Throttled { session, topics, charge: _given_back }: Throttled) {
        let key = self.sessions.key(session);
        match topics {
            Some(topics) => topics.iter().for_each(|topic| self.spare.closed.open(topic, key)),
            None => {
                for (filter, _) in self.sessions[session].subscriptions().iter() {
                    self.spare.closed.open(filter, key);
                }
            }
        }
    }
}
