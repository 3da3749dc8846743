//! What answers requests (section 4.10).

use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use tautwire_protocol::{Property, QoS};

use super::handle::{Handle, Subscribing};
use super::lock;
use crate::error::BoxError;
use crate::{Error, Message, Publication, Subscribe, log};

/// The user property with which a responder says that it has failed.
pub(super) const FAILURE_PROPERTY: &str = "error";
/// What a requester is told of a failure that is not meant for it.
const UNNAMED_FAILURE: &str = "the responder failed";

/// What a responder answers.
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

    /// What the payload is, such as a MIME type.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Response {
        self.content_type = Some(content_type.into());
        self
    }

    /// A name and a value of the application's own. May be repeated. With an empty payload, the name `error` says that the responder has
    /// failed.
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
    /// Says the size of the payload, never the payload.
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

/// Why a responder could not do what a request asked for, in a sentence that the requester reads ([`Error::RequestFailed`]). Of any other
/// error the requester is told nothing but that the responder failed, as its text may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseFailure(String);

impl ResponseFailure {
    /// With this sentence.
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

/// Tells a responder that it is to stop.
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

    /// What `other` gives, or `None` once it is stopped.
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
    /// Subscribes to requests. They come at the QoS at which they were published.
    pub(crate) fn serve(&self, subscribe: Subscribe) -> Result<Subscribing, Error> {
        if !self.shared.with_options(|options| options.version.is_v5()) {
            return Err(Error::NotSupported("requests, which need MQTT 5.0"));
        }
        self.subscribe(&subscribe.qos(QoS::ExactlyOnce))
    }
}

/// What has come of a request: `None` where its handler panicked.
pub(crate) type Answering = Option<Result<Response, BoxError>>;

/// Runs a handler, and outlives its panic.
pub(crate) async fn caught<F: Future>(handling: F) -> Option<F::Output> {
    let mut handling = std::pin::pin!(handling);
    // After a panic it is not run again.
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}

/// Publishes what has come of a request: at its QoS, to its response topic, with its correlation data. Without a response topic, nobody
/// wants to know.
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
            // It is too large, or has a property that cannot be written. The requester need not wait in vain.
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
    // Its acknowledgement is not waited for: the next request is.
    handle.publish(&publication).await.map(drop)
}

/// The sentence of a [`ResponseFailure`] that the error is, or wraps.
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
