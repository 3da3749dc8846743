//! Operators who are told that their message has been published once the log has it.

use tautwire_engine::{NotPublished, Promise, PromiseFate, Published, Shard};
use tautwire_session::Journal;

use crate::inbox::Answer;

/// What an operator is told: whether anybody wanted the message.
type Outcome = Result<bool, NotPublished>;

/// Those who wait for the log of one shard. There are no more than requests under way, and those whose requests were given up
/// while the log stood still.
#[derive(Debug, Default)]
pub(crate) struct Promises(Vec<Waiting>);

#[derive(Debug)]
struct Waiting {
    promise: Promise,
    matched: bool,
    answer: Answer<Outcome>,
}

impl Promises {
    /// Tells an operator what has become of a message, at once or when its promise is kept.
    pub(crate) fn answer(&mut self, published: Result<Published, NotPublished>, answer: Answer<Outcome>) {
        match published {
            Ok(Published { matched, promise: Some(promise) }) => self.0.push(Waiting { promise, matched, answer }),
            Ok(Published { matched, promise: None }) => answer.give(Ok(matched)),
            Err(error) => answer.give(Err(error)),
        }
    }

    /// Tells those whose promises are kept by now, or never will be.
    pub(crate) fn settle<J: Journal>(&mut self, shard: &mut Shard<J>) {
        for waiting in std::mem::take(&mut self.0) {
            let fate = shard.fate(waiting.promise);
            if fate != PromiseFate::Waits {
                shard.told(waiting.promise);
            }
            match fate {
                PromiseFate::Waits => self.0.push(waiting),
                PromiseFate::Kept => waiting.answer.give(Ok(waiting.matched)),
                PromiseFate::Broken => waiting.answer.give(Err(NotPublished::NotKept)),
                PromiseFate::Refused => waiting.answer.give(Err(NotPublished::NotStored)),
            }
        }
    }

    /// Whether somebody is to be told now.
    pub(crate) fn are_due<J: Journal>(&self, shard: &Shard<J>) -> bool {
        self.0.iter().any(|waiting| shard.fate(waiting.promise) != PromiseFate::Waits)
    }
}

impl Drop for Promises {
    /// The shard goes, and what was promised is not known to be true.
    fn drop(&mut self) {
        for waiting in self.0.drain(..) {
            waiting.answer.give(Err(NotPublished::NotKept));
        }
    }
}
