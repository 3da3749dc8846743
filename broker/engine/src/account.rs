//! What still fits into memory, and who has to wait or is refused because of it.
//!
//! QoS 0 is dropped where there is no room. A message of QoS 1 or 2 is let in by its publisher's shard or refused there: once
//! it has been acknowledged, every shard takes it. A session that has taken more than its share closes its filters for
//! further messages, on all shards, until its client has caught up.

use tautwire_memory::Kind;
use tautwire_session::Journal;

use crate::connections::{CONNECTION_BYTES, Reason};
use crate::hub::Hub;
use crate::place::{ConnectionIndex, SessionIndex};

/// What one more receiver of a message may take besides the message: its entry in a queue, with some for the growth of
/// the queue.
const RECEIVER_BYTES: usize = 160;
/// Sessions with more filters than this are not throttled, since closing all of them would take too long: what is too much
/// for them is dropped as [`crate::SlowConsumer`] says.
const THROTTLED_FILTERS_MAX: usize = 1_024;

impl<J: Journal> Hub<J> {
    /// Looks at the account of all shards, at the beginning of each turn.
    #[inline]
    pub(crate) fn look_at_memory(&mut self) {
        self.pool.settle();
        self.memory.look(self.exchange.retained_kept_bytes());
        self.spare_bytes = self.memory.free_bytes();
    }

    /// Whether one more connection may be there, before it holds anything. Connections take half of all at most.
    pub(crate) fn has_room_for_connection(&self) -> bool {
        let memory = self.memory.memory();
        memory.held(Kind::Connection) + CONNECTION_BYTES as u64 <= memory.limits().all_bytes / 2
    }

    /// Takes room for output of a client for whom `pending_bytes` wait; false where there is none.
    #[inline]
    pub(crate) fn take_spare(&mut self, pending_bytes: usize, more_bytes: usize) -> bool {
        let fits = (pending_bytes + more_bytes) as u64 <= self.spare_bytes;
        if fits {
            self.spare_bytes -= more_bytes as u64;
        }
        fits
    }

    /// Whether a message of QoS 1 or 2 for so many receivers of this shard can be let in.
    #[inline]
    pub(crate) fn has_room_for_message(&self, topic: &str, kept_bytes: usize, receivers: usize) -> bool {
        let wanted_bytes = kept_bytes.saturating_add(receivers.saturating_mul(RECEIVER_BYTES));
        self.memory.admits(0, wanted_bytes).is_ok() && !self.throttle.is_closed(topic)
    }

    /// What the client of a session holds.
    pub(crate) fn client_bytes(&self, session: SessionIndex) -> usize {
        let connection = self.sessions.connection(session);
        self.sessions[session].counted_bytes() + connection.map_or(0, |index| self.connection_bytes(index))
    }

    /// What a connection holds.
    pub(crate) fn connection_bytes(&self, index: ConnectionIndex) -> usize {
        self.connections[index].held_bytes()
    }

    /// Whether a session stays within its share with `more_bytes` on top.
    #[inline]
    pub(crate) fn is_within_share(&self, session: SessionIndex, more_bytes: usize) -> bool {
        let held_bytes = self.sessions[session].outbound().map_or(0, |outbound| outbound.counted_bytes()) as u64;
        held_bytes + more_bytes as u64 <= self.spare_bytes.min(self.memory.memory().limits().client_bytes)
    }

    /// Closes the filters of a session that has more than its share; false where it has too many of them.
    #[cold]
    pub(crate) fn throttle(&mut self, session: SessionIndex) -> bool {
        if self.throttled.contains(&session) {
            return true;
        }
        if self.sessions[session].subscriptions().len() > THROTTLED_FILTERS_MAX {
            return false;
        }
        self.counters().sessions_throttled.add(1);
        let key = self.sessions.key(session);
        for (filter, _) in self.sessions[session].subscriptions().iter() {
            self.throttle.close(filter, key);
        }
        self.throttled.push(session);
        true
    }

    /// Opens the filters of sessions whose clients have caught up. To be called once a turn.
    pub(crate) fn end_throttling(&mut self) {
        if self.throttled.is_empty() {
            return;
        }
        let share_bytes = self.spare_bytes.min(self.memory.memory().limits().client_bytes) as usize;
        for session in std::mem::take(&mut self.throttled) {
            let held_bytes = self.sessions[session].outbound().map_or(0, |outbound| outbound.counted_bytes());
            if held_bytes > share_bytes / 2 {
                self.throttled.push(session);
            } else {
                self.open_filters(session);
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

    /// Opens the filters of a session that ends.
    pub(crate) fn forget_throttled(&mut self, session: SessionIndex) {
        if let Some(at) = self.throttled.iter().position(|throttled| *throttled == session) {
            self.throttled.swap_remove(at);
            self.open_filters(session);
        }
    }

    /// Opens one filter of a session that gives it up.
    pub(crate) fn open_filter(&mut self, session: SessionIndex, filter: &str) {
        if self.throttled.contains(&session) {
            self.throttle.open(filter, self.sessions.key(session));
        }
    }

    fn open_filters(&mut self, session: SessionIndex) {
        let key = self.sessions.key(session);
        for (filter, _) in self.sessions[session].subscriptions().iter() {
            self.throttle.open(filter, key);
        }
    }
}
