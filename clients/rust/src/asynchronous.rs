//! The client for async code.

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
/// When all handles and streams are dropped, the client disconnects as [`Client::disconnect`] does, in the background.
#[derive(Debug, Clone)]
pub struct Client {
    handle: Handle,
}

impl Client {
    /// Makes one attempt to connect, and waits until the server has accepted the client.
    ///
    /// # Errors
    /// The attempt failed. After a successful one, the client reconnects as [`Options::reconnect`] says.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(options: Options) -> Result<Client, Error> {
        let client = Client::begin(options, Begin::FailAtOnce);
        client.handle.online().await?;
        Ok(client)
    }

    /// Starts to connect and returns at once. Publications and subscriptions wait in the client until it is connected. It tries until the
    /// server accepts it or refuses it permanently. [`Client::events`] reports each failed attempt.
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

    /// Queues a message as soon as there is room and returns a handle. The handle resolves when the server has completely acknowledged the
    /// message. Without a connection the message waits in the client.
    ///
    /// If the call is cancelled, nothing is published.
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

    /// Subscribes and waits for SUBACK. Without a connection it waits for one.
    ///
    /// # Errors
    /// The server refuses one of the filters (no subscription is made then), the request cannot be sent, or the client is closed.
    pub async fn subscribe(&self, subscribe: impl Into<Subscribe>) -> Result<Subscription, Error> {
        self.handle.subscribe(&subscribe.into())?.await
    }

    /// Returns a stream for existing subscriptions of the session, without a SUBSCRIBE.
    ///
    /// # Errors
    /// The filter is invalid, or the client is closed.
    pub fn listen(&self, subscribe: impl Into<Subscribe>) -> Result<Subscription, Error> {
        self.handle.listen(&subscribe.into())
    }

    /// Ends subscriptions of the session that have no stream. Returns one code per filter (none before MQTT 5.0).
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

    /// As `acknowledge`, but does not wake the connection: the acknowledgement is sent with the next packet or by `flush`. A program that
    /// acknowledges a message and then publishes one sends both at once.
    pub fn acknowledge_with_next(&self, token: AckToken) {
        self.handle.acknowledge_with_next(token);
    }

    /// Sends the acknowledgements of `acknowledge_with_next`. Does nothing if there are none.
    pub fn flush(&self) {
        self.handle.flush();
    }

    /// Prepares for requests: subscribes to a response topic of its own (`tautwire/response/…`, or below the response information of the
    /// server).
    ///
    /// # Errors
    /// [`Error::NotSupported`] before MQTT 5.0, or as [`Client::subscribe`].
    pub async fn requester(&self) -> Result<Requester, Error> {
        Requester::new(self.handle.clone(), None).await
    }

    /// As [`Client::requester`], with responses at `topic`, which no other client should use.
    ///
    /// # Errors
    /// The topic is invalid, or as [`Client::requester`].
    pub async fn requester_at(&self, topic: impl Into<String>) -> Result<Requester, Error> {
        Requester::new(self.handle.clone(), Some(topic.into())).await
    }

    /// Answers requests, one after the other, in a task of its own. The result of `handler` is published to the response topic of the
    /// request, with its correlation data, at its QoS. A request is acknowledged when it has been answered. Requests arrive at the QoS at
    /// which they were published, whatever the QoS of `subscribe`.
    ///
    /// If the handler fails with a [`crate::ResponseFailure`], the requester gets its text in [`Error::RequestFailed`]. For any other
    /// error, and for a panic, the requester learns only that the responder failed.
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

    /// Authenticates again on the current connection (section 4.12.1). Resolves when the server has accepted it. Messages flow meanwhile.
    /// If either side refuses, the connection ends.
    ///
    /// # Errors
    /// There is no authenticator, or it fails; a re-authentication is in progress; there is no connection, or it is lost; the server
    /// refuses.
    pub async fn reauthenticate(&self) -> Result<(), Error> {
        self.handle.reauthenticate().await
    }

    /// The current status of the client.
    pub fn status(&self) -> Status {
        self.handle.status()
    }

    /// The events of the connection, from the start of the client (the last 256 are buffered) and as they happen.
    pub fn events(&self) -> Events {
        Events::new(self.handle.shared().clone())
    }

    /// Watches the status of the client from now on.
    pub fn watch(&self) -> StatusWatch {
        StatusWatch { handle: self.handle.clone(), seen: u64::MAX }
    }

    /// The counters of the client.
    pub fn counters(&self) -> Counters {
        self.handle.counters()
    }

    /// The client identifier, also if the server has assigned it.
    pub fn client_id(&self) -> String {
        self.handle.client_id()
    }

    /// What the server of the current connection supports.
    pub fn offer(&self) -> Offer {
        self.handle.offer()
    }

    /// QoS 1 and 2 messages received and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.handle.unacknowledged()
    }

    /// Ends the client cleanly: waits until all publications are acknowledged, at most [`Options::disconnect_timeout`], then sends
    /// DISCONNECT. Streams end; unresolved handles get [`Error::Closed`].
    ///
    /// # Errors
    /// The connection was already lost.
    pub async fn disconnect(&self) -> Result<(), Error> {
        self.handle.disconnect(&[]).await
    }

    /// As [`Client::disconnect`], with properties such as a final session expiry.
    ///
    /// # Errors
    /// A property is not allowed in DISCONNECT, or as [`Client::disconnect`].
    pub async fn disconnect_with(&self, properties: &[Property<'_>]) -> Result<(), Error> {
        self.handle.disconnect(properties).await
    }
}

/// Watches the status of a client.
#[derive(Debug)]
pub struct StatusWatch {
    handle: Handle,
    seen: u64,
}

impl StatusWatch {
    /// The first call returns the current status, each later call the next change. Intermediate changes can be skipped. After
    /// [`Status::Closed`] it never resolves.
    pub async fn next(&mut self) -> Status {
        poll_fn(|cx| self.handle.poll_status(&mut self.seen, cx)).await
    }
}

impl Events {
    /// The next event; `None` when the client has ended. It is cancel safe.
    pub async fn next(&mut self) -> Option<ConnectionEvent> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl Requester {
    /// Publishes a request, at QoS 1 unless set otherwise, and waits for its response. It sets the response topic and the correlation data.
    /// Dropping the future abandons the request; a response to it is discarded.
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
    /// The filters and the QoS that the server granted for each.
    pub fn granted(&self) -> impl Iterator<Item = (&str, QoS)> {
        self.granted.iter().map(|(filter, qos)| (filter.as_str(), *qos))
    }

    /// Answers the current request, ends the subscription, and waits for UNSUBACK.
    ///
    /// # Errors
    /// The request cannot be sent, or the client is closed.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stop.stop();
        match self.task.take() {
            // The task does not panic and is never aborted.
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
    /// The next message; `None` when the subscription has ended. It acknowledges the previous message unless acknowledgement is manual. It
    /// is cancel safe.
    pub async fn next(&mut self) -> Option<Message> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Ends the subscription and waits for UNSUBACK. Messages that are still in the stream are dropped.
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
