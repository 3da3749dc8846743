//! The operations of a client, for the async and the blocking API.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tautwire_protocol::{Property, PubAckReason, ReasonCode};

use super::completion::{Completion, PublishState, Publishing};
use super::routes::{Granted, Routes, Tag, Target};
use super::{Counters, Shared, State, Status};
use crate::machine::{Acceptance, AckToken, Machine, Offer};
use crate::{Error, Options, Publication, Subscribe};

/// The shared handle of a client. When the last one is dropped, the client disconnects.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    pub(super) shared: Arc<Shared>,
    _presence: Arc<Presence>,
}

#[derive(Debug)]
struct Presence(Arc<Shared>);

impl Drop for Presence {
    fn drop(&mut self) {
        let now_ms = self.0.now_ms();
        self.0.with(|state| state.begin_stop(now_ms));
    }
}

impl Handle {
    pub(crate) fn new(options: Options) -> Handle {
        let shared = Shared::new(options);
        Handle { _presence: Arc::new(Presence(shared.clone())), shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn try_publish(&self, publication: &Publication<'_>) -> Result<Publishing, Error> {
        let now_ms = self.shared.now_ms();
        self.shared.with(|state| state.publish(publication, now_ms))
    }

    pub(crate) fn poll_publish(
        &self,
        publication: &Publication<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Publishing, Error>> {
        let now_ms = self.shared.now_ms();
        self.shared.poll_room(cx, |state| state.publish(publication, now_ms))
    }

    pub(crate) async fn publish(&self, publication: &Publication<'_>) -> Result<Publishing, Error> {
        poll_fn(|cx| self.poll_publish(publication, cx)).await
    }

    pub(crate) fn unsubscribe(&self, filters: &[&str], properties: &[Property<'_>]) -> Result<Unsubscribing, Error> {
        self.shared.with(|state| match state.closed() {
            Some(why) => Err(why),
            None => Unsubscribing::begin(state, filters, properties),
        })
    }

    pub(crate) fn acknowledge(&self, token: AckToken, reason: PubAckReason) {
        self.shared.with(|state| state.acknowledge(token, reason));
    }

    pub(crate) fn acknowledge_with_next(&self, token: AckToken) {
        self.shared.with_quietly(|state| state.acknowledge(token, PubAckReason::Success));
    }

    pub(crate) fn flush(&self) {
        self.shared.flush();
    }

    pub(crate) async fn reauthenticate(&self) -> Result<(), Error> {
        let completion = Completion::new();
        self.shared.reauthenticate(Tag::Reauthenticate(completion.clone()))?;
        poll_fn(|cx| completion.poll(cx)).await
    }

    pub(crate) fn status(&self) -> Status {
        self.shared.with(|state| state.routes.board.status().clone())
    }

    pub(crate) fn counters(&self) -> Counters {
        self.shared.with(|state| Counters { machine: state.machine.counters(), ..state.routes.delivery.counters })
    }

    pub(crate) fn client_id(&self) -> String {
        self.shared.with(|state| state.machine.client_id().to_owned())
    }

    pub(crate) fn offer(&self) -> Offer {
        self.shared.with(|state| *state.machine.offer())
    }

    pub(crate) fn unacknowledged(&self) -> usize {
        self.shared.with(|state| state.machine.unacknowledged())
    }

    /// The next status after version `seen`, which is updated.
    pub(crate) fn poll_status(&self, seen: &mut u64, cx: &mut Context<'_>) -> Poll<Status> {
        self.shared.with(|state| {
            let board = &mut state.routes.board;
            board.poll_change(*seen, cx).map(|()| {
                *seen = board.version();
                board.status().clone()
            })
        })
    }

    /// Waits for the first answer of the server.
    pub(crate) async fn online(&self) -> Result<(), Error> {
        let mut seen = 0;
        let mut status = self.status();
        loop {
            match status {
                Status::Online { .. } => return Ok(()),
                Status::Closed(why) => return Err(why),
                Status::Connecting | Status::Offline(_) => {}
            }
            status = poll_fn(|cx| self.poll_status(&mut seen, cx)).await;
        }
    }

    /// Ends the client cleanly and waits for it.
    pub(crate) async fn disconnect(&self, properties: &[Property<'_>]) -> Result<(), Error> {
        let now_ms = self.shared.now_ms();
        self.shared.with(|state| {
            for property in properties {
                state.farewell.push(*property).map_err(|error| Error::Encode { packet: "DISCONNECT", error })?;
            }
            state.begin_stop(now_ms);
            Ok::<(), Error>(())
        })?;
        let mut seen = u64::MAX;
        loop {
            match poll_fn(|cx| self.poll_status(&mut seen, cx)).await {
                Status::Closed(Error::Closed) => return Ok(()),
                Status::Closed(why) => return Err(why),
                _ => {}
            }
        }
    }
}

impl State {
    /// Adds a route and sends SUBSCRIBE for it. Returns the number of the route, and whether SUBSCRIBE could be sent.
    ///
    /// # Errors
    /// The client is closed; no route is added.
    pub(super) fn ask(
        &mut self,
        subscribe: &Subscribe,
        target: Target,
        completion: Arc<Completion<Result<Granted, Error>>>,
    ) -> Result<(u64, Result<(), Error>), Error> {
        if let Some(why) = self.closed() {
            return Err(why);
        }
        let (machine, routes) = self.parts();
        let (route, wanted, identifier) = routes.ask(subscribe, target);
        let asked = machine.subscribe_to(subscribe, wanted, identifier, Tag::Subscribe(completion), routes);
        Ok((route, asked))
    }

    pub(super) fn parts(&mut self) -> (&mut Machine<Tag>, &mut Routes) {
        (&mut self.machine, &mut self.routes)
    }

    pub(super) fn response_information(&self) -> Option<&str> {
        self.machine.response_information()
    }

    #[inline]
    fn publish(&mut self, publication: &Publication<'_>, now_ms: u64) -> Result<Publishing, Error> {
        if let Some(why) = self.closed() {
            return Err(why);
        }
        let mut tracked = None;
        let accepted = self.machine.publish(publication, now_ms, || {
            let completion = Completion::new();
            tracked = Some(completion.clone());
            Tag::Publish(completion)
        })?;
        Ok(Publishing(match (accepted, tracked) {
            (Acceptance::Tracked, Some(completion)) => PublishState::Tracked(completion),
            _ => PublishState::Sent,
        }))
    }
}

/// An UNSUBSCRIBE whose UNSUBACK is pending; resolves with one code per filter (none before MQTT 5.0).
#[derive(Debug)]
pub struct Unsubscribing(Arc<Completion<Result<Vec<ReasonCode>, Error>>>);

impl Unsubscribing {
    pub(super) fn begin(state: &mut State, filters: &[&str], properties: &[Property<'_>]) -> Result<Self, Error> {
        let completion = Completion::new();
        let State { machine, routes, .. } = state;
        machine.unsubscribe(filters, properties, Some(Tag::Unsubscribe(completion.clone())), routes)?;
        Ok(Unsubscribing(completion))
    }
}

impl Future for Unsubscribing {
    type Output = Result<Vec<ReasonCode>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx)
    }
}
