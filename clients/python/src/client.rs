//! The client, for Python.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tautwire_client::blocking::{self, Events, StatusWatch};
use tautwire_client::{ConnectionEvent, Error, Property, QoS, ReasonCode, Status};

use crate::error;
use crate::fork::Owned;
use crate::message::Message;
use crate::operation::{Operation, on_a_thread};
use crate::options::{Settings, SubscribeSettings};
use crate::pending::{Pending, Value, to_python};
use crate::publication::{Extra, publication, text, with_payload};
use crate::subscription::Subscription;

/// A client with the thread that drives it. It ends when its last reference is dropped.
#[pyclass(frozen, module = "tautwire._native")]
pub(crate) struct Client(Owned<blocking::Client>);

/// Follows the status of a client.
#[pyclass(frozen, module = "tautwire._native")]
pub(crate) struct Watch(Owned<Arc<Mutex<(StatusWatch, Events)>>>);

#[pymethods]
impl Client {
    /// Connects in the background until it succeeds.
    #[staticmethod]
    fn start(py: Python<'_>, settings: Settings) -> PyResult<Client> {
        error::class(py)?;
        // Reading certificates may take a while.
        let started = py.detach(|| settings.options().and_then(blocking::Client::start));
        started.map(|client| Client(Owned::new(client))).map_err(|error| error::raise(py, &error))
    }

    /// Queues a message, or fails with `queue_full`. The operation returns the reason code of the
    /// acknowledgement; `None` if there is none.
    #[pyo3(signature = (topic, payload, qos, retain, extra))]
    fn publish(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyString>,
        payload: &Bound<'_, PyAny>,
        qos: &Bound<'_, PyAny>,
        retain: bool,
        extra: Option<Extra>,
    ) -> PyResult<Option<Operation>> {
        let client = self.0.get(py)?;
        let topic = &*text("the topic", topic)?;
        let way = (crate::publication::qos(qos)?, retain);
        let published = with_payload(payload, |payload| {
            publication(topic, payload, way, extra.as_ref()).and_then(|publication| client.try_publish(publication))
        })?;
        match published {
            Ok(_) if way.0 == QoS::AtMostOnce => Ok(None),
            Ok(publishing) => Ok(Some(Operation::new(Pending::Publishing(publishing.into_future())))),
            Err(error) => Err(error::raise(py, &error)),
        }
    }

    /// Like `publish`, but waits for space in the queue. The operation returns the result of `publish`.
    #[pyo3(signature = (topic, payload, qos, retain, extra))]
    fn publish_when_room(
        &self,
        py: Python<'_>,
        topic: String,
        payload: &Bound<'_, PyAny>,
        qos: &Bound<'_, PyAny>,
        retain: bool,
        extra: Option<Extra>,
    ) -> PyResult<Operation> {
        let waiting = Waiting {
            client: self.0.get(py)?.clone(),
            topic,
            payload: with_payload(payload, <[u8]>::to_vec)?,
            way: (crate::publication::qos(qos)?, retain),
            extra,
        };
        Ok(Operation::work(poll_fn(move |cx| waiting.poll(cx))))
    }

    /// The operation returns a `Subscription`.
    fn subscribe(&self, py: Python<'_>, settings: SubscribeSettings) -> PyResult<Operation> {
        let client = self.0.get(py)?;
        let subscribing = settings.subscribe().and_then(|subscribe| client.subscribing(subscribe));
        let subscribing = subscribing.map_err(|error| error::raise(py, &error))?;
        Ok(Operation::work(async move {
            let stream = subscribing.await?;
            Ok(Value::object(|py| to_python(py, Subscription::new(stream))))
        }))
    }

    /// Acknowledges a message of QoS 1 or 2; QoS 0 needs no acknowledgement.
    fn acknowledge(&self, py: Python<'_>, message: &Message) -> PyResult<()> {
        if let Some(token) = message.0.token() {
            self.0.get(py)?.acknowledge(token);
        }
        Ok(())
    }

    /// Like `acknowledge`, but the acknowledgement is sent with the next packet, or by `flush`.
    fn acknowledge_with_next(&self, py: Python<'_>, message: &Message) -> PyResult<()> {
        if let Some(token) = message.0.token() {
            self.0.get(py)?.acknowledge_with_next(token);
        }
        Ok(())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.0.get(py)?.flush();
        Ok(())
    }

    /// Follows the status of the client, from now on, and the subscriptions that have held it up.
    fn watch(&self, py: Python<'_>) -> PyResult<Watch> {
        let client = self.0.get(py)?;
        Ok(Watch(Owned::new(Arc::new(Mutex::new((client.watch(), client.events()))))))
    }

    /// Re-authenticates on the current connection.
    fn reauthenticate(&self, py: Python<'_>) -> PyResult<Operation> {
        let client = self.0.get(py)?.clone();
        Ok(on_a_thread(move || client.reauthenticate().map(|()| Value::Nothing)))
    }

    /// Closes the client. A connection that was lost before is not a failure.
    #[pyo3(signature = (session_expiry_s=None))]
    fn close(&self, py: Python<'_>, session_expiry_s: Option<u32>) -> PyResult<Operation> {
        let client = self.0.get(py)?.clone();
        Ok(on_a_thread(move || {
            let expiry = session_expiry_s.map(Property::SessionExpiryInterval);
            match client.disconnect_with(expiry.as_slice()) {
                Err(error @ (Error::Encode { .. } | Error::Options(_))) => Err(error),
                _ => Ok(Value::Nothing),
            }
        }))
    }

    #[getter]
    fn client_id(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.0.get(py)?.client_id())
    }

    /// Returns the counters, by name.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.0.get(py)?.counters();
        let machine = counters.machine;
        let named = PyDict::new(py);
        for (name, count) in [
            ("bytes_received", machine.bytes_received),
            ("bytes_sent", machine.bytes_sent),
            ("published", machine.published),
            ("queued", machine.queued),
            ("refused_full", machine.refused_full),
            ("expired", machine.expired),
            ("resent", machine.resent),
            ("received", machine.received),
            ("duplicates", machine.duplicates),
            ("connections", machine.connections),
            ("sessions_lost", machine.sessions_lost),
            ("dropped_full", counters.dropped_full),
            ("unrouted", counters.unrouted),
            ("unclaimed_dropped", counters.unclaimed_dropped),
            ("reading_held_up", counters.reading_held_up),
            ("disconnections", counters.disconnections),
        ] {
            named.set_item(name, count)?;
        }
        Ok(named)
    }

    /// Omits the address, the user name and the password.
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Client client_id={:?}>", self.0.get(py)?.client_id()))
    }
}

/// A message that waits for space in the queue.
struct Waiting {
    client: blocking::Client,
    topic: String,
    payload: Vec<u8>,
    way: (QoS, bool),
    extra: Option<Extra>,
}

impl Waiting {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Value, Error>> {
        let publication = publication(&self.topic, &self.payload, self.way, self.extra.as_ref())?;
        let accepted = self.client.poll_publish(&publication, cx);
        accepted.map_ok(|publishing| match self.way.0 {
            QoS::AtMostOnce => Value::Reason(ReasonCode::Success.as_u8()),
            _ => Value::object(|py| to_python(py, Operation::new(Pending::Publishing(publishing)))),
        })
    }
}

#[pymethods]
impl Watch {
    /// Returns the current status first, then each new one: its name, whether the server had the session, why there is no connection,
    /// and for `held_up` the filters.
    fn next(&self, py: Python<'_>) -> PyResult<Operation> {
        let watch = self.0.get(py)?.clone();
        Ok(Operation::work(poll_fn(move |cx| {
            let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
            let (statuses, events) = &mut *watch;
            while let Poll::Ready(Some(event)) = events.poll_next(cx) {
                if let ConnectionEvent::HeldUp { filters } = event {
                    let held_up = move |py: Python<'_>| to_python(py, ("held_up", false, None::<Py<PyAny>>, filters));
                    return Poll::Ready(Ok(Value::object(held_up)));
                }
            }
            let status = statuses.poll_next(cx);
            status.map(|status| Ok(Value::object(move |py| to_python(py, status_for_python(py, &status)))))
        })))
    }
}

/// Returns the name of a status, whether the server had the session, the reason why there is no connection, and no filters.
fn status_for_python(py: Python<'_>, status: &Status) -> (&'static str, bool, Option<Py<PyAny>>, Vec<String>) {
    let exception = |why: &Error| Some(error::raise(py, why).into_value(py).into_any());
    match status {
        Status::Online { session_present } => ("online", *session_present, None, Vec::new()),
        Status::Offline(why) => ("offline", false, exception(why), Vec::new()),
        Status::Closed(why) => ("closed", false, exception(why), Vec::new()),
        _ => ("connecting", false, None, Vec::new()),
    }
}
