//! The client for threads, driven by a thread of its own.
//!
//! ```no_run
//! use tautwire_client::{Options, Publication, QoS, Subscribe, blocking::Client};
//!
//! # fn run() -> Result<(), tautwire_client::Error> {
//! let client = Client::connect(Options::new("mqtt://localhost:1883")?)?;
//! let greetings = client.subscribe(Subscribe::to("demo/#").qos(QoS::AtLeastOnce))?;
//! client.publish(Publication::new("demo/hello", "hi").qos(QoS::AtLeastOnce))?.wait()?;
//! for message in greetings.take(1) {
//!     println!("{}: {} bytes", message.topic(), message.payload().len());
//! }
//! client.disconnect()
//! # }
//! ```

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tautwire_protocol::{Property, PubAckReason, QoS, ReasonCode};

use crate::driver::Begin;
use crate::driver::thread;
use crate::error::BoxError;
use crate::machine::Published;
use crate::state::{Handle, StopSignal, answer};
use crate::{
    AckToken, ConnectionEvent, Counters, Error, Message, Offer, Options, Publication, Response, Status, Subscribe,
};

/// A client for threads. Cloning it gives another handle to the same client.
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
    /// The attempt failed, or no thread could be started. After a successful attempt, the client reconnects as [`Options::reconnect`] says.
    pub fn connect(options: Options) -> Result<Client, Error> {
        let client = Client::begin(options, Begin::FailAtOnce)?;
        client.online()?;
        Ok(client)
    }

    /// Starts to connect and returns at once. Publications and subscriptions wait in the client until it is connected. It tries until the
    /// server accepts it or refuses it permanently. [`Client::events`] reports each failed attempt.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(options: Options) -> Result<Client, Error> {
        Client::begin(options, Begin::KeepTrying)
    }

    fn begin(options: Options, begin: Begin) -> Result<Client, Error> {
        let handle = Handle::new(options);
        thread::start(handle.shared().clone(), begin)?;
        Ok(Client { handle })
    }

    /// Waits until the server has accepted the client.
    ///
    /// # Errors
    /// The client is closed.
    pub fn online(&self) -> Result<(), Error> {
        wait(self.handle.online())
    }

    /// Queues a message as soon as there is room and returns a handle. The handle resolves when the server has completely acknowledged the
    /// message. Without a connection the message waits in the client.
    ///
    /// # Errors
    /// The message cannot be sent, or the client is closed.
    pub fn publish(&self, publication: Publication<'_>) -> Result<Publishing, Error> {
        wait(self.handle.publish(&publication)).map(Publishing)
    }

    /// As [`Client::publish`], without waiting for room.
    ///
    /// # Errors
    /// [`Error::QueueFull`], [`Error::OutputFull`], or as [`Client::publish`].
    pub fn try_publish(&self, publication: Publication<'_>) -> Result<Publishing, Error> {
        self.handle.try_publish(&publication).map(Publishing)
    }

    /// As [`Client::publish`], for [`block_on`].
    pub fn poll_publish(
        &self,
        publication: &Publication<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<crate::Publishing, Error>> {
        self.handle.poll_publish(publication, cx)
    }

    /// Subscribes and waits for SUBACK. Without a connection it waits for one.
    ///
    /// # Errors
    /// The server refuses one of the filters (no subscription is made then), the request cannot be sent, or the client is closed.
    pub fn subscribe(&self, subscribe: impl Into<Subscribe>) -> Result<Subscription, Error> {
        wait(self.handle.subscribe(&subscribe.into())?).map(Subscription)
    }

    /// As [`Client::subscribe`], without waiting: the future resolves with the answer.
    ///
    /// # Errors
    /// The request cannot be sent, or the client is closed.
    pub fn subscribing(&self, subscribe: impl Into<Subscribe>) -> Result<crate::Subscribing, Error> {
        self.handle.subscribe(&subscribe.into())
    }

    /// Returns a stream for existing subscriptions of the session, without a SUBSCRIBE.
    ///
    /// # Errors
    /// The filter is invalid, or the client is closed.
    pub fn listen(&self, subscribe: impl Into<Subscribe>) -> Result<Subscription, Error> {
        self.handle.listen(&subscribe.into()).map(Subscription)
    }

    /// Ends subscriptions of the session that have no stream. Returns one code per filter (none before MQTT 5.0).
    ///
    /// # Errors
    /// The request cannot be sent, or the client is closed.
    pub fn unsubscribe(&self, filters: &[&str], properties: &[Property<'_>]) -> Result<Vec<ReasonCode>, Error> {
        wait(self.handle.unsubscribe(filters, properties)?)
    }

    /// As [`Client::unsubscribe`], without waiting: the future resolves with the answer.
    ///
    /// # Errors
    /// The request cannot be sent, or the client is closed.
    pub fn unsubscribing(&self, filters: &[&str], properties: &[Property<'_>]) -> Result<crate::Unsubscribing, Error> {
        self.handle.unsubscribe(filters, properties)
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
    pub fn requester(&self) -> Result<Requester, Error> {
        wait(crate::Requester::new(self.handle.clone(), None)).map(Requester)
    }

    /// As [`Client::requester`], with responses at `topic`, which no other client should use.
    ///
    /// # Errors
    /// The topic is invalid, or as [`Client::requester`].
    pub fn requester_at(&self, topic: impl Into<String>) -> Result<Requester, Error> {
        wait(crate::Requester::new(self.handle.clone(), Some(topic.into()))).map(Requester)
    }

    /// Answers requests, one after the other, in a thread of its own. The result of `handler` is published to the response topic of the
    /// request, with its correlation data, at its QoS. A request is acknowledged when it has been answered. Requests arrive at the QoS at
    /// which they were published, whatever the QoS of `subscribe`.
    ///
    /// If the handler fails with a [`crate::ResponseFailure`], the requester gets its text in [`Error::RequestFailed`]. For any other
    /// error, and for a panic, the requester learns only that the responder failed.
    ///
    /// ```no_run
    /// use tautwire_client::{ResponseFailure, blocking::Client};
    ///
    /// # fn run(client: Client) -> Result<(), tautwire_client::Error> {
    /// let responder = client.respond("plant/7/double", |request| {
    ///     let text = std::str::from_utf8(request.payload())?;
    ///     let number: i64 = text.parse().map_err(|_| ResponseFailure::new("not a number"))?;
    ///     Ok((2 * number).to_string())
    /// })?;
    /// # responder.stop()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotSupported`] before MQTT 5.0, no thread could be started, or as [`Client::subscribe`].
    pub fn respond<F, R>(&self, subscribe: impl Into<Subscribe>, mut handler: F) -> Result<Responder, Error>
    where
        F: FnMut(&Message) -> Result<R, BoxError> + Send + 'static,
        R: Into<Response>,
    {
        let mut requests = wait(self.handle.serve(subscribe.into())?)?;
        let granted = requests.granted().map(|(filter, qos)| (filter.to_owned(), qos)).collect();
        let (handle, stop) = (self.handle.clone(), Arc::new(StopSignal::default()));
        let stopped = stop.clone();
        let respond = move || {
            while let Some(request) = wait(poll_fn(|cx| stopped.poll_unless(cx, |cx| requests.poll_next(cx)))) {
                let answering = catch_unwind(AssertUnwindSafe(|| handler(&request).map(Into::into)));
                wait(answer(&handle, &request, answering.ok()));
            }
            Subscription(requests).unsubscribe()
        };
        let started = std::thread::Builder::new().name("tautwire-responder".into()).spawn(respond);
        let thread =
            started.map_err(|error| Error::Options(format!("cannot start a thread for the responder: {error}")))?;
        Ok(Responder { granted, stop, thread: Some(thread) })
    }

    /// Authenticates again on the current connection (section 4.12.1). Returns when the server has accepted it. Messages flow meanwhile. If
    /// either side refuses, the connection ends.
    ///
    /// # Errors
    /// There is no authenticator, or it fails; a re-authentication is in progress; there is no connection, or it is lost; the server
    /// refuses.
    pub fn reauthenticate(&self) -> Result<(), Error> {
        wait(self.handle.reauthenticate())
    }

    /// The current status of the client.
    pub fn status(&self) -> Status {
        self.handle.status()
    }

    /// The events of the connection, from the start of the client (the last 256 are buffered) and as they happen.
    pub fn events(&self) -> Events {
        Events(crate::Events::new(self.handle.shared().clone()))
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
    pub fn disconnect(&self) -> Result<(), Error> {
        wait(self.handle.disconnect(&[]))
    }

    /// As [`Client::disconnect`], with properties such as a final session expiry.
    ///
    /// # Errors
    /// A property is not allowed in DISCONNECT, or as [`Client::disconnect`].
    pub fn disconnect_with(&self, properties: &[Property<'_>]) -> Result<(), Error> {
        wait(self.handle.disconnect(properties))
    }
}

/// The handle of a published message. Dropping it does not cancel the message.
#[derive(Debug)]
pub struct Publishing(crate::Publishing);

impl Publishing {
    /// Waits until the server has completely acknowledged the message, across lost connections. A QoS 0 message is complete when it has
    /// been written to the connection.
    ///
    /// # Errors
    /// The server refuses the message, it can no longer be sent, or the client is closed.
    pub fn wait(self) -> Result<Published, Error> {
        wait(self.0)
    }

    /// The underlying future, for [`block_on`].
    pub fn into_future(self) -> crate::Publishing {
        self.0
    }

    /// As [`Publishing::wait`], for at most `timeout`.
    ///
    /// # Errors
    /// On timeout, the handle itself; the inner error is that of [`Publishing::wait`].
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Result<Published, Error>, Publishing> {
        block_on(&mut self.0, end_of(timeout)).ok_or(self)
    }
}

/// The messages of a subscription, in the order of arrival; see [`crate::Subscription`].
#[derive(Debug)]
pub struct Subscription(crate::Subscription);

impl Subscription {
    /// The filters and the QoS that the server granted for each. Empty if no SUBSCRIBE was sent.
    pub fn granted(&self) -> impl Iterator<Item = (&str, QoS)> {
        self.0.granted()
    }

    /// The reason string of the answer.
    pub fn reason_string(&self) -> Option<&str> {
        self.0.reason_string()
    }

    /// Acknowledges a message if automatic acknowledgement is off. A second call does nothing.
    pub fn acknowledge(&self, token: AckToken) {
        self.0.acknowledge(token);
    }

    /// Acknowledges a message with a reason; see [`crate::Subscription::refuse`].
    pub fn refuse(&self, token: AckToken, reason: PubAckReason) {
        self.0.refuse(token, reason);
    }

    /// The number of QoS 0 messages that were dropped because the application did not read fast enough.
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }

    /// Why the subscription ended; `None` until then.
    pub fn ended(&self) -> Option<Error> {
        self.0.ended()
    }

    /// The next message, for [`block_on`]; see [`crate::Subscription::poll_next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.0.poll_next(cx)
    }

    /// The next message, if it arrives within `timeout`.
    ///
    /// # Errors
    /// [`Error::Canceled`] on timeout; otherwise the reason why the subscription ended.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Message, Error> {
        match block_on(poll_fn(|cx| self.0.poll_next(cx)), end_of(timeout)) {
            Some(Some(message)) => Ok(message),
            Some(None) => Err(self.0.ended().unwrap_or(Error::Closed)),
            None => Err(Error::Canceled("a message")),
        }
    }

    /// The next message, if one has already arrived.
    pub fn try_next(&mut self) -> Option<Message> {
        self.next_timeout(Duration::ZERO).ok()
    }

    /// Ends the subscription and waits for UNSUBACK. Messages that are still in the stream are dropped.
    ///
    /// # Errors
    /// The request cannot be sent, or the client is closed.
    pub fn unsubscribe(self) -> Result<(), Error> {
        match self.0.close()? {
            Some(unsubscribing) => wait(unsubscribing).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Iterator for Subscription {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        wait(poll_fn(|cx| self.0.poll_next(cx)))
    }
}

/// Sends requests and matches the responses to them; see [`crate::Requester`].
#[derive(Debug)]
pub struct Requester(crate::Requester);

impl Requester {
    /// The time limit for a response, including the time that the request waits here for a connection. Default: 30 s.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Requester {
        Requester(self.0.timeout(timeout))
    }

    /// Publishes a request, at QoS 1 unless set otherwise, and waits for its response. It sets the response topic and the correlation data.
    ///
    /// # Errors
    /// [`Error::NoResponder`] at QoS 1 and 2, [`Error::RequestFailed`], [`Error::RequestTimeout`], or as for publishing.
    pub fn request(&self, publication: Publication<'_>) -> Result<Message, Error> {
        let answered = async { self.0.ask(publication).await?.await };
        let until = end_of(self.0.patience());
        block_on(answered, until).unwrap_or(Err(Error::RequestTimeout))
    }

    /// The topic of the responses.
    pub fn response_topic(&self) -> &str {
        self.0.response_topic()
    }
}

/// Answers requests until it is dropped, or the client has ended.
#[derive(Debug)]
pub struct Responder {
    granted: Vec<(String, QoS)>,
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<Result<(), Error>>>,
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
    pub fn stop(mut self) -> Result<(), Error> {
        self.stop.stop();
        match self.thread.take() {
            // The thread does not panic.
            Some(thread) => thread.join().unwrap_or(Err(Error::Closed)),
            None => Ok(()),
        }
    }
}

impl Drop for Responder {
    /// Does not wait for the current request.
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// The events of the connection of a client; see [`crate::Events`].
#[derive(Debug)]
pub struct Events(crate::Events);

impl Events {
    /// As [`Iterator::next`], for [`block_on`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<ConnectionEvent>> {
        self.0.poll_next(cx)
    }

    /// The next event, if it arrives within `timeout`; `Ok(None)` when the client has ended.
    ///
    /// # Errors
    /// [`Error::Canceled`].
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<ConnectionEvent>, Error> {
        let next = poll_fn(|cx| self.poll_next(cx));
        block_on(next, end_of(timeout)).ok_or(Error::Canceled("an event"))
    }

    /// The number of events that were discarded before they were read.
    pub fn missed(&self) -> u64 {
        self.0.missed()
    }
}

impl Iterator for Events {
    type Item = ConnectionEvent;

    fn next(&mut self) -> Option<ConnectionEvent> {
        wait(poll_fn(|cx| self.poll_next(cx)))
    }
}

/// Watches the status of a client.
#[derive(Debug)]
pub struct StatusWatch {
    handle: Handle,
    seen: u64,
}

impl StatusWatch {
    /// As [`StatusWatch::next_timeout`], for [`block_on`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        self.handle.poll_status(&mut self.seen, cx)
    }

    /// The first call returns the current status, each later call the next change. Intermediate changes can be skipped.
    ///
    /// # Errors
    /// [`Error::Canceled`].
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Status, Error> {
        let next = poll_fn(|cx| self.handle.poll_status(&mut self.seen, cx));
        block_on(next, end_of(timeout)).ok_or(Error::Canceled("another status"))
    }
}

/// Runs a future to completion on this thread, which sleeps while it waits. Returns `None` on timeout. Use it to wait for several things of
/// this crate at once, by their `poll` methods.
pub fn block_on<F: Future>(future: F, until: Option<Instant>) -> Option<F::Output> {
    thread::block_on(future, until)
}

/// The deadline of a timeout; `None` if the clock cannot represent it.
fn end_of(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// Waits without a time limit.
fn wait<F: Future>(future: F) -> F::Output {
    // Without a time limit there is always an output.
    let mut future = std::pin::pin!(future);
    loop {
        if let Some(output) = block_on(future.as_mut(), None) {
            return output;
        }
    }
}
