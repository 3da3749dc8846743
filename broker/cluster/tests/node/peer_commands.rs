//! Tests the commands that an operator gives to one node through another.

use tautwire_cluster::mutant::Mutant;
use tautwire_cluster::record::{Load, NodeRecord, NodeState};
use tautwire_cluster::{Decision, PeerCommandOutcome, Revision, Settings};

use crate::node::{Node, is_found, life};

impl Node {
    fn hears_of(&mut self, number: u64, name: &str) {
        let state = NodeState::Alive { beat: 1, load: Load::default() };
        let record = NodeRecord { name: name.to_owned(), reference: String::new(), state };
        self.member.observe_node(self.now_ms, life(number), Revision(number), &record.encode());
    }

    fn peer_commands(&mut self, ticket: u64, name: &str) -> Option<PeerCommandOutcome> {
        self.member.drain_peer(self.now_ms, ticket, name, true, "operator");
        self.collect();
        self.outcome(ticket)
    }

    fn outcome(&mut self, of: u64) -> Option<PeerCommandOutcome> {
        self.decisions.drain(..).find_map(|decision| match decision {
            Decision::PeerCommandResult { ticket, outcome } if ticket == of => Some(outcome),
            _ => None,
        })
    }
}

#[test]
fn a_command_is_repeated_until_received_and_executed_once() {
    let (mut one, mut other) = (Node::begin(Settings::default()), Node::begin(Settings::default()));
    one.hears_of(2, "b");
    assert_eq!(one.peer_commands(7, "b"), None);
    one.advance(Settings::default().retry_ms);
    let sent = std::mem::take(&mut one.sent);
    assert_eq!(sent.len(), 2, "repeated after a while");
    assert!(sent.iter().all(|(to, bytes)| *to == life(2) && *bytes == sent[0].1));
    for (_, bytes) in &sent {
        other.member.receive_peer(0, bytes);
    }
    other.collect();
    let told = |decision: &&Decision| matches!(decision, Decision::DrainRequested { is_for_good: true, by, .. } if by == "operator");
    assert_eq!(other.decisions.iter().filter(told).count(), 1, "{:?}", other.decisions);
    assert!(other.member.status(0).is_draining && other.sent.len() == 2, "each copy is acknowledged");
    // Both nodes of this test have incarnation 1; the answer must come from the node that was asked.
    let (_, mut answer) = other.sent[0].clone();
    one.member.receive_peer(one.now_ms, &answer);
    one.collect();
    assert_eq!(one.outcome(7), None, "another node has acknowledged it");
    assert_eq!(one.peer_commands(8, "b"), None);
    answer[2] = 2;
    answer[10] = 2;
    one.member.receive_peer(one.now_ms, &answer);
    one.collect();
    assert_eq!(one.outcome(8), Some(PeerCommandOutcome::Taken));
}

#[test]
fn a_command_without_a_response_times_out() {
    let settings = Settings { lease_ms: 60_000, ..Settings::default() };
    let mut node = Node::begin(settings.clone());
    node.hears_of(2, "b");
    node.hears_of(3, "c");
    node.hears_of(4, "c");
    assert_eq!(node.peer_commands(1, "d"), Some(PeerCommandOutcome::Unknown));
    assert_eq!(node.peer_commands(2, "c"), Some(PeerCommandOutcome::Ambiguous));
    assert_eq!(node.peer_commands(3, "a"), Some(PeerCommandOutcome::Unknown), "a node does not write to itself");
    assert_eq!(node.peer_commands(4, "b"), None);
    node.advance(settings.command_timeout_ms);
    assert_eq!(node.outcome(4), Some(PeerCommandOutcome::Silent));
    let many: Vec<_> = (10..80).map(|ticket| node.peer_commands(ticket, "b")).collect();
    assert!(many[..64].iter().all(Option::is_none));
    assert!(many[64..].iter().all(|outcome| *outcome == Some(PeerCommandOutcome::TooMany)));
}

#[test]
fn a_command_that_is_executed_twice_is_found() {
    is_found(Mutant::ExecutesTwice, a_command_is_repeated_until_received_and_executed_once);
}
