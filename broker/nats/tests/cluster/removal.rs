//! Tests nodes that are dead, or declared dead.

use tautwire_cluster::{Decision, Settings as MemberSettings};
use tautwire_nats::{Command, EndReason};

use crate::node::{BrokerEvent, Node, settings};
use crate::servers::{Config, Servers, program};

#[test]
fn the_sessions_of_a_dead_node_are_claimed_after_its_lease() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    let mut settings = settings(&servers);
    settings.member = MemberSettings { heartbeat_ms: 500, lease_ms: 2500, margin_ms: 500, ..MemberSettings::default() };
    let (a, b) = (Node::start(settings.clone(), None), Node::start(settings, None));
    let served = a.serve(100, "client");
    a.give(Command::Save { client: served.client, number: 1, state: b"saved".to_vec() });
    a.wait_decision(&Decision::Saved { client: served.client, number: 1 });
    a.publish(served.client, 1, "t", b"hello");
    a.wait_stored(served.client, 1);
    // It vanishes without releasing anything, and its heartbeats stop.
    drop(a);

    let taken = b.serve(200, "client");
    assert!(taken.is_present && taken.state == b"saved");
}

#[test]
fn a_node_declared_dead_stops_and_its_next_incarnation_serves() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    let a = Node::start(settings(&servers), None);
    let served = a.serve(100, "client");
    a.give(Command::Save { client: served.client, number: 1, state: b"saved".to_vec() });
    a.wait_decision(&Decision::Saved { client: served.client, number: 1 });

    // The holder of the data directory's lock knows that the previous run has ended. Here it has not, and is fenced.
    let b = Node::start(settings(&servers), Some(a.me));
    a.told.wait_for("the run ends", |told| told.contains(&BrokerEvent::EndReason(EndReason::Fenced)).then_some(()));
    a.wait_decision(&Decision::Fenced);
    assert!(!a.handle().is_serving());
    let late = Command::Left { client: served.client, state: Vec::new() };
    assert!(matches!(a.handle().give(late), Err(tautwire_nats::Refused::Over(_))));
    assert!(b.serve(200, "client").is_present);
}
