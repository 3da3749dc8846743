//! What [`super`] does with several parts of a shard.

use super::{TURN_MAX_BYTES, TURN_STEPS};
use crate::connection::connections::Replay;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::shard::Shard;
use crate::shard::ShardState;

impl<M: Mode> Shard<M> {
    /// Whether searches wait for the next turn.
    #[inline]
    pub(crate) fn has_scans(&self) -> bool {
        self.state.scans.is_active && (!self.state.scans.waiting.is_empty() || !self.state.scans.settling.is_empty())
    }

    /// Goes on with the searches that wait, each in its turn.
    #[inline]
    pub(crate) fn continue_scans(&mut self) {
        if self.state.scans.is_active {
            self.state.scan();
        }
    }
}

impl<M: Mode> ShardState<M> {
    /// The search for the connection's first replay goes on later.
    #[cold]
    pub(crate) fn defer_scan(&mut self, index: ConnectionIndex) {
        if self.connections[index].defer_scan() {
            self.counters().retained_scans_deferred.add(1);
            let id = self.id(index);
            self.scans.waiting.push_back(id);
        }
    }

    /// What the session is owed goes on to be put into its queue later.
    #[cold]
    pub(crate) fn defer_settling(&mut self, session: SessionIndex, replay: Replay) {
        self.counters().retained_scans_deferred.add(1);
        let key = self.sessions.key(session);
        self.scans.settling.push_back((key, replay));
    }

    #[cold]
    fn scan(&mut self) {
        self.scans.left = TURN_STEPS;
        self.scans.left_bytes = TURN_MAX_BYTES;
        self.scans.is_active = false;
        while self.scans.left > 0 && self.scans.left_bytes > 0 {
            let settling = self.scans.settling.pop_front();
            let waiting = self.scans.waiting.pop_front();
            if settling.is_none() && waiting.is_none() {
                return;
            }
            self.scans.is_active = true;
            if let Some((key, replay)) = settling
                && let Some(session) = self.sessions.at(&key)
            {
                self.finish_replay(Some(session), replay);
                self.send_pending(session);
            }
            if let Some(id) = waiting
                && let Some(connection) = self.connections.get(id)
            {
                connection.resume_scan();
                if let Some(session) = connection.session() {
                    self.send_pending(session);
                }
            }
        }
    }
}
