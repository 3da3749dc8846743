//! Messages of QoS 1 and 2 that a session has lost because its queue was full: what the log says of them, and what the client is told when
//! it connects.
//!
//! An episode begins with the first message that is dropped, and ends when the client has caught up or the session ends.

use tautwire_session::Outbound;

use crate::drops::{DropReason, QueueLoss};
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::state::ShardState;
use crate::text::rfc3339;

/// Lines of the log about episodes that begin, in one second of one shard: one message may be dropped for many sessions.
const LINES_MAX: u32 = 10;
const LINES_MS: u64 = 1_000;

/// The user properties of a CONNACK to a client that has lost messages: how many, and when the first and the last was dropped.
pub(crate) const DROPPED_MESSAGES: &str = "tautwire-dropped-messages";
pub(crate) const DROPPED_FROM: &str = "tautwire-dropped-from";
pub(crate) const DROPPED_UNTIL: &str = "tautwire-dropped-until";

/// Keeps the log readable while many sessions lose messages.
#[derive(Debug, Default)]
pub(crate) struct LossLog {
    since_ms: u64,
    lines: u32,
    suppressed: u64,
}

impl LossLog {
    /// Whether there is a line for an episode that begins: how many others have had none since the last line, or `None`.
    fn line(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms >= self.since_ms + LINES_MS {
            (self.since_ms, self.lines) = (now_ms, 0);
        }
        if self.lines == LINES_MAX {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

impl<M: Mode> ShardState<M> {
    /// A message of `topic` is dropped for a session whose queue is full.
    #[cold]
    pub(crate) fn record_loss(&mut self, session: SessionIndex, topic: &str) {
        self.record_drop(session, DropReason::QueueFull, topic);
        if self.sessions.record_loss(session, self.clock.now_ms()) {
            self.log_episode(session, topic);
        }
    }

    /// The same for the message that has waited longest. Where it is not in memory, its topic is not known.
    #[cold]
    pub(crate) fn record_front_loss(&mut self, session: SessionIndex) {
        let front = self.sessions[session].outbound().and_then(Outbound::front).cloned();
        let topic = front.as_ref().and_then(|front| front.message.loaded()).map_or("", |message| message.topic());
        self.record_loss(session, topic);
    }

    fn log_episode(&mut self, session: SessionIndex, topic: &str) {
        let Some(suppressed) = self.episodes.line(self.clock.now_ms()) else { return };
        let client_id = self.sessions[session].client_id();
        let user = self.user_of(session).map_or("", |user| &**user);
        let (policy, reason) = (self.policy(session, topic).name(), DropReason::QueueFull.code());
        let others =
            if suppressed == 0 { String::new() } else { format!("; the same holds for {suppressed} other sessions") };
        log::warn!(
            client_id = client_id, user = user, reason = reason, policy = policy;
            "the queue of client {client_id:?} is full, so messages for it are dropped ({policy}) until it has caught up{others}; \
             `tautwire why` says which limit was reached"
        );
    }

    /// The queue of a session is empty, or the session ends: nothing more is dropped for now.
    #[inline]
    pub(crate) fn end_episode(&mut self, session: SessionIndex) {
        if let Some(loss) = self.sessions.end_episode(session) {
            self.log_episode_end(session, loss);
        }
    }

    #[cold]
    fn log_episode_end(&self, session: SessionIndex, QueueLoss { count, first_ms, last_ms }: QueueLoss) {
        let client_id = self.sessions[session].client_id();
        let user = self.user_of(session).map_or("", |user| &**user);
        let (from, until) = (rfc3339(first_ms), rfc3339(last_ms));
        let reason = DropReason::QueueFull.code();
        let messages = if count == 1 { "message was" } else { "messages were" };
        log::info!(
            client_id = client_id, user = user, reason = reason, dropped = count, from = &*from, until = &*until;
            "{count} {messages} dropped for client {client_id:?} from {from} until {until}: its queue was full"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_are_written_in_a_second_and_the_others_are_counted() {
        let mut log = LossLog::default();
        for _ in 0..LINES_MAX {
            assert_eq!(log.line(5_000), Some(0));
        }
        assert_eq!((log.line(5_000), log.line(5_999)), (None, None));
        assert_eq!((log.line(6_000), log.line(6_000)), (Some(2), Some(0)));
    }
}
