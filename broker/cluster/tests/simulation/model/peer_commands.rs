//! The commands that operators give to one node through another.

use std::collections::BTreeSet;

use tautwire_cluster::PeerCommandOutcome;

/// PeerCommands, by ticket.
#[derive(Default)]
pub(crate) struct PeerCommands {
    last: u64,
    done: BTreeSet<u64>,
}

impl PeerCommands {
    /// Returns the ticket of a new command, which also identifies the operator.
    pub(crate) fn give(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A node executes a command.
    pub(crate) fn carried_out(&mut self, by: &str) {
        let ticket = by.parse().expect("the operator is the ticket here");
        assert!(self.done.insert(ticket), "command {ticket} is executed twice");
    }

    pub(crate) fn answered(&self, ticket: u64, outcome: PeerCommandOutcome) {
        let is_done = self.done.contains(&ticket);
        assert!(outcome != PeerCommandOutcome::Taken || is_done, "command {ticket} was accepted but not executed");
        assert!(!matches!(outcome, PeerCommandOutcome::Unknown | PeerCommandOutcome::Ambiguous) || !is_done);
    }
}
