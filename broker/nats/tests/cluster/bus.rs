//! QoS 0 between nodes.

use std::sync::mpsc::sync_channel;

use tautwire_cluster::Status;
use tautwire_nats::Command;

use crate::node::{BrokerEvent, Node, settings_of};
use crate::servers::{Config, Servers, program, wait_until};

/// Longer than anything takes on this machine, and shorter than nodes wait for each other.
const ROUTE_MS: u64 = 200;

/// Starts nodes one after the other, each on its own server, which know each other.
fn nodes_at<const COUNT: usize>(servers: &Servers) -> [Node; COUNT] {
    let start = |at| Node::start(settings_of(&servers.address(at), servers.monitoring()), None);
    let nodes = std::array::from_fn(start);
    for node in &nodes {
        wait_until("a node knows of the others", || status(node).nodes.len() == COUNT);
    }
    nodes
}

fn status(node: &Node) -> Status {
    let (to, status) = sync_channel(1);
    node.give(Command::Report(to));
    status.recv().expect("an answer")
}

fn heard(node: &Node, subject: &str) -> Vec<(String, Vec<u8>)> {
    let told = node.told.all();
    let heard = told.into_iter().filter_map(|told| match told {
        BrokerEvent::BusEvent { pattern, subject: of, message } if of == subject => Some((pattern, message)),
        _ => None,
    });
    heard.collect()
}

#[test]
fn messages_go_to_listeners_and_not_back() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    let [a, b] = nodes_at(&servers);
    for (ticket, node) in [&a, &b].into_iter().enumerate() {
        node.listen(ticket as u64, &["sport/#", "sport/+", "last"]);
    }
    let hears = |node: &Node, subject: &str| {
        node.told.wait_for("a message", |told| {
            told.iter()
                .any(|told| matches!(told, BrokerEvent::BusEvent { subject: of, .. } if of == subject))
                .then_some(())
        });
    };
    assert!(a.handle().send("sport.tennis", b"1".to_vec()) && a.handle().send("other", b"2".to_vec()));
    assert!(a.handle().send("last", b"3".to_vec()));
    hears(&b, "last");
    // It matches two patterns, and one copy counts.
    assert_eq!(heard(&b, "sport.tennis"), [("sport.*".to_owned(), b"1".to_vec())]);
    assert!(heard(&b, "other").is_empty());

    // A node does not receive its own messages, or those it has unsubscribed from.
    b.give(Command::RemoveInterest { filter: "sport/#".to_owned() });
    b.listen(7, &["mark"]);
    b.told.forget();
    a.handle().send("sport.golf.open", b"4".to_vec());
    a.handle().send("last", b"5".to_vec());
    hears(&b, "last");
    assert!(heard(&b, "sport.golf.open").is_empty());
    assert!(heard(&a, "sport.tennis").is_empty() && heard(&a, "last").is_empty());
}

#[test]
fn messages_of_another_server_arrive_once_all_nodes_know_the_listeners() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config { has_slow_routes: true, ..Config::default() });
    let [listener, one, other] = nodes_at(&servers);
    servers.delay_routes(ROUTE_MS);
    let (too_early, in_time) = (b"too early".to_vec(), b"in time".to_vec());
    let mut came = 0;
    for ticket in 0..3 {
        let (filter, subject) = (format!("a/{ticket}"), format!("a.{ticket}"));
        listener.give(Command::AddInterest { filter: filter.clone() });
        // The server of this node does not know of it yet.
        assert!(one.handle().send(&subject, too_early.clone()));
        listener.listen(ticket, &[]);
        for node in [&one, &other] {
            assert!(node.handle().send(&subject, in_time.clone()));
        }
        wait_until("both messages arrive", || {
            heard(&listener, &subject).into_iter().filter(|(_, message)| *message == in_time).count() == 2
        });
        came += heard(&listener, &subject).iter().filter(|(_, message)| *message == too_early).count();
    }
    // A machine that stalls for a moment may deliver it nevertheless.
    assert!(came < 3, "the delay had no effect");
    assert_eq!(status(&listener).counters.spreads_unanswered, 0);
}
