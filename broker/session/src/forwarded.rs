//! Messages on their way from one shard to another, as the log has them.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tautwire_message::{Message, MessageId};

use crate::journal::{Receivers, Record, SessionNumber, ShardNumber};

/// A message that one shard had handed to another when the log ended, and that had not been taken.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingForward {
    /// Its number on that way.
    pub sequence: u64,
    /// The message.
    pub message: Message,
    /// Who is to get it.
    pub receivers: ForwardTarget,
}

/// Who is to get a message that has not been taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwardTarget {
    /// Whoever has subscribed and lived on the receiving shard.
    Subscribers,
    /// The session that was chosen for a shared subscription, which is given whole.
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
    /// As records have it.
    pub fn as_receivers(&self) -> Receivers<'_> {
        match self {
            ForwardTarget::Subscribers => Receivers::Subscribers,
            ForwardTarget::Member(session, share) => Receivers::Member(*session, share),
        }
    }
}

/// What has been handed over and not taken.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ForwardedMessages {
    /// By sender and receiver.
    routes: BTreeMap<(ShardNumber, ShardNumber), VecDeque<PendingForward>>,
    /// Their messages, and how often each is on its way.
    messages: HashMap<MessageId, (Message, usize)>,
}

impl ForwardedMessages {
    pub(crate) fn add(
        &mut self,
        way: (ShardNumber, ShardNumber),
        sequence: u64,
        message: &Message,
        receivers: Receivers<'_>,
    ) {
        let pending_forwards = PendingForward { sequence, message: message.clone(), receivers: receivers.into() };
        self.routes.entry(way).or_default().push_back(pending_forwards);
        self.messages.entry(message.id()).or_insert_with(|| (message.clone(), 0)).1 += 1;
    }

    /// All up to `sequence` has been taken.
    pub(crate) fn take(&mut self, way: (ShardNumber, ShardNumber), sequence: u64) {
        let Some(handed) = self.routes.get_mut(&way) else { return };
        while handed.front().is_some_and(|pending_forwards| pending_forwards.sequence <= sequence) {
            let Some(taken) = handed.pop_front() else { return };
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

    /// A message that is on its way.
    pub(crate) fn message(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(&id).map(|(message, _)| message)
    }

    /// Tells `visit` the records that lead to this state.
    pub(crate) fn describe(&self, visit: &mut impl FnMut(&Record<'_>)) {
        for ((from, to), handed) in &self.routes {
            for PendingForward { sequence, message, receivers } in handed {
                let receivers = receivers.as_receivers();
                visit(&Record::Forwarded { from: *from, to: *to, sequence: *sequence, message, receivers });
            }
        }
    }

    /// By receiving shard, in the order in which each sender handed it over.
    pub(crate) fn finish(self) -> Vec<(ShardNumber, PendingForward)> {
        let all = self.routes.into_iter();
        all.flat_map(|((_, to), handed)| handed.into_iter().map(move |pending_forwards| (to, pending_forwards)))
            .collect()
    }
}
