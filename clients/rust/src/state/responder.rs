//! Responders: they answer requests (section 4.10).

use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use tautwire_protocol::{Property, QoS};

use super::handle::Handle;
use super::subscribing::Subscribing;
use crate::error::BoxError;
use crate::sync::lock;
use crate::{Error, Message, Publication, Subscribe, log};

/// The user property that marks a failure of the responder.
pub(super) const FAILURE_PROPERTY: &str = "error";
/// The text that a requester gets for a failure that may contain secrets.
const UNNAMED_FAILURE: &str = "the responder failed";

/// The response of a responder.
#[derive(Clone, Default)]
pub struct Response {
    payload: Vec<u8>,
    content_type: Option<String>,
    user_properties: Vec<(String, String)>,
}

impl Response {
    /// A response with this payload.
    pub fn new(payload: impl Into<Vec<u8>>) -> Response {
        Response { payload: payload.into(), ..Response::default() }
    }

    /// Sets the content type, such as a MIME type.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Response {
        self.content_type = Some(content_type.into());
        self
    }

    /// Adds a user property. May be repeated. With an empty payload, the name `error` means that the responder has failed.
    #[must_use]
    pub fn user_property(mut self, name: impl Into<String>, value: impl Into<String>) -> Response {
        self.user_properties.push((name.into(), value.into()));
        self
    }

    fn failure(sentence: &str) -> Response {
        Response::default().user_property(FAILURE_PROPERTY, sentence)
    }
}

impl fmt::Debug for Response {
    /// Shows the size of the payload, never the payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("payload_bytes", &self.payload.len()).finish_non_exhaustive()
    }
}

impl From<Vec<u8>> for Response {
    fn from(payload: Vec<u8>) -> Self {
        Response::new(payload)
    }
}

impl From<&[u8]> for Response {
    fn from(payload: &[u8]) -> Self {
        Response::new(payload)
    }
}

impl From<String> for Response {
    fn from(payload: String) -> Self {
        Response::new(payload)
    }
}

impl From<&str> for Response {
    fn from(payload: &str) -> Self {
        Response::new(payload)
    }
}

impl From<()> for Response {
    /// An empty payload.
    fn from((): ()) -> Self {
        Response::default()
    }
}

/// Why a responder could not fulfil a request, in a text for the requester ([`Error::RequestFailed`]). For any other error the requester
/// learns only that the responder failed, because its text may contain secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseFailure(String);

impl ResponseFailure {
    /// A failure with this text.
    pub fn new(sentence: impl Into<String>) -> ResponseFailure {
        ResponseFailure(sentence.into())
    }
}

impl fmt::Display for ResponseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for ResponseFailure {}

/// Stops a responder.
#[derive(Debug, Default)]
pub(crate) struct StopSignal(Mutex<Stop>);

#[derive(Debug, Default)]
struct Stop {
    is_stopped: bool,
    waker: Option<Waker>,
}

impl StopSignal {
    pub(crate) fn stop(&self) {
        let waker = {
            let mut stop = lock(&self.0);
            stop.is_stopped = true;
            stop.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The output of `other`, or `None` once stopped.
    pub(crate) fn poll_unless<T>(
        &self,
        cx: &mut Context<'_>,
        other: impl FnOnce(&mut Context<'_>) -> Poll<Option<T>>,
    ) -> Poll<Option<T>> {
        {
            let mut stop = lock(&self.0);
            if stop.is_stopped {
                return Poll::Ready(None);
            }
            stop.waker = Some(cx.waker().clone());
        }
        other(cx)
    }
}

impl Handle {
    /// Subscribes to requests. They arrive at the QoS at which they were published.
    pub(crate) fn serve(&self, subscribe: Subscribe) -> Result<Subscribing, Error> {
        if !self.shared.with_options(|options| options.version.is_v5()) {
            return Err(Error::NotSupported("requests, which require MQTT 5.0"));
        }
        self.subscribe(&subscribe.qos(QoS::ExactlyOnce))
    }
}

/// The result of a request: `None` if its handler panicked.
pub(crate) type Answering = Option<Result<Response, BoxError>>;

/// Runs a handler and catches its panic.
pub(crate) async fn caught<F: Future>(handling: F) -> Option<F::Output> {
    let mut handling = std::pin::pin!(handling);
    // It is not polled again after a panic.
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}

/// Publishes the result of a request: at its QoS, to its response topic, with its correlation data. Without a response topic nothing is
/// published.
pub(crate) async fn answer(handle: &Handle, request: &Message, answering: Answering) {
    let response = match answering {
        Some(Ok(response)) => response,
        Some(Err(error)) => {
            log::responder_failed(request.topic());
            Response::failure(sentence(&*error).unwrap_or(UNNAMED_FAILURE))
        }
        None => {
            log::responder_failed(request.topic());
            Response::failure(UNNAMED_FAILURE)
        }
    };
    match publish(handle, request, &response).await {
        Ok(()) | Err(Error::Closed) => {}
        Err(error) => {
            log::response_unsent(&error);
            // The response is too large, or has an invalid property. A failure saves the requester from waiting for the timeout.
            let _ = publish(handle, request, &Response::failure(UNNAMED_FAILURE)).await;
        }
    }
}

async fn publish(handle: &Handle, request: &Message, response: &Response) -> Result<(), Error> {
    let properties = request.properties();
    let Some(topic) = properties.response_topic() else { return Ok(()) };
    let mut publication = Publication::new(topic.as_str(), &response.payload).qos(request.qos());
    if let Some(data) = properties.correlation_data() {
        publication = publication.property(Property::CorrelationData(data));
    }
    if let Some(content_type) = &response.content_type {
        publication = publication.content_type(content_type);
    }
    for (name, value) in &response.user_properties {
        publication = publication.user_property(name, value);
    }
    // The next request is handled without waiting for the acknowledgement.
    handle.publish(&publication).await.map(drop)
}

/// The text of a [`ResponseFailure`] that is or is wrapped by the error.
fn sentence<'e>(error: &'e (dyn StdError + Send + Sync + 'static)) -> Option<&'e str> {
    let mut error: Option<&'e (dyn StdError + 'static)> = Some(error);
    while let Some(now) = error {
        if let Some(ResponseFailure(sentence)) = now.downcast_ref::<ResponseFailure>() {
            return Some(sentence);
        }
        error = now.source();
    }
    None
}
