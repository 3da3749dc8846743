//! Sends admin queries to the shards from other threads.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use tautwire_engine::{AdminQuery, Reply};

use crate::inbox::{Command, CommandError, Inbox};

/// Why a query got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryError {
    /// A thread is overloaded, or there are too many queries. The caller may retry.
    Busy,
    /// The broker is stopping or has stopped.
    Stopping,
    /// The deadline has passed.
    Timeout,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueryError::Busy => "the broker is overloaded; try again",
            QueryError::Stopping => "the broker is stopping",
            QueryError::Timeout => "the broker did not answer in time",
        })
    }
}

impl std::error::Error for QueryError {}

impl From<CommandError> for QueryError {
    fn from(error: CommandError) -> QueryError {
        match error {
            CommandError::Busy => QueryError::Busy,
            CommandError::ShardGone => QueryError::Stopping,
            CommandError::Timeout => QueryError::Timeout,
        }
    }
}

/// How often the client of a slow query is checked.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The client that waits for an answer, and may disconnect.
pub trait QueryClient {
    /// Whether the answer is still needed. Called a few times per second on the thread that waits for it.
    fn is_there(&self) -> bool;
}

/// How long to wait for an answer, and for which client.
#[derive(Clone, Copy)]
pub struct QueryDeadline<'a> {
    deadline: Instant,
    client: Option<&'a dyn QueryClient>,
}

impl<'a> QueryDeadline<'a> {
    /// Waits while `client` is connected, and at most until `deadline`.
    pub fn of(client: &'a dyn QueryClient, deadline: Instant) -> QueryDeadline<'a> {
        QueryDeadline { deadline, client: Some(client) }
    }

    fn is_gone(&self) -> bool {
        self.client.is_some_and(|client| !client.is_there())
    }
}

impl From<Duration> for QueryDeadline<'_> {
    fn from(timeout: Duration) -> Self {
        QueryDeadline { deadline: Instant::now() + timeout, client: None }
    }
}

impl fmt::Debug for QueryDeadline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Queries one shard.
pub(crate) fn ask<T: Send + 'static>(
    inbox: &Inbox,
    query: impl FnOnce(Reply<T>) -> AdminQuery,
    deadline: QueryDeadline<'_>,
) -> Result<T, QueryError> {
    post(inbox, query)?.receive(deadline)
}

/// Queries all shards at once.
pub(crate) fn ask_all<T: Send + 'static>(
    inboxes: &[Arc<Inbox>],
    query: impl Fn(Reply<T>) -> AdminQuery,
    deadline: QueryDeadline<'_>,
) -> Result<Vec<T>, QueryError> {
    let answers: Vec<PendingQuery<T>> = inboxes.iter().map(|inbox| post(inbox, &query)).collect::<Result<_, _>>()?;
    answers.into_iter().map(|answer| answer.receive(deadline)).collect()
}

/// A query in progress. Dropping it cancels the query.
struct PendingQuery<T> {
    answer: Receiver<T>,
    _client: Arc<()>,
}

fn post<T: Send + 'static>(
    inbox: &Inbox,
    query: impl FnOnce(Reply<T>) -> AdminQuery,
) -> Result<PendingQuery<T>, QueryError> {
    let (sender, answer) = sync_channel(1);
    let client = Arc::new(());
    // If the caller has given up, the receiver is gone.
    let reply = Reply::to(&client, move |found| _ = sender.try_send(found));
    inbox.send(Command::AdminQuery(query(reply)))?;
    Ok(PendingQuery { answer, _client: client })
}

impl<T> PendingQuery<T> {
    fn receive(self, deadline: QueryDeadline<'_>) -> Result<T, QueryError> {
        loop {
            let left = deadline.deadline.saturating_duration_since(Instant::now());
            match self.answer.recv_timeout(left.min(CLIENT_CHECK_INTERVAL)) {
                Ok(answer) => return Ok(answer),
                // The shard is gone, or has too many queries.
                Err(RecvTimeoutError::Disconnected) => return Err(QueryError::Busy),
                Err(RecvTimeoutError::Timeout) if left <= CLIENT_CHECK_INTERVAL || deadline.is_gone() => {
                    return Err(QueryError::Timeout);
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

    struct LeavingClient(Cell<u32>);

    impl QueryClient for LeavingClient {
        fn is_there(&self) -> bool {
            self.0.set(self.0.get().saturating_sub(1));
            self.0.get() > 0
        }
    }

    fn pending_query() -> (SyncSender<u8>, PendingQuery<u8>) {
        let (sender, answer) = sync_channel(1);
        (sender, PendingQuery { answer, _client: Arc::new(()) })
    }

    #[test]
    fn a_cancelled_query_is_not_awaited() {
        let (sender, answer) = pending_query();
        let client = LeavingClient(Cell::new(2));
        let began = Instant::now();
        let deadline = QueryDeadline::of(&client, began + Duration::from_secs(3_600));
        assert_eq!(answer.receive(deadline), Err(QueryError::Timeout));
        assert_eq!(client.0.get(), 0, "the client was checked twice");
        drop(sender);
    }

    #[test]
    fn a_timely_result_is_accepted_after_a_cancellation() {
        let (sender, answer) = pending_query();
        sender.try_send(7).expect("not full");
        let client = LeavingClient(Cell::new(0));
        assert_eq!(answer.receive(QueryDeadline::of(&client, Instant::now())), Ok(7));
    }

    #[test]
    fn without_a_result_the_deadline_applies() {
        let (_sender, answer) = pending_query();
        assert_eq!(answer.receive(Duration::from_millis(1).into()), Err(QueryError::Timeout));
        let (sender, answer) = pending_query();
        drop(sender);
        assert_eq!(answer.receive(Duration::from_secs(3_600).into()), Err(QueryError::Busy));
    }
}
