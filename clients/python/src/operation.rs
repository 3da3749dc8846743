//! Something that has been begun and takes its time: waited for by an event loop, or by a thread.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;
use tautwire_client::blocking::block_on;
use tautwire_client::{Error, Publishing, Status};

use crate::error;
use crate::fork::Owned;
use crate::inbox::Inbox;
use crate::subscription::Subscription;

/// So long a thread waits before it looks whether Python has had a signal: the delay of Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);

/// What an operation gives.
pub(crate) enum Value {
    Nothing,
    /// Reason codes.
    Reason(u8),
    Reasons(Vec<u8>),
    /// The first step is done, and this is the second.
    Operation(Pending),
    Subscription(tautwire_client::Subscription),
    Status(Status),
}

pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;

/// An operation under way.
pub(crate) enum Pending {
    /// By far the most frequent, hence without a box.
    Publishing(Publishing),
    Other(Work),
}

/// What it came to, and the exception where it failed.
pub(crate) type Outcome = (Py<PyAny>, Option<Py<PyAny>>);

impl Future for Pending {
    type Output = Result<Value, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Pending::Publishing(publishing) => {
                Pin::new(publishing).poll(cx).map_ok(|published| Value::Reason(published.reason.as_u8()))
            }
            Pending::Other(work) => work.as_mut().poll(cx),
        }
    }
}

/// An operation in the hands of Python. It is waited for once, by `start` or by `wait`.
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
        taken.ok_or_else(|| PyRuntimeError::new_err("this operation has been waited for"))
    }
}

#[pymethods]
impl Operation {
    /// Has the inbox told when it is done. Where it is done already, gives what it came to.
    fn start(&self, py: Python<'_>, inbox: &Inbox, key: u64) -> PyResult<Option<Outcome>> {
        inbox.shared(py)?.advance(py, key, self.take(py)?)
    }

    /// Waits for it. Signals are handled meanwhile, so that Ctrl-C works. After `TimeoutError` it can be waited for again.
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

/// Waits without holding up other threads of Python, and handles its signals meanwhile.
///
/// # Errors
/// `TimeoutError`, or what a handler of a signal raised, such as `KeyboardInterrupt`.
pub(crate) fn wait_for<R: Send>(
    py: Python<'_>,
    timeout_s: Option<f64>,
    mut wait_until: impl FnMut(Instant) -> Option<R> + Send,
) -> PyResult<R> {
    let began = Instant::now();
    // Less than nothing, such as what is left of a time that is over, is nothing. A time that no clock can show is for ever.
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
            return Err(PyTimeoutError::new_err("the time is over"));
        }
    }
}

/// What an operation came to, for Python.
pub(crate) fn outcome(py: Python<'_>, result: Result<Value, Error>) -> PyResult<Outcome> {
    match result {
        Ok(value) => Ok((value.into_python(py)?, None)),
        Err(error) => Ok((py.None(), Some(error::raise(py, &error).into_value(py).into_any()))),
    }
}

impl Value {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Value::Nothing => Ok(py.None()),
            Value::Reason(reason) => to_python(py, reason),
            // As numbers, not as bytes.
            Value::Reasons(reasons) => to_python(py, reasons.into_iter().map(u32::from).collect::<Vec<u32>>()),
            Value::Operation(pending) => Ok(Py::new(py, Operation::new(pending))?.into_any()),
            Value::Subscription(stream) => Ok(Py::new(py, Subscription::new(stream))?.into_any()),
            Value::Status(status) => to_python(py, told(py, &status)),
        }
    }
}

fn to_python<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> PyResult<Py<PyAny>>
where
    PyErr: From<T::Error>,
{
    use pyo3::BoundObject as _;
    Ok(value.into_pyobject(py)?.into_any().unbind())
}

/// The name of a status, whether the server had the session, and why there is no connection.
fn told(py: Python<'_>, status: &Status) -> (&'static str, bool, Option<Py<PyAny>>) {
    let exception = |why: &Error| Some(error::raise(py, why).into_value(py).into_any());
    match status {
        Status::Online { session_present } => ("online", *session_present, None),
        Status::Offline(why) => ("offline", false, exception(why)),
        Status::Closed(why) => ("closed", false, exception(why)),
        _ => ("connecting", false, None),
    }
}

/// Does something that holds its thread up, on a thread of its own. For what is done once in the life of a client.
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
        let text = format!("cannot start the thread of the client: {error}");
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
