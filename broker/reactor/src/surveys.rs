//! Asking shards what they know, from outside their threads.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use tautwire_engine::{AdminQuery, Reply};

use crate::inbox::{Inbox, Order, Unheard};

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskError {
    /// A thread is behind, or too many ask at once. It may be tried again.
    Busy,
    /// The broker stops or has stopped.
    Stopping,
    /// No answer came in time.
    Unanswered,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AskError::Busy => "the threads of the broker are behind; try again",
            AskError::Stopping => "the broker stops",
            AskError::Unanswered => "the broker did not answer in time",
        })
    }
}

impl std::error::Error for AskError {}

impl From<Unheard> for AskError {
    fn from(error: Unheard) -> AskError {
        match error {
            Unheard::Busy => AskError::Busy,
            Unheard::Gone => AskError::Stopping,
            Unheard::Unanswered => AskError::Unanswered,
        }
    }
}

/// How often an asker is looked for whose answer takes long.
const ASKER_LOOK: Duration = Duration::from_millis(100);

/// Somebody who asks, and may go away.
pub trait Asker {
    /// Whether the answer is still of use. Asked on the thread that waits for it, some times in a second.
    fn is_there(&self) -> bool;
}

/// How long an answer is waited for, and for whom.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    deadline: Instant,
    asker: Option<&'a dyn Asker>,
}

impl<'a> Patience<'a> {
    /// As long as `asker` is there, and at most until `deadline`.
    pub fn of(asker: &'a dyn Asker, deadline: Instant) -> Patience<'a> {
        Patience { deadline, asker: Some(asker) }
    }

    fn is_gone(&self) -> bool {
        self.asker.is_some_and(|asker| !asker.is_there())
    }
}

impl From<Duration> for Patience<'_> {
    fn from(timeout: Duration) -> Self {
        Patience { deadline: Instant::now() + timeout, asker: None }
    }
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Asks one shard.
pub(crate) fn ask<T: Send + 'static>(
    inbox: &Inbox,
    survey: impl FnOnce(Reply<T>) -> AdminQuery,
    patience: Patience<'_>,
) -> Result<T, AskError> {
    post(inbox, survey)?.receive(patience)
}

/// Asks all shards at once.
pub(crate) fn ask_all<T: Send + 'static>(
    inboxes: &[Arc<Inbox>],
    survey: impl Fn(Reply<T>) -> AdminQuery,
    patience: Patience<'_>,
) -> Result<Vec<T>, AskError> {
    let answers: Vec<Asked<T>> = inboxes.iter().map(|inbox| post(inbox, &survey)).collect::<Result<_, _>>()?;
    answers.into_iter().map(|answer| answer.receive(patience)).collect()
}

/// A survey under way. Whoever drops it ends it.
struct Asked<T> {
    answer: Receiver<T>,
    _asker: Arc<()>,
}

fn post<T: Send + 'static>(inbox: &Inbox, survey: impl FnOnce(Reply<T>) -> AdminQuery) -> Result<Asked<T>, AskError> {
    let (sender, answer) = sync_channel(1);
    let asker = Arc::new(());
    // Whoever has given up does not listen any more.
    let reply = Reply::to(&asker, move |found| _ = sender.try_send(found));
    inbox.tell(Order::AdminQuery(survey(reply)))?;
    Ok(Asked { answer, _asker: asker })
}

impl<T> Asked<T> {
    fn receive(self, patience: Patience<'_>) -> Result<T, AskError> {
        loop {
            let left = patience.deadline.saturating_duration_since(Instant::now());
            match self.answer.recv_timeout(left.min(ASKER_LOOK)) {
                Ok(answer) => return Ok(answer),
                // The shard has gone, or too many surveys are under way in it.
                Err(RecvTimeoutError::Disconnected) => return Err(AskError::Busy),
                Err(RecvTimeoutError::Timeout) if left <= ASKER_LOOK || patience.is_gone() => {
                    return Err(AskError::Unanswered);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc::SyncSender;

    struct Leaving(Cell<u32>);

    impl Asker for Leaving {
        fn is_there(&self) -> bool {
            self.0.set(self.0.get().saturating_sub(1));
            self.0.get() > 0
        }
    }

    fn asked() -> (SyncSender<u8>, Asked<u8>) {
        let (sender, answer) = sync_channel(1);
        (sender, Asked { answer, _asker: Arc::new(()) })
    }

    #[test]
    fn nobody_waits_for_an_asker_who_has_gone() {
        let (sender, answer) = asked();
        let asker = Leaving(Cell::new(2));
        let began = Instant::now();
        let patience = Patience::of(&asker, began + Duration::from_secs(3_600));
        assert_eq!(answer.receive(patience), Err(AskError::Unanswered));
        assert_eq!(asker.0.get(), 0, "it was looked for twice");
        drop(sender);
    }

    #[test]
    fn an_answer_that_comes_in_time_is_taken_whoever_has_gone() {
        let (sender, answer) = asked();
        sender.try_send(7).expect("there is room");
        let asker = Leaving(Cell::new(0));
        assert_eq!(answer.receive(Patience::of(&asker, Instant::now())), Ok(7));
    }

    #[test]
    fn without_an_answer_the_deadline_counts() {
        let (_sender, answer) = asked();
        assert_eq!(answer.receive(Duration::from_millis(1).into()), Err(AskError::Unanswered));
        let (sender, answer) = asked();
        drop(sender);
        assert_eq!(answer.receive(Duration::from_secs(3_600).into()), Err(AskError::Busy));
    }
}
