//! A claim: from a client's CONNECT to the record that names the owner of the session.

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Key};
use crate::numbers::Revision;
use crate::operation::{Answer, Operation, OperationId, Refusal, Start};
use crate::outbox::Purpose;
use crate::peer_message::{PeerMessage, PeerMessageKind};
use crate::record::{Claim, NEVER_EXPIRES, SessionRecord};
use crate::wills;

use super::context::SessionContext;
use super::inheritance::{InheritedState, has_intents};
use super::request::ClaimRequest;

#[derive(Debug)]
pub(super) struct PendingClaim {
    pub(super) request: ClaimRequest,
    key: ClientKey,
    claim: Claim,
    step: Step,
    /// The last claim of an owner that has confirmed that it does not serve the client.
    released: Option<Claim>,
    /// No client waits for it any more. It is completed nevertheless, because the record may already name this node.
    pub(super) is_abandoned: bool,
    /// The state of a session that ends with this claim.
    pub(super) ends: Vec<u8>,
}

#[derive(Debug)]
enum Step {
    Reading(OperationId),
    /// Another node owns the session.
    Blocked {
        owner: Claim,
        retry_at_ms: u64,
    },
    Writing {
        operation: OperationId,
        record: Box<SessionRecord>,
        is_present: bool,
    },
    /// The outcome of the write is unknown.
    Checking {
        operation: OperationId,
        record: Box<SessionRecord>,
        is_present: bool,
    },
}

/// The outcome of a claim.
#[derive(Debug)]
pub(super) enum ClaimOutcome {
    Open,
    Made { record: Box<SessionRecord>, revision: Revision, is_present: bool },
    Refused(Refusal),
}

impl PendingClaim {
    pub(super) fn begin(
        request: ClaimRequest,
        key: ClientKey,
        number: u64,
        cx: &mut SessionContext<'_>,
    ) -> PendingClaim {
        let claim = Claim { by: cx.me, number };
        let step = Step::Reading(cx.out.ask(Purpose::Session(key), Operation::Get(Key::Session(key))));
        PendingClaim { request, key, claim, step, released: None, is_abandoned: false, ends: Vec::new() }
    }

    /// Returns its number among the claims of this incarnation.
    pub(super) fn number(&self) -> u64 {
        self.claim.number
    }

    /// Whether the record may already name this node.
    pub(super) fn may_be_written(&self) -> bool {
        matches!(self.step, Step::Writing { .. } | Step::Checking { .. })
    }

    pub(super) fn advance(&mut self, cx: &mut SessionContext<'_>) -> ClaimOutcome {
        if self.is_abandoned {
            return if self.may_be_written() {
                ClaimOutcome::Open
            } else {
                ClaimOutcome::Refused(Refusal::Unavailable)
            };
        }
        if self.request.deadline_ms <= cx.now_ms {
            return ClaimOutcome::Refused(Refusal::Unavailable);
        }
        if let Step::Blocked { owner, retry_at_ms } = self.step {
            if cx.nodes.is_over(owner.by) {
                self.read(cx);
            } else if retry_at_ms <= cx.now_ms {
                self.ask(owner, cx);
            }
        }
        ClaimOutcome::Open
    }

    fn read(&mut self, cx: &mut SessionContext<'_>) {
        self.step = Step::Reading(cx.out.ask(Purpose::Session(self.key), Operation::Get(Key::Session(self.key))));
    }

    /// Requests the session from its owner, and checks the owner's record.
    fn ask(&mut self, owner: Claim, cx: &mut SessionContext<'_>) {
        let kind = PeerMessageKind::Release;
        cx.out.send(owner.by, PeerMessage { from: cx.me, client: self.key, claim: owner.number, kind });
        cx.out.ask(Purpose::NodeCheck(owner.by), Operation::Get(Key::Node(owner.by)));
        self.step = Step::Blocked { owner, retry_at_ms: cx.now_ms + cx.settings.retry_ms };
    }

    /// An owner has confirmed that it does not serve the client with this claim or an earlier one.
    pub(super) fn released(&mut self, claim: Claim, cx: &mut SessionContext<'_>) {
        if let Step::Blocked { owner, .. } = self.step
            && owner.by == claim.by
            && owner.number <= claim.number
        {
            self.released = Some(claim);
            self.read(cx);
        }
    }

    pub(super) fn answer(&mut self, id: OperationId, answer: &Answer, cx: &mut SessionContext<'_>) -> ClaimOutcome {
        let is_late = self.request.deadline_ms <= cx.now_ms || self.is_abandoned;
        if is_late && !self.may_be_written() {
            return ClaimOutcome::Refused(Refusal::Unavailable);
        }
        let step = std::mem::replace(&mut self.step, Step::Reading(id));
        match (step, answer) {
            (Step::Reading(operation), Answer::Got(found)) if operation == id => self.decide(found.as_ref(), cx),
            (Step::Reading(operation), _) if operation == id => {
                self.read(cx);
                ClaimOutcome::Open
            }
            (Step::Writing { operation, record, is_present }, Answer::Put(revision)) if operation == id => {
                ClaimOutcome::Made { record, revision: *revision, is_present }
            }
            (Step::Writing { operation, record, is_present }, Answer::Unknown) if operation == id => {
                if is(Mutant::TrustsUnknownClaims) {
                    return ClaimOutcome::Made { record, revision: Revision(u64::MAX), is_present };
                }
                let operation = cx.out.ask(Purpose::Session(self.key), Operation::Get(Key::Session(self.key)));
                self.step = Step::Checking { operation, record, is_present };
                ClaimOutcome::Open
            }
            (Step::Writing { operation, .. }, _) if operation == id => {
                self.read(cx);
                ClaimOutcome::Open
            }
            (Step::Checking { operation, record, is_present }, answer) if operation == id => {
                self.check(record, is_present, answer, cx)
            }
            (step, _) => {
                self.step = step;
                ClaimOutcome::Open
            }
        }
    }

    fn check(
        &mut self,
        record: Box<SessionRecord>,
        is_present: bool,
        answer: &Answer,
        cx: &mut SessionContext<'_>,
    ) -> ClaimOutcome {
        let Answer::Got(found) = answer else {
            let operation = cx.out.ask(Purpose::Session(self.key), Operation::Get(Key::Session(self.key)));
            self.step = Step::Checking { operation, record, is_present };
            return ClaimOutcome::Open;
        };
        match found {
            // Claims have numbers, so this is what was written, whenever it arrived.
            Some((revision, value)) if SessionRecord::decode(value).as_ref() == Ok(&*record) => {
                ClaimOutcome::Made { record, revision: *revision, is_present }
            }
            _ if self.is_abandoned => ClaimOutcome::Refused(Refusal::Unavailable),
            _ => self.decide(found.as_ref(), cx),
        }
    }

    /// Decides from the record whether the session can be claimed.
    fn decide(&mut self, found: Option<&(Revision, Vec<u8>)>, cx: &mut SessionContext<'_>) -> ClaimOutcome {
        let Some((revision, value)) = found else {
            self.write(None, None, cx);
            return ClaimOutcome::Open;
        };
        let Ok(record) = SessionRecord::decode(value) else { return ClaimOutcome::Refused(Refusal::Unreadable) };
        if record.client_id != self.request.client_id {
            return ClaimOutcome::Refused(Refusal::Unreadable);
        }
        let expected = Some(*revision);
        match self.inherited(&record, cx) {
            Some(inherited) => self.write(expected, Some((record, inherited)), cx),
            None => {
                if let Some(owner) = record.owner {
                    self.ask(owner, cx);
                }
            }
        }
        ClaimOutcome::Open
    }

    /// Returns the state left by previous owners, or `None` while one of them may still serve the client.
    fn inherited(&self, record: &SessionRecord, cx: &SessionContext<'_>) -> Option<InheritedState> {
        let Some(owner) = record.owner else { return Some(InheritedState::as_it_is(record)) };
        if let Some(ends) = cx.nodes.ends(owner.by) {
            return Some(InheritedState::of_removed_node(record, ends));
        }
        let is_released = self.released.is_some_and(|claim| claim.by == owner.by && owner.number <= claim.number);
        // Claims of this node that were too late for their client are not served. Neither are those of an incarnation whose removal record
        // was deleted: no session named it then, so it is a late claim as well.
        let is_free = owner.by == cx.me
            || is_released
            || cx.nodes.is_deleted(owner.by)
            || is(Mutant::ClaimsFromLiveOwner)
            || is(Mutant::ClaimsBeforeRemoval) && cx.nodes.is_removing(owner.by);
        // An owner that never served has accepted nothing.
        let is_careless = is(Mutant::ClaimsFromLiveOwner) || is(Mutant::ClaimsBeforeRemoval);
        (is_free && (!has_intents(record) || is_careless)).then(|| InheritedState::as_it_is(record))
    }

    fn write(
        &mut self,
        expected: Option<Revision>,
        before: Option<(SessionRecord, InheritedState)>,
        cx: &mut SessionContext<'_>,
    ) {
        let start = self.request.start;
        let epoch = before.as_ref().map_or(0, |(record, _)| record.epoch) + 1;
        let mut record = SessionRecord {
            client_id: self.request.client_id.clone(),
            epoch,
            write: 0,
            claimed_at: None,
            owner: Some(self.claim),
            taken: Vec::new(),
            expiry_s: NEVER_EXPIRES,
            away_ms: None,
            will: None,
            due: Vec::new(),
            state: Vec::new(),
        };
        let mut is_present = false;
        self.ends.clear();
        if let Some((before, inherited)) = before {
            // A session without an expiry interval has ended with its connection, even if its node has died and no node has removed it.
            let start = if before.expiry_s == 0 { Start::Clean } else { start };
            // Wills are published even if nothing else remains of the session.
            record.due = inherited.due;
            record.due.extend(wills::at_return(&before, start));
            if start == Start::Resume {
                // A record without state does not represent a session.
                is_present = !before.state.is_empty() || !inherited.taken.is_empty();
                (record.taken, record.expiry_s, record.state) = (inherited.taken, before.expiry_s, before.state);
            } else {
                self.ends = before.state;
            }
        }
        let put = Operation::Put { key: Key::Session(self.key), expected, value: record.encode() };
        let operation = cx.out.ask(Purpose::Session(self.key), put);
        self.step = Step::Writing { operation, record: Box::new(record), is_present };
    }
}
