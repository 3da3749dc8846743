//! A session that this node serves, from its claim until it is released.
//!
//! The desired record changes at once; writes follow one at a time, and each includes all changes since the last one. Actions that wait for
//! a write are [`Effect`]s.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::{NonZeroU16, NonZeroU64};

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Incarnation, Key, Partition};
use crate::numbers::Revision;
use crate::operation::{Answer, Decision, Operation, OperationId};
use crate::outbox::Purpose;
use crate::producers::{Entry, MessageOrigin, MessageSource};
use crate::record::{Intent, NEVER_EXPIRES, Publisher, SessionRecord, Taken};
use crate::wills::DisconnectSettings;

use super::context::SessionContext;
use super::disconnection::{Disconnection, Wills};
use super::dormant::DormantSession;
use super::inheritance::has_intents;
use super::record::write_operation;
use super::request::{ClaimRequest, PublishRequest};

#[derive(Debug)]
pub(super) struct SessionService {
    pub(super) key: ClientKey,
    /// The number of this node's claim.
    pub(super) claim: u64,
    /// The revision of the claim, which other nodes know.
    epoch: u64,
    /// The record that is known to be stored.
    record: SessionRecord,
    revision: Revision,
    taken: BTreeMap<NonZeroU16, Option<Intent>>,
    /// State that the record does not have yet. Most of the many services have none.
    pub(super) unsaved_state: Option<Vec<u8>>,
    pub(super) terms: DisconnectSettings,
    pub(super) wills: Wills,
    pub(super) is_changed: bool,
    writing: Option<Box<PendingWrite>>,
    /// Effects of the next write.
    pub(super) effects: Vec<Effect>,
    /// Tickets of QoS 2 messages to refuse as soon as the record has them.
    refusals_due: BTreeSet<u64>,
    /// The last refused message. Messages sent before the engine knows of that refusal are refused as well.
    last_refused: u64,
    /// Messages of the client in order, with their outcomes.
    answers: VecDeque<(u64, PublishOutcome)>,
    /// Messages and wills of the client that are not persisted yet.
    pub(super) in_flight: usize,
    /// Decisions to send to the engine when the lease is renewed.
    held: Vec<Decision>,
    /// The ticket of the request, until the engine was told of the session.
    unserved: Option<u64>,
    /// Set after the connection has ended.
    pub(super) disconnection: Option<Disconnection>,
    /// Nodes that request the session, with the claims that they have seen.
    pub(super) requested_by: Vec<(Incarnation, u64)>,
    /// A client that has reconnected to this node before the session was released.
    pub(super) next: Option<ClaimRequest>,
    /// Set by activity since the last check.
    pub(super) is_touched: bool,
}

#[derive(Debug)]
struct PendingWrite {
    operation: OperationId,
    is_checking: bool,
    /// The record to write; `None` to remove it.
    record: Option<SessionRecord>,
    /// After how many seconds the store removes it.
    for_s: Option<u32>,
    effects: Vec<Effect>,
    since_ms: u64,
}

#[derive(Debug)]
pub(super) enum Effect {
    Append {
        partition: Partition,
        ordinal: u64,
        entry: Entry,
    },
    Complete(NonZeroU16),
    Saved(u64),
    /// Refuses a QoS 2 message when the record no longer has it, so that the next one with its identifier is not taken for a duplicate.
    Refuse {
        ticket: u64,
        intent: Intent,
    },
}

/// The outcome of a message of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PublishOutcome {
    Open,
    Stored,
    Refused,
}

/// The state of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceState {
    Active,
    /// The record has no owner any more.
    Released,
    /// The record belongs to another node.
    Lost,
}

impl SessionService {
    pub(super) fn begin(
        key: ClientKey,
        ticket: u64,
        record: SessionRecord,
        revision: Revision,
        is_present: bool,
        cx: &mut SessionContext<'_>,
    ) -> SessionService {
        let serve = Decision::Serve {
            ticket,
            client: key,
            epoch: revision.0,
            is_present,
            taken: record.taken.iter().map(|taken| taken.packet_id).collect(),
            state: record.state.clone(),
        };
        let mut service = SessionService::of(key, record, revision);
        service.unserved = Some(ticket);
        service.notify(serve, cx);
        service
    }

    /// Creates the service of a session that this node has just become the owner of.
    pub(super) fn of(key: ClientKey, record: SessionRecord, revision: Revision) -> SessionService {
        SessionService {
            key,
            claim: record.owner.map_or(0, |claim| claim.number),
            epoch: revision.0,
            taken: record.taken.iter().map(|taken| (taken.packet_id, taken.intent)).collect(),
            unsaved_state: None,
            terms: DisconnectSettings { expiry_s: record.expiry_s, will: record.will.clone() },
            wills: Wills::new(&record.due),
            record,
            revision,
            is_changed: false,
            writing: None,
            effects: Vec::new(),
            refusals_due: BTreeSet::new(),
            last_refused: 0,
            answers: VecDeque::new(),
            in_flight: 0,
            held: Vec::new(),
            unserved: None,
            disconnection: None,
            requested_by: Vec::new(),
            next: None,
            is_touched: true,
        }
    }

    /// Returns the dormant form of the service, or `None` if something is in flight.
    pub(super) fn to_dormant(&self) -> Option<DormantSession> {
        let says_all = self.unsaved_state.is_none()
            && !self.is_changed
            && self.writing.is_none()
            && self.effects.is_empty()
            && self.held.is_empty()
            && self.requested_by.is_empty();
        let is_quiet = self.answers.is_empty() && self.in_flight == 0 && self.refusals_due.is_empty();
        let is_connected = self.disconnection.is_none() && self.unserved.is_none() && self.next.is_none();
        // The record does not contain the settled intents of identifiers.
        let is_plain = self.taken.is_empty() && self.record.taken.is_empty() && self.wills.are_published();
        (says_all && is_quiet && is_connected && is_plain)
            .then(|| DormantSession::new(self.epoch, self.last_refused, self.revision, &self.record))
    }

    /// Restores a dormant service.
    pub(super) fn activate(key: ClientKey, dormant: &DormantSession) -> Option<SessionService> {
        let (epoch, last_refused, revision, record) = dormant.decode()?;
        Some(SessionService { epoch, last_refused, ..SessionService::of(key, record, revision) })
    }

    /// Whether packets of the client belong to this service.
    pub(super) fn is_open(&self) -> bool {
        self.disconnection.is_none()
    }

    /// Whether nothing is in flight, and nothing happens before its will is due.
    pub(super) fn is_idle(&self) -> bool {
        self.is_waiting_for_will() && self.writing.is_none() && !self.is_changed && self.wills.are_published()
    }

    /// Returns the engine's state of the session.
    pub(super) fn state(&self) -> &[u8] {
        self.unsaved_state.as_ref().unwrap_or(&self.record.state)
    }

    pub(super) fn notify(&mut self, decision: Decision, cx: &mut SessionContext<'_>) {
        if cx.is_serving {
            self.unserved = self.unserved.filter(|_| !matches!(decision, Decision::Serve { .. }));
            cx.out.decide(decision);
        } else {
            self.held.push(decision);
        }
    }

    /// Resumes after the lease was renewed.
    pub(super) fn resume(&mut self, cx: &mut SessionContext<'_>) {
        for decision in std::mem::take(&mut self.held) {
            self.notify(decision, cx);
        }
    }

    pub(super) fn publish(&mut self, publishing: PublishRequest, cx: &mut SessionContext<'_>) {
        let ticket = publishing.ticket;
        if self.is_after_refused(&publishing) {
            return self.refuse_at_once(ticket, cx);
        }
        self.answers.push_back((ticket, PublishOutcome::Open));
        self.in_flight += 1;
        let (partition, entry) = self.entry(publishing, cx.now_ms);
        cx.producers.push(partition, entry, cx.settings, cx.out);
        if is(Mutant::AcknowledgesBeforeStored) {
            self.answered(ticket, PublishOutcome::Stored, cx);
        }
    }

    pub(super) fn publish_once(
        &mut self,
        packet_id: NonZeroU16,
        publishing: PublishRequest,
        cx: &mut SessionContext<'_>,
    ) {
        match self.taken.get(&packet_id) {
            // A duplicate of a stored message [MQTT-4.3.3-10].
            Some(None) => {
                self.answers.push_back((publishing.ticket, PublishOutcome::Stored));
                return self.send_answers(cx);
            }
            // The answer to the first one answers the duplicate too.
            Some(Some(_)) => return,
            None if self.is_after_refused(&publishing) => return self.refuse_at_once(publishing.ticket, cx),
            None => {}
        }
        self.answers.push_back((publishing.ticket, PublishOutcome::Open));
        self.in_flight += 1;
        let (partition, entry) = self.entry(publishing, cx.now_ms);
        let ordinal = cx.producers.intend(partition);
        if is(Mutant::OmitsIntents) {
            return cx.producers.resolve(cx.now_ms, partition, ordinal, Some(entry), cx.settings, cx.out);
        }
        self.taken.insert(packet_id, Some(Intent { partition, ordinal }));
        self.effects.push(Effect::Append { partition, ordinal, entry });
        self.is_changed = true;
    }

    /// Whether a message was sent before the engine knew that an earlier one was refused. A client of MQTT 3.1.1 is then disconnected, and
    /// sends the earlier one again.
    fn is_after_refused(&self, publishing: &PublishRequest) -> bool {
        publishing.refusal_seen < self.last_refused && !is(Mutant::AcceptsAfterRefusal)
    }

    fn refuse_at_once(&mut self, ticket: u64, cx: &mut SessionContext<'_>) {
        self.answers.push_back((ticket, PublishOutcome::Refused));
        self.last_refused = ticket;
        self.send_answers(cx);
    }

    fn entry(&self, publishing: PublishRequest, now_ms: u64) -> (Partition, Entry) {
        let PublishRequest { partition, ticket, refusal_seen: _, packet_id, to_retain, message } = publishing;
        let message = self.publisher(packet_id).sign(&message);
        let origin =
            MessageOrigin { client: self.key, claim: self.claim, what: MessageSource::Message { ticket, packet_id } };
        (partition, Entry { message, origin, to_retain, since_ms: now_ms })
    }

    /// Returns the publisher that the log records for messages of this service.
    pub(super) fn publisher(&self, packet_id: Option<NonZeroU16>) -> Publisher {
        Publisher { client: self.key, epoch: self.epoch, packet_id }
    }

    pub(super) fn release(&mut self, packet_id: NonZeroU16, cx: &mut SessionContext<'_>) {
        self.is_changed |= self.taken.remove(&packet_id).is_some() || self.writing.is_some();
        if self.is_changed && !is(Mutant::CompletesTooEarly) {
            self.effects.push(Effect::Complete(packet_id));
        } else {
            self.notify(Decision::Completed { client: self.key, packet_id }, cx);
        }
    }

    pub(super) fn save(&mut self, number: u64, state: Vec<u8>, cx: &mut SessionContext<'_>) {
        (self.unsaved_state, self.is_changed) = (Some(state), true);
        if is(Mutant::SavesTooEarly) {
            return self.notify(Decision::Saved { client: self.key, number }, cx);
        }
        self.effects.push(Effect::Saved(number));
    }

    /// The settings that apply when the client disconnects have changed. They are persisted with the next state.
    pub(super) fn set_disconnect_settings(&mut self, terms: DisconnectSettings) {
        (self.terms, self.is_changed) = (terms, true);
    }

    /// Stops all answers to the client.
    pub(super) fn stop_answers(&mut self) {
        self.answers.clear();
        self.held.clear();
    }

    /// The client that has requested with this ticket is gone.
    pub(super) fn abandon(&mut self, ticket: u64, now_ms: u64) {
        self.next.take_if(|next| next.ticket == ticket);
        if self.unserved == Some(ticket) {
            let state = self.state().to_vec();
            self.leave(state, now_ms);
        }
    }

    /// Another node has the client.
    pub(super) fn release_to(&mut self, to: Incarnation, claim: u64, cx: &mut SessionContext<'_>) {
        if claim < self.claim || is(Mutant::ReleasesTooEarly) || is(Mutant::ServesAfterRelease) {
            cx.send_released(self.key, to, claim);
        }
        if claim < self.claim || is(Mutant::ServesAfterRelease) {
            return;
        }
        if !self.requested_by.contains(&(to, claim)) {
            self.requested_by.push((to, claim));
        }
        if self.disconnection.is_some() {
            return;
        }
        match self.unserved.take() {
            Some(ticket) => {
                cx.out.decide(Decision::Refuse { ticket, why: crate::Refusal::TakenOver });
                let state = self.state().to_vec();
                self.leave(state, cx.now_ms);
            }
            None => cx.out.decide(Decision::SessionTakenOver(self.key)),
        }
    }

    /// A message or a will of the client is persisted.
    pub(super) fn stored(&mut self, what: MessageSource, cx: &mut SessionContext<'_>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match what {
            MessageSource::Message { ticket, .. } if is(Mutant::AcknowledgesOutOfOrder) && self.is_open() => {
                self.notify(Decision::Stored { client: self.key, ticket }, cx);
            }
            MessageSource::Message { ticket, .. } => self.answered(ticket, PublishOutcome::Stored, cx),
            MessageSource::Will(id) => {
                self.wills.published(id);
                self.is_changed = true;
            }
            MessageSource::OperatorPublish { .. } => {}
        }
    }

    /// A message of the client was withdrawn and will never be in the log.
    pub(super) fn withdrawn(&mut self, what: MessageSource, intent: Option<Intent>, cx: &mut SessionContext<'_>) {
        let MessageSource::Message { ticket, packet_id } = what else { return };
        self.in_flight = self.in_flight.saturating_sub(1);
        self.last_refused = self.last_refused.max(ticket);
        self.refuse_following(ticket);
        let (Some(packet_id), Some(intent)) = (packet_id, intent) else {
            return self.answered(ticket, PublishOutcome::Refused, cx);
        };
        self.refusals_due.remove(&ticket);
        // The client may have released it, and another message may have the identifier by now.
        if self.taken.get(&packet_id) == Some(&Some(intent)) {
            self.taken.remove(&packet_id);
        }
        self.is_changed = true;
        if is(Mutant::RefusesBeforeRecord) {
            cx.producers.forget(cx.now_ms, intent, cx.settings, cx.out);
            return self.answered(ticket, PublishOutcome::Refused, cx);
        }
        self.effects.push(Effect::Refuse { ticket, intent });
    }

    /// Refuses QoS 2 messages after a refused one, when the write in flight or the next one is done.
    fn refuse_following(&mut self, refused: u64) {
        let writing = self.writing.as_ref().map_or(&[][..], |writing| &writing.effects);
        for effect in self.effects.iter().chain(writing) {
            if let Effect::Append { entry: Entry { origin, .. }, .. } = effect
                && let MessageSource::Message { ticket, .. } = origin.what
                && refused < ticket
                && !is(Mutant::RefusesOnlyOne)
            {
                self.refusals_due.insert(ticket);
            }
        }
    }

    fn is_refusal_pending(&self, entry: &Entry) -> bool {
        matches!(entry.origin.what, MessageSource::Message { ticket, .. } if self.refusals_due.contains(&ticket))
    }

    fn answered(&mut self, ticket: u64, outcome: PublishOutcome, cx: &mut SessionContext<'_>) {
        if let Some((_, known)) = self.answers.iter_mut().find(|(waiting, _)| *waiting == ticket) {
            *known = outcome;
        }
        self.send_answers(cx);
    }

    /// All QoS 2 messages of the partition up to this ordinal are in the log now.
    pub(super) fn settle(&mut self, partition: Partition, ordinal: u64) {
        for intent in self.taken.values_mut() {
            intent.take_if(|intent| intent.partition == partition && intent.ordinal <= ordinal);
        }
    }

    fn send_answers(&mut self, cx: &mut SessionContext<'_>) {
        while let Some((ticket, outcome)) =
            crate::queue::pop_front_if(&mut self.answers, |(_, outcome)| *outcome != PublishOutcome::Open)
        {
            let client = self.key;
            match outcome {
                PublishOutcome::Refused => self.notify(Decision::NotStored { client, ticket }, cx),
                PublishOutcome::Open | PublishOutcome::Stored => self.notify(Decision::Stored { client, ticket }, cx),
            }
        }
    }

    /// Writes the record if it has changed and no write is in flight; for the last time when the client has disconnected and all its
    /// messages are in the log.
    pub(super) fn proceed(&mut self, cx: &mut SessionContext<'_>) {
        if self.writing.is_some() {
            return;
        }
        self.record_pending_wills(cx);
        let is_clear = self.effects.is_empty() && (self.in_flight == 0 || is(Mutant::ReleasesWithMessagesInFlight));
        let is_last =
            is_clear && self.disconnection.is_some() && self.wills.are_published() && !self.is_waiting_for_will();
        if !self.is_changed && !is_last {
            return;
        }
        let taken = self.taken.iter().map(|(packet_id, intent)| Taken { packet_id: *packet_id, intent: *intent });
        let record = SessionRecord {
            write: self.record.write + 1,
            claimed_at: NonZeroU64::new(self.epoch),
            owner: self.record.owner.filter(|_| !is_last),
            taken: taken.collect(),
            expiry_s: self.terms.expiry_s,
            away_ms: self.disconnection.as_ref().map(|disconnection| disconnection.away_ms(cx.now_ms)),
            will: self.terms.will.clone(),
            due: self.wills.records(),
            state: self.state().to_vec(),
            ..self.record.clone()
        };
        self.is_changed = false;
        let effects = std::mem::take(&mut self.effects);
        if is_last {
            let (record, for_s) = record.detached_record(0, cx.settings);
            return self.put(record, for_s, effects, cx);
        }
        let for_s = (is(Mutant::ExpiresClaimed) && record.expiry_s < NEVER_EXPIRES).then_some(record.expiry_s);
        self.put(Some(record), for_s, effects, cx);
    }

    fn put(
        &mut self,
        record: Option<SessionRecord>,
        for_s: Option<u32>,
        effects: Vec<Effect>,
        cx: &mut SessionContext<'_>,
    ) {
        let operation = self.ask_to_write(record.as_ref(), for_s, cx);
        let writing = PendingWrite { operation, is_checking: false, record, for_s, effects, since_ms: cx.now_ms };
        self.writing = Some(Box::new(writing));
    }

    fn ask_to_write(
        &self,
        record: Option<&SessionRecord>,
        for_s: Option<u32>,
        cx: &mut SessionContext<'_>,
    ) -> OperationId {
        let write = write_operation(self.key, self.revision, record, for_s);
        cx.out.ask(Purpose::Session(self.key), write)
    }

    pub(super) fn answer(&mut self, id: OperationId, answer: &Answer, cx: &mut SessionContext<'_>) -> ServiceState {
        let Some(mut writing) = self.writing.take_if(|writing| writing.operation == id) else {
            return ServiceState::Active;
        };
        match answer {
            Answer::Put(revision) => self.written(*revision, writing, cx),
            Answer::Removed => self.released(cx),
            Answer::Got(found) if writing.is_checking => self.check(found.as_ref(), writing, cx),
            _ => {
                writing.operation = cx.out.ask(Purpose::Session(self.key), Operation::Get(Key::Session(self.key)));
                writing.is_checking = true;
                self.writing = Some(writing);
                ServiceState::Active
            }
        }
    }

    /// Resolves a conflict or an unknown outcome from the record that the store reports. A replaced leader may report an old one.
    fn check(
        &mut self,
        found: Option<&(Revision, Vec<u8>)>,
        mut writing: Box<PendingWrite>,
        cx: &mut SessionContext<'_>,
    ) -> ServiceState {
        let is_believed = writing.since_ms + cx.settings.confirm_gone_ms <= cx.now_ms;
        match found {
            Some((revision, value)) if SessionRecord::decode(value).ok() == writing.record => {
                return self.written(*revision, writing, cx);
            }
            // Another node has claimed the session.
            Some((revision, _))
                if *revision > self.revision || (*revision < self.revision && is(Mutant::TrustsReplacedLeaders)) =>
            {
                self.drop_effects(writing.effects, cx);
                return ServiceState::Lost;
            }
            Some(_) => {}
            // The record was removed or has expired. The session can be claimed on this report even if the record exists, unless some of
            // its messages may be in flight to the log.
            None if (writing.record.is_none() || writing.for_s.is_some())
                && (is_believed || !has_intents(&self.record)) =>
            {
                return self.released(cx);
            }
            None if is_believed => {
                self.drop_effects(writing.effects, cx);
                return ServiceState::Lost;
            }
            None => {}
        }
        // It has not been written yet.
        writing.operation = self.ask_to_write(writing.record.as_ref(), writing.for_s, cx);
        writing.is_checking = false;
        self.writing = Some(writing);
        ServiceState::Active
    }

    fn written(&mut self, revision: Revision, writing: Box<PendingWrite>, cx: &mut SessionContext<'_>) -> ServiceState {
        let PendingWrite { record, effects, .. } = *writing;
        (self.record, self.revision) = (record.unwrap_or_else(|| self.record.clone()), revision);
        if self.unsaved_state.as_ref() == Some(&self.record.state) {
            self.unsaved_state = None;
        }
        for effect in effects {
            match effect {
                Effect::Append { partition, ordinal, entry } if self.is_refusal_pending(&entry) => {
                    let intent = Intent { partition, ordinal };
                    cx.producers.withdraw_intended(cx.now_ms, intent, cx.settings, cx.out);
                    self.withdrawn(entry.origin.what, Some(intent), cx);
                }
                Effect::Append { partition, ordinal, entry } => {
                    cx.producers.resolve(cx.now_ms, partition, ordinal, Some(entry), cx.settings, cx.out);
                }
                Effect::Complete(packet_id) if self.is_open() => {
                    self.notify(Decision::Completed { client: self.key, packet_id }, cx);
                }
                Effect::Saved(number) if self.is_open() => {
                    self.notify(Decision::Saved { client: self.key, number }, cx);
                }
                Effect::Refuse { ticket, intent } => {
                    cx.producers.forget(cx.now_ms, intent, cx.settings, cx.out);
                    self.answered(ticket, PublishOutcome::Refused, cx);
                }
                Effect::Complete(_) | Effect::Saved(_) => {}
            }
        }
        if self.record.owner.is_some() { ServiceState::Active } else { self.released(cx) }
    }

    fn released(&mut self, cx: &mut SessionContext<'_>) -> ServiceState {
        for (node, claim) in std::mem::take(&mut self.requested_by) {
            cx.send_released(self.key, node, claim);
        }
        ServiceState::Released
    }

    /// Handles the loss of the session: messages that were not appended never will be.
    fn drop_effects(&mut self, effects: Vec<Effect>, cx: &mut SessionContext<'_>) {
        for effect in effects.into_iter().chain(std::mem::take(&mut self.effects)) {
            match effect {
                Effect::Append { partition, ordinal, .. } => {
                    cx.producers.resolve(cx.now_ms, partition, ordinal, None, cx.settings, cx.out);
                }
                Effect::Refuse { intent, .. } => cx.producers.forget(cx.now_ms, intent, cx.settings, cx.out),
                Effect::Complete(_) | Effect::Saved(_) => {}
            }
        }
    }
}
