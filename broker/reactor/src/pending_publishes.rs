//! Publish requests of operators that wait until the log has persisted the message.

use tautwire_engine::Mode;
use tautwire_engine::{ConfirmStatus, PublishConfirm, PublishFailure, PublishReceipt, Shard};

use crate::inbox::ReplySender;

/// The result of a publish: whether there were subscribers.
type PublishResult = Result<bool, PublishFailure>;

/// The requests that wait for the log of one shard. There are no more than concurrent requests, plus those abandoned while the log was
/// stalled.
#[derive(Debug, Default)]
pub(crate) struct PendingPublishes(Vec<PendingPublish>);

#[derive(Debug)]
struct PendingPublish {
    confirm: PublishConfirm,
    matched: bool,
    answer: ReplySender<PublishResult>,
}

impl PendingPublishes {
    /// Answers a publish request, at once or when its confirmation is complete.
    pub(crate) fn answer(
        &mut self,
        published: Result<PublishReceipt, PublishFailure>,
        answer: ReplySender<PublishResult>,
    ) {
        match published {
            Ok(PublishReceipt { matched, confirm: Some(confirm) }) => {
                self.0.push(PendingPublish { confirm, matched, answer })
            }
            Ok(PublishReceipt { matched, confirm: None }) => answer.send(Ok(matched)),
            Err(error) => answer.send(Err(error)),
        }
    }

    /// Answers the requests whose confirmations are complete or have failed.
    pub(crate) fn answer_ready<M: Mode>(&mut self, shard: &mut Shard<M>) {
        for pending in std::mem::take(&mut self.0) {
            let status = shard.confirm_status(pending.confirm);
            if status != ConfirmStatus::Pending {
                shard.finish_confirm(pending.confirm);
            }
            match status {
                ConfirmStatus::Pending => self.0.push(pending),
                ConfirmStatus::Confirmed => pending.answer.send(Ok(pending.matched)),
                ConfirmStatus::Failed => pending.answer.send(Err(PublishFailure::NotDurable)),
                ConfirmStatus::Refused => pending.answer.send(Err(PublishFailure::NotStored)),
            }
        }
    }

    /// Whether a request can be answered now.
    pub(crate) fn has_ready<M: Mode>(&self, shard: &Shard<M>) -> bool {
        self.0.iter().any(|pending| shard.confirm_status(pending.confirm) != ConfirmStatus::Pending)
    }
}

impl Drop for PendingPublishes {
    /// Fails the remaining requests, because the shard ends and their outcome is unknown.
    fn drop(&mut self) {
        for pending in self.0.drain(..) {
            pending.answer.send(Err(PublishFailure::NotDurable));
        }
    }
}
