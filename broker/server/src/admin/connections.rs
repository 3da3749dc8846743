//! Open connections of the API, their phases, and eviction at the limit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// Limit for open connections. Beyond it, the connection that has waited longest for its client is closed.
pub(super) const CONNECTIONS_MAX: usize = 256;
/// Time limit for the head of a request, and for the TLS handshake.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for the next request on the same connection.
pub(super) const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(60);

const CACHE_CONTROL: &[u8] = b"cache-control";

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing of the first request has arrived.
    Opening,
    /// The last response is being sent or has been sent; another request may follow.
    Idle,
    /// Part of a request head has arrived.
    Head,
    /// The head has arrived; waiting for the body or a free handler.
    Request,
    /// A handler processes the request.
    Handling,
    /// The response is an unbounded stream.
    Streaming,
    /// No further request follows.
    Closing,
}

impl Phase {
    /// Whether the connection may be closed to make room. Running handlers are not interrupted, and streams have their own limit.
    fn is_evictable(self) -> bool {
        !matches!(self, Phase::Handling | Phase::Streaming)
    }
}

/// The phase of a connection, and when it began.
#[derive(Debug)]
pub(super) struct Activity {
    phase: Mutex<(Phase, Instant)>,
    /// An error response of hyper was suppressed in favour of one of the API.
    was_replaced: AtomicBool,
}

impl Activity {
    pub(super) fn new() -> Arc<Activity> {
        Arc::new(Activity { phase: Mutex::new((Phase::Opening, Instant::now())), was_replaced: AtomicBool::new(false) })
    }

    pub(super) fn enter(&self, phase: Phase) {
        *self.state() = (phase, Instant::now());
    }

    pub(super) fn phase(&self) -> Phase {
        self.state().0
    }

    /// When the client must have sent what is expected next.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let (phase, since) = *self.state();
        match phase {
            Phase::Opening | Phase::Head => Some(since + HEAD_TIMEOUT),
            Phase::Idle => Some(since + KEEP_ALIVE_TIMEOUT),
            Phase::Request | Phase::Handling | Phase::Streaming | Phase::Closing => None,
        }
    }

    /// Input has arrived.
    pub(super) fn bytes_read(&self) {
        let mut state = self.state();
        if matches!(state.0, Phase::Opening | Phase::Idle) {
            *state = (Phase::Head, Instant::now());
        }
    }

    /// Whether these bytes are hyper's error response, which has no body, to a head that it cannot parse. All responses of the API have
    /// the field Cache-Control.
    pub(super) fn replaces(&self, bytes: &[u8]) -> bool {
        let is_error = self.phase() == Phase::Head
            && bytes.starts_with(b"HTTP/1.1 4")
            && bytes.ends_with(b"\r\n\r\n")
            && !bytes.windows(CACHE_CONTROL.len()).any(|window| window == CACHE_CONTROL);
        if is_error {
            self.was_replaced.store(true, Ordering::Relaxed);
        }
        is_error
    }

    pub(super) fn was_replaced(&self) -> bool {
        self.was_replaced.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, (Phase, Instant)> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All open connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<HashMap<u64, OpenConnection>>,
    next: AtomicU64,
    evicted: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug)]
struct OpenConnection {
    activity: Arc<Activity>,
    /// Aborts the task, and with it the connection. `None` until the task has started.
    task: Option<AbortHandle>,
}

/// The slot of a connection, released on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    number: u64,
}

impl Connections {
    /// Allocates a slot, evicting the connection that has waited longest for its client if necessary. `None` if all are busy.
    pub(super) fn admit(self: &Arc<Self>, activity: Arc<Activity>) -> Option<ConnectionSlot> {
        let mut open = self.open();
        if open.len() >= CONNECTIONS_MAX {
            let evictable = open.iter().filter_map(|(number, open)| {
                let (phase, since) = *open.activity.state();
                let task = open.task.as_ref().filter(|_| phase.is_evictable());
                task.map(|task| (since, *number, task.clone()))
            });
            let Some((_, number, task)) = evictable.min_by_key(|(since, number, _)| (*since, *number)) else {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            };
            open.remove(&number);
            task.abort();
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        open.insert(number, OpenConnection { activity, task: None });
        Some(ConnectionSlot { connections: self.clone(), number })
    }

    /// Records the task that serves the connection.
    pub(super) fn started(&self, number: u64, task: AbortHandle) {
        if let Some(open) = self.open().get_mut(&number) {
            open.task = Some(task);
        }
    }

    /// The number of open connections.
    pub(super) fn count(&self) -> usize {
        self.open().len()
    }

    /// Connections evicted so far.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Connections refused so far.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, OpenConnection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSlot {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.open().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime")
    }

    #[test]
    fn the_longest_idle_connection_is_evicted() {
        let runtime = runtime();
        let connections = Arc::new(Connections::default());
        let enter = |phase| {
            let activity = Activity::new();
            let slot = connections.admit(activity.clone())?;
            let task = runtime.spawn(std::future::pending::<()>());
            connections.started(slot.number(), task.abort_handle());
            activity.enter(phase);
            Some((slot, task))
        };
        let handled = enter(Phase::Handling).expect("there is room");
        let streamed = enter(Phase::Streaming).expect("there is room");
        let mut waiting: Vec<_> = (2..CONNECTIONS_MAX).map(|_| enter(Phase::Idle).expect("there is room")).collect();
        assert_eq!((connections.count(), connections.evicted()), (CONNECTIONS_MAX, 0));
        let fresh: Vec<_> = (2..CONNECTIONS_MAX).map(|_| enter(Phase::Handling).expect("one is evicted")).collect();
        for (_, task) in &mut waiting {
            assert!(runtime.block_on(task).is_err_and(|end| end.is_cancelled()));
        }
        assert!(!handled.1.is_finished() && !streamed.1.is_finished());
        drop(waiting);
        assert_eq!(connections.count(), CONNECTIONS_MAX, "a slot is released once");
        assert!(enter(Phase::Idle).is_none(), "all are busy");
        assert_eq!((connections.evicted(), connections.refused()), (CONNECTIONS_MAX as u64 - 2, 1));
        drop((handled, streamed, fresh));
        assert_eq!(connections.count(), 0);
    }

    #[test]
    fn only_errors_that_answer_no_request_are_replaced() {
        let activity = Activity::new();
        let error = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        activity.bytes_read();
        assert!(!activity.replaces(b"the rest of a response\r\n\r\n"));
        assert!(!activity.replaces(b"HTTP/1.1 404 Not Found\r\ncache-control: no-store\r\n\r\n"), "a response to HEAD");
        assert!(!activity.was_replaced());
        assert!(activity.replaces(error) && activity.was_replaced());
        for phase in [Phase::Idle, Phase::Request, Phase::Handling, Phase::Streaming] {
            activity.enter(phase);
            assert!(!activity.replaces(error), "{phase:?}");
        }
    }
}
