//! Continuing scans, turn by turn.

use super::{TURN_MAX_BYTES, TURN_STEPS};
use crate::connection::connections::Replay;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::shard::Shard;
use crate::shard::ShardState;

impl<M: Mode> Shard<M> {
    /// Whether scans are waiting for the next turn.
    #[inline]
    pub(crate) fn has_scans(&self) -> bool {
        self.state.routing.scans.is_active
            && (!self.state.routing.scans.waiting.is_empty() || !self.state.routing.scans.offline_replays.is_empty())
    }

    /// Continues the waiting scans, in rotation.
    #[inline]
    pub(crate) fn continue_scans(&mut self) {
        if self.state.routing.scans.is_active {
            self.state.run_scans();
        }
    }
}

impl<M: Mode> ShardState<M> {
    /// Defers the scan for the connection's first replay.
    #[cold]
    pub(crate) fn defer_scan(&mut self, index: ConnectionIndex) {
        if self.connections[index].defer_scan() {
            self.counters().retained_scans_deferred.add(1);
            let id = self.id(index);
            self.routing.scans.waiting.push_back(id);
        }
    }

    /// Defers moving a replay to the queue of an offline session.
    #[cold]
    pub(crate) fn defer_offline_replay(&mut self, session: SessionIndex, replay: Replay) {
        self.counters().retained_scans_deferred.add(1);
        let key = self.sessions.key(session);
        self.routing.scans.offline_replays.push_back((key, replay));
    }

    #[cold]
    fn run_scans(&mut self) {
        self.routing.scans.left = TURN_STEPS;
        self.routing.scans.left_bytes = TURN_MAX_BYTES;
        self.routing.scans.is_active = false;
        while self.routing.scans.left > 0 && self.routing.scans.left_bytes > 0 {
            let offline = self.routing.scans.offline_replays.pop_front();
            let waiting = self.routing.scans.waiting.pop_front();
            if offline.is_none() && waiting.is_none() {
                return;
            }
            self.routing.scans.is_active = true;
            if let Some((key, replay)) = offline
                && let Some(session) = self.sessions.at(&key)
            {
                self.move_replay_to_queue(Some(session), replay);
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
