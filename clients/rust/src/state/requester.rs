//! Requests and their responses (section 4.10).

use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tautwire_protocol::{Property, QoS, ReasonCode, TopicName};

use super::completion::{Completion, Publishing};
use super::handle::Handle;
use super::responder::FAILURE_PROPERTY;
use super::routes::{Replies, Target};
use crate::error::Refused;
use crate::sync::lock;
use crate::{Error, Message, Publication, Subscribe};

/// The prefix of response topics if the server sends no Response Information (section 3.2.2.3.15).
const TOPIC_PREFIX: &str = "tautwire/response";
/// The default time limit for a response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends requests and matches responses to them. MQTT 5.0 only. Many requests may be pending at once.
///
/// Responses arrive at a topic of its own, to which it is subscribed until it is dropped.
#[derive(Debug)]
pub struct Requester {
    handle: Handle,
    topic: String,
    route: u64,
    replies: Arc<Replies>,
    next: AtomicU64,
    timeout: Duration,
}

impl Requester {
    /// Subscribes to a topic of its own, or to `topic`, which no other client should use.
    pub(crate) async fn new(handle: Handle, topic: Option<String>) -> Result<Requester, Error> {
        if !handle.shared.with_options(|options| options.version.is_v5()) {
            return Err(Error::NotSupported("requests, which require MQTT 5.0"));
        }
        let topic = topic.unwrap_or_else(|| handle.shared.with(|state| random_topic(state.response_information())));
        TopicName::new(&topic)?;
        // A response has the QoS of its request.
        let subscribe = Subscribe::to(topic.clone()).qos(QoS::ExactlyOnce);
        let (completion, replies) = (Completion::new(), Arc::new(Replies::default()));
        let (route, asked) =
            handle.shared.with(|state| state.ask(&subscribe, Target::Replies(replies.clone()), completion.clone()))?;
        let timeout = REQUEST_TIMEOUT;
        let requester = Requester { handle, topic, route, replies, next: AtomicU64::new(1), timeout };
        asked?;
        let (reasons, text) = std::future::poll_fn(|cx| completion.poll(cx)).await?;
        match reasons.first() {
            Some(reason) if reason.is_error() => {
                let what = Refused::Subscription(requester.topic.as_str().into());
                Err(Error::refused(what, *reason, text.as_deref()))
            }
            _ => Ok(requester),
        }
    }

    /// The time limit for a response, including the time that the request waits here for a connection. Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Requester {
        self.timeout = timeout;
        self
    }

    pub(crate) fn patience(&self) -> Duration {
        self.timeout
    }

    /// The topic of the responses.
    pub fn response_topic(&self) -> &str {
        &self.topic
    }

    /// Publishes a request once there is room, at QoS 1 unless set otherwise, and returns its future response. It sets the response topic
    /// and the correlation data. Dropping the [`Reply`] abandons the request.
    pub(crate) async fn ask(&self, publication: Publication<'_>) -> Result<Reply, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let data = number.to_be_bytes();
        let publication =
            publication.or_qos(QoS::AtLeastOnce).response_topic(&self.topic).property(Property::CorrelationData(&data));
        let completion = Completion::new();
        lock(&self.replies).insert(number, completion.clone());
        let mut reply = Reply { number, completion, replies: self.replies.clone(), publishing: None };
        let publishing = self.handle.publish(&publication).await?;
        // At QoS 0 the request itself is not acknowledged.
        reply.publishing = (publication.chosen_qos() != QoS::AtMostOnce).then_some(publishing);
        Ok(reply)
    }
}

fn random_topic(response_information: Option<&str>) -> String {
    let prefix = response_information.unwrap_or(TOPIC_PREFIX).trim_end_matches('/');
    let [one, other] = [0, 1].map(|part| RandomState::new().hash_one(part));
    format!("{prefix}/{one:016x}{:08x}", other >> 32)
}

impl Drop for Requester {
    fn drop(&mut self) {
        self.handle.shared.with(|state| {
            let left = state.routes.remove(self.route);
            let filters: Vec<&str> = left.unwanted.iter().map(|filter| &**filter).collect();
            if !filters.is_empty() && state.closed().is_none() {
                let (machine, routes) = state.parts();
                let _ = machine.unsubscribe(&filters, &[], None, routes);
            }
        });
        let waiting: Vec<_> = lock(&self.replies).drain().collect();
        for waker in waiting.iter().filter_map(|(_, completion)| completion.complete(Err(Error::Closed))) {
            waker.wake();
        }
    }
}

/// The future response to a request. It fails at once if the request is refused, or if no client has subscribed to its topic.
#[derive(Debug)]
pub(crate) struct Reply {
    number: u64,
    completion: Arc<Completion<Result<Message, Error>>>,
    replies: Arc<Replies>,
    publishing: Option<Publishing>,
}

impl Future for Reply {
    type Output = Result<Message, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(response) = self.completion.poll(cx) {
            return Poll::Ready(response.and_then(succeeded));
        }
        if let Some(publishing) = &mut self.publishing
            && let Poll::Ready(published) = Pin::new(publishing).poll(cx)
        {
            self.publishing = None;
            match published {
                Err(error) => return Poll::Ready(Err(error)),
                Ok(published) if published.reason == ReasonCode::NoMatchingSubscribers => {
                    return Poll::Ready(Err(Error::NoResponder));
                }
                Ok(_) => {}
            }
        }
        Poll::Pending
    }
}

/// An empty payload with the user property `error` means that the responder has failed.
fn succeeded(response: Message) -> Result<Message, Error> {
    if !response.payload().is_empty() {
        return Ok(response);
    }
    let failure = response.properties().user_properties().find(|(name, _)| *name == FAILURE_PROPERTY);
    match failure.map(|(_, sentence)| sentence.into()) {
        Some(sentence) => Err(Error::RequestFailed(sentence)),
        None => Ok(response),
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        lock(&self.replies).remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_topics_are_unique_and_have_the_servers_prefix() {
        let (one, other) = (random_topic(None), random_topic(None));
        assert!(one != other && one.starts_with("tautwire/response/") && one.len() == "tautwire/response/".len() + 24);
        for information in ["ann/answers", "ann/answers/"] {
            assert!(random_topic(Some(information)).starts_with("ann/answers/"), "{information}");
            assert!(!random_topic(Some(information)).contains("//"));
        }
    }
}
