//! The configuration that all nodes share: contracts, rules and users, by revision. A node applies a revision as a whole.

use crate::mutant::{Mutant, is};
use crate::names::{Incarnation, Key};
use crate::numbers::Revision;
use crate::operation::{Answer, Decision, Operation, OperationId, ProposalOutcome};
use crate::outbox::{Outbox, Purpose};
use crate::record::{ConfigPart, ConfigRecord};
use crate::settings::Settings;

#[derive(Debug)]
pub(crate) struct Config {
    me: Incarnation,
    /// The last observed record: its revision in the store and its number, 0 if there is none.
    latest: Option<(Revision, u64)>,
    /// The number of the revision that the engine has applied.
    held: u64,
    /// The number of the revision that was passed to the engine.
    offered: Option<u64>,
    /// The revision of a record that could not be read or applied.
    refused: Option<Revision>,
    /// Whether the revision that the store had at the start of this node, or a later one, is known.
    is_known: bool,
    proposals: u64,
    step: Step,
    poll_at_ms: u64,
}

#[derive(Debug)]
enum Step {
    Idle,
    Reading(OperationId),
    /// The first read may come from a leader that has been replaced, so it is confirmed.
    Confirming(OperationId),
    Writing(OperationId, PendingProposal),
    Checking(OperationId, PendingProposal),
}

#[derive(Debug, Clone)]
struct PendingProposal {
    ticket: u64,
    expected: Option<Revision>,
    record: ConfigRecord,
}

/// The state of a node's copy of the shared configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConfigStatus {
    /// The number of the revision that the node has applied; 0 if there is none.
    pub held: u64,
    /// The number of the last revision that it was able to read.
    pub latest: u64,
    /// The node could not apply the last revision, and accepts no clients.
    pub is_behind: bool,
}

impl Config {
    pub(crate) fn new(me: Incarnation) -> Config {
        Config {
            me,
            latest: None,
            held: 0,
            offered: None,
            refused: None,
            is_known: false,
            proposals: 0,
            step: Step::Idle,
            poll_at_ms: 0,
        }
    }

    /// Whether clients may be served at all: the configuration that the store had at the start of this node, or a later one, is in effect.
    pub(crate) fn is_ready(&self) -> bool {
        let latest = self.latest.map_or(0, |(_, number)| number);
        self.is_known && self.refused.is_none() && self.held == latest
    }

    /// Whether the node cannot apply the current revision. It serves its existing clients by the old one, and accepts no others.
    pub(crate) fn is_behind(&self) -> bool {
        self.refused.is_some()
    }

    pub(crate) fn status(&self) -> ConfigStatus {
        let latest = self.latest.map_or(0, |(_, number)| number);
        ConfigStatus { held: self.held, latest, is_behind: self.is_behind() }
    }

    pub(crate) fn advance(&mut self, now_ms: u64, settings: &Settings, out: &mut Outbox) {
        if matches!(self.step, Step::Idle) && self.poll_at_ms <= now_ms {
            self.poll_at_ms = now_ms + settings.config_poll_ms;
            self.step = Step::Reading(out.ask(Purpose::Config, Operation::Get(Key::Config)));
        }
    }

    /// Observes the record. Records may arrive in any order and repeatedly. A reported change may be old: only an answer tells what the
    /// store had at the start of this node.
    pub(crate) fn observe(&mut self, revision: Revision, value: &[u8], out: &mut Outbox) {
        if self.latest.is_some_and(|(latest, _)| revision <= latest) || self.refused >= Some(revision) {
            return;
        }
        let Ok(record) = ConfigRecord::decode(value) else {
            self.refused = Some(revision);
            return out.decide(Decision::ConfigUnsupported);
        };
        self.latest = Some((revision, record.number));
        self.offered = Some(record.number);
        out.decide(Decision::Configure { number: record.number, parts: record.parts });
    }

    /// The engine has applied a revision, or has failed to. It may succeed with the same revision later.
    pub(crate) fn configured(&mut self, number: u64, is_taken_on: bool) {
        if self.offered != Some(number) {
            return;
        }
        let latest = self.latest.map(|(revision, _)| revision);
        // A later, unreadable revision stays rejected.
        let is_last = self.refused <= latest;
        if is_taken_on {
            (self.offered, self.held) = (None, number);
            self.refused = self.refused.filter(|_| !is_last);
        } else if is_last {
            self.refused = latest;
        }
    }

    pub(crate) fn propose(
        &mut self,
        ticket: u64,
        base: u64,
        parts: Vec<ConfigPart>,
        settings: &Settings,
        out: &mut Outbox,
    ) {
        let latest = self.latest.map_or(0, |(_, number)| number);
        let is_busy = matches!(self.step, Step::Writing(..) | Step::Checking(..));
        // A revision that cannot be applied may be replaced; one that this node cannot read may not.
        let is_unreadable = self.refused > self.latest.map(|(revision, _)| revision);
        let outcome = if is_busy || !self.is_known || is_unreadable {
            ProposalOutcome::Unavailable
        } else if base != latest {
            ProposalOutcome::Outdated(latest)
        } else {
            self.proposals += 1;
            let record = ConfigRecord { number: latest + 1, by: (self.me, self.proposals), parts };
            let expected = self.latest.map(|(revision, _)| revision);
            if record.encode().len() <= settings.config_max_bytes {
                return self.write(PendingProposal { ticket, expected, record }, out);
            }
            ProposalOutcome::TooLarge
        };
        out.decide(Decision::Proposed { ticket, outcome });
    }

    fn write(&mut self, proposing: PendingProposal, out: &mut Outbox) {
        let (key, value) = (Key::Config, proposing.record.encode());
        let put = Operation::Put { key, expected: proposing.expected, value };
        self.step = Step::Writing(out.ask(Purpose::Config, put), proposing);
    }

    pub(crate) fn answer(&mut self, id: OperationId, answer: &Answer, out: &mut Outbox) {
        match (std::mem::replace(&mut self.step, Step::Idle), answer) {
            (Step::Reading(op), Answer::Got(found)) if op == id => {
                if let Some((revision, value)) = found {
                    self.observe(*revision, value, out);
                }
                self.is_known |= is(Mutant::TrustsFirstConfiguration);
                if !self.is_known {
                    let holds = Operation::ConfigHolds(found.as_ref().map(|(revision, _)| *revision));
                    self.step = Step::Confirming(out.ask(Purpose::Config, holds));
                }
            }
            (Step::Reading(op), _) if op == id => {}
            (Step::Confirming(op), Answer::Holds) if op == id => self.is_known = true,
            // Read again at once.
            (Step::Confirming(op), _) if op == id => self.poll_at_ms = 0,
            (Step::Writing(op, proposing), Answer::Put(revision)) if op == id => {
                self.observe(*revision, &proposing.record.encode(), out);
                decide(&proposing, ProposalOutcome::Accepted(proposing.record.number), out);
            }
            (Step::Checking(op, proposing), Answer::Got(found)) if op == id => {
                self.check(proposing, found.as_ref(), out);
            }
            (Step::Writing(op, proposing) | Step::Checking(op, proposing), _) if op == id => {
                self.step = Step::Checking(out.ask(Purpose::Config, Operation::Get(Key::Config)), proposing);
            }
            (step, _) => self.step = step,
        }
    }

    /// Checks the record after a proposal was rejected or its outcome is unknown.
    fn check(&mut self, mut proposing: PendingProposal, found: Option<&(Revision, Vec<u8>)>, out: &mut Outbox) {
        let revision = found.map(|(revision, _)| *revision);
        if let Some((revision, value)) = found {
            self.observe(*revision, value, out);
        }
        let is_older = revision.is_some() && revision < proposing.expected;
        if revision == proposing.expected || is_older {
            // The write has not arrived yet, or the leader that says so has been replaced. If the write arrives after all, this attempt is
            // rejected.
            return self.write(proposing, out);
        }
        if is(Mutant::ConfiguresWithoutRevision) {
            proposing.expected = revision;
            return self.write(proposing, out);
        }
        let outcome = match found.map(|(_, value)| ConfigRecord::decode(value)) {
            Some(Ok(there)) if there == proposing.record => ProposalOutcome::Accepted(there.number),
            // It is based on the revision before, so it was not an earlier proposal of this node.
            Some(Ok(there)) if there.number == proposing.record.number => ProposalOutcome::Outdated(there.number),
            Some(Ok(there)) => ProposalOutcome::Overtaken(there.number),
            Some(Err(_)) | None => ProposalOutcome::Unavailable,
        };
        decide(&proposing, outcome, out);
    }
}

fn decide(proposing: &PendingProposal, outcome: ProposalOutcome, out: &mut Outbox) {
    out.decide(Decision::Proposed { ticket: proposing.ticket, outcome });
}
