//! The end of a connection: the client's will, how long the session waits for it, and the final record.

use crate::mutant::{Mutant, is};
use crate::names::ClientKey;
use crate::operation::Revision;
use crate::producers::{Entry, MessageOrigin, MessageSource, RetainRequest};
use crate::record::{DueWill, Intent, NEVER_EXPIRES, SessionRecord, Will};
use crate::settings::Settings;
use crate::wills::delay_ms;

use super::SessionContext;
use super::service::{Effect, SessionService};

/// A session whose client has disconnected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disconnection {
    since_ms: u64,
    /// How long it had been offline when this node took the session over.
    before_ms: u64,
    /// When a delayed will is due. The session stays with this node until then, unless another node requests it.
    will_due_ms: Option<u64>,
}

/// Wills to be published, in order.
#[derive(Debug)]
pub(super) struct Wills {
    last: u64,
    due: Vec<(u64, DueWill)>,
}

impl Disconnection {
    pub(super) fn away_ms(&self, now_ms: u64) -> u64 {
        self.before_ms + now_ms.saturating_sub(self.since_ms)
    }
}

impl Wills {
    pub(super) fn new(due: &[DueWill]) -> Wills {
        let due: Vec<_> = (1..).zip(due.iter().cloned()).collect();
        Wills { last: due.len() as u64, due }
    }

    fn push(&mut self, will: Will) {
        self.last += 1;
        self.due.push((self.last, DueWill { will, intent: None }));
    }

    pub(super) fn published(&mut self, id: u64) {
        self.due.retain(|(known, _)| *known != id);
    }

    pub(super) fn are_published(&self) -> bool {
        self.due.is_empty()
    }

    pub(super) fn records(&self) -> Vec<DueWill> {
        self.due.iter().map(|(_, due)| due.clone()).collect()
    }
}

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

impl SessionRecord {
    /// Returns the record without an owner, and after how many seconds the store removes it; `None` if the session has ended. `age_ms` is
    /// the age of the record.
    pub(super) fn detached_record(self, age_ms: u64, settings: &Settings) -> (Option<SessionRecord>, Option<u32>) {
        let record = SessionRecord { owner: None, ..self };
        // A new owner decides about the will. If there is none, garbage collection finds it.
        if record.will.is_some() || !record.due.is_empty() {
            return (Some(record), None);
        }
        if record.state.is_empty() || record.expiry_s == 0 {
            return (None, None);
        }
        if record.expiry_s == NEVER_EXPIRES || is(Mutant::NeverExpires) {
            return (Some(record), None);
        }
        let away_s = (record.away_ms.map_or(0, |away_ms| away_ms + age_ms) / 1000).min(u32::MAX.into()) as u32;
        let for_s = record.expiry_s.saturating_sub(away_s).saturating_add(settings.expiry_margin_s).max(1);
        (Some(record), Some(for_s))
    }
}
