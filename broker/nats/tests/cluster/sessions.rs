//! Tests that sessions are claimed by one node at a time, and follow their clients.

use tautwire_cluster::Decision;
use tautwire_nats::{Command, Refused};

use crate::node::{BrokerEvent, Node, settings};
use crate::servers::{Config, Servers, program};

#[test]
fn a_session_moves_with_its_client_and_its_state() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    let (a, b) = (Node::start(settings(&servers), None), Node::start(settings(&servers), None));

    let first = a.serve(100, "client");
    assert!(!first.is_present && a.handle().is_serving());
    a.publish(first.client, 1, "t", b"hello");
    a.wait_stored(first.client, 1);
    a.give(Command::Save { client: first.client, number: 1, state: b"saved".to_vec() });
    a.wait_decision(&Decision::Saved { client: first.client, number: 1 });

    b.claim(200, "client");
    a.wait_decision(&Decision::SessionTakenOver(first.client));
    a.give(Command::Left { client: first.client, state: b"kept".to_vec() });
    let second = b.outcome(200).expect("the client is served");
    assert!(second.is_present && second.state == b"kept" && second.client == first.client);

    // With an empty state, the session ends with the connection.
    b.give(Command::Left { client: first.client, state: Vec::new() });
    assert!(!a.serve(300, "client").is_present);
}

#[test]
fn nodes_that_claim_at_once_serve_one_after_the_other() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    let (a, b) = (Node::start(settings(&servers), None), Node::start(settings(&servers), None));
    for number in 0..50 {
        let client_id = format!("client-{number}");
        a.claim(number, &client_id);
        b.claim(number, &client_id);
        // The second node requests the session from the first one, whose broker releases the client.
        let (client, last) = loop {
            let surrendered = [&a, &b].into_iter().find_map(|node| {
                let told = node.told.all();
                told.iter().find_map(|told| match told {
                    BrokerEvent::Decision(Decision::SessionTakenOver(client)) => Some((node, *client)),
                    _ => None,
                })
            });
            if let Some((node, client)) = surrendered {
                node.give(Command::Left { client, state: b"kept".to_vec() });
                break (client, if node.me == a.me { &b } else { &a });
            }
            std::thread::yield_now();
        };
        let outcomes = [a.outcome(number), b.outcome(number)];
        assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_ok_and(|served| served.client == client)));
        [&a, &b].into_iter().for_each(|node| node.told.forget());
        last.give(Command::Left { client, state: Vec::new() });
    }
}

#[test]
fn a_message_too_large_for_the_servers_is_refused_without_a_stall() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config { more: "max_payload: 64KB".to_owned(), ..Config::default() });
    let node = Node::start(settings(&servers), None);
    let served = node.serve(100, "client");
    let message = |bytes: usize| Command::Publish {
        client: served.client,
        ticket: bytes as u64,
        refusal_seen: 0,
        topic: "t".to_owned(),
        packet_id: None,
        retain: None,
        message: vec![b'x'; bytes],
    };
    let max = node.handle().message_max_bytes();
    assert!(max < 64 * 1024);
    assert!(matches!(node.handle().give(message(max + 1)), Err(Refused::TooLarge(_))));
    // Several of the largest messages never fit into one group, and small ones fill groups up.
    for bytes in [max, max - 1, max / 2, max / 2 - 1, 1] {
        node.handle().give(message(bytes)).expect("not full");
    }
    for bytes in [max, max - 1, max / 2, max / 2 - 1, 1] {
        node.wait_stored(served.client, bytes as u64);
    }
}

#[test]
fn a_client_that_finds_the_queue_full_is_notified_of_free_space() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 1, &Config::default());
    let mut settings = settings(&servers);
    settings.storage.replicas = 1;
    settings.limits.commands_max = 2;
    let node = Node::start(settings, None);
    for round in 0..20 {
        let refused = (0..).find_map(|number| {
            let client_id = format!("client-{round}-{number}");
            let claim = Command::Claim { ticket: number, client_id, start: tautwire_cluster::Start::Clean };
            node.handle().give(claim).err()
        });
        assert!(matches!(refused, Some(Refused::Full(Command::Claim { .. }))));
        node.told.wait_for("the queue has space", |told| told.contains(&BrokerEvent::Room).then_some(()));
        node.told.forget();
    }
}
