//! What a session leaves behind when it ends: subscriptions that go, and messages of shared subscriptions that go to other members.
//!
//! A session that is written down and is still owed messages ends in the log in two steps: its expiry interval becomes 0, so that
//! after a crash it ends anew, and once nothing is left, its end is said. Between the two, each message leaves it in the frame in
//! which another member gets it.

use tautwire_protocol::{PacketId, QoS, TopicFilter};
use tautwire_session::{Change, Journal, Outbound, PendingMessage, SessionNumber, share_of_queue};

use crate::connections::ReadBack;
use crate::hub::Hub;
use crate::jobs::{Job, SLICE_STEPS, Slice};
use crate::place::SessionIndex;
use crate::shard::Shard;

/// A session that has ended, and how far it has been cleared away.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) session: SessionIndex,
    pub(crate) read_back: ReadBack,
    /// What the log calls it, where that still has it.
    number: Option<SessionNumber>,
    /// So many messages at the front of its queue in the log are gone. Of those that nobody else gets, its end says enough.
    unwritten: u32,
}

impl<J: Journal> Shard<J> {
    /// Ends a session: its will is published, its subscriptions go, and what it was owed as a member of a shared
    /// subscription goes to others. What takes long is done over several turns.
    pub(crate) fn end_session(&mut self, session: SessionIndex) {
        self.publish_will(session);
        self.hub.forget_throttled(session);
        let number = self.hub.end_session(session);
        self.begin(Job::Clear(Ending { session, read_back: ReadBack::default(), number, unwritten: 0 }));
    }

    /// Clears away what a session that has ended leaves behind.
    pub(crate) fn clear(&mut self, mut ending: Ending) -> (Slice, usize) {
        let session = ending.session;
        let is_queue = share_of_queue(self.hub.sessions[session].name()).is_some();
        for step in 0..SLICE_STEPS {
            if !self.hub.effort.may_form() {
                return (Slice::Unfinished(Job::Clear(ending)), SLICE_STEPS);
            }
            if self.give_up_first_subscription(session) {
                continue;
            }
            let next = self.hub.sessions[session].outbound().and_then(Outbound::next_unfinished);
            let Some((delivery, sent_as)) = next else {
                self.hub.write_cleared(ending.number);
                self.hub.sessions.vacate(session);
                return (Slice::Done, step + 1);
            };
            if !goes_to_others(delivery, sent_as) {
                ending.unwritten += u32::from(sent_as.is_none());
                self.hub.take_unfinished(session);
                continue;
            }
            if J::KEEPS && sent_as.is_none() && ending.unwritten > 0 {
                ending.unwritten -= 1;
                self.hub.write_taken_from(ending.number, None);
                continue;
            }
            let mut read = None;
            if let Some(cold) = delivery.message.cold().cloned() {
                let Some((kept, message)) = self.hub.read_to_clear(ending, &cold) else {
                    return (Slice::Done, step + 1);
                };
                (ending, read) = (kept, Some(message));
            }
            let Some(mut delivery) = self.hub.take_unfinished(session) else { continue };
            if let Some(message) = read {
                delivery.message = message.into();
            }
            self.hub.write_taken_from(ending.number, sent_as);
            let ended = is_queue.then(|| delivery.clone());
            self.hand_on(self.hub.sessions.key(session), delivery);
            if let Some(delivery) = ended {
                self.hub.end_waiting_in_ended(&delivery);
            }
        }
        (Slice::Unfinished(Job::Clear(ending)), SLICE_STEPS)
    }

    /// Removes one subscription of a session that has ended, if there is one.
    fn give_up_first_subscription(&mut self, session: SessionIndex) -> bool {
        let first = self.hub.sessions[session].subscriptions().first();
        let Some((filter, record)) = first.map(|(filter, record)| (Box::<str>::from(filter), record)) else {
            return false;
        };
        if let Ok(filter) = TopicFilter::new(&filter) {
            self.leave(session, filter, record.format);
        }
        self.hub.sessions.place(session).apply(Change::Unsubscribed(filter));
        true
    }
}

/// Whether another member gets a message that a session was owed. A QoS 2 message that has been started is for nobody else
/// [MQTT-4.8.2-5].
fn goes_to_others(delivery: &PendingMessage, sent_as: Option<PacketId>) -> bool {
    delivery.share.is_some() && (sent_as.is_none() || delivery.qos == QoS::AtLeastOnce)
}

impl<J: Journal> Hub<J> {
    /// Takes the next message out of a session that has ended.
    pub(crate) fn take_unfinished(&mut self, session: SessionIndex) -> Option<PendingMessage> {
        let (delivery, _) = self.sessions.place(session).take_unfinished()?;
        self.uncount_stored(&delivery);
        Some(delivery)
    }

    /// A message leaves a session that has ended, in the frame that says who else gets it.
    fn write_taken_from(&mut self, number: Option<SessionNumber>, sent_as: Option<PacketId>) {
        if J::KEEPS
            && let Some(number) = number
        {
            self.write_of_ended(number, &sent_as.map_or(Change::Withdrawn, Change::Completed));
        }
    }
}
