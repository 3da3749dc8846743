//! Collects results for Python. The event loop is woken once for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::fork::Owned;
use crate::pending::{Outcome, Pending, outcome};

/// The keys that can progress, with their operations.
#[pyclass(frozen, module = "tautwire._native")]
pub(crate) struct Inbox(Owned<Arc<Shared>>);

pub(crate) struct Shared {
    state: Mutex<State>,
    bell: Condvar,
    wire: Wire,
}

#[derive(Default)]
struct State {
    /// The keys that were woken since the last drain.
    ready: Vec<u64>,
    /// The awaited operations.
    pending: HashMap<u64, Pending>,
    /// Whether the event loop was woken and has not drained yet.
    is_rung: bool,
    /// The number of threads in `wait`.
    waiting: usize,
}

/// A waker that adds a key to the inbox.
struct Note {
    shared: Arc<Shared>,
    key: u64,
}

/// The result of an operation, by its key. A key without an operation belongs to a stream that may have messages.
type Arrival = (u64, Outcome);

#[pymethods]
impl Inbox {
    #[new]
    fn new() -> PyResult<Inbox> {
        let wire = Wire::new().map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Inbox(Owned::new(Arc::new(Shared { state: Mutex::default(), bell: Condvar::new(), wire }))))
    }

    /// Returns a file descriptor that becomes readable when there are results; `None` if the system has none and `wait` must be used.
    fn fileno(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        Ok(self.0.get(py)?.wire.fileno())
    }

    /// Waits for results. Returns whether there are any.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let shared = self.0.get(py)?;
        let timeout = Duration::try_from_secs_f64(timeout_s).unwrap_or(Duration::MAX);
        Ok(py.detach(|| {
            let mut state = shared.lock();
            state.waiting += 1;
            let waited = shared.bell.wait_timeout_while(state, timeout, |state| !state.is_rung);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            state.is_rung
        }))
    }

    /// Returns all results: the key, and the value or the exception.
    fn drain(&self, py: Python<'_>) -> PyResult<Vec<Arrival>> {
        let shared = self.0.get(py)?;
        // Before the flag is cleared, so that a byte written later is not lost.
        shared.wire.quiet();
        let due: Vec<(u64, Option<Pending>)> = {
            let mut state = shared.lock();
            state.is_rung = false;
            let ready = std::mem::take(&mut state.ready);
            ready.into_iter().map(|key| (key, state.pending.remove(&key))).collect()
        };
        let mut arrivals = Vec::with_capacity(due.len());
        for (key, pending) in due {
            match pending {
                Some(pending) => arrivals.extend(shared.advance(py, key, pending)?.map(|outcome| (key, outcome))),
                None => arrivals.push((key, (py.None(), None))),
            }
        }
        Ok(arrivals)
    }

    /// Drops an operation that is no longer awaited.
    fn forget(&self, py: Python<'_>, key: u64) -> PyResult<()> {
        let forgotten = self.0.get(py)?.lock().pending.remove(&key);
        // Dropped without the lock, because it may wake others.
        drop(forgotten);
        Ok(())
    }
}

impl Inbox {
    pub(crate) fn shared(&self, py: Python<'_>) -> PyResult<&Arc<Shared>> {
        self.0.get(py)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls an operation and returns its result, if it is done. No lock is held, because operations wake others.
    pub(crate) fn advance(
        self: &Arc<Self>,
        py: Python<'_>,
        key: u64,
        mut pending: Pending,
    ) -> PyResult<Option<Outcome>> {
        let waker = self.waker(key);
        match std::pin::Pin::new(&mut pending).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => outcome(py, result).map(Some),
            Poll::Pending => {
                self.lock().pending.insert(key, pending);
                Ok(None)
            }
        }
    }

    pub(crate) fn waker(self: &Arc<Self>, key: u64) -> Waker {
        Waker::from(Arc::new(Note { shared: self.clone(), key }))
    }

    fn note(&self, key: u64) {
        let mut state = self.lock();
        state.ready.push(key);
        let is_first = !std::mem::replace(&mut state.is_rung, true);
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_first {
            if is_awaited {
                self.bell.notify_all();
            }
            self.wire.ring();
        }
    }
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.shared.note(self.key);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.shared.note(self.key);
    }
}

/// A socket pair that an event loop can watch.
#[cfg(unix)]
struct Wire {
    reader: std::os::unix::net::UnixStream,
    writer: std::os::unix::net::UnixStream,
}

#[cfg(unix)]
impl Wire {
    fn new() -> std::io::Result<Wire> {
        let (reader, writer) = std::os::unix::net::UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Wire { reader, writer })
    }

    #[allow(clippy::unnecessary_wraps, reason = "other systems have none")]
    fn fileno(&self) -> Option<i32> {
        Some(std::os::fd::AsRawFd::as_raw_fd(&self.reader))
    }

    fn ring(&self) {
        // If it is full, the loop has been woken already.
        let _ = std::io::Write::write(&mut &self.writer, &[1]);
    }

    fn quiet(&self) {
        let _ = std::io::Read::read(&mut &self.reader, &mut [0; 64]);
    }
}

#[cfg(not(unix))]
struct Wire;

#[cfg(not(unix))]
impl Wire {
    fn new() -> std::io::Result<Wire> {
        Ok(Wire)
    }

    fn fileno(&self) -> Option<i32> {
        None
    }

    fn ring(&self) {}

    fn quiet(&self) {}
}
