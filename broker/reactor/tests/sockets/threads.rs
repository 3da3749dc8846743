//! Tests messages and connections that go from one thread to another.

use std::thread;

use tautwire_engine::Settings;
use tautwire_protocol::{Connect, Packet, Properties, ProtocolVersion, QoS, TopicName, Will};

use crate::client::{Client, PATIENCE, connect_bytes, pattern, publish_bytes, quiet, start};

/// Enough names that each thread owns some clients.
const CLIENTS: usize = 8;

#[test]
fn bytes_after_connect_move_to_the_clients_thread() {
    const MESSAGES: usize = 1_000;
    let broker = start(quiet(), 2);
    for client in 0..CLIENTS {
        let mut subscriber = Client::connect(&broker, &format!("subscriber-{client}"));
        subscriber.subscribe(&format!("t/{client}"), QoS::AtMostOnce);
        let mut publisher = Client::open(&broker, ProtocolVersion::V5);
        let mut bytes = connect_bytes(&format!("publisher-{client}"), ProtocolVersion::V5);
        for n in 0..MESSAGES {
            bytes.extend(publish_bytes(&format!("t/{client}"), None, false, &pattern(n, 50)));
        }
        publisher.write(&bytes);
        publisher.expect_connack();
        for n in 0..MESSAGES {
            assert_eq!(subscriber.next_payload(), pattern(n, 50));
        }
    }
}

#[test]
fn a_connect_packet_can_be_large() {
    let broker = start(quiet(), 2);
    let payload = pattern(0, 60_000);
    let will = Will {
        topic: TopicName::new("will").expect("a valid topic"),
        payload: &payload,
        qos: QoS::AtMostOnce,
        retain: false,
        properties: Properties::EMPTY,
    };
    let mut subscriber = Client::connect(&broker, "subscriber");
    subscriber.subscribe("will", QoS::AtMostOnce);
    for client in 0..CLIENTS {
        let connect = Connect {
            version: ProtocolVersion::V5,
            clean_start: true,
            keep_alive_s: 0,
            client_id: &format!("large-{client}"),
            will: Some(will),
            user_name: None,
            password: None,
            properties: Properties::EMPTY,
        };
        let mut client = Client::open(&broker, ProtocolVersion::V5);
        client.write_packet(&Packet::Connect(connect));
        client.expect_connack();
        drop(client);
        assert!(subscriber.next_payload() == payload);
    }
}

/// The ring between two threads holds one batch at a time here, so publishers are paused again and again.
#[test]
fn publishers_resume_when_another_thread_has_caught_up() {
    const MESSAGES: usize = 2_000;
    let broker = start(Settings { shard_queue_batches: 1, ..quiet() }, 2);
    let subscribers: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let mut subscriber = Client::connect(&broker, &format!("subscriber-{client}"));
            subscriber.subscribe("t/#", QoS::AtLeastOnce);
            subscriber
        })
        .collect();
    let publishers: Vec<_> = (0..2)
        .map(|client| {
            let mut publisher = Client::connect(&broker, &format!("publisher-{client}"));
            let mut writer = publisher.second_hand();
            let writing = thread::spawn(move || {
                for n in 0..MESSAGES {
                    let payload = format!("{n}");
                    writer.write(&publish_bytes(&format!("t/{client}"), Some(n as u16 + 1), false, payload.as_bytes()));
                }
            });
            let reading = thread::spawn(move || {
                for n in 0..MESSAGES {
                    let packet = publisher.next().unwrap_or_else(|| panic!("acknowledged: {n}"));
                    assert!(matches!(packet.as_packet(), Packet::PubAck(_)), "{packet:?}");
                }
                publisher
            });
            (writing, reading)
        })
        .collect();
    let reading: Vec<_> = subscribers
        .into_iter()
        .map(|mut subscriber| {
            thread::spawn(move || {
                let mut next = [0; 2];
                while next != [MESSAGES; 2] {
                    let (topic, payload) = subscriber.next_message();
                    let from = usize::from(topic.ends_with('1'));
                    assert_eq!(payload, next[from].to_string().as_bytes());
                    next[from] += 1;
                }
            })
        })
        .collect();
    for (writing, reading) in publishers {
        writing.join().expect("everything is accepted");
        reading.join().expect("everything is acknowledged");
    }
    for reading in reading {
        reading.join().expect("everything arrives");
    }
}

/// So many connections at once that they are accepted by timer. Some send CONNECT at once, others only when all are open.
#[test]
fn every_client_of_a_burst_is_accepted() {
    const RUSH: usize = 150;
    for threads in [1, 2] {
        let broker = start(quiet(), threads);
        let mut clients: Vec<_> = (0..RUSH)
            .map(|n| {
                let mut client = Client::open(&broker, ProtocolVersion::V5);
                if n % 3 != 0 {
                    client.write(&connect_bytes(&format!("rush-{n}"), ProtocolVersion::V5));
                }
                client
            })
            .collect();
        for (n, client) in clients.iter_mut().enumerate() {
            if n % 3 == 0 {
                client.write(&connect_bytes(&format!("rush-{n}"), ProtocolVersion::V5));
            }
            client.expect_connack();
        }
        // The burst is over; a later connection is noticed, too.
        drop(clients);
        let mut subscriber = Client::connect(&broker, "late");
        subscriber.subscribe("t", QoS::AtMostOnce);
    }
}

#[test]
fn each_thread_reports_when_it_is_idle() {
    assert!(start(Settings::default(), 3).wait_until_idle(PATIENCE));
}
