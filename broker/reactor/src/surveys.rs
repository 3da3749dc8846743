//! Asking shards what they know, from outside their threads.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use tautwire_engine::{Reply, Survey};

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

/// Asks one shard.
pub(crate) fn ask<T: Send + 'static>(
    inbox: &Inbox,
    survey: impl FnOnce(Reply<T>) -> Survey,
    timeout: Duration,
) -> Result<T, AskError> {
    let answer = post(inbox, survey)?;
    receive(&answer, Instant::now() + timeout)
}

/// Asks all shards at once.
pub(crate) fn ask_all<T: Send + 'static>(
    inboxes: &[Arc<Inbox>],
    survey: impl Fn(Reply<T>) -> Survey,
    timeout: Duration,
) -> Result<Vec<T>, AskError> {
    let deadline = Instant::now() + timeout;
    let answers: Vec<Receiver<T>> = inboxes.iter().map(|inbox| post(inbox, &survey)).collect::<Result<_, _>>()?;
    answers.iter().map(|answer| receive(answer, deadline)).collect()
}

fn post<T: Send + 'static>(inbox: &Inbox, survey: impl FnOnce(Reply<T>) -> Survey) -> Result<Receiver<T>, AskError> {
    let (sender, answer) = sync_channel(1);
    // Whoever has given up does not listen any more.
    let reply = Reply::new(move |found| _ = sender.try_send(found));
    inbox.tell(Order::Survey(survey(reply)))?;
    Ok(answer)
}

fn receive<T>(answer: &Receiver<T>, deadline: Instant) -> Result<T, AskError> {
    let left = deadline.saturating_duration_since(Instant::now());
    answer.recv_timeout(left).map_err(|error| match error {
        RecvTimeoutError::Timeout => AskError::Unanswered,
        // The shard has gone, or too many surveys are under way in it.
        RecvTimeoutError::Disconnected => AskError::Busy,
    })
}
