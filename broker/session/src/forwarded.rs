//! Messages that are being forwarded from one shard to another, as restored from the log.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tautwire_message::{Message, MessageId};

use crate::journal::{Receivers, Record, SessionNumber, ShardNumber};

/// A message that one shard had forwarded to another, which had not accepted it when the log ended.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingForward {
    /// Its sequence number on the route.
    pub sequence: u64,
    /// The message.
    pub message: Message,
    /// The receivers of the message.
    pub receivers: ForwardTarget,
}

/// The receivers of a forwarded message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwardTarget {
    /// The subscribers on the receiving shard whose sessions are persistent.
    Subscribers,
    /// The session chosen for a shared subscription, with the whole filter of the latter.
    Member(SessionNumber, Box<str>),
}

impl From<Receivers<'_>> for ForwardTarget {
    fn from(receivers: Receivers<'_>) -> ForwardTarget {
        match receivers {
            Receivers::Subscribers => ForwardTarget::Subscribers,
            Receivers::Member(session, share) => ForwardTarget::Member(session, share.into()),
        }
    }
}

impl ForwardTarget {
    /// Converts to the form that records use.
    pub fn as_receivers(&self) -> Receivers<'_> {
        match self {
            ForwardTarget::Subscribers => Receivers::Subscribers,
            ForwardTarget::Member(session, share) => Receivers::Member(*session, share),
        }
    }
}

/// Messages that were forwarded and not accepted.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ForwardedMessages {
    /// By sending and receiving shard.
    routes: BTreeMap<(ShardNumber, ShardNumber), VecDeque<PendingForward>>,
    /// The messages, with the number of routes each is on.
    messages: HashMap<MessageId, (Message, usize)>,
}

impl ForwardedMessages {
    pub(crate) fn add(
        &mut self,
        route: (ShardNumber, ShardNumber),
        sequence: u64,
        message: &Message,
        receivers: Receivers<'_>,
    ) {
        let pending_forwards = PendingForward { sequence, message: message.clone(), receivers: receivers.into() };
        self.routes.entry(route).or_default().push_back(pending_forwards);
        self.messages.entry(message.id()).or_insert_with(|| (message.clone(), 0)).1 += 1;
    }

    /// Removes the messages up to `sequence`, which were accepted.
    pub(crate) fn take(&mut self, route: (ShardNumber, ShardNumber), sequence: u64) {
        let Some(forwards) = self.routes.get_mut(&route) else { return };
        while forwards.front().is_some_and(|pending_forwards| pending_forwards.sequence <= sequence) {
            let Some(taken) = forwards.pop_front() else { return };
            let id = taken.message.id();
            if let Some((_, routes)) = self.messages.get_mut(&id) {
                *routes -= 1;
                if *routes == 0 {
                    self.messages.remove(&id);
                }
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = ForwardedMessages::default();
    }

    /// Returns a message that is being forwarded.
    pub(crate) fn message(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(&id).map(|(message, _)| message)
    }

    /// Passes the records that lead to this state to `visit`.
    pub(crate) fn describe(&self, visit: &mut impl FnMut(&Record<'_>)) {
        for ((from, to), forwards) in &self.routes {
            for PendingForward { sequence, message, receivers } in forwards {
                let receivers = receivers.as_receivers();
                visit(&Record::Forwarded { from: *from, to: *to, sequence: *sequence, message, receivers });
            }
        }
    }

    /// Returns the messages by receiving shard, in the order in which each sender forwarded them.
    pub(crate) fn finish(self) -> Vec<(ShardNumber, PendingForward)> {
        let all = self.routes.into_iter();
        all.flat_map(|((_, to), forwards)| forwards.into_iter().map(move |pending_forwards| (to, pending_forwards)))
            .collect()
    }
}
