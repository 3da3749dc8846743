//! The front for async code.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tautwire_protocol::{Property, PubAckReason, ReasonCode};

use crate::driver::{Begin, task};
use crate::state::Handle;
use crate::{
    AckToken, Counters, Error, Message, Offer, Options, Publication, Publishing, Requester, Status, Subscribe,
    Subscription,
};

/// A client for async code, on tokio. Cloning it gives another handle to the same client.
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
    /// The first attempt failed. After a success, lost connections are made again as [`Options::reconnect`] says.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(options: Options) -> Result<Client, Error> {
        let client = Client::begin(options, Begin::FailAtOnce);
        client.handle.online().await?;
        Ok(client)
    }

    /// Begins to connect and does not wait: what is published and subscribed meanwhile waits in the client. It tries until
    /// it is let in, or refused for good.
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
    /// [`Error::Full`], or as [`Client::publish`].
    pub fn try_publish(&self, publication: Publication<'_>) -> Result<Publishing, Error> {
        self.handle.try_publish(&publication)
    }

    /// Subscribes and waits for the server's answer. Without a connection it waits for one.
    ///
    /// # Errors
    /// The server refuses all filters ([`Subscription::granted`] tells where it refuses some), the request cannot be sent, or
    /// the client is closed.
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

    /// Prepares for requests whose answers come to `topic`, which should be this client's alone.
    ///
    /// # Errors
    /// The topic is none, or as [`Client::subscribe`].
    pub async fn requester(&self, topic: impl Into<String>) -> Result<Requester, Error> {
        Requester::new(self.handle.clone(), topic.into()).await
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
