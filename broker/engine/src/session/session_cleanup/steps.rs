//! What [`super`] does with several parts of a shard.

use tautwire_protocol::{PacketId, QoS, TopicFilter};
use tautwire_session::{Change, Outbound, PendingMessage, SessionNumber, share_of_queue};

use super::SessionCleanup;
use crate::connection::connections::LoadQueue;
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::scheduling::jobs::{Job, JobProgress};
use crate::scheduling::work_budget::JOB_SLICE_STEPS;
use crate::shard::Shard;
use crate::shard::ShardState;

impl<M: Mode> Shard<M> {
    /// Ends a session: its will is published, its subscriptions go, and what it was owed as a member of a shared
    /// subscription goes to others. What takes long is done over several turns.
    pub(crate) fn end_session(&mut self, session: SessionIndex) {
        self.publish_will(session);
        self.state.remove_throttled(session);
        let number = self.state.end_session(session);
        self.begin(Job::Clear(SessionCleanup { session, load_queue: LoadQueue::default(), number, unrecorded: 0 }));
    }

    /// Clears away what a session that has ended leaves behind.
    pub(crate) fn clear(&mut self, mut ending: SessionCleanup) -> (JobProgress, usize) {
        let session = ending.session;
        let is_queue = share_of_queue(self.state.sessions[session].name()).is_some();
        for step in 0..JOB_SLICE_STEPS {
            if !self.state.work_budget.can_transcode() {
                return (JobProgress::Unfinished(Job::Clear(ending)), JOB_SLICE_STEPS);
            }
            if self.remove_first_subscription(session) {
                continue;
            }
            let next = self.state.sessions[session].outbound().and_then(Outbound::next_unfinished);
            let Some((delivery, sent_as)) = next else {
                M::record_cleared(&mut self.state, ending.number);
                self.state.sessions.free_slot(session);
                return (JobProgress::Done, step + 1);
            };
            if !is_redeliverable(delivery, sent_as) {
                ending.unrecorded += u32::from(sent_as.is_none());
                self.state.take_unfinished(session);
                continue;
            }
            if ending.number.is_some() && sent_as.is_none() && ending.unrecorded > 0 {
                ending.unrecorded -= 1;
                self.state.record_taken(ending.number, None);
                continue;
            }
            let mut read = None;
            if let Some(cold) = delivery.message.spilled().cloned() {
                let Some((kept, message)) = self.state.read_to_clear(ending, &cold) else {
                    return (JobProgress::Done, step + 1);
                };
                (ending, read) = (kept, Some(message));
            }
            let Some(mut delivery) = self.state.take_unfinished(session) else { continue };
            if let Some(message) = read {
                delivery.message = message.into();
            }
            self.state.record_taken(ending.number, sent_as);
            let ended = is_queue.then(|| delivery.clone());
            self.redispatch_message(self.state.sessions.key(session), delivery);
            if let Some(delivery) = ended {
                self.state.end_waiting_in_ended(&delivery);
            }
        }
        (JobProgress::Unfinished(Job::Clear(ending)), JOB_SLICE_STEPS)
    }

    /// Removes one subscription of a session that has ended, if there is one.
    fn remove_first_subscription(&mut self, session: SessionIndex) -> bool {
        let first = self.state.sessions[session].subscriptions().first();
        let Some((filter, record)) = first.map(|(filter, record)| (Box::<str>::from(filter), record)) else {
            return false;
        };
        if let Ok(filter) = TopicFilter::new(&filter) {
            self.leave(session, filter, record.format);
        }
        self.state.sessions.entry(session).apply(Change::Unsubscribed(filter));
        true
    }
}

/// Whether another member gets a message that a session was owed. A QoS 2 message that has been started is for nobody else
/// [MQTT-4.8.2-5].
fn is_redeliverable(delivery: &PendingMessage, sent_as: Option<PacketId>) -> bool {
    delivery.share.is_some() && (sent_as.is_none() || delivery.qos == QoS::AtLeastOnce)
}

impl<M: Mode> ShardState<M> {
    /// Takes the next message out of a session that has ended.
    pub(crate) fn take_unfinished(&mut self, session: SessionIndex) -> Option<PendingMessage> {
        let (delivery, _) = self.sessions.entry(session).take_unfinished()?;
        self.uncount_stored(&delivery);
        Some(delivery)
    }

    /// A message leaves a session that has ended, in the frame that says who else gets it.
    fn record_taken(&mut self, number: Option<SessionNumber>, sent_as: Option<PacketId>) {
        if let Some(number) = number {
            M::record_ended_change(self, number, &sent_as.map_or(Change::Unqueued, Change::Completed));
        }
    }
}
