//! Pending operations, awaited by an event loop or by a thread.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;
use tautwire_client::Error;
use tautwire_client::blocking::block_on;

use crate::error;
use crate::fork::Owned;
use crate::inbox::Inbox;
use crate::pending::{Outcome, Pending, Value};

/// The interval at which a waiting thread checks for Python signals: the delay of Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);

/// An operation that Python awaits once, with `start` or with `wait`.
#[pyclass(frozen, module = "tautwire._native")]
pub(crate) struct Operation(Owned<Mutex<Option<Pending>>>);

impl Operation {
    pub(crate) fn new(pending: Pending) -> Operation {
        Operation(Owned::new(Mutex::new(Some(pending))))
    }

    pub(crate) fn work(work: impl Future<Output = Result<Value, Error>> + Send + 'static) -> Operation {
        Operation::new(Pending::Other(Box::pin(work)))
    }

    fn take(&self, py: Python<'_>) -> PyResult<Pending> {
        let taken = self.0.get(py)?.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| PyRuntimeError::new_err("this operation has already been awaited"))
    }
}

#[pymethods]
impl Operation {
    /// Notifies the inbox when the operation is done. Returns its result if it is already done.
    fn start(&self, py: Python<'_>, inbox: &Inbox, key: u64) -> PyResult<Option<Outcome>> {
        inbox.shared(py)?.advance(py, key, self.take(py)?)
    }

    /// Waits for the operation and handles signals, so that Ctrl-C works. After `TimeoutError`, it can be called again.
    #[pyo3(signature = (timeout_s=None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<Py<PyAny>> {
        let mut pending = self.take(py)?;
        let waited = wait_for(py, timeout_s, |until| block_on(&mut pending, Some(until)));
        match waited {
            Ok(Ok(value)) => value.into_python(py),
            Ok(Err(error)) => Err(error::raise(py, &error)),
            Err(interrupted) => {
                let slot = self.0.get(py)?;
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(pending);
                Err(interrupted)
            }
        }
    }
}

/// Waits without blocking other Python threads, and handles signals.
///
/// # Errors
/// `TimeoutError`, or the exception of a signal handler, such as `KeyboardInterrupt`.
pub(crate) fn wait_for<R: Send>(
    py: Python<'_>,
    timeout_s: Option<f64>,
    mut wait_until: impl FnMut(Instant) -> Option<R> + Send,
) -> PyResult<R> {
    let began = Instant::now();
    // A negative timeout counts as 0. One that no clock can represent is infinite.
    let timeout = timeout_s.and_then(|timeout_s| Duration::try_from_secs_f64(timeout_s.max(0.0)).ok());
    let end = timeout.and_then(|timeout| began.checked_add(timeout));
    loop {
        let slice = Instant::now() + SIGNALS;
        let until = end.map_or(slice, |end| end.min(slice));
        if let Some(result) = py.detach(|| wait_until(until)) {
            return Ok(result);
        }
        py.check_signals()?;
        if end.is_some_and(|end| Instant::now() >= end) {
            return Err(PyTimeoutError::new_err("timed out"));
        }
    }
}

/// Runs a blocking action on a separate thread. For actions that a client performs once.
pub(crate) fn on_a_thread(action: impl FnOnce() -> Result<Value, Error> + Send + 'static) -> Operation {
    type Slot = (Option<Result<Value, Error>>, Option<Waker>);
    let slot: Arc<Mutex<Slot>> = Arc::default();
    let filled = slot.clone();
    let spawned = thread::Builder::new().name("tautwire-wait".into()).spawn(move || {
        let result = action();
        let waker = {
            let mut slot = filled.lock().unwrap_or_else(PoisonError::into_inner);
            slot.0 = Some(result);
            slot.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    });
    if let Err(error) = spawned {
        let text = format!("cannot start a thread for the client: {error}");
        return Operation::work(async move { Err(Error::Options(text)) });
    }
    Operation::work(poll_fn(move |cx| {
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.0.take() {
            Some(result) => Poll::Ready(result),
            None => {
                slot.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }))
}
