//! A subscription, for Python.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use pyo3::prelude::*;
use tautwire_client::blocking::block_on;

use crate::error;
use crate::fork::Owned;
use crate::inbox::Inbox;
use crate::message::Message;
use crate::operation::{Operation, wait_for};
use crate::pending::Value;

/// A subscription. It ends when it is dropped.
#[pyclass(frozen, module = "tautwire._native")]
pub(crate) struct Subscription(Owned<Mutex<Option<tautwire_client::Subscription>>>);

/// Messages; `None` if the subscription has ended.
type Batch = Option<Vec<Message>>;

impl Subscription {
    pub(crate) fn new(stream: tautwire_client::Subscription) -> Subscription {
        Subscription(Owned::new(Mutex::new(Some(stream))))
    }

    /// Never locked while waiting, or while calling Python.
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<tautwire_client::Subscription>>> {
        Ok(self.0.get(py)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Subscription {
    /// Returns the available messages, at most `most`. If there are none, the inbox gets the key when messages arrive.
    fn take(&self, py: Python<'_>, inbox: &Inbox, key: u64, most: usize) -> PyResult<Batch> {
        let waker = inbox.shared(py)?.waker(key);
        let mut stream = self.lock(py)?;
        Ok(match poll_batch(&mut stream, most, &mut Context::from_waker(&waker)) {
            Poll::Ready(batch) => batch,
            Poll::Pending => Some(Vec::new()),
        })
    }

    /// Like `take`, but waits for a message.
    #[pyo3(signature = (most, timeout_s=None))]
    fn take_waiting(&self, py: Python<'_>, most: usize, timeout_s: Option<f64>) -> PyResult<Batch> {
        let stream = self.0.get(py)?;
        wait_for(py, timeout_s, |until| {
            let next = std::future::poll_fn(|cx| {
                poll_batch(&mut stream.lock().unwrap_or_else(PoisonError::into_inner), most, cx)
            });
            block_on(next, Some(until))
        })
    }

    /// The filters with their granted QoS.
    fn granted(&self, py: Python<'_>) -> PyResult<Vec<(String, u8)>> {
        let stream = self.lock(py)?;
        let granted = stream.iter().flat_map(|stream| stream.granted());
        Ok(granted.map(|(filter, qos)| (filter.to_owned(), qos.as_u8())).collect())
    }

    /// The number of QoS 0 messages that were dropped because the application did not read fast enough.
    fn dropped(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.lock(py)?.as_ref().map_or(0, |stream| stream.dropped()))
    }

    /// The error that ended the subscription.
    fn ended(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let ended = self.lock(py)?.as_ref().and_then(|stream| stream.ended());
        Ok(ended.map(|why| error::raise(py, &why).into_value(py).into_any()))
    }

    /// Ends the subscription without an UNSUBSCRIBE, if the session persists: the server queues messages for the next subscription.
    /// Unprocessed messages are delivered to it again.
    fn leave(&self, py: Python<'_>, unhandled: Vec<PyRef<'_, Message>>) -> PyResult<()> {
        if let Some(mut stream) = self.lock(py)?.take() {
            stream.put_back(unhandled.iter().map(|message| message.0.clone()));
        }
        Ok(())
    }

    /// Ends the subscription. The operation returns the reason codes; `None` if no UNSUBSCRIBE is needed.
    fn close(&self, py: Python<'_>) -> PyResult<Option<Operation>> {
        let Some(stream) = self.lock(py)?.take() else { return Ok(None) };
        let unsubscribing = stream.close().map_err(|error| error::raise(py, &error))?;
        Ok(unsubscribing.map(|unsubscribing| {
            Operation::work(async move {
                let reasons = unsubscribing.await?;
                Ok(Value::Reasons(reasons.into_iter().map(|reason| reason.as_u8()).collect()))
            })
        }))
    }
}

fn poll_batch(stream: &mut Option<tautwire_client::Subscription>, most: usize, cx: &mut Context<'_>) -> Poll<Batch> {
    let Some(stream) = stream else { return Poll::Ready(None) };
    let first = match stream.poll_next(cx) {
        Poll::Ready(Some(message)) => message,
        Poll::Ready(None) => return Poll::Ready(None),
        Poll::Pending => return Poll::Pending,
    };
    let mut batch = vec![Message(first)];
    // Further messages are fetched when these are used up.
    let mut idle = Context::from_waker(Waker::noop());
    while batch.len() < most
        && let Poll::Ready(Some(message)) = stream.poll_next(&mut idle)
    {
        batch.push(Message(message));
    }
    Poll::Ready(Some(batch))
}
