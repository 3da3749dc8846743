//! Recording and logging message loss.

use tautwire_session::Outbound;

use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::session::drops::{DropReason, QueueLoss};
use crate::shard::ShardState;
use crate::text::rfc3339;

impl<M: Mode> ShardState<M> {
    /// Records that a message of `topic` was dropped because the session's queue is full.
    #[cold]
    pub(crate) fn record_loss(&mut self, session: SessionIndex, topic: &str) {
        self.record_drop(session, DropReason::QueueFull, topic);
        if self.sessions.record_loss(session, self.clock.now_ms()) {
            self.log_episode(session, topic);
        }
    }

    /// Records the loss of the oldest queued message. Its topic is unknown if it is not in memory.
    #[cold]
    pub(crate) fn record_front_loss(&mut self, session: SessionIndex) {
        let front = self.sessions[session].outbound().and_then(Outbound::front).cloned();
        let topic = front.as_ref().and_then(|front| front.message.loaded()).map_or("", |message| message.topic());
        self.record_loss(session, topic);
    }

    fn log_episode(&mut self, session: SessionIndex, topic: &str) {
        let Some(suppressed) = self.loss_log.line(self.clock.now_ms()) else { return };
        let client_id = self.sessions[session].client_id();
        let user = self.user_of(session).map_or("", |user| &**user);
        let (policy, reason) = (self.policy(session, topic).name(), DropReason::QueueFull.code());
        let others = if suppressed == 0 {
            String::new()
        } else {
            format!("; {suppressed} other sessions also began to lose messages")
        };
        log::warn!(
            client_id = client_id, user = user, reason = reason, policy = policy;
            "the queue of client {client_id:?} is full, so its messages are dropped ({policy}) until it has caught up{others}; \
            run `tautwire why` to see which limit was reached"
        );
    }

    /// Ends the episode of a session whose queue is empty, or that ends.
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
