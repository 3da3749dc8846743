//! Tests storage and delivery on real servers: retained messages, log delivery, groups, ending sessions, drain.

use std::sync::Arc;

use tautwire_cluster::names::Key;
use tautwire_cluster::record::{ConfigPart, Retain};
use tautwire_cluster::{Decision, DisconnectSettings, ProposalOutcome, Revision};
use tautwire_nats::jetstream::{Start, StreamReader};
use tautwire_nats::{Command, EndReason, records};

use crate::node::{BrokerEvent, Node, client, run, settings};
use crate::servers::{Config, Servers, program};

const SHARE: &str = "$share/g/t";

fn wait(node: &Node, what: &str, is_it: impl Fn(&Decision) -> bool) {
    node.told.wait_for(what, |told| {
        told.iter().any(|told| matches!(told, BrokerEvent::Decision(decision) if is_it(decision))).then_some(())
    });
}

#[test]
fn a_node_stores_and_delivers_and_leaves_nothing_after_draining() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    let (a, b) = (Node::start(settings(&servers), None), Node::start(settings(&servers), None));
    let [lasting, passing] = [(100, "lasting"), (200, "passing")].map(|(ticket, name)| a.serve(ticket, name).client);
    a.give(Command::Publish {
        client: lasting,
        ticket: 1,
        refusal_seen: 0,
        topic: "t".to_owned(),
        packet_id: None,
        retain: Some((Retain::Always, None)),
        message: b"kept".to_vec(),
    });
    a.wait_stored(lasting, 1);
    for node in [&a, &b] {
        node.give(Command::RetainedSync { ticket: 9 });
        wait(node, "the scan may begin", |decision| *decision == Decision::RetainedSync { ticket: 9 });
        wait(node, "the message is retained", |decision| {
            let Decision::Retain(changes) = decision else { return false };
            changes.iter().any(|change| change.record.topic == "t" && change.record.message == b"kept")
        });
        wait(node, "the message arrives", |decision| {
            let Decision::Arrived(span) = decision else { return false };
            span.groups.iter().any(|group| group.messages.iter().any(|message| message.stored == b"kept"))
        });
    }
    a.give(Command::Join { client: lasting, epoch: 1, share: SHARE.to_owned() });
    wait(&a, "the member has joined", |decision| matches!(decision, Decision::Joined { .. }));
    wait(&a, "a partition is leased", |decision| matches!(decision, Decision::Lease { .. }));

    // One session ends with its connection, and one later.
    for (client, expiry_s) in [(lasting, 100), (passing, 0)] {
        a.give(Command::SetDisconnectSettings { client, settings: DisconnectSettings { expiry_s, will: None } });
    }
    a.give(Command::Leave { client: lasting, share: SHARE.to_owned() });
    for client in [lasting, passing] {
        a.give(Command::Left { client, state: b"state".to_vec() });
    }
    // The engine returns the recalled partitions.
    let recalled = a.told.wait_for("all partitions are recalled", |told| {
        let recalled: Vec<_> = told
            .iter()
            .filter_map(|told| match told {
                BrokerEvent::Decision(Decision::Recall { group, partition }) => Some((*group, *partition)),
                _ => None,
            })
            .collect();
        (recalled.len() == 16).then_some(recalled)
    });
    for (group, partition) in recalled {
        let next = tautwire_cluster::record::Place::START;
        a.give(Command::Returned { group, partition, next, open: Vec::new() });
    }
    a.give(Command::Drain { is_for_good: false });
    a.told.wait_for("the node ends", |told| told.contains(&BrokerEvent::EndReason(EndReason::Drained)).then_some(()));
    assert!(b.serve(300, "lasting").is_present);
    assert!(!b.serve(400, "passing").is_present);
}

#[test]
fn a_revision_reaches_each_node_and_a_stale_proposal_is_refused() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    let (a, b) = (Node::start(settings(&servers), None), Node::start(settings(&servers), None));
    let parts = |text: &str| vec![ConfigPart { name: "acl".to_owned(), bytes: text.as_bytes().to_vec() }];
    a.give(Command::Propose { ticket: 1, base: 0, parts: parts("first") });
    a.wait_decision(&Decision::Proposed { ticket: 1, outcome: ProposalOutcome::Accepted(1) });
    let offered = Decision::Configure { number: 1, parts: parts("first") };
    for node in [&a, &b] {
        node.wait_decision(&offered);
        node.give(Command::Configured { number: 1, is_applied: true });
    }
    b.give(Command::Propose { ticket: 2, base: 0, parts: parts("other") });
    b.wait_decision(&Decision::Proposed { ticket: 2, outcome: ProposalOutcome::Outdated(1) });
    // A new run serves once the revision was applied.
    Node::start_by(settings(&servers), None, |c| {
        let taken_on = Command::Configured { number: 1, is_applied: true };
        c.reaches(&offered) && c.handle().give(taken_on).is_ok() && c.reaches(&Decision::Resumed)
    });
}

#[test]
fn the_applied_configuration_is_confirmed() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    let settings = settings(&servers);
    let node = Node::start(settings.clone(), None);
    let holds = |expected: Option<u64>| {
        run(async {
            let client = client(&settings).await;
            records::holds(&client, Key::Config, expected.map(Revision)).await.expect("an answer")
        })
    };
    let revision = || {
        run(async {
            let subject = format!("$KV.{}", Key::Config);
            let client = client(&settings).await;
            let mut revisions =
                StreamReader::new(client, Arc::default(), "KV_tw_config", &subject, Start::LastPerSubject);
            revisions.next().await.sequence
        })
    };
    assert!(holds(None) && !holds(Some(1)));
    let parts = vec![ConfigPart { name: "acl".to_owned(), bytes: b"text".to_vec() }];
    node.give(Command::Propose { ticket: 1, base: 0, parts });
    node.wait_decision(&Decision::Proposed { ticket: 1, outcome: ProposalOutcome::Accepted(1) });
    let first = revision();
    assert!(holds(Some(first)) && holds(Some(first)) && !holds(None) && !holds(Some(first + 1)));
    // An operator has removed it by hand, which leaves a deletion marker.
    let removed = run(async { records::remove(&client(&settings).await, Key::Config, Revision(first)).await });
    assert!(matches!(removed, Ok(records::WriteResult::At(_))));
    assert!(holds(None) && !holds(Some(first)));
}
