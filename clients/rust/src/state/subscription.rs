//! The application's end of a message stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use tautwire_protocol::{PubAckReason, QoS, SubscribeReason};

use super::handle::{Handle, Unsubscribing};
use super::routes::Granted;
use super::stream::Stream;
use crate::error::Refused;
use crate::machine::AckToken;
use crate::{Error, Message};

/// The messages of a subscription, in the order of arrival.
///
/// Several subscriptions to the same filter all get its messages. For the server they are one subscription: at the highest QoS of all, with
/// No Local only if all request it, with Retain As Published if one requests it. All of them get the messages of that subscription.
///
/// Dropping it ends the subscription: it sends UNSUBSCRIBE, unless the session should outlive the client ([`crate::Options::persistent`]).
/// Then the server keeps the subscription, and QoS 1 and 2 messages wait for the next stream that claims them.
#[derive(Debug)]
pub struct Subscription {
    handle: Handle,
    stream: Arc<Stream>,
    route: u64,
    filters: Vec<String>,
    granted: Granted,
    manual: bool,
    /// Taken from the queue, not yet returned to the application.
    batch: VecDeque<Message>,
    /// The message that was returned last, acknowledged when the next one is requested.
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

    /// The filters and the QoS that the server granted for each. Empty if no SUBSCRIBE was sent.
    pub fn granted(&self) -> impl Iterator<Item = (&str, QoS)> {
        self.answers().filter_map(|(filter, reason)| Some((filter, reason.granted_qos()?)))
    }

    /// The reason string of the answer.
    pub fn reason_string(&self) -> Option<&str> {
        self.granted.1.as_deref()
    }

    /// The number of QoS 0 messages that were dropped because the application did not read fast enough.
    pub fn dropped(&self) -> u64 {
        self.stream.dropped()
    }

    /// Acknowledges a message if automatic acknowledgement is off. A second call does nothing.
    pub fn acknowledge(&self, token: AckToken) {
        self.refuse(token, PubAckReason::Success);
    }

    /// Acknowledges a message with a reason. One of 0x80 or above refuses it; MQTT 3.1.1 cannot express that, so the message counts as
    /// accepted there.
    pub fn refuse(&self, token: AckToken, reason: PubAckReason) {
        self.handle.shared.with(|state| state.acknowledge(token, reason));
    }

    /// Why the subscription ended; `None` until then.
    pub fn ended(&self) -> Option<Error> {
        self.stream.ended()
    }

    /// The next message; `None` when the subscription has ended. It acknowledges the previous message unless acknowledgement is manual.
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

    /// Returns the most recent messages if they have not been handled, in their order: they are delivered again next. If the subscription
    /// is dropped and its session persists, those of QoS 1 and 2 wait for the next stream that claims them.
    pub fn put_back(&mut self, messages: impl IntoIterator<Item = Message, IntoIter: DoubleEndedIterator>) {
        for message in messages.into_iter().rev() {
            // A message that is delivered again must not be acknowledged yet.
            self.previous.take_if(|previous| message.token() == Some(*previous));
            self.batch.push_front(message);
        }
    }

    /// Ends the subscription and sends UNSUBSCRIBE. Messages that are still in the stream are acknowledged and dropped. Returns the pending
    /// answer, if UNSUBSCRIBE was sent.
    ///
    /// # Errors
    /// The request cannot be sent.
    pub fn close(mut self) -> Result<Option<Unsubscribing>, Error> {
        self.is_closed = true;
        self.leave(true)
    }

    /// Removes the stream; sends UNSUBSCRIBE if `tell`.
    fn leave(&mut self, tell: bool) -> Result<Option<Unsubscribing>, Error> {
        let (left, held_up) = self.stream.close();
        let handle = self.handle.clone();
        let previous = self.previous.take();
        let messages = std::mem::take(&mut self.batch).into_iter().chain(left);
        handle.shared.with(|state| {
            state.routes.stop_holding_up(held_up);
            // The application may have failed on it. If the session goes on, the server sends it again.
            if let Some(token) = previous.filter(|_| tell) {
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
            // Filters that the server has refused do not exist there.
            let is_granted = |filter: &str| !self.answers().any(|(known, reason)| known == filter && reason.is_error());
            let changed = left.changed.into_iter().filter(|(filter, _)| is_granted(filter)).collect();
            let (machine, routes) = state.parts();
            machine.adjust(changed, left.identifier, routes);
            let filters: Vec<&str> =
                left.unwanted.iter().map(|filter| &**filter).filter(|filter| is_granted(filter)).collect();
            if filters.is_empty() {
                return Ok(None);
            }
            Unsubscribing::begin(state, &filters, &[]).map(Some)
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if !self.is_closed {
            // A later stream must not take over what the server has refused to renew.
            let is_refused = matches!(self.ended(), Some(Error::Refused { what: Refused::Subscription(_), .. }));
            let lasting = self.handle.shared.with_options(crate::Options::is_persistent);
            let _ = self.leave(is_refused || !lasting);
        }
    }
}

impl Subscription {
    /// The error if the server has not granted all filters.
    pub(super) fn refusal(&self) -> Option<Error> {
        let (filter, reason) = self.answers().find(|(_, reason)| reason.is_error())?;
        Some(Error::refused(Refused::Subscription(filter.into()), reason, self.reason_string()))
    }

    fn answers(&self) -> impl Iterator<Item = (&str, SubscribeReason)> {
        self.filters.iter().map(String::as_str).zip(self.granted.0.iter().copied())
    }
}
