//! The end of a connection: the client's will, and how long the session waits for it.

use crate::names::ClientKey;
use crate::numbers::Revision;
use crate::producers::{Entry, MessageOrigin, MessageSource, RetainRequest};
use crate::record::{Intent, SessionRecord, Will};
use crate::wills::delay_ms;

use super::context::SessionContext;
use super::disconnection::Disconnection;
use super::service::{Effect, SessionService};

impl SessionService {
    /// Creates a session whose client has been offline for this time, or was connected to a node that has died.
    pub(super) fn taken_over(
        key: ClientKey,
        record: SessionRecord,
        revision: Revision,
        before_ms: u64,
        now_ms: u64,
    ) -> SessionService {
        let mut service = SessionService::of(key, record, revision);
        let state = service.state().to_vec();
        service.part(state, before_ms, now_ms);
        service
    }

    /// Handles the end of the client's connection.
    pub(super) fn leave(&mut self, state: Vec<u8>, now_ms: u64) {
        self.part(state, 0, now_ms);
    }

    fn part(&mut self, state: Vec<u8>, before_ms: u64, now_ms: u64) {
        self.unsaved_state = Some(state);
        self.stop_answers();
        self.disconnection = Some(Disconnection { since_ms: now_ms, before_ms, will_due_ms: None });
        let Some(will) = &self.terms.will else { return };
        // Without state the session has ended, which publishes the will.
        let is_over = self.state().is_empty();
        let remaining_ms = if is_over { 0 } else { delay_ms(will, self.terms.expiry_s).saturating_sub(before_ms) };
        if remaining_ms == 0 {
            self.schedule_will();
        } else if let Some(disconnection) = &mut self.disconnection {
            disconnection.will_due_ms = Some(now_ms + remaining_ms);
            self.is_changed = true;
        }
    }

    /// Returns when the session must be checked again.
    pub(super) fn due_at_ms(&self) -> Option<u64> {
        self.disconnection.and_then(|disconnection| disconnection.will_due_ms)
    }

    /// Whether nothing happens before the will is due.
    pub(super) fn is_waiting_for_will(&self) -> bool {
        self.due_at_ms().is_some() && self.requested_by.is_empty() && self.next.is_none()
    }

    /// Schedules the will if its delay has passed.
    pub(super) fn wake(&mut self, now_ms: u64) {
        if self.due_at_ms().is_some_and(|until_ms| until_ms <= now_ms) {
            if let Some(disconnection) = &mut self.disconnection {
                disconnection.will_due_ms = None;
            }
            self.schedule_will();
        }
    }

    fn schedule_will(&mut self) {
        if let Some(will) = self.terms.will.take() {
            self.wills.push(will);
            self.is_changed = true;
        }
    }

    /// Assigns due wills their ordinals among the QoS 2 messages of their partitions. The record has these before the wills are appended. A
    /// node without a lease does not do that: its removal record may already be deleted, and then their outcome could not be determined.
    pub(super) fn record_pending_wills(&mut self, cx: &mut SessionContext<'_>) {
        if !cx.is_serving {
            return;
        }
        let publisher = self.publisher(None);
        for (id, due) in &mut self.wills.due {
            if due.intent.is_some() {
                continue;
            }
            let Will { topic, retain, message, .. } = &due.will;
            let partition = cx.seed.partition(topic);
            let origin = MessageOrigin { client: self.key, claim: self.claim, what: MessageSource::Will(*id) };
            let to_retain = retain.map(|retain| RetainRequest { retain, topic: topic.clone(), known: None });
            let entry = Entry { message: publisher.sign(message), origin, to_retain, since_ms: cx.now_ms };
            let ordinal = cx.producers.intend(partition);
            due.intent = Some(Intent { partition, ordinal });
            self.in_flight += 1;
            self.is_changed = true;
            self.effects.push(Effect::Append { partition, ordinal, entry });
        }
    }
}
