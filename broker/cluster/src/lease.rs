//! A node's own lease: its heartbeats, and until when it may serve clients.
//!
//! The lease counts from when a heartbeat was sent. Other nodes count from when they see it, which is later, so when they declare the node
//! dead, it has stopped.

use std::collections::VecDeque;

use crate::mutant::{Mutant, is};
use crate::names::{Incarnation, Key};
use crate::nodes::Ends;
use crate::numbers::Revision;
use crate::operation::{Answer, Operation, OperationId};
use crate::outbox::{Outbox, Purpose};
use crate::queue::pop_front_if;
use crate::record::{Load, NodeRecord, NodeState};
use crate::settings::Settings;

/// The number of heartbeats that were sent and may still be found to have been written.
const UNCONFIRMED_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Lease {
    me: Incarnation,
    name: String,
    reference: String,
    /// The revision of the last confirmed heartbeat.
    revision: Option<Revision>,
    /// The number of the last heartbeat sent.
    beat: u64,
    /// The numbers of unconfirmed heartbeats, with their send times.
    attempts: VecDeque<(u64, u64)>,
    until_ms: u64,
    step: Step,
    /// The final log positions of a node that retires.
    retiring: Option<Box<Ends>>,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Idle {
        until_ms: u64,
    },
    Renewing(OperationId),
    Verifying(OperationId),
    /// Writing its own `removed` record.
    Retiring(OperationId),
    Over,
}

/// The effect of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseEvent {
    Nothing,
    Renewed,
    /// Other nodes have declared this one dead.
    Over,
    /// The node has removed itself.
    Retired,
}

impl Lease {
    pub(crate) fn new(me: Incarnation, name: String, reference: String) -> Lease {
        let step = Step::Idle { until_ms: 0 };
        Lease {
            me,
            name,
            reference,
            revision: None,
            beat: 0,
            attempts: VecDeque::new(),
            until_ms: 0,
            step,
            retiring: None,
        }
    }

    /// Whether clients may be served now.
    pub(crate) fn holds(&self, now_ms: u64) -> bool {
        let is_alive = !matches!(self.step, Step::Over);
        is_alive && (now_ms < self.until_ms || self.revision.is_some() && is(Mutant::ServesWithoutLease))
    }

    /// Returns when the lease expires unless renewed.
    pub(crate) fn until_ms(&self) -> u64 {
        self.until_ms
    }

    pub(crate) fn advance(&mut self, now_ms: u64, load: Load, out: &mut Outbox) {
        let Step::Idle { until_ms } = self.step else { return };
        if let (Some(ends), Some(revision)) = (&self.retiring, self.revision) {
            let state = NodeState::Removed { ends: ends.clone() };
            let record = NodeRecord { name: self.name.clone(), reference: String::new(), state };
            let put = Operation::Put { key: Key::Node(self.me), expected: Some(revision), value: record.encode() };
            self.step = Step::Retiring(out.ask(Purpose::Lease, put));
        } else if until_ms <= now_ms {
            self.beat(now_ms, load, out);
        }
    }

    /// Ends this incarnation by writing its final record. Nothing of it may be in flight.
    pub(crate) fn retire(&mut self, ends: Box<Ends>) {
        self.retiring = Some(ends);
    }

    fn beat(&mut self, now_ms: u64, load: Load, out: &mut Outbox) {
        self.beat += 1;
        self.attempts.push_back((self.beat, now_ms));
        if self.attempts.len() > UNCONFIRMED_MAX {
            self.attempts.pop_front();
        }
        let state = NodeState::Alive { beat: self.beat, load };
        let record = NodeRecord { name: self.name.clone(), reference: self.reference.clone(), state };
        let key = Key::Node(self.me);
        let put = Operation::Put { key, expected: self.revision, value: record.encode() };
        self.step = Step::Renewing(out.ask(Purpose::Lease, put));
    }

    pub(crate) fn answer(
        &mut self,
        now_ms: u64,
        id: OperationId,
        answer: &Answer,
        settings: &Settings,
        out: &mut Outbox,
    ) -> LeaseEvent {
        match (self.step, answer) {
            (Step::Renewing(op), Answer::Put(revision)) if op == id => {
                self.confirm(now_ms, self.beat, *revision, settings)
            }
            (Step::Verifying(op), Answer::Got(found)) if op == id => {
                self.check_record(now_ms, found.as_ref(), settings)
            }
            (Step::Retiring(op), Answer::Put(_)) if op == id => {
                self.step = Step::Over;
                LeaseEvent::Retired
            }
            (Step::Renewing(op) | Step::Verifying(op) | Step::Retiring(op), _) if op == id => {
                self.step = Step::Verifying(out.ask(Purpose::Lease, Operation::Get(Key::Node(self.me))));
                LeaseEvent::Nothing
            }
            _ => LeaseEvent::Nothing,
        }
    }

    fn check_record(&mut self, now_ms: u64, found: Option<&(Revision, Vec<u8>)>, settings: &Settings) -> LeaseEvent {
        let state = found.map(|(revision, value)| (*revision, NodeRecord::decode(value).map(|record| record.state)));
        match state {
            Some((revision, Ok(NodeState::Alive { beat, .. }))) if Some(revision) > self.revision => {
                self.confirm(now_ms, beat, revision, settings)
            }
            // The heartbeat has not been written yet.
            Some((_, Ok(NodeState::Alive { .. }))) => self.resend_heartbeat(now_ms),
            Some((_, Ok(NodeState::Removed { ends }))) if self.retiring.as_ref() == Some(&ends) => {
                self.step = Step::Over;
                LeaseEvent::Retired
            }
            // Without a record, the first heartbeat may never have arrived. But it may also have arrived, and the node may have been
            // declared dead, removed and forgotten. A new incarnation costs nothing, because this one has never served a client.
            Some((revision, _)) if is(Mutant::IgnoresOwnRemoval) => self.confirm(now_ms, self.beat, revision, settings),
            _ => self.end(),
        }
    }

    fn resend_heartbeat(&mut self, now_ms: u64) -> LeaseEvent {
        self.step = Step::Idle { until_ms: now_ms };
        LeaseEvent::Nothing
    }

    fn confirm(&mut self, now_ms: u64, beat: u64, revision: Revision, settings: &Settings) -> LeaseEvent {
        self.revision = Some(revision);
        let mut sent_at_ms = None;
        while let Some(attempt) = pop_front_if(&mut self.attempts, |(number, _)| *number <= beat) {
            sent_at_ms = Some(attempt.1);
        }
        let from_ms = if is(Mutant::LeaseFromConfirmation) { Some(now_ms) } else { sent_at_ms };
        let Some(from_ms) = from_ms else { return self.resend_heartbeat(now_ms) };
        self.until_ms = self.until_ms.max(from_ms + settings.lease_ms);
        self.step = Step::Idle { until_ms: from_ms + settings.heartbeat_ms };
        LeaseEvent::Renewed
    }

    /// Another node has declared this one dead.
    pub(crate) fn end(&mut self) -> LeaseEvent {
        self.step = Step::Over;
        LeaseEvent::Over
    }
}
