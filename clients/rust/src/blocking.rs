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
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tautwire_protocol::{Property, PubAckReason, ReasonCode};

use crate::driver::Begin;
use crate::driver::thread;
use crate::machine::Published;
use crate::state::Handle;
use crate::{AckToken, Counters, Error, Message, Offer, Options, Publication, Status, Subscribe};

/// A client for threads. Cloning it gives another handle to the same client.
///
/// When all handles and streams are gone, the client ends as [`Client::disconnect`] does, without anybody waiting for it.
#[derive(Debug, Clone)]
pub struct Client {
    handle: Handle,
}

impl Client {
    /// Connects and waits until the server has accepted the client.
    ///
    /// # Errors
    /// The first attempt failed, or no thread could be started. After a success, lost connections are made again as
    /// [`Options::reconnect`] says.
    pub fn connect(options: Options) -> Result<Client, Error> {
        let client = Client::begin(options, Begin::FailAtOnce)?;
        client.online()?;
        Ok(client)
    }

    /// Begins to connect and does not wait: what is published and subscribed meanwhile waits in the client. It tries until
    /// it is let in, or refused for good.
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
    /// [`Error::Full`], or as [`Client::publish`].
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
    /// The server refuses all filters ([`crate::Subscription::granted`] tells where it refuses some), the request cannot be
    /// sent, or the client is closed.
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

    /// Prepares for requests whose answers come to `topic`, which should be this client's alone.
    ///
    /// # Errors
    /// The topic is none, or as [`Client::subscribe`].
    pub fn requester(&self, topic: impl Into<String>) -> Result<Requester, Error> {
        wait(crate::Requester::new(self.handle.clone(), topic.into())).map(Requester)
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
        block_on(&mut self.0, Some(Instant::now() + timeout)).ok_or(self)
    }
}

/// The messages of a subscription, in the order in which they came; see [`crate::Subscription`], to which it derefs.
#[derive(Debug)]
pub struct Subscription(crate::Subscription);

impl Subscription {
    /// The next message, if it comes within this time.
    ///
    /// # Errors
    /// [`Error::Timeout`]; otherwise why there are no more messages.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Message, Error> {
        match block_on(poll_fn(|cx| self.0.poll_next(cx)), Some(Instant::now() + timeout)) {
            Some(Some(message)) => Ok(message),
            Some(None) => Err(self.0.ended().unwrap_or(Error::Closed)),
            None => Err(Error::Timeout("a message")),
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

impl std::ops::DerefMut for Subscription {
    fn deref_mut(&mut self) -> &mut crate::Subscription {
        &mut self.0
    }
}

impl std::ops::Deref for Subscription {
    type Target = crate::Subscription;

    fn deref(&self) -> &crate::Subscription {
        &self.0
    }
}

/// Sends requests and matches the answers to them; see [`crate::Requester`].
#[derive(Debug)]
pub struct Requester(crate::Requester);

impl Requester {
    /// Publishes a request and waits so long for its answer.
    ///
    /// # Errors
    /// [`Error::Timeout`], or as for publishing.
    pub fn request(&self, publication: Publication<'_>, timeout: Duration) -> Result<Message, Error> {
        let answered = async { self.0.request(publication).await?.await };
        block_on(answered, Some(Instant::now() + timeout)).unwrap_or(Err(Error::Timeout("the answer")))
    }

    /// The topic to which answers come.
    pub fn response_topic(&self) -> &str {
        self.0.response_topic()
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
    /// [`Error::Timeout`].
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Status, Error> {
        let next = poll_fn(|cx| self.handle.poll_status(&mut self.seen, cx));
        block_on(next, Some(Instant::now() + timeout)).ok_or(Error::Timeout("another status"))
    }
}

/// Runs a future to its end on this thread, which sleeps meanwhile; `None` where the time has come first. For waiting for
/// several things of this crate at once, by their `poll` methods.
pub fn block_on<F: Future>(future: F, until: Option<Instant>) -> Option<F::Output> {
    thread::block_on(future, until)
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
