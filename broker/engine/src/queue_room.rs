//! Room for messages that a session holds: by its client's quotas, by those of its user, and by what the operator has chosen where there
//! is none.

use tautwire_session::{Change, Journal, Outbound, PendingMessage};

use crate::cluster::Taking;
use crate::drops::DropReason;
use crate::hub::Hub;
use crate::place::SessionIndex;
use crate::settings::SlowConsumer;

impl<J: Journal> Hub<J> {
    /// Makes room for a message in a session that is to hold it; says whether there is some.
    pub(crate) fn may_hold(&mut self, session: SessionIndex, delivery: &PendingMessage, topic: &str) -> bool {
        if self.is_in_cluster() {
            match self.takes_from_log(session, delivery) {
                Taking::Yes => return true,
                Taking::No => return false,
                Taking::AsRoomAllows => {}
            }
        }
        if !self.has_room_for(session, delivery.counted_bytes()) && !self.make_room_for(session, delivery) {
            self.note_drop(session, DropReason::QueueFull, topic);
            return false;
        }
        if !self.is_within_share(session, delivery.counted_bytes()) {
            self.throttle(session, topic);
        }
        true
    }

    /// Whether what the client of a session is told has to be kept before.
    pub(crate) fn is_kept(&self, session: SessionIndex) -> bool {
        self.is_written_whole(session) || self.is_kept_by_cluster(session)
    }

    /// Whether the session may hold one more message, waiting or sent, that counts so many bytes.
    pub(crate) fn has_room_for(&self, session: SessionIndex, counted_bytes: usize) -> bool {
        self.has_own_room_for(session, counted_bytes) && self.user_has_room_for(session, counted_bytes)
    }

    /// The same by its client's own quotas. One that holds nothing may hold any.
    pub(crate) fn has_own_room_for(&self, session: SessionIndex, counted_bytes: usize) -> bool {
        let Some(outbound) = self.sessions[session].outbound() else { return true };
        let held_bytes = outbound.counted_bytes();
        let fits = held_bytes == 0 || held_bytes + counted_bytes <= self.allowances.quotas().queue_bytes;
        fits && outbound.queued() < self.allowances.quotas().queue_messages
    }

    /// The same by what the clients of its user may hold together.
    #[inline]
    pub(crate) fn user_has_room_for(&self, session: SessionIndex, counted_bytes: usize) -> bool {
        let user = self.sessions.user(session);
        user.is_none_or(|user| user.has_room_for_message(counted_bytes, &self.allowances.quotas().of_user))
    }

    /// Whether one more message may be sent to the session's client and wait for its answer, as far as the other clients of its user
    /// go.
    #[inline]
    pub(crate) fn user_may_have_one_more(&self, session: SessionIndex) -> bool {
        self.sessions.user(session).is_none_or(|user| user.may_send(&self.allowances.quotas().of_user))
    }

    /// The message that has waited longest is about to be dropped. Where it is not in memory, its topic is not known.
    #[cold]
    pub(crate) fn note_front_dropped(&mut self, session: SessionIndex, reason: DropReason) {
        let front = self.sessions[session].outbound().and_then(Outbound::front).cloned();
        if let Some(front) = front {
            self.note_drop(session, reason, front.message.hot().map_or("", |message| message.topic()));
        }
    }

    /// Whether dropping what waits would make room: what has been sent and not acknowledged may take it all.
    pub(crate) fn old_make_room(&self, session: SessionIndex, counted_bytes: usize) -> bool {
        let sent_bytes = self.sessions[session].outbound().map_or(0, Outbound::sent_bytes);
        sent_bytes == 0 || sent_bytes + counted_bytes <= self.allowances.quotas().queue_bytes
    }

    /// Does with a session that is full what the operator has chosen; says whether the message may be held now.
    #[cold]
    fn make_room_for(&mut self, session: SessionIndex, delivery: &PendingMessage) -> bool {
        self.count_queue_full(session, delivery.counted_bytes());
        match self.regime.settings().slow_consumer {
            SlowConsumer::DropNew => return false,
            SlowConsumer::Disconnect => {
                if let Some(connection) = self.sessions.connection(session) {
                    self.connections.end_for_overrun(connection);
                }
                return false;
            }
            SlowConsumer::DropOld => {}
        }
        if !self.old_make_room(session, delivery.counted_bytes()) {
            return false;
        }
        let mut dropped = 0;
        while !self.has_room_for(session, delivery.counted_bytes()) {
            if self.sessions[session].outbound().is_none_or(|outbound| outbound.queued() == 0) {
                self.counters().dropped_queue_full.add(dropped);
                return false;
            }
            self.note_front_dropped(session, DropReason::QueueFull);
            self.commit(session, Change::Withdrawn);
            dropped += 1;
        }
        // The first was counted above.
        self.counters().dropped_queue_full.add(dropped - 1);
        true
    }

    /// A message is not kept for a session that is full.
    pub(crate) fn count_queue_full(&self, session: SessionIndex, counted_bytes: usize) {
        self.counters().dropped_queue_full.add(1);
        if !self.user_has_room_for(session, counted_bytes) {
            self.counters().dropped_queue_full_for_user.add(1);
        }
    }
}
