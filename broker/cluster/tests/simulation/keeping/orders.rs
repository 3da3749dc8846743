//! What operators ask of one node by another one.

use std::collections::BTreeSet;

use tautwire_cluster::OrderOutcome;

/// Orders, by ticket.
#[derive(Default)]
pub(crate) struct Orders {
    last: u64,
    done: BTreeSet<u64>,
}

impl Orders {
    /// The ticket of another one, which says who gives it as well.
    pub(crate) fn give(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A node does what it was told.
    pub(crate) fn carried_out(&mut self, by: &str) {
        let ticket = by.parse().expect("who gives an order is its ticket here");
        assert!(self.done.insert(ticket), "order {ticket} is carried out twice");
    }

    pub(crate) fn answered(&self, ticket: u64, outcome: OrderOutcome) {
        let is_done = self.done.contains(&ticket);
        assert!(outcome != OrderOutcome::Taken || is_done, "order {ticket} is taken, and nobody does it");
        assert!(!matches!(outcome, OrderOutcome::Unknown | OrderOutcome::Ambiguous) || !is_done);
    }
}
