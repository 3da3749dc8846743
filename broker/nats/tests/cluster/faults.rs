//! Kills and pauses servers while nodes serve: confirmed messages are in the log once and in order, and everything continues.

use std::sync::Arc;
use std::time::Duration;

use tautwire_cluster::delivery::Messages;
use tautwire_cluster::names::{Key, Partition, Seed};
use tautwire_cluster::record::{NodeRecord, NodeState};
use tautwire_nats::jetstream::{self, StreamReader};
use tautwire_nats::{Settings, Times, log, prepare};

use crate::node::{BrokerEvent, Node, client, run, settings};
use crate::servers::{Config, PATIENCE, Servers, program, wait_until};

/// Messages that are published before and after a fault.
const MESSAGES: u64 = 400;

/// All messages of the log, by partition and in order.
fn read_log(settings: &Settings) -> (Seed, Vec<Vec<String>>) {
    run(async {
        let client = client(settings).await;
        let seed = loop {
            match prepare(&client, settings).await {
                Ok(foundation) => break foundation.seed,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        };
        let mut all = Vec::new();
        for partition in Partition::all() {
            let (mut messages, mut from) = (Vec::new(), 1);
            while from < log::end(&client, partition).await.expect("an answer") {
                let read = log::read(&client, partition, from, 1 << 20, Duration::from_secs(10)).await.expect("groups");
                assert_eq!(read.first, from, "nothing is missing");
                for (sequence, group) in read.groups {
                    from = sequence + 1;
                    let group = Messages::new(&group).expect("a group");
                    messages.extend(group.iter().map(|message| String::from_utf8_lossy(message.stored).into_owned()));
                }
            }
            all.push(messages);
        }
        (seed, all)
    })
}

/// Publishes through a node during `fault`, and checks the log at the end.
fn publish_through(servers: &mut Servers, fault: impl FnOnce(&mut Servers, usize)) {
    let settings = settings(servers);
    let node = Node::start(settings.clone(), None);
    let clients: Vec<_> = (0..4).map(|number| node.serve(1000 * number, &format!("client-{number}")).client).collect();
    let publish = |from: u64, until: u64| {
        for ticket in from..until {
            for (number, client) in clients.iter().enumerate() {
                let topic = format!("topic/{number}/{}", ticket % 3);
                node.publish(*client, ticket, &topic, format!("{topic} {ticket}").as_bytes());
            }
        }
    };
    let stored = |until: u64| clients.iter().for_each(|client| node.wait_stored(*client, until - 1));
    publish(0, MESSAGES);
    stored(1);
    let leader = servers.leader("TW_LOG_00").expect("a leader");
    fault(servers, leader);
    publish(MESSAGES, 2 * MESSAGES);
    stored(2 * MESSAGES);
    servers.wait_until_well();

    let told = node.told.all();
    let (seed, log) = read_log(&settings);
    for (number, client) in clients.iter().enumerate() {
        for third in 0..3 {
            let topic = format!("topic/{number}/{third}");
            let wanted: Vec<_> = (0..2 * MESSAGES)
                .filter(|ticket| ticket % 3 == third)
                .map(|ticket| format!("{topic} {ticket}"))
                .collect();
            let found = log[seed.partition(&topic).index()].iter();
            let found: Vec<_> = found.filter(|message| message.starts_with(&format!("{topic} "))).cloned().collect();
            assert_eq!(found, wanted, "each message once, in order");
        }
        let tickets = told.iter().filter_map(|told| match told {
            BrokerEvent::Decision(tautwire_cluster::Decision::Stored { client: of, ticket }) if of == client => {
                Some(*ticket)
            }
            _ => None,
        });
        assert!(tickets.eq(0..2 * MESSAGES), "each is confirmed once, in order");
    }
}

#[test]
fn a_killed_leader_loses_nothing() {
    let Some(program) = program() else { return };
    let mut servers = Servers::start(&program, 3, &Config::default());
    publish_through(&mut servers, |servers, leader| {
        servers.kill(leader);
        wait_until("another one leads", || servers.leader("TW_LOG_00").is_some_and(|now| now != leader));
        servers.restart(leader);
    });
}

#[test]
fn a_paused_leader_loses_nothing() {
    let Some(program) = program() else { return };
    let mut servers = Servers::start(&program, 3, &Config::default());
    publish_through(&mut servers, |servers, leader| {
        servers.pause(leader);
        wait_until("another one leads", || {
            (0..3)
                .filter(|at| *at != leader)
                .any(|at| servers.leader_by(at, "TW_LOG_00").is_some_and(|now| now != leader))
        });
        servers.resume(leader);
    });
}

#[test]
fn all_servers_can_be_killed_and_restarted() {
    let Some(program) = program() else { return };
    let mut servers = Servers::start(&program, 3, &Config::default());
    publish_through(&mut servers, |servers, _| {
        (0..3).for_each(|at| servers.kill(at));
        (0..3).for_each(|at| servers.restart(at));
    });
}

#[test]
fn a_watch_of_nodes_survives_a_restart_of_all_servers() {
    let Some(program) = program() else { return };
    let mut servers = Servers::start(&program, 3, &Config::default());
    let mut settings = settings(&servers);
    settings.member.lease_ms = 3000;
    let _a = Node::start(settings.clone(), None);
    (0..3).for_each(|at| servers.kill(at));
    (0..3).for_each(|at| servers.restart(at));
    servers.wait_until_well();
    // It starts after the fault and dies silently. Only a working watch can detect it, because no node asks for it.
    let b = Node::start(settings.clone(), None);
    let dead = b.me;
    drop(b);
    run(async {
        let client = client(&settings).await;
        let subject = format!("$KV.{}", Key::Node(dead));
        let counters = Arc::default();
        let mut records = StreamReader::new(client, counters, "KV_tw_node", &subject, jetstream::Start::LastPerSubject);
        let removed = async {
            loop {
                let record = NodeRecord::decode(&records.next().await.payload).expect("a record");
                if matches!(record.state, NodeState::Removed { .. }) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, removed).await.expect("removed");
    });
}

#[test]
fn publishers_wait_for_a_lagging_partition_and_nothing_is_lost() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    let mut settings = settings(&servers);
    settings.member.waiting_max_bytes = 1000;
    settings.times = Times { operation_ms: 2000, ..Times::default() };
    let node = Node::start(settings, None);
    let served = node.serve(100, "client");
    (0..3).for_each(|at| servers.pause(at));
    let message = [b'x'; 300];
    for ticket in 0..20 {
        node.publish(served.client, ticket, "t", &message);
    }
    node.told.wait_for("reading from the client is paused", |told| {
        told.contains(&BrokerEvent::Hold(served.client)).then_some(())
    });
    (0..3).for_each(|at| servers.resume(at));
    node.wait_stored(served.client, 19);
    node.told.wait_for("reading from the client resumes", |told| {
        told.contains(&BrokerEvent::GoOn(served.client)).then_some(())
    });
    assert!((0..20).all(|ticket| node.has_stored(served.client, ticket)));
}

#[test]
fn two_of_three_servers_are_sufficient_to_start() {
    let Some(program) = program() else { return };
    let mut servers = Servers::start(&program, 3, &Config::default());
    drop(Node::start(settings(&servers), None));
    servers.kill(0);
    let mut settings = settings(&servers);
    // A dead server cannot be asked.
    settings.storage.syncing = tautwire_nats::Syncing::Promised;
    let node = Node::start(settings, None);
    node.serve(100, "client");
}
