//! Ending sessions, and cleaning up after them over several turns.

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
    /// Ends a session: publishes its will, removes its subscriptions, and redispatches its messages of shared subscriptions. Long
    /// work is spread over several turns.
    pub(crate) fn end_session(&mut self, session: SessionIndex) {
        self.publish_will(session);
        self.state.remove_throttled(session);
        let number = self.state.end_session(session);
        self.begin(Job::Clear(SessionCleanup { session, load_queue: LoadQueue::default(), number, unrecorded: 0 }));
    }

    /// Cleans up after an ended session, one slice of the job.
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
            if let Some(spilled) = delivery.message.spilled().cloned() {
                let Some((returned, message)) = self.state.read_to_clear(ending, &spilled) else {
                    return (JobProgress::Done, step + 1);
                };
                (ending, read) = (returned, Some(message));
            }
            let Some(mut delivery) = self.state.take_unfinished(session) else { continue };
            if let Some(message) = read {
                delivery.message = message.into();
            }
            self.state.record_taken(ending.number, sent_as);
            let ended = is_queue.then(|| delivery.clone());
            self.redispatch_message(self.state.sessions.key(session), delivery);
            if let Some(delivery) = ended {
                self.state.remove_from_ended_queue(&delivery);
            }
        }
        (JobProgress::Unfinished(Job::Clear(ending)), JOB_SLICE_STEPS)
    }

    /// Removes one subscription of an ended session, if there is one.
    fn remove_first_subscription(&mut self, session: SessionIndex) -> bool {
        let first = self.state.sessions[session].subscriptions().first();
        let Some((filter, record)) = first.map(|(filter, record)| (Box::<str>::from(filter), record)) else {
            return false;
        };
        if let Ok(filter) = TopicFilter::new(&filter) {
            self.remove_subscription(session, filter, record.format);
        }
        self.state.sessions.entry(session).apply(Change::Unsubscribed(filter));
        true
    }
}

/// Whether an undelivered message is redispatched to another member. A QoS 2 message that was sent is not [MQTT-4.8.2-5].
fn is_redeliverable(delivery: &PendingMessage, sent_as: Option<PacketId>) -> bool {
    delivery.share.is_some() && (sent_as.is_none() || delivery.qos == QoS::AtLeastOnce)
}

impl<M: Mode> ShardState<M> {
    /// Takes the next message out of an ended session.
    pub(crate) fn take_unfinished(&mut self, session: SessionIndex) -> Option<PendingMessage> {
        let (delivery, _) = self.sessions.entry(session).take_unfinished()?;
        self.subtract_stored(&delivery);
        Some(delivery)
    }

    /// Records that a message leaves an ended session, in the same frame as its delivery to another member.
    fn record_taken(&mut self, number: Option<SessionNumber>, sent_as: Option<PacketId>) {
        if let Some(number) = number {
            M::record_ended_change(self, number, &sent_as.map_or(Change::Unqueued, Change::Completed));
        }
    }
}
