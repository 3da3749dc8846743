//! The front for threads: the same client, driven by a thread of its own.
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
/// When all handles and streams are gone, the client ends as [`Client::disconnect`] does, without anybody waiting for it.
#[derive(Debug, Clone)]
pub struct Client {
    handle: Handle,
}

impl Client {
    /// Makes one attempt to connect, and waits until the server has accepted the client.
    ///
    /// # Errors
    /// Why the attempt failed, or that no thread could be started. After a success, lost connections are made again as
    /// [`Options::reconnect`] says.
    pub fn connect(options: Options) -> Result<Client, Error> {
        let client = Client::begin(options, Begin::FailAtOnce)?;
        client.online()?;
        Ok(client)
    }

    /// Begins to connect and does not wait: what is published and subscribed meanwhile waits in the client. It tries until
    /// it is let in, or refused for good. [`Client::events`] tells of each attempt that fails.
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

    /// Takes a message to be published, once there is room for it, and gives a handle that tells when the server has
    /// acknowledged it to the end. Without a connection the message waits in the client.
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

    /// As [`Client::publish`], for [`block_on`]: takes the message once there is room for it.
    pub fn poll_publish(
        &self,
        publication: &Publication<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<crate::Publishing, Error>> {
        self.handle.poll_publish(publication, cx)
    }

    /// Subscribes and waits for the server's answer. Without a connection it waits for one.
    ///
    /// # Errors
    /// The server refuses one of the filters: there is no subscription then. Or the request cannot be sent, or the client is closed.
    pub fn subscribe(&self, subscribe: impl Into<Subscribe>) -> Result<Subscription, Error> {
        wait(self.handle.subscribe(&subscribe.into())?).map(Subscription)
    }

    /// As [`Client::subscribe`], without waiting: the answer is the future's output.
    ///
    /// # Errors
    /// The request cannot be sent, or the client is closed.
    pub fn subscribing(&self, subscribe: impl Into<Subscribe>) -> Result<crate::Subscribing, Error> {
        self.handle.subscribe(&subscribe.into())
    }

    /// A stream for what the session is subscribed to already, without asking the server again.
    ///
    /// # Errors
    /// A filter that is none, or the client is closed.
    pub fn listen(&self, subscribe: impl Into<Subscribe>) -> Result<Subscription, Error> {
        self.handle.listen(&subscribe.into()).map(Subscription)
    }

    /// Ends subscriptions of the session for which there is no stream. Gives a code for each filter (none before MQTT 5.0).
    ///
    /// # Errors
    /// The request cannot be sent, or the client is closed.
    pub fn unsubscribe(&self, filters: &[&str], properties: &[Property<'_>]) -> Result<Vec<ReasonCode>, Error> {
        wait(self.handle.unsubscribe(filters, properties)?)
    }

    /// As [`Client::unsubscribe`], without waiting: the answer is the future's output.
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
    pub fn requester(&self) -> Result<Requester, Error> {
        wait(crate::Requester::new(self.handle.clone(), None)).map(Requester)
    }

    /// As [`Client::requester`], with responses at `topic`, which should be this client's alone.
    ///
    /// # Errors
    /// The topic is none, or as [`Client::requester`].
    pub fn requester_at(&self, topic: impl Into<String>) -> Result<Requester, Error> {
        wait(crate::Requester::new(self.handle.clone(), Some(topic.into()))).map(Requester)
    }

    /// Answers requests, one after the other, in a thread of its own: what `handler` gives is published to the response topic of the
    /// request, with its correlation data, at its QoS. A request is acknowledged when it has been answered. It comes at the QoS at which it
    /// was published; that of `subscribe` does not count.
    ///
    /// If the handler fails with a [`crate::ResponseFailure`], its sentence is for the requester, which gets [`Error::RequestFailed`]. Of any
    /// other error, and of a panic, it is told nothing but that the responder failed.
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
        let thread = started.map_err(|error| Error::Options(format!("a thread cannot be started: {error}")))?;
        Ok(Responder { granted, stop, thread: Some(thread) })
    }

    /// Authenticates again on the connection that there is (section 4.12.1), and returns when the server has accepted it. Messages
    /// flow meanwhile. Where either side refuses, the connection ends.
    ///
    /// # Errors
    /// There is no authenticator, or it refuses; one is under way already; there is no connection, or it is lost; what the server
    /// said when it refused.
    pub fn reauthenticate(&self) -> Result<(), Error> {
        wait(self.handle.reauthenticate())
    }

    /// How the client stands.
    pub fn status(&self) -> Status {
        self.handle.status()
    }

    /// What has happened to the connection, step by step: from the beginning of the client, as far as it is kept (256 events), and on.
    pub fn events(&self) -> Events {
        Events(crate::Events::new(self.handle.shared().clone()))
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
    pub fn disconnect(&self) -> Result<(), Error> {
        wait(self.handle.disconnect(&[]))
    }

    /// As [`Client::disconnect`], with properties such as a last session expiry.
    ///
    /// # Errors
    /// Properties that may not stand there, or as [`Client::disconnect`].
    pub fn disconnect_with(&self, properties: &[Property<'_>]) -> Result<(), Error> {
        wait(self.handle.disconnect(properties))
    }
}

/// A message on its way. Dropping it does not take the message back.
#[derive(Debug)]
pub struct Publishing(crate::Publishing);

impl Publishing {
    /// Waits until the server has acknowledged the message to the end, however often the connection is lost meanwhile. At
    /// QoS 0 that is when it has been handed to the connection.
    ///
    /// # Errors
    /// The server refuses the message, it cannot be sent any more, or the client is closed.
    pub fn wait(self) -> Result<Published, Error> {
        wait(self.0)
    }

    /// The future behind it, for [`block_on`].
    pub fn into_future(self) -> crate::Publishing {
        self.0
    }

    /// As [`Publishing::wait`], for so long at most; then it gives itself back.
    ///
    /// # Errors
    /// The time is over; or, inside, as [`Publishing::wait`].
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Result<Published, Error>, Publishing> {
        block_on(&mut self.0, end_of(timeout)).ok_or(self)
    }
}

/// The messages of a subscription, in the order in which they came; see [`crate::Subscription`].
#[derive(Debug)]
pub struct Subscription(crate::Subscription);

impl Subscription {
    /// The filters and the QoS that the server grants for each. Empty where the client did not ask the server.
    pub fn granted(&self) -> impl Iterator<Item = (&str, QoS)> {
        self.0.granted()
    }

    /// What the server said to people about the answer.
    pub fn reason_string(&self) -> Option<&str> {
        self.0.reason_string()
    }

    /// Acknowledges a message with automatic acknowledgement off. Once is enough; a second time does nothing.
    pub fn acknowledge(&self, token: AckToken) {
        self.0.acknowledge(token);
    }

    /// Acknowledges a message with a reason; see [`crate::Subscription::refuse`].
    pub fn refuse(&self, token: AckToken, reason: PubAckReason) {
        self.0.refuse(token, reason);
    }

    /// Why there are no more messages, once there are none.
    pub fn ended(&self) -> Option<Error> {
        self.0.ended()
    }

    /// The next message, for [`block_on`]; see [`crate::Subscription::poll_next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.0.poll_next(cx)
    }

    /// The next message, if it comes within this time.
    ///
    /// # Errors
    /// [`Error::Canceled`]; otherwise why there are no more messages.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Message, Error> {
        match block_on(poll_fn(|cx| self.0.poll_next(cx)), end_of(timeout)) {
            Some(Some(message)) => Ok(message),
            Some(None) => Err(self.0.ended().unwrap_or(Error::Closed)),
            None => Err(Error::Canceled("a message")),
        }
    }

    /// The next message, if there is one already.
    pub fn try_next(&mut self) -> Option<Message> {
        self.next_timeout(Duration::ZERO).ok()
    }

    /// Ends the subscription and waits for the server's answer. Messages not handed out yet are dropped.
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
    /// How long a response is waited for, with the time that its request waits here for a connection. Default: 30 s.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Requester {
        Requester(self.0.timeout(timeout))
    }

    /// Publishes a request, at QoS 1 unless it says otherwise, and waits for its response. Response topic and correlation data are set.
    ///
    /// # Errors
    /// [`Error::NoResponder`] at QoS 1 and 2, [`Error::RequestFailed`], [`Error::RequestTimeout`], or as for publishing.
    pub fn request(&self, publication: Publication<'_>) -> Result<Message, Error> {
        let answered = async { self.0.ask(publication).await?.await };
        let until = end_of(self.0.patience());
        block_on(answered, until).unwrap_or(Err(Error::RequestTimeout))
    }

    /// The topic to which responses come.
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
    /// The filters and the QoS that the server grants for each.
    pub fn granted(&self) -> impl Iterator<Item = (&str, QoS)> {
        self.granted.iter().map(|(filter, qos)| (filter.as_str(), *qos))
    }

    /// Answers the request that is being handled, ends the subscription, and waits for the server's answer.
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
    /// Does not wait for the request that is being handled.
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// What has happened to the connection of a client; see [`crate::Events`].
#[derive(Debug)]
pub struct Events(crate::Events);

impl Events {
    /// As [`Iterator::next`], for [`block_on`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<ConnectionEvent>> {
        self.0.poll_next(cx)
    }

    /// The next event, if it comes within this time; `None` inside when the client has ended.
    ///
    /// # Errors
    /// [`Error::Canceled`].
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<ConnectionEvent>, Error> {
        let next = poll_fn(|cx| self.poll_next(cx));
        block_on(next, end_of(timeout)).ok_or(Error::Canceled("an event"))
    }

    /// Events that were forgotten before they were asked for.
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

/// Follows how a client stands.
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

    /// The status now, when called first; then each time the one it has changed to. Steps in between may be left out.
    ///
    /// # Errors
    /// [`Error::Canceled`].
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Status, Error> {
        let next = poll_fn(|cx| self.handle.poll_status(&mut self.seen, cx));
        block_on(next, end_of(timeout)).ok_or(Error::Canceled("another status"))
    }
}

/// Runs a future to its end on this thread, which sleeps meanwhile; `None` where the time has come first. For waiting for
/// several things of this crate at once, by their `poll` methods.
pub fn block_on<F: Future>(future: F, until: Option<Instant>) -> Option<F::Output> {
    thread::block_on(future, until)
}

/// When this time is over; `None` for never, where no clock can show it.
fn end_of(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// Waits as long as it takes.
fn wait<F: Future>(future: F) -> F::Output {
    // Without a time limit it always ends with an output.
    let mut future = std::pin::pin!(future);
    loop {
        if let Some(output) = block_on(future.as_mut(), None) {
            return output;
        }
    }
}
