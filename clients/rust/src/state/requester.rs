//! Requests and their answers (section 4.10).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tautwire_protocol::{Property, QoS, TopicName};

use super::State;
use super::completion::{Completion, Publishing};
use super::handle::Handle;
use super::lock;
use super::routes::{Replies, Tag, Target};
use crate::error::Refused;
use crate::{Error, Message, Publication, Subscribe};

/// Sends requests and matches the answers to them. MQTT 5.0 alone. Many requests may be under way at once.
#[derive(Debug)]
pub struct Requester {
    handle: Handle,
    topic: String,
    route: u64,
    replies: Arc<Replies>,
    next: AtomicU64,
}

impl Requester {
    /// Subscribes to `topic`, to which answers shall come. It should be this client's alone.
    pub(crate) async fn new(handle: Handle, topic: String) -> Result<Requester, Error> {
        TopicName::new(&topic)?;
        let subscribe = Subscribe::to(topic.clone()).qos(QoS::AtLeastOnce);
        let (completion, replies) = (Completion::new(), Arc::new(Replies::default()));
        let route = handle.shared.with(|state| {
            if let Some(why) = state.closed() {
                return Err(why);
            }
            let route = state.routes.add(&subscribe, Target::Replies(replies.clone()));
            let State { machine, routes, .. } = state;
            let asked = machine.subscribe(&subscribe, Tag::Subscribe(completion.clone()), routes);
            if asked.is_err() {
                routes.remove(route);
            }
            asked.map(|()| route)
        })?;
        let requester = Requester { handle, topic, route, replies, next: AtomicU64::new(1) };
        let (reasons, text) = std::future::poll_fn(|cx| completion.poll(cx)).await?;
        match reasons.first() {
            Some(reason) if reason.is_error() => {
                let what = Refused::Subscription(requester.topic.as_str().into());
                Err(Error::refused(what, *reason, text.as_deref()))
            }
            _ => Ok(requester),
        }
    }

    /// The topic to which answers come.
    pub fn response_topic(&self) -> &str {
        &self.topic
    }

    /// Publishes a request once there is room, and gives what its answer will be. Response topic and correlation data are
    /// added. Dropping the [`Reply`] gives the request up.
    ///
    /// # Errors
    /// As for publishing.
    pub async fn request(&self, publication: Publication<'_>) -> Result<Reply, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let data = number.to_be_bytes();
        let publication = publication
            .property(Property::ResponseTopic(TopicName::new(&self.topic)?))
            .property(Property::CorrelationData(&data));
        let completion = Completion::new();
        lock(&self.replies).insert(number, completion.clone());
        let mut reply = Reply { number, completion, replies: self.replies.clone(), publishing: None };
        let publishing = self.handle.publish(&publication).await?;
        // At QoS 0 nothing will be heard of the request itself.
        reply.publishing = (publication.qos != QoS::AtMostOnce).then_some(publishing);
        Ok(reply)
    }
}

impl Drop for Requester {
    fn drop(&mut self) {
        self.handle.shared.with(|state| {
            let filters = state.routes.remove(self.route);
            let filters: Vec<&str> = filters.iter().map(|filter| &**filter).collect();
            if !filters.is_empty() && state.closed().is_none() {
                let State { machine, routes, .. } = state;
                let _ = machine.unsubscribe(&filters, &[], None, routes);
            }
        });
        let waiting: Vec<_> = lock(&self.replies).drain().collect();
        for waker in waiting.iter().filter_map(|(_, completion)| completion.complete(Err(Error::Closed))) {
            waker.wake();
        }
    }
}

/// The answer to a request, when it comes. It fails at once where the request itself is refused.
#[derive(Debug)]
pub struct Reply {
    number: u64,
    completion: Arc<Completion<Result<Message, Error>>>,
    replies: Arc<Replies>,
    publishing: Option<Publishing>,
}

impl Future for Reply {
    type Output = Result<Message, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(answer) = self.completion.poll(cx) {
            return Poll::Ready(answer);
        }
        if let Some(publishing) = &mut self.publishing
            && let Poll::Ready(published) = Pin::new(publishing).poll(cx)
        {
            self.publishing = None;
            if let Err(error) = published {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Pending
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        lock(&self.replies).remove(&self.number);
    }
}
