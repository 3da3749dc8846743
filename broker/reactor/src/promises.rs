//! Operators who are told that their message has been published once the log has it.

use tautwire_engine::{ConfirmStatus, PublishConfirm, PublishFailure, Published, Shard};
use tautwire_session::Journal;

use crate::inbox::Answer;

/// What an operator is told: whether anybody wanted the message.
type Outcome = Result<bool, PublishFailure>;

/// Those who wait for the log of one shard. There are no more than requests under way, and those whose requests were given up
/// while the log stood still.
#[derive(Debug, Default)]
pub(crate) struct Promises(Vec<Waiting>);

#[derive(Debug)]
struct Waiting {
    promise: PublishConfirm,
    matched: bool,
    answer: Answer<Outcome>,
}

impl Promises {
    /// Tells an operator what has become of a message, at once or when its promise is kept.
    pub(crate) fn answer(&mut self, published: Result<Published, PublishFailure>, answer: Answer<Outcome>) {
        match published {
            Ok(Published { matched, promise: Some(promise) }) => self.0.push(Waiting { promise, matched, answer }),
            Ok(Published { matched, promise: None }) => answer.give(Ok(matched)),
            Err(error) => answer.give(Err(error)),
        }
    }

    /// Tells those whose promises are kept by now, or never will be.
    pub(crate) fn settle<J: Journal>(&mut self, shard: &mut Shard<J>) {
        for waiting in std::mem::take(&mut self.0) {
            let fate = shard.confirm_status(waiting.promise);
            if fate != ConfirmStatus::Pending {
                shard.finish_confirm(waiting.promise);
            }
            match fate {
                ConfirmStatus::Pending => self.0.push(waiting),
                ConfirmStatus::Confirmed => waiting.answer.give(Ok(waiting.matched)),
                ConfirmStatus::Failed => waiting.answer.give(Err(PublishFailure::NotDurable)),
                ConfirmStatus::Refused => waiting.answer.give(Err(PublishFailure::RejectedByCluster)),
            }
        }
    }

    /// Whether somebody is to be told now.
    pub(crate) fn are_due<J: Journal>(&self, shard: &Shard<J>) -> bool {
        self.0.iter().any(|waiting| shard.confirm_status(waiting.promise) != ConfirmStatus::Pending)
    }
}

impl Drop for Promises {
    /// The shard goes, and what was promised is not known to be true.
    fn drop(&mut self) {
        for waiting in self.0.drain(..) {
            waiting.answer.give(Err(PublishFailure::NotDurable));
        }
    }
}
