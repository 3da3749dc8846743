//! The sessions that this node claims or serves. Each client has at most one of both.

mod claim;
mod context;
mod disconnection;
mod dormant;
mod idle;
mod inheritance;
mod leaving;
mod migration;
mod record;
mod request;
mod service;
mod takeover;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;

use crate::names::{ClientKey, Incarnation, Partition};
use crate::numbers::Revision;
use crate::operation::{Answer, Decision, OperationId, Refusal};
use crate::producers::{MessageOrigin, MessageSource, WithdrawnMessage};
use crate::record::{Claim, SessionRecord};
use crate::wills::DisconnectSettings;

use claim::{ClaimOutcome, PendingClaim};
pub(crate) use context::SessionContext;
use dormant::DormantSession;
pub use migration::SessionsStatus;
pub(crate) use request::{ClaimRequest, PublishRequest};
use service::{ServiceState, SessionService};
pub(crate) use takeover::CollectionResult;

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    held: BTreeMap<ClientKey, SessionEntry>,
    claims: usize,
    takeovers: usize,
    last_claim: u64,
    /// Sessions with delayed wills, by the time of their next check.
    delayed_wills: BTreeSet<(u64, ClientKey)>,
    /// Clients that were told to migrate and have not disconnected yet.
    migrating: BTreeSet<ClientKey>,
    /// The last client that was told to migrate, in the order of keys.
    migrated_to: Option<ClientKey>,
    /// Sessions that have ended by a claim.
    ended: Vec<EndedSession>,
    /// Active services, in the order of their next checks.
    active: VecDeque<ActiveSession>,
    /// The time of the last check.
    now_ms: u64,
}

/// The previous session of a client that was started clean, with its state.
#[derive(Debug)]
pub(crate) struct EndedSession {
    pub(crate) client: ClientKey,
    /// The claim of the new session.
    pub(crate) by: Revision,
    pub(crate) state: Vec<u8>,
}

#[derive(Debug)]
enum SessionEntry {
    PendingClaim(Box<PendingClaim>),
    Takeover(Box<Takeover>),
    Serving(Box<SessionService>),
    DormantSession(DormantSession),
}

/// A session that this node takes over without its client, because it has a will.
#[derive(Debug)]
struct Takeover {
    operation: OperationId,
    record: SessionRecord,
    before_ms: u64,
}

/// An active service, with the time of its next check.
#[derive(Debug)]
struct ActiveSession {
    check_at_ms: u64,
    key: ClientKey,
    claim: u64,
}

impl Sessions {
    pub(crate) fn claim(&mut self, key: ClientKey, request: ClaimRequest, cx: &mut SessionContext<'_>) {
        let is_full = self.claims >= cx.settings.claims_max;
        match self.activate(key) {
            Some(SessionEntry::Serving(service)) => {
                if let Some(earlier) = service.next.replace(request) {
                    earlier.refuse(Refusal::TakenOver, cx);
                }
                // The engine has ended the connection before this one, or does so now.
                if service.is_open() {
                    let claim = service.claim;
                    service.release_to(cx.me, claim, cx);
                }
                self.proceed(key, cx);
            }
            Some(SessionEntry::PendingClaim(_)) => {
                self.end_claim(key, Refusal::TakenOver, cx);
                self.begin_claim(key, request, cx);
            }
            _ if is_full => request.refuse(Refusal::TooMany, cx),
            // The claim finds out whether this node has taken the session over meanwhile.
            Some(SessionEntry::Takeover(_)) => {
                self.drop_takeover(key);
                self.begin_claim(key, request, cx);
            }
            Some(SessionEntry::DormantSession(_)) | None => self.begin_claim(key, request, cx),
        }
    }

    fn begin_claim(&mut self, key: ClientKey, request: ClaimRequest, cx: &mut SessionContext<'_>) {
        self.last_claim += 1;
        self.claims += 1;
        let claiming = PendingClaim::begin(request, key, self.last_claim, cx);
        self.held.insert(key, SessionEntry::PendingClaim(Box::new(claiming)));
    }

    fn end_claim(&mut self, key: ClientKey, why: Refusal, cx: &mut SessionContext<'_>) {
        let Some(SessionEntry::PendingClaim(claiming)) = self.held.get_mut(&key) else { return };
        if !claiming.is_abandoned {
            claiming.request.refuse(why, cx);
        }
        self.abandon_claim(key, why);
    }

    /// Abandons a claim that no client waits for.
    fn abandon_claim(&mut self, key: ClientKey, why: Refusal) {
        let Some(SessionEntry::PendingClaim(claiming)) = self.held.get_mut(&key) else { return };
        claiming.is_abandoned = true;
        if why == Refusal::TakenOver || !claiming.may_be_written() {
            self.held.remove(&key);
            self.claims -= 1;
        }
    }

    pub(crate) fn abandon(&mut self, key: ClientKey, ticket: u64, cx: &mut SessionContext<'_>) {
        match self.activate(key) {
            Some(SessionEntry::PendingClaim(claiming)) if claiming.request.ticket == ticket => {
                self.abandon_claim(key, Refusal::Unavailable);
            }
            Some(SessionEntry::Serving(service)) => {
                service.abandon(ticket, cx.now_ms);
                self.proceed(key, cx);
            }
            _ => {}
        }
    }

    /// Whether sessions have ended by claims.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Returns the sessions that have ended by claims since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<EndedSession> {
        std::mem::take(&mut self.ended)
    }

    /// Handles timeouts.
    pub(crate) fn advance(&mut self, cx: &mut SessionContext<'_>) {
        self.suspend_idle(cx.now_ms);
        let is_claim =
            |(key, held): (&ClientKey, &SessionEntry)| matches!(held, SessionEntry::PendingClaim(_)).then_some(*key);
        let claims: Vec<_> =
            if self.claims == 0 { Vec::new() } else { self.held.iter().filter_map(is_claim).collect() };
        for key in claims {
            if let Some(SessionEntry::PendingClaim(claiming)) = self.held.get_mut(&key) {
                let outcome = claiming.advance(cx);
                self.take_outcome(key, outcome, cx);
            }
        }
        while let Some((until_ms, key)) = self.delayed_wills.first().copied()
            && until_ms <= cx.now_ms
            && cx.is_serving
        {
            self.delayed_wills.pop_first();
            if let Some(service) = self.service(key) {
                service.wake(cx.now_ms);
            }
            self.proceed(key, cx);
        }
    }

    /// Resumes after the lease was renewed.
    pub(crate) fn resume(&mut self, cx: &mut SessionContext<'_>) {
        for held in self.held.values_mut() {
            if let SessionEntry::Serving(service) = held {
                service.resume(cx);
                service.proceed(cx);
            }
        }
    }

    pub(crate) fn answer(&mut self, key: ClientKey, id: OperationId, answer: &Answer, cx: &mut SessionContext<'_>) {
        match self.activate(key) {
            Some(SessionEntry::PendingClaim(claiming)) => {
                let outcome = claiming.answer(id, answer, cx);
                self.take_outcome(key, outcome, cx);
            }
            Some(SessionEntry::Serving(service)) => {
                let state = service.answer(id, answer, cx);
                self.check_state(key, state, cx);
            }
            Some(SessionEntry::Takeover(_)) => self.answer_takeover(key, id, answer, cx),
            Some(SessionEntry::DormantSession(_)) | None => {}
        }
    }

    fn take_outcome(&mut self, key: ClientKey, outcome: ClaimOutcome, cx: &mut SessionContext<'_>) {
        match outcome {
            ClaimOutcome::Open => {}
            ClaimOutcome::Refused(why) => self.end_claim(key, why, cx),
            ClaimOutcome::Made { record, revision, is_present } => {
                if let Some(SessionEntry::PendingClaim(claiming)) = self.held.remove(&key) {
                    self.claims -= 1;
                    if !claiming.ends.is_empty() {
                        self.ended.push(EndedSession { client: key, by: revision, state: claiming.ends });
                    }
                    let service = if claiming.is_abandoned {
                        SessionService::taken_over(key, *record, revision, 0, cx.now_ms)
                    } else {
                        SessionService::begin(key, claiming.request.ticket, *record, revision, is_present, cx)
                    };
                    self.insert_service(key, service);
                    self.proceed(key, cx);
                }
            }
        }
    }

    fn check_state(&mut self, key: ClientKey, state: ServiceState, cx: &mut SessionContext<'_>) {
        if state == ServiceState::Active {
            return self.proceed(key, cx);
        }
        let Some(SessionEntry::Serving(service)) = self.held.remove(&key) else { return };
        self.migrating.remove(&key);
        if let Some(until_ms) = service.due_at_ms() {
            self.delayed_wills.remove(&(until_ms, key));
        }
        if service.is_open() {
            cx.out.decide(Decision::Lost(key));
        }
        if let Some(request) = service.next {
            self.begin_claim(key, request, cx);
        }
    }

    fn proceed(&mut self, key: ClientKey, cx: &mut SessionContext<'_>) {
        if let Some(service) = self.service(key) {
            service.proceed(cx);
            if let Some(until_ms) = service.due_at_ms() {
                self.delayed_wills.insert((until_ms, key));
            }
        }
    }

    /// Calls a function with the service that has the engine's connection, and applies the consequences.
    fn with_open(
        &mut self,
        key: ClientKey,
        cx: &mut SessionContext<'_>,
        act: impl FnOnce(&mut SessionService, &mut SessionContext<'_>),
    ) {
        if let Some(service) = self.service(key)
            && service.is_open()
        {
            act(service, cx);
            self.proceed(key, cx);
        }
    }

    pub(crate) fn publish(&mut self, key: ClientKey, publishing: PublishRequest, cx: &mut SessionContext<'_>) {
        self.with_open(key, cx, |service, cx| match publishing.packet_id {
            None => service.publish(publishing, cx),
            Some(packet_id) => service.publish_once(packet_id, publishing, cx),
        });
    }

    pub(crate) fn release(&mut self, key: ClientKey, packet_id: NonZeroU16, cx: &mut SessionContext<'_>) {
        self.with_open(key, cx, |service, cx| service.release(packet_id, cx));
    }

    pub(crate) fn save(&mut self, key: ClientKey, number: u64, state: Vec<u8>, cx: &mut SessionContext<'_>) {
        self.with_open(key, cx, |service, cx| service.save(number, state, cx));
    }

    /// The settings that apply when the client disconnects have changed. They are written with the next state.
    pub(crate) fn set_disconnect_settings(&mut self, key: ClientKey, terms: DisconnectSettings) {
        if let Some(service) = self.service(key)
            && service.is_open()
        {
            service.set_disconnect_settings(terms);
        }
    }

    pub(crate) fn leave(&mut self, key: ClientKey, state: Vec<u8>, cx: &mut SessionContext<'_>) {
        self.with_open(key, cx, |service, cx| service.leave(state, cx.now_ms));
    }

    pub(crate) fn disconnect_as_saved(&mut self, key: ClientKey, cx: &mut SessionContext<'_>) {
        self.with_open(key, cx, |service, cx| {
            let state = service.state().to_vec();
            service.leave(state, cx.now_ms);
        });
    }

    /// Messages of these origins are in the log, and with them all QoS 2 messages of the partition up to an ordinal.
    pub(crate) fn settle(&mut self, partition: Partition, ordinal: u64, origins: impl Iterator<Item = MessageOrigin>) {
        for origin in origins {
            if let Some(service) = self.service(origin.client)
                && service.claim == origin.claim
            {
                service.settle(partition, ordinal);
            }
        }
    }

    /// These messages are persisted.
    pub(crate) fn stored(&mut self, origins: &[MessageOrigin], cx: &mut SessionContext<'_>) {
        for origin in origins {
            if let Some(service) = self.service(origin.client)
                && service.claim == origin.claim
            {
                service.stored(origin.what, cx);
                self.proceed(origin.client, cx);
            }
        }
    }

    /// Whether the outcome of a message can be reported to its publisher.
    pub(crate) fn can_notify(&self, origin: &MessageOrigin) -> bool {
        if matches!(origin.what, MessageSource::OperatorPublish { .. }) {
            return true;
        }
        let is_message = matches!(origin.what, MessageSource::Message { .. });
        let is_open = |held: &SessionEntry| matches!(held, SessionEntry::Serving(service) if service.claim == origin.claim && service.is_open());
        is_message && self.held.get(&origin.client).is_some_and(is_open)
    }

    /// These messages will never be in the log.
    pub(crate) fn withdrawn(&mut self, withdrawn: &[WithdrawnMessage], cx: &mut SessionContext<'_>) {
        for WithdrawnMessage { origin, intent } in withdrawn {
            if let Some(service) = self.service(origin.client)
                && service.claim == origin.claim
            {
                service.withdrawn(origin.what, *intent, cx);
                self.proceed(origin.client, cx);
            }
        }
    }

    /// Another node requests a session.
    pub(crate) fn requested(&mut self, key: ClientKey, by: Incarnation, claim: u64, cx: &mut SessionContext<'_>) {
        match self.activate(key) {
            Some(SessionEntry::Serving(service)) => {
                service.release_to(by, claim, cx);
                self.proceed(key, cx);
            }
            Some(SessionEntry::PendingClaim(claiming)) => {
                // The other node has seen a claim of this node that this node does not know to be written.
                if claiming.number() <= claim {
                    self.end_claim(key, Refusal::TakenOver, cx);
                }
                cx.send_released(key, by, claim);
            }
            Some(SessionEntry::Takeover(_)) => {
                self.drop_takeover(key);
                cx.send_released(key, by, claim);
            }
            Some(SessionEntry::DormantSession(_)) | None => cx.send_released(key, by, claim),
        }
    }

    /// Another node has released a session.
    pub(crate) fn released(&mut self, key: ClientKey, by: Incarnation, number: u64, cx: &mut SessionContext<'_>) {
        if let Some(SessionEntry::PendingClaim(claiming)) = self.held.get_mut(&key) {
            claiming.released(Claim { by, number }, cx);
        }
    }
}
