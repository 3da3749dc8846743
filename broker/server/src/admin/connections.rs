//! The connections that are open, what each is doing, and which of them is closed when there are too many.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// Connections open at once. One more takes the place of the one that has waited longest for its client.
pub(super) const CONNECTIONS_MAX: usize = 256;
/// Time for a client to send the head of its request, and for the handshake of TLS before that.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which a client may send the next request on the same connection.
pub(super) const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(60);

const CACHE_CONTROL: &[u8] = b"cache-control";

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// No byte of its first request has come.
    Opening,
    /// Its last response is being sent, or has been; the next request may follow.
    Idle,
    /// A part of a head has come.
    Head,
    /// The head has come; the body, or a free handler, is awaited.
    Request,
    /// A handler works on the request.
    Handling,
    /// Its response has no end of its own.
    Streaming,
    /// No request follows.
    Closing,
}

impl Phase {
    /// Whether the connection may be closed for another. A handler that has begun is not interrupted, and streams have a limit of their own.
    fn is_evictable(self) -> bool {
        !matches!(self, Phase::Handling | Phase::Streaming)
    }
}

/// What one connection is doing, and since when.
#[derive(Debug)]
pub(super) struct Activity {
    phase: Mutex<(Phase, Instant)>,
    /// An error of hyper was kept back, for which the API has one of its own.
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

    /// When the client has had its time for the request that is awaited.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let (phase, since) = *self.state();
        match phase {
            Phase::Opening | Phase::Head => Some(since + HEAD_TIMEOUT),
            Phase::Idle => Some(since + KEEP_ALIVE_TIMEOUT),
            Phase::Request | Phase::Handling | Phase::Streaming | Phase::Closing => None,
        }
    }

    /// Bytes have come.
    pub(super) fn bytes_read(&self) {
        let mut state = self.state();
        if matches!(state.0, Phase::Opening | Phase::Idle) {
            *state = (Phase::Head, Instant::now());
        }
    }

    /// Whether these bytes are an error response of hyper, which has no body, to a head that it cannot parse. All responses of the API
    /// have a field Cache-Control.
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

/// All connections that are open.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
    evicted: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug)]
struct Open {
    activity: Arc<Activity>,
    /// Ends its task, and with it the connection. `None` until the task has been started.
    task: Option<AbortHandle>,
}

/// The place of a connection, which it gives up when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    number: u64,
}

impl Connections {
    /// Gives the connection a place, where need be that of the one that has waited longest for its client. `None` if all are being served.
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
        open.insert(number, Open { activity, task: None });
        Some(ConnectionSlot { connections: self.clone(), number })
    }

    /// The connection is served by this task.
    pub(super) fn started(&self, number: u64, task: AbortHandle) {
        if let Some(open) = self.open().get_mut(&number) {
            open.task = Some(task);
        }
    }

    /// Connections open now.
    pub(super) fn count(&self) -> usize {
        self.open().len()
    }

    /// Connections closed so far because others came.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Connections refused so far.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
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
            let place = connections.admit(activity.clone())?;
            let task = runtime.spawn(std::future::pending::<()>());
            connections.started(place.number(), task.abort_handle());
            activity.enter(phase);
            Some((place, task))
        };
        let handled = enter(Phase::Handling).expect("there is room");
        let streamed = enter(Phase::Streaming).expect("there is room");
        let mut waiting: Vec<_> = (2..CONNECTIONS_MAX).map(|_| enter(Phase::Idle).expect("there is room")).collect();
        assert_eq!((connections.count(), connections.evicted()), (CONNECTIONS_MAX, 0));
        let fresh: Vec<_> = (2..CONNECTIONS_MAX).map(|_| enter(Phase::Handling).expect("one gives way")).collect();
        for (_, task) in &mut waiting {
            assert!(runtime.block_on(task).is_err_and(|end| end.is_cancelled()));
        }
        assert!(!handled.1.is_finished() && !streamed.1.is_finished());
        drop(waiting);
        assert_eq!(connections.count(), CONNECTIONS_MAX, "a place is given up once");
        assert!(enter(Phase::Idle).is_none(), "all are being served");
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
