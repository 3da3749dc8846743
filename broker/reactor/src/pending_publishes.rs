//! Operators who are told that their message has been published once the log has it.

use tautwire_engine::Mode;
use tautwire_engine::{ConfirmStatus, PublishConfirm, PublishFailure, Published, Shard};

use crate::inbox::ReplySender;

/// What an operator is told: whether anybody wanted the message.
type PublishResult = Result<bool, PublishFailure>;

/// Those who wait for the log of one shard. There are no more than requests under way, and those whose requests were given up
/// while the log stood still.
#[derive(Debug, Default)]
pub(crate) struct PendingPublishes(Vec<PendingPublish>);

#[derive(Debug)]
struct PendingPublish {
    promise: PublishConfirm,
    matched: bool,
    answer: ReplySender<PublishResult>,
}

impl PendingPublishes {
    /// Tells an operator what has become of a message, at once or when its promise is kept.
    pub(crate) fn answer(&mut self, published: Result<Published, PublishFailure>, answer: ReplySender<PublishResult>) {
        match published {
            Ok(Published { matched, promise: Some(promise) }) => {
                self.0.push(PendingPublish { promise, matched, answer })
            }
            Ok(Published { matched, promise: None }) => answer.send(Ok(matched)),
            Err(error) => answer.send(Err(error)),
        }
    }

    /// Tells those whose promises are kept by now, or never will be.
    pub(crate) fn settle<M: Mode>(&mut self, shard: &mut Shard<M>) {
        for waiting in std::mem::take(&mut self.0) {
            let fate = shard.confirm_status(waiting.promise);
            if fate != ConfirmStatus::Pending {
                shard.finish_confirm(waiting.promise);
            }
            match fate {
                ConfirmStatus::Pending => self.0.push(waiting),
                ConfirmStatus::Confirmed => waiting.answer.send(Ok(waiting.matched)),
                ConfirmStatus::Failed => waiting.answer.send(Err(PublishFailure::NotDurable)),
                ConfirmStatus::Refused => waiting.answer.send(Err(PublishFailure::NotStored)),
            }
        }
    }

    /// Whether somebody is to be told now.
    pub(crate) fn has_ready<M: Mode>(&self, shard: &Shard<M>) -> bool {
        self.0.iter().any(|waiting| shard.confirm_status(waiting.promise) != ConfirmStatus::Pending)
    }
}

impl Drop for PendingPublishes {
    /// The shard goes, and what was promised is not known to be true.
    fn drop(&mut self) {
        for waiting in self.0.drain(..) {
            waiting.answer.send(Err(PublishFailure::NotDurable));
        }
    }
}
