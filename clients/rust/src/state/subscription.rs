//! A stream of messages in the application's hands.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use tautwire_protocol::{PubAckReason, QoS, SubscribeReason};

use super::handle::Handle;
use super::routes::Granted;
use super::stream::Stream;
use crate::error::Refused;
use crate::machine::AckToken;
use crate::{Error, Message};

/// The messages of a subscription, in the order in which they came.
///
/// Several subscriptions to the same filter all get its messages. The server has one for them: at the highest QoS of all, with No
/// Local only if all want it, with Retain As Published if one wants it. What it sends reaches all of them.
///
/// When it is dropped, the subscription ends: the server is told, unless the session is to outlive the client
/// ([`crate::Options::persistent`]). Then the server keeps the subscription, and messages of QoS 1 and 2 wait for the next
/// stream that asks for them.
#[derive(Debug)]
pub struct Subscription {
    handle: Handle,
    stream: Arc<Stream>,
    route: u64,
    filters: Vec<String>,
    granted: Granted,
    manual: bool,
    /// Taken from the stream, not yet given out.
    batch: VecDeque<Message>,
    /// Given out last, to be acknowledged when the next one is asked for.
    previous: Option<AckToken>,
    is_closed: bool,
}

impl Subscription {
    pub(super) fn new(handle: Handle, stream: Arc<Stream>, route: u64, filters: Vec<String>, manual: bool) -> Self {
        Subscription {
            handle,
            stream,
            route,
            filters,
            granted: (Vec::new(), None),
            manual,
            batch: VecDeque::new(),
            previous: None,
            is_closed: false,
        }
    }

    pub(super) fn set_granted(&mut self, granted: Granted) {
        self.granted = granted;
    }

    /// The filters and the QoS that the server grants for each. Empty where the client did not ask the server.
    pub fn granted(&self) -> impl Iterator<Item = (&str, QoS)> {
        self.answers().filter_map(|(filter, reason)| Some((filter, reason.granted_qos()?)))
    }

    /// What the server said to people about the answer.
    pub fn reason_string(&self) -> Option<&str> {
        self.granted.1.as_deref()
    }

    /// Acknowledges a message with automatic acknowledgement off. Once is enough; a second time does nothing.
    pub fn acknowledge(&self, token: AckToken) {
        self.refuse(token, PubAckReason::Success);
    }

    /// Acknowledges a message with a reason. One of 0x80 and above refuses it; before MQTT 5.0 that cannot be said, and the
    /// message counts as taken.
    pub fn refuse(&self, token: AckToken, reason: PubAckReason) {
        self.handle.shared.with(|state| state.acknowledge(token, reason));
    }

    /// Why there are no more messages, once there are none.
    pub fn ended(&self) -> Option<Error> {
        self.stream.ended()
    }

    /// The next message; `None` when there will be no more. The message before it is acknowledged, unless that is done by
    /// hand.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        if let Some(token) = self.previous.take() {
            self.acknowledge(token);
        }
        if self.batch.is_empty() {
            match self.stream.poll_take(&mut self.batch, cx) {
                Poll::Ready(true) => self.handle.shared.with(|state| state.routes.stop_holding_up(true)),
                Poll::Ready(false) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
        let message = self.batch.pop_front();
        if !self.manual {
            self.previous = message.as_ref().and_then(Message::token);
        }
        Poll::Ready(message)
    }

    /// Gives messages back that were the last to be taken and have not been handled, in their order: they are the next ones again. Where the
    /// subscription is dropped and its session lasts, those of QoS 1 and 2 wait for the next stream that asks for them.
    pub fn put_back(&mut self, messages: impl IntoIterator<Item = Message, IntoIter: DoubleEndedIterator>) {
        for message in messages.into_iter().rev() {
            // What is to be handled again is not acknowledged yet.
            self.previous.take_if(|previous| message.token() == Some(*previous));
            self.batch.push_front(message);
        }
    }

    /// Ends the subscription and tells the server. Messages not handed out yet are acknowledged and dropped. Gives what the
    /// server will answer, where it is asked.
    ///
    /// # Errors
    /// The request cannot be sent.
    pub fn close(mut self) -> Result<Option<super::handle::Unsubscribing>, Error> {
        self.is_closed = true;
        self.leave(true)
    }

    /// Takes the stream away; asks the server to end the subscription where `tell`.
    fn leave(&mut self, tell: bool) -> Result<Option<super::handle::Unsubscribing>, Error> {
        let (left, held_up) = self.stream.close();
        let handle = self.handle.clone();
        let previous = self.previous.take();
        let messages = std::mem::take(&mut self.batch).into_iter().chain(left);
        handle.shared.with(|state| {
            state.routes.stop_holding_up(held_up);
            if let Some(token) = previous {
                state.acknowledge(token, PubAckReason::Success);
            }
            let left = state.routes.remove(self.route);
            let asked_server = !self.granted.0.is_empty();
            if tell {
                for token in messages.filter_map(|message| message.token) {
                    state.acknowledge(token, PubAckReason::Success);
                }
            } else {
                state.routes.return_messages(messages);
            }
            if !(tell && asked_server) || state.closed().is_some() {
                return Ok(None);
            }
            // What the server has refused changes nothing there.
            let is_granted = |filter: &str| !self.answers().any(|(known, reason)| known == filter && reason.is_error());
            let changed = left.changed.into_iter().filter(|(filter, _)| is_granted(filter)).collect();
            let (machine, routes) = state.parts();
            machine.adjust(changed, left.identifier, routes);
            let filters: Vec<&str> =
                left.unwanted.iter().map(|filter| &**filter).filter(|filter| is_granted(filter)).collect();
            if filters.is_empty() {
                return Ok(None);
            }
            super::handle::Unsubscribing::begin(state, &filters, &[]).map(Some)
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if !self.is_closed {
            // What the server has refused to renew is not to be taken up by a later stream.
            let is_refused = matches!(self.ended(), Some(Error::Refused { what: Refused::Subscription(_), .. }));
            let lasting = self.handle.shared.with_options(crate::Options::is_persistent);
            let _ = self.leave(is_refused || !lasting);
        }
    }
}

impl Subscription {
    /// Why the server does not grant all filters, if so.
    pub(super) fn refusal(&self) -> Option<Error> {
        let (filter, reason) = self.answers().find(|(_, reason)| reason.is_error())?;
        Some(Error::refused(Refused::Subscription(filter.into()), reason, self.reason_string()))
    }

    fn answers(&self) -> impl Iterator<Item = (&str, SubscribeReason)> {
        self.filters.iter().map(String::as_str).zip(self.granted.0.iter().copied())
    }
}
