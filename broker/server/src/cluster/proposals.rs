//! Pending proposals of this node, waiting for their outcome.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tautwire_cluster::ProposalOutcome;

/// The waiting callers by ticket.
#[derive(Default)]
pub(super) struct Proposals(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    last: u64,
    by_ticket: HashMap<u64, SyncSender<ProposalOutcome>>,
}

impl Proposals {
    /// Creates a ticket with a receiver for the outcome. The receiver is disconnected if the incarnation ends first.
    pub(super) fn ticket(&self) -> (u64, Receiver<ProposalOutcome>) {
        let mut waiting = self.waiting();
        waiting.last += 1;
        let ticket = waiting.last;
        let (to, outcome) = sync_channel(1);
        waiting.by_ticket.insert(ticket, to);
        (ticket, outcome)
    }

    /// Removes a ticket that nobody waits for any more.
    pub(super) fn remove(&self, ticket: u64) {
        self.waiting().by_ticket.remove(&ticket);
    }

    pub(super) fn decide(&self, ticket: u64, outcome: ProposalOutcome) {
        if let Some(to) = self.waiting().by_ticket.remove(&ticket) {
            let _ = to.try_send(outcome);
        }
    }

    /// Drops all tickets after an incarnation has ended: the outcomes are unknown.
    pub(super) fn clear(&self) {
        self.waiting().by_ticket.clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_reaches_its_proposer() {
        let proposals = Proposals::default();
        let (first, to_first) = proposals.ticket();
        let (second, to_second) = proposals.ticket();
        proposals.decide(second, ProposalOutcome::Accepted(4));
        proposals.remove(first);
        proposals.decide(first, ProposalOutcome::TooLarge);
        assert_eq!(to_second.recv(), Ok(ProposalOutcome::Accepted(4)));
        assert!(to_first.recv().is_err());
    }

    #[test]
    fn proposals_of_an_ended_incarnation_have_no_outcome() {
        let proposals = Proposals::default();
        let (_, outcome) = proposals.ticket();
        proposals.clear();
        assert!(outcome.recv().is_err());
    }
}
