//! The front for async code.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tautwire_protocol::{Property, PubAckReason, QoS, ReasonCode};
use tokio::task::JoinHandle;

use crate::driver::{Begin, task};
use crate::error::BoxError;
use crate::state::{Handle, StopSignal, answer, caught};
use crate::{
    AckToken, ConnectionEvent, Counters, Error, Events, Message, Offer, Options, Publication, Publishing, Requester,
    Response, Status, Subscribe, Subscription,
};

/// A client for async code, on tokio. Cloning it gives another handle to the same client.
///
/// When all handles and streams are gone, the client ends as [`Client::disconnect`] does, without anybody waiting for it.
#[derive(Debug, Clone)]
pub struct Client {
    handle: Handle,
}

impl Client {
    /// Makes one attempt to connect, and waits until the server has accepted the client.
    ///
    /// # Errors
    /// Why the attempt failed. After a success, lost connections are made again as [`Options::reconnect`] says.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(options: Options) -> Result<Client, Error> {
        let client = Client::begin(options, Begin::FailAtOnce);
        client.handle.online().await?;
        Ok(client)
    }

    /// Begins to connect and does not wait: what is published and subscribed meanwhile waits in the client. It tries until
    /// it is let in, or refused for good. [`Client::events`] tells of each attempt that fails.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(options: Options) -> Client {
        Client::begin(options, Begin::KeepTrying)
    }

    fn begin(options: Options, begin: Begin) -> Client {
        let handle = Handle::new(options);
        tokio::spawn(task::run(handle.shared().clone(), begin));
        Client { handle }
    }

    /// Waits until the server has accepted the client.
    ///
    /// # Errors
    /// The client is closed.
    pub async fn online(&self) -> Result<(), Error> {
        self.handle.online().await
    }

    /// Takes a message to be published, once there is room for it, and gives a handle that resolves when the server has
    /// acknowledged it to the end. Without a connection the message waits in the client.
    ///
    /// Cancelled before it is done, nothing is published.
    ///
    /// # Errors
    /// The message cannot be sent, or the client is closed.
    pub async fn publish(&self, publication: Publication<'_>) -> Result<Publishing, Error> {
        self.handle.publish(&publication).await
    }

    /// As [`Client::publish`], without waiting for room.
    ///
    /// # Errors
    /// [`Error::QueueFull`], [`Error::OutputFull`], or as [`Client::publish`].
    pub fn try_publish(&self, publication: Publication<'_>) -> Result<Publishing, Error> {
        self.handle.try_publish(&publication)
    }

    /// Subscribes and waits for the server's answer. Without a connection it waits for one.
    ///
    /// # Errors
    /// The server refuses one of the filters: there is no subscription then. Or the request cannot be sent, or the client is closed.
    pub async fn subscribe(&self, subscribe: impl Into<Subscribe>) -> Result<Subscription, Error> {
        self.handle.subscribe(&subscribe.into())?.await
    }

    /// A stream for what the session is subscribed to already, without asking the server again.
    ///
    /// # Errors
    /// A filter that is none, or the client is closed.
    pub fn listen(&self, subscribe: impl Into<Subscribe>) -> Result<Subscription, Error> {
        self.handle.listen(&subscribe.into())
    }

    /// Ends subscriptions of the session for which there is no stream. Gives a code for each filter (none before MQTT 5.0).
    ///
    /// # Errors
    /// The request cannot be sent, or the client is closed.
    pub async fn unsubscribe(&self, filters: &[&str], properties: &[Property<'_>]) -> Result<Vec<ReasonCode>, Error> {
        self.handle.unsubscribe(filters, properties)?.await
    }

    /// Acknowledges a message of any stream with manual acknowledgement.
    pub fn acknowledge(&self, token: AckToken) {
        self.handle.acknowledge(token, PubAckReason::Success);
    }

    /// As `acknowledge`, without waking the connection for it: the acknowledgement leaves with what is sent next, or with
    /// `flush`. A program that acknowledges a message and then publishes one sends both at once.
    pub fn acknowledge_with_next(&self, token: AckToken) {
        self.handle.acknowledge_with_next(token);
    }

    /// Sends the acknowledgements of `acknowledge_with_next`. Where there are none, it does nothing.
    pub fn flush(&self) {
        self.handle.flush();
    }

    /// Prepares for requests: subscribes to a topic of its own for the responses (`tautwire/response/…`, or what the server says that it
    /// should begin with).
    ///
    /// # Errors
    /// [`Error::NotSupported`] before MQTT 5.0, or as [`Client::subscribe`].
    pub async fn requester(&self) -> Result<Requester, Error> {
        Requester::new(self.handle.clone(), None).await
    }

    /// As [`Client::requester`], with responses at `topic`, which should be this client's alone.
    ///
    /// # Errors
    /// The topic is none, or as [`Client::requester`].
    pub async fn requester_at(&self, topic: impl Into<String>) -> Result<Requester, Error> {
        Requester::new(self.handle.clone(), Some(topic.into())).await
    }

    /// Answers requests, one after the other, in a task of its own: what `handler` gives is published to the response topic of the
    /// request, with its correlation data, at its QoS. A request is acknowledged when it has been answered. It comes at the QoS at which it
    /// was published; that of `subscribe` does not count.
    ///
    /// If the handler fails with a [`crate::ResponseFailure`], its sentence is for the requester, which gets [`Error::RequestFailed`]. Of any
    /// other error, and of a panic, it is told nothing but that the responder failed.
    ///
    /// ```no_run
    /// use tautwire_client::{Client, ResponseFailure};
    ///
    /// # async fn run(client: Client) -> Result<(), tautwire_client::Error> {
    /// let responder = client
    ///     .respond("plant/7/double", |request| async move {
    ///         let text = std::str::from_utf8(request.payload())?;
    ///         let number: i64 = text.parse().map_err(|_| ResponseFailure::new("not a number"))?;
    ///         Ok((2 * number).to_string())
    ///     })
    ///     .await?;
    /// # responder.stop().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotSupported`] before MQTT 5.0, or as [`Client::subscribe`].
    pub async fn respond<F, A, R>(&self, subscribe: impl Into<Subscribe>, mut handler: F) -> Result<Responder, Error>
    where
        F: FnMut(Message) -> A + Send + 'static,
        A: Future<Output = Result<R, BoxError>> + Send + 'static,
        R: Into<Response> + 'static,
    {
        let mut requests = self.handle.serve(subscribe.into())?.await?;
        let granted = requests.granted().map(|(filter, qos)| (filter.to_owned(), qos)).collect();
        let (handle, stop) = (self.handle.clone(), Arc::new(StopSignal::default()));
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            while let Some(request) = poll_fn(|cx| stopped.poll_unless(cx, |cx| requests.poll_next(cx))).await {
                let answering = caught(async { handler(request.clone()).await.map(Into::into) }).await;
                answer(&handle, &request, answering).await;
            }
            requests.unsubscribe().await
        });
        Ok(Responder { granted, stop, task: Some(task) })
    }

    /// Authenticates again on the connection that there is (section 4.12.1), and resolves when the server has accepted it. Messages
    /// flow meanwhile. Where either side refuses, the connection ends.
    ///
    /// # Errors
    /// There is no authenticator, or it refuses; one is under way already; there is no connection, or it is lost; what the server
    /// said when it refused.
    pub async fn reauthenticate(&self) -> Result<(), Error> {
        self.handle.reauthenticate().await
    }

    /// How the client stands.
    pub fn status(&self) -> Status {
        self.handle.status()
    }

    /// What has happened to the connection, step by step: from the beginning of the client, as far as it is kept (256 events), and on.
    pub fn events(&self) -> Events {
        Events::new(self.handle.shared().clone())
    }

    /// Follows how the client stands, from now on.
    pub fn watch(&self) -> StatusWatch {
        StatusWatch { handle: self.handle.clone(), seen: u64::MAX }
    }

    /// What has been counted.
    pub fn counters(&self) -> Counters {
        self.handle.counters()
    }

    /// The client identifier; the server's choice where it made one.
    pub fn client_id(&self) -> String {
        self.handle.client_id()
    }

    /// What the server of the present connection accepts.
    pub fn offer(&self) -> Offer {
        self.handle.offer()
    }

    /// QoS 1 and 2 messages received and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.handle.unacknowledged()
    }

    /// Ends the client cleanly: waits until all that was published is acknowledged, at most
    /// [`Options::disconnect_timeout`], and says DISCONNECT. Streams end; what is unresolved gets [`Error::Closed`].
    ///
    /// # Errors
    /// The connection was lost before.
    pub async fn disconnect(&self) -> Result<(), Error> {
        self.handle.disconnect(&[]).await
    }

    /// As [`Client::disconnect`], with properties such as a last session expiry.
    ///
    /// # Errors
    /// Properties that may not stand there, or as [`Client::disconnect`].
    pub async fn disconnect_with(&self, properties: &[Property<'_>]) -> Result<(), Error> {
        self.handle.disconnect(properties).await
    }
}

/// Follows how a client stands.
#[derive(Debug)]
pub struct StatusWatch {
    handle: Handle,
    seen: u64,
}

impl StatusWatch {
    /// The status now, when called first; then each time the one it has changed to. Steps in between may be left out.
    /// After [`Status::Closed`] nothing more comes.
    pub async fn next(&mut self) -> Status {
        poll_fn(|cx| self.handle.poll_status(&mut self.seen, cx)).await
    }
}

impl Events {
    /// The next event; `None` when the client has ended. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Option<ConnectionEvent> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl Requester {
    /// Publishes a request, at QoS 1 unless it says otherwise, and waits for its response. Response topic and correlation data are set.
    /// Dropping the future gives the request up; what has been published already is answered in vain.
    ///
    /// # Errors
    /// [`Error::NoResponder`] at QoS 1 and 2, [`Error::RequestFailed`], [`Error::RequestTimeout`], or as for publishing.
    pub async fn request(&self, publication: Publication<'_>) -> Result<Message, Error> {
        let answered = async { self.ask(publication).await?.await };
        tokio::time::timeout(self.patience(), answered).await.unwrap_or(Err(Error::RequestTimeout))
    }
}

/// Answers requests until it is dropped, or the client has ended.
#[derive(Debug)]
pub struct Responder {
    granted: Vec<(String, QoS)>,
    stop: Arc<StopSignal>,
    task: Option<JoinHandle<Result<(), Error>>>,
}

impl Responder {
    /// The filters and the QoS that the server grants for each.
    pub fn granted(&self) -> impl Iterator<Item = (&str, QoS)> {
        self.granted.iter().map(|(filter, qos)| (filter.as_str(), *qos))
    }

    /// Answers the request that is being handled, ends the subscription, and waits for the server's answer.
    ///
    /// # Errors
    /// The request cannot be sent, or the client is closed.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stop.stop();
        match self.task.take() {
            // The task does not panic, and nobody aborts it.
            Some(task) => task.await.unwrap_or(Err(Error::Closed)),
            None => Ok(()),
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

impl Subscription {
    /// The next message; `None` when there will be no more. The message before it is acknowledged, unless that is done by
    /// hand. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Option<Message> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Ends the subscription and waits for the server's answer. Messages not handed out yet are dropped.
    ///
    /// # Errors
    /// The request cannot be sent, or the client is closed.
    pub async fn unsubscribe(self) -> Result<(), Error> {
        match self.close()? {
            Some(unsubscribing) => unsubscribing.await.map(|_| ()),
            None => Ok(()),
        }
    }
}

impl futures_core::Stream for Subscription {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        Subscription::poll_next(self.get_mut(), cx)
    }
}
