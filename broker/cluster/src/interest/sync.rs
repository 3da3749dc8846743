//! Whether the other nodes know what this one listens to.
//!
//! The bus has several servers. The one of this node confirms a pattern, and tells the others of it some time later: until then what is published
//! at those does not come. So there are rounds. Once the bus has confirmed the patterns that a round is about, a subject is listened to that is
//! new, and a probe goes to each living node, which answers by that subject. Servers tell each other of subjects in the order in which they were
//! listened to. So the servers of a node that is heard by the new subject know the patterns.

use std::collections::BTreeSet;

use super::Change;
use super::probe::{ProbeKind, ProbeMessage};
use crate::mutant::{Mutant, is};
use crate::names::Incarnation;
use crate::nodes::Nodes;
use crate::operation::{Decision, Output};
use crate::outbox::Outbox;
use crate::settings::Settings;

/// After what time a node is asked again that has not answered, in milliseconds. On a route between two servers of one place, a probe comes behind the
/// subject for its answer; where servers are connected otherwise, it may come before it, and then the answer is lost.
const PROBE_AGAIN_MS: u64 = 50;

/// What a node listens to, on its way to the others.
#[derive(Debug, Default)]
pub(crate) struct InterestSync {
    /// Patterns that the bus has been told and has not confirmed.
    unconfirmed: BTreeSet<String>,
    /// Something has been listened to since the last round began.
    has_news: bool,
    /// Who waits for the next round.
    waiting: Vec<u64>,
    round: Option<Round>,
    /// Number of the last probe.
    last: u64,
    /// Nodes that have not answered in time, as those of a version before there were probes. They are asked, and nobody waits for them before they
    /// have answered.
    silent: BTreeSet<Incarnation>,
    /// When they are asked again.
    silent_at_ms: u64,
    /// How often a node has not answered in time.
    unanswered: u64,
}

#[derive(Debug)]
struct Round {
    tickets: Vec<u64>,
    until_ms: u64,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// The bus is to confirm these.
    Confirming(BTreeSet<String>),
    /// These are to answer. They are asked again at this moment.
    Probing(BTreeSet<Incarnation>, u64),
}

/// What a round needs of the node.
pub(crate) struct InterestSyncContext<'a> {
    pub(crate) me: Incarnation,
    pub(crate) now_ms: u64,
    pub(crate) settings: &'a Settings,
    pub(crate) nodes: &'a Nodes,
    pub(crate) out: &'a mut Outbox,
}

impl InterestSync {
    /// The bus is told this.
    pub(crate) fn change(&mut self, changes: &[Change], cx: &mut InterestSyncContext<'_>) {
        for change in changes {
            match change {
                Change::AddInterest(pattern) => {
                    self.has_news = true;
                    self.unconfirmed.insert(pattern.clone());
                }
                // Nobody waits for it any more.
                Change::RemoveInterest(pattern) => self.confirm(pattern),
            }
        }
        self.proceed(cx);
    }

    /// Asks for [`Decision::InterestSync`].
    pub(crate) fn ask(&mut self, ticket: u64, cx: &mut InterestSyncContext<'_>) {
        let is_alone = cx.others().next().is_none();
        match &mut self.round {
            _ if is_alone || is(Mutant::TellsBeforeSpread) => cx.out.decide(Decision::InterestSync { ticket }),
            None if !self.has_news => cx.out.decide(Decision::InterestSync { ticket }),
            Some(round) if !self.has_news => round.tickets.push(ticket),
            _ => {
                self.waiting.push(ticket);
                self.proceed(cx);
            }
        }
    }

    /// The bus has confirmed a pattern. [`change`](Self::change) follows.
    pub(crate) fn confirm(&mut self, pattern: &str) {
        self.unconfirmed.remove(pattern);
        if let Some(Round { step: Step::Confirming(unconfirmed), .. }) = &mut self.round {
            unconfirmed.remove(pattern);
        }
    }

    /// There is another way to the bus, which may lead to another of its servers. `patterns` are those of which it is told anew.
    pub(crate) fn restart_sync(&mut self, patterns: impl Iterator<Item = String>, cx: &mut InterestSyncContext<'_>) {
        self.has_news = true;
        self.unconfirmed.extend(patterns);
        if let Some(round) = &mut self.round {
            round.step = Step::Confirming(self.unconfirmed.clone());
        }
        self.proceed(cx);
    }

    /// Another node has said something of a probe.
    pub(crate) fn receive_peer(&mut self, message: ProbeMessage, cx: &mut InterestSyncContext<'_>) {
        let ProbeMessage { from, number, kind } = message;
        if kind == ProbeKind::Probe {
            let echo = ProbeMessage { from: cx.me, number, kind: ProbeKind::Echo };
            return cx.out.put(Output::Echo { to: from, number, message: echo.encode() });
        }
        if number != self.last {
            return;
        }
        self.silent.remove(&from);
        if let Some(Round { step: Step::Probing(asked, _), .. }) = &mut self.round {
            asked.remove(&from);
            if is(Mutant::TakesOneEchoForAll) {
                asked.clear();
            }
        }
        self.proceed(cx);
    }

    /// Time has passed.
    pub(crate) fn advance(&mut self, cx: &mut InterestSyncContext<'_>) {
        self.silent.retain(|node| cx.nodes.is_known(*node) && !cx.nodes.is_over(*node));
        if let Some(round) = self.round.take_if(|round| round.until_ms <= cx.now_ms) {
            if let Step::Probing(asked, _) = round.step {
                self.unanswered += asked.len() as u64;
                self.silent.extend(asked);
            } else {
                // The bus has not confirmed what it was told.
                self.unanswered += 1;
            }
            round.tickets.into_iter().for_each(|ticket| cx.out.decide(Decision::InterestSync { ticket }));
        }
        if let Some(Round { step: Step::Probing(asked, retry_at_ms), .. }) = &mut self.round {
            asked.retain(|node| cx.nodes.living(cx.now_ms, cx.settings).any(|(living, ..)| living == *node));
            if *retry_at_ms <= cx.now_ms {
                *retry_at_ms = cx.now_ms + PROBE_AGAIN_MS;
                cx.probe(self.last, asked.iter().copied());
            }
        }
        if !self.silent.is_empty() && self.silent_at_ms <= cx.now_ms {
            self.silent_at_ms = cx.now_ms + cx.settings.retry_ms;
            cx.probe(self.last, self.silent.iter().copied());
        }
        self.proceed(cx);
    }

    /// How often a node has not answered in time.
    pub(crate) fn unanswered(&self) -> u64 {
        self.unanswered
    }

    fn proceed(&mut self, cx: &mut InterestSyncContext<'_>) {
        loop {
            let Some(round) = &mut self.round else {
                if self.waiting.is_empty() {
                    return;
                }
                let tickets = std::mem::take(&mut self.waiting);
                let until_ms = cx.now_ms + cx.settings.interest_sync_timeout_ms;
                self.has_news = false;
                self.round = Some(Round { tickets, until_ms, step: Step::Confirming(self.unconfirmed.clone()) });
                continue;
            };
            match &round.step {
                Step::Confirming(unconfirmed) if unconfirmed.is_empty() || is(Mutant::ProbesTooEarly) => {
                    self.last += 1;
                    let others: BTreeSet<_> = cx.others().collect();
                    cx.probe(self.last, others.iter().copied());
                    let awaited = others.difference(&self.silent).copied().collect();
                    round.step = Step::Probing(awaited, cx.now_ms + PROBE_AGAIN_MS);
                }
                Step::Probing(asked, _) if asked.is_empty() => {
                    let tickets = std::mem::take(&mut round.tickets);
                    tickets.into_iter().for_each(|ticket| cx.out.decide(Decision::InterestSync { ticket }));
                    self.round = None;
                }
                Step::Confirming(_) | Step::Probing(..) => return,
            }
        }
    }
}

impl InterestSyncContext<'_> {
    fn others(&self) -> impl Iterator<Item = Incarnation> {
        self.nodes.living(self.now_ms, self.settings).map(|(node, ..)| node)
    }

    fn probe(&mut self, number: u64, nodes: impl Iterator<Item = Incarnation>) {
        self.out.put(Output::Probe(number));
        let message = ProbeMessage { from: self.me, number, kind: ProbeKind::Probe }.encode();
        nodes.for_each(|node| self.out.send_bytes(node, message.clone()));
    }
}
