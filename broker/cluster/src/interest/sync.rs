//! Verifies that the other nodes know the interest of this one.
//!
//! The bus has several servers. The server of this node confirms a pattern, and tells the other servers about it some time later: until
//! then, messages published there do not arrive. So there are rounds. Once the bus has confirmed the patterns of a round, the node
//! subscribes to a new subject and sends a probe to each live node, which answers on that subject. Servers propagate subscriptions in
//! order. So if an answer of a node arrives on the new subject, the servers of that node know the patterns.

use std::collections::BTreeSet;

use super::Change;
use super::probe::{ProbeKind, ProbeMessage};
use crate::mutant::{Mutant, is};
use crate::names::Incarnation;
use crate::nodes::Nodes;
use crate::operation::{Decision, Output};
use crate::outbox::Outbox;
use crate::settings::Settings;

/// The delay before a node that has not answered is probed again, in milliseconds. On a route between two servers in one place, a probe
/// follows the subscription for its answer; on other connections it may overtake it, and then the answer is lost.
const PROBE_AGAIN_MS: u64 = 50;

/// The state of synchronizing the interest of a node with other nodes.
#[derive(Debug, Default)]
pub(crate) struct InterestSync {
    /// Patterns that the bus was told and has not confirmed.
    unconfirmed: BTreeSet<String>,
    /// A pattern was added since the last round began.
    has_new_patterns: bool,
    /// Tickets that wait for the next round.
    waiting: Vec<u64>,
    round: Option<Round>,
    /// Number of the last probe.
    last: u64,
    /// Nodes that have not answered in time, such as those of a version without probes. They are probed, but no round waits for them until
    /// they have answered.
    unresponsive: BTreeSet<Incarnation>,
    /// The time of their next probe.
    unresponsive_probe_at_ms: u64,
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
    /// Waiting for the bus to confirm these patterns.
    Confirming(BTreeSet<String>),
    /// Waiting for these nodes to answer, with the time of the next probe.
    Probing(BTreeSet<Incarnation>, u64),
}

/// The context of a node for a round.
pub(crate) struct InterestSyncContext<'a> {
    pub(crate) me: Incarnation,
    pub(crate) now_ms: u64,
    pub(crate) settings: &'a Settings,
    pub(crate) nodes: &'a Nodes,
    pub(crate) out: &'a mut Outbox,
}

impl InterestSync {
    /// The bus was told these changes.
    pub(crate) fn change(&mut self, changes: &[Change], cx: &mut InterestSyncContext<'_>) {
        for change in changes {
            match change {
                Change::AddInterest(pattern) => {
                    self.has_new_patterns = true;
                    self.unconfirmed.insert(pattern.clone());
                }
                // No confirmation is awaited any more.
                Change::RemoveInterest(pattern) => self.confirm(pattern),
            }
        }
        self.proceed(cx);
    }

    /// Requests a [`Decision::InterestSync`].
    pub(crate) fn ask(&mut self, ticket: u64, cx: &mut InterestSyncContext<'_>) {
        let is_alone = cx.others().next().is_none();
        match &mut self.round {
            _ if is_alone || is(Mutant::ReportsBeforeVerified) => cx.out.decide(Decision::InterestSync { ticket }),
            None if !self.has_new_patterns => cx.out.decide(Decision::InterestSync { ticket }),
            Some(round) if !self.has_new_patterns => round.tickets.push(ticket),
            _ => {
                self.waiting.push(ticket);
                self.proceed(cx);
            }
        }
    }

    /// The bus has confirmed a pattern. The caller must then call [`change`](Self::change).
    pub(crate) fn confirm(&mut self, pattern: &str) {
        self.unconfirmed.remove(pattern);
        if let Some(Round { step: Step::Confirming(unconfirmed), .. }) = &mut self.round {
            unconfirmed.remove(pattern);
        }
    }

    /// The connection to the bus has changed, perhaps to another server. `patterns` are subscribed again.
    pub(crate) fn restart_sync(&mut self, patterns: impl Iterator<Item = String>, cx: &mut InterestSyncContext<'_>) {
        self.has_new_patterns = true;
        self.unconfirmed.extend(patterns);
        if let Some(round) = &mut self.round {
            round.step = Step::Confirming(self.unconfirmed.clone());
        }
        self.proceed(cx);
    }

    /// Handles a probe message of another node.
    pub(crate) fn receive_peer(&mut self, message: ProbeMessage, cx: &mut InterestSyncContext<'_>) {
        let ProbeMessage { from, number, kind } = message;
        if kind == ProbeKind::Probe {
            let echo = ProbeMessage { from: cx.me, number, kind: ProbeKind::Echo };
            return cx.out.put(Output::Echo { to: from, number, message: echo.encode() });
        }
        if number != self.last {
            return;
        }
        self.unresponsive.remove(&from);
        if let Some(Round { step: Step::Probing(asked, _), .. }) = &mut self.round {
            asked.remove(&from);
            if is(Mutant::CountsOneEchoForAll) {
                asked.clear();
            }
        }
        self.proceed(cx);
    }

    /// Handles timeouts.
    pub(crate) fn advance(&mut self, cx: &mut InterestSyncContext<'_>) {
        self.unresponsive.retain(|node| cx.nodes.is_known(*node) && !cx.nodes.is_over(*node));
        if let Some(round) = self.round.take_if(|round| round.until_ms <= cx.now_ms) {
            if let Step::Probing(asked, _) = round.step {
                self.unanswered += asked.len() as u64;
                self.unresponsive.extend(asked);
            } else {
                // The bus has not confirmed the patterns in time.
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
        if !self.unresponsive.is_empty() && self.unresponsive_probe_at_ms <= cx.now_ms {
            self.unresponsive_probe_at_ms = cx.now_ms + cx.settings.retry_ms;
            cx.probe(self.last, self.unresponsive.iter().copied());
        }
        self.proceed(cx);
    }

    /// Returns how often a node has not answered in time.
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
                self.has_new_patterns = false;
                self.round = Some(Round { tickets, until_ms, step: Step::Confirming(self.unconfirmed.clone()) });
                continue;
            };
            match &round.step {
                Step::Confirming(unconfirmed) if unconfirmed.is_empty() || is(Mutant::ProbesTooEarly) => {
                    self.last += 1;
                    let others: BTreeSet<_> = cx.others().collect();
                    cx.probe(self.last, others.iter().copied());
                    let awaited = others.difference(&self.unresponsive).copied().collect();
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
