//! A claim: from a client's CONNECT to the record that says whose the session is.

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Incarnation, Key};
use crate::operation::{Answer, Operation, OperationId, Refusal, Revision, Start};
use crate::outbox::Purpose;
use crate::peer_message::{PeerMessage, PeerMessageKind};
use crate::record::{Claim, SessionRecord, Taken};

use super::Surroundings;

/// A client that wants its session.
#[derive(Debug)]
pub(crate) struct Request {
    pub(super) ticket: u64,
    pub(super) client_id: String,
    pub(super) start: Start,
    pub(super) deadline_ms: u64,
}

#[derive(Debug)]
pub(super) struct Claiming {
    pub(super) request: Request,
    key: ClientKey,
    claim: Claim,
    step: Step,
    /// An owner that has said that it does not serve the client up to this epoch.
    released: Option<(Incarnation, u64)>,
}

#[derive(Debug)]
enum Step {
    Reading(OperationId),
    /// Another node owns the session.
    Blocked {
        owner: Incarnation,
        epoch: u64,
        again_at_ms: u64,
    },
    Writing {
        operation: OperationId,
        record: SessionRecord,
        is_present: bool,
    },
    /// The fate of what was written is unknown.
    Checking {
        operation: OperationId,
        record: SessionRecord,
        is_present: bool,
    },
}

/// What has become of a claim.
#[derive(Debug)]
pub(super) enum Outcome {
    Open,
    Made { record: SessionRecord, revision: Revision, is_present: bool },
    Refused(Refusal),
}

impl Claiming {
    pub(super) fn begin(request: Request, key: ClientKey, number: u64, cx: &mut Surroundings<'_>) -> Claiming {
        let claim = Claim { by: cx.me, number };
        let step = Step::Reading(cx.out.ask(Purpose::Session(key), Operation::Get(Key::Session(key))));
        Claiming { request, key, claim, step, released: None }
    }

    /// The epoch that the record would have by this claim, if it may already be written.
    pub(super) fn epoch_written(&self) -> Option<u64> {
        match &self.step {
            Step::Writing { record, .. } | Step::Checking { record, .. } => Some(record.epoch),
            Step::Reading(_) | Step::Blocked { .. } => None,
        }
    }

    pub(super) fn advance(&mut self, cx: &mut Surroundings<'_>) -> Outcome {
        if self.request.deadline_ms <= cx.now_ms {
            return Outcome::Refused(Refusal::Unavailable);
        }
        if let Step::Blocked { owner, epoch, again_at_ms } = self.step {
            if cx.nodes.ends(owner).is_some() {
                self.read(cx);
            } else if again_at_ms <= cx.now_ms {
                self.ask(owner, epoch, cx);
            }
        }
        Outcome::Open
    }

    fn read(&mut self, cx: &mut Surroundings<'_>) {
        self.step = Step::Reading(cx.out.ask(Purpose::Session(self.key), Operation::Get(Key::Session(self.key))));
    }

    /// Asks the owner for the session, and the store how it is with the owner.
    fn ask(&mut self, owner: Incarnation, epoch: u64, cx: &mut Surroundings<'_>) {
        let message = PeerMessage { from: cx.me, client: self.key, epoch, kind: PeerMessageKind::Release };
        cx.out.send(owner, message);
        cx.out.ask(Purpose::Look(owner), Operation::Get(Key::Node(owner)));
        self.step = Step::Blocked { owner, epoch, again_at_ms: cx.now_ms + cx.settings.ask_again_ms };
    }

    /// An owner does not serve the client up to this epoch.
    pub(super) fn released(&mut self, by: Incarnation, epoch: u64, cx: &mut Surroundings<'_>) {
        if let Step::Blocked { owner, epoch: blocked_by, .. } = self.step
            && owner == by
            && blocked_by <= epoch
        {
            self.released = Some((by, epoch));
            self.read(cx);
        }
    }

    pub(super) fn answer(&mut self, id: OperationId, answer: &Answer, cx: &mut Surroundings<'_>) -> Outcome {
        let is_late = self.request.deadline_ms <= cx.now_ms;
        if is_late && !matches!(answer, Answer::Put(_)) {
            return Outcome::Refused(Refusal::Unavailable);
        }
        let step = std::mem::replace(&mut self.step, Step::Reading(id));
        match (step, answer) {
            (Step::Reading(operation), Answer::Got(found)) if operation == id => self.decide(found.as_ref(), cx),
            (Step::Reading(operation), _) if operation == id => {
                self.read(cx);
                Outcome::Open
            }
            (Step::Writing { operation, record, is_present }, Answer::Put(revision)) if operation == id => {
                Outcome::Made { record, revision: *revision, is_present }
            }
            (Step::Writing { operation, record, is_present }, Answer::Unknown) if operation == id => {
                if is(Mutant::TrustsUnknownClaims) {
                    return Outcome::Made { record, revision: Revision(u64::MAX), is_present };
                }
                let operation = cx.out.ask(Purpose::Session(self.key), Operation::Get(Key::Session(self.key)));
                self.step = Step::Checking { operation, record, is_present };
                Outcome::Open
            }
            (Step::Writing { operation, .. }, _) if operation == id => {
                self.read(cx);
                Outcome::Open
            }
            (Step::Checking { operation, record, is_present }, answer) if operation == id => {
                self.check(record, is_present, answer, cx)
            }
            (step, _) => {
                self.step = step;
                Outcome::Open
            }
        }
    }

    fn check(
        &mut self,
        record: SessionRecord,
        is_present: bool,
        answer: &Answer,
        cx: &mut Surroundings<'_>,
    ) -> Outcome {
        let Answer::Got(found) = answer else {
            let operation = cx.out.ask(Purpose::Session(self.key), Operation::Get(Key::Session(self.key)));
            self.step = Step::Checking { operation, record, is_present };
            return Outcome::Open;
        };
        match found {
            // Claims have numbers, so this is what was written, whenever it arrived.
            Some((revision, value)) if SessionRecord::decode(value).as_ref() == Ok(&record) => {
                Outcome::Made { record, revision: *revision, is_present }
            }
            _ => self.decide(found.as_ref(), cx),
        }
    }

    /// What the record says decides whether the session may be had.
    fn decide(&mut self, found: Option<&(Revision, Vec<u8>)>, cx: &mut Surroundings<'_>) -> Outcome {
        let Some((revision, value)) = found else {
            self.write(None, None, Vec::new(), cx);
            return Outcome::Open;
        };
        let Ok(record) = SessionRecord::decode(value) else { return Outcome::Refused(Refusal::Unreadable) };
        if record.client_id != self.request.client_id {
            return Outcome::Refused(Refusal::Unreadable);
        }
        let expected = Some(*revision);
        match self.inherited(&record, cx) {
            Some(taken) => self.write(expected, Some(record), taken, cx),
            None => {
                if let Some(owner) = record.owner {
                    self.ask(owner.by, record.epoch, cx);
                }
            }
        }
        Outcome::Open
    }

    /// The QoS 2 messages that the owners before have taken on; `None` while one of them may still serve the client.
    fn inherited(&self, record: &SessionRecord, cx: &Surroundings<'_>) -> Option<Vec<Taken>> {
        let Some(owner) = record.owner else { return Some(record.taken.clone()) };
        if let Some(ends) = cx.nodes.ends(owner.by) {
            let is_stored = |taken: &&Taken| match taken.intent {
                None => true,
                Some(_) if is(Mutant::DropsIntents) => false,
                Some(_) if is(Mutant::BelievesIntents) => true,
                Some(intent) => intent.ordinal <= ends[intent.partition.index()].ordinal,
            };
            return Some(record.taken.iter().filter(is_stored).map(|taken| Taken { intent: None, ..*taken }).collect());
        }
        let is_released = self.released.is_some_and(|(by, epoch)| by == owner.by && record.epoch <= epoch);
        // Claims of this node that came too late for their client are not served.
        let is_free = owner.by == cx.me
            || is_released
            || is(Mutant::ClaimsFromLiving)
            || is(Mutant::ClaimsFromDying) && cx.nodes.is_dying(owner.by);
        // An owner that never served has taken nothing on.
        let has_intents = record.taken.iter().any(|taken| taken.intent.is_some());
        let is_careless = is(Mutant::ClaimsFromLiving) || is(Mutant::ClaimsFromDying);
        (is_free && (!has_intents || is_careless)).then(|| record.taken.clone())
    }

    fn write(
        &mut self,
        expected: Option<Revision>,
        before: Option<SessionRecord>,
        taken: Vec<Taken>,
        cx: &mut Surroundings<'_>,
    ) {
        let epoch = before.as_ref().map_or(0, |record| record.epoch) + 1;
        // A record whose session has begun is there for good: an empty one stands for no session.
        let kept = before.filter(|_| self.request.start == Start::Resume);
        let is_present = kept.as_ref().is_some_and(|record| !record.state.is_empty() || !taken.is_empty());
        let record = SessionRecord {
            client_id: self.request.client_id.clone(),
            epoch,
            write: 0,
            owner: Some(self.claim),
            taken: if kept.is_some() { taken } else { Vec::new() },
            state: kept.map(|record| record.state).unwrap_or_default(),
        };
        let put = Operation::Put { key: Key::Session(self.key), expected, value: record.encode() };
        let operation = cx.out.ask(Purpose::Session(self.key), put);
        self.step = Step::Writing { operation, record, is_present };
    }
}
