//! Refusals for lack of memory: wills, filters, incomplete packets, aliases and connections. Others are served as before, and freed memory
//! is available again.

use std::time::Duration;

use tautwire_protocol::{DisconnectReason, Packet, Property, ReasonCode};

use super::{
    BackgroundClient, KILOBYTE, MEGABYTE, QUOTA_EXCEEDED, create_offline_session, number_of, numbered, reconnect,
};
use crate::support::property::{subscription_identifier, topic_alias};
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Case, Client, OutgoingPublish, ProtocolVersion, V3_1_1, V5, WillMessage,
    every_case, every_thread_count, options, packet_id,
};
use crate::sys::await_live_number;

/// Checks that at least this many refusals are counted.
#[track_caller]
fn refusals_are_counted(broker: &Broker, least: usize) {
    let mut observer = broker.connect(V5, "observer");
    await_live_number(&mut observer, "tautwire/resources_refused_memory", |count| count >= least as f64);
}

#[test]
fn wills_are_refused_in_connack() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.memory_bytes=1048576", "sys.interval_s=1"]);
        let mut bystander = BackgroundClient::new(&broker, case.version);
        // Small enough for CONNECT to arrive in one piece: an incomplete packet is refused before its content is known.
        let payload = vec![b'x'; 12_000];
        for _ in 0..2 {
            let mut holders = Vec::new();
            let refused = (0..200).find_map(|number| {
                let client_id = format!("will-{number}");
                let will = WillMessage::new("will", &payload);
                let mut client = broker.connecting(case.version, &client_id).will(will).send();
                match client.expect_connack_code() {
                    0 => holders.push(client),
                    code => {
                        client.expect_closed();
                        return Some(code);
                    }
                }
                None
            });
            assert_eq!(refused, Some(if case.version.is_v5() { QUOTA_EXCEEDED } else { 3 }));
            assert!((70..90).contains(&holders.len()), "{} wills of 12,000 bytes", holders.len());
            bystander.is_served();
            for client in holders {
                client.disconnect();
            }
            refusals_are_counted(&broker, 1);
        }
    });
}

/// Properties of wills take memory like their payloads.
#[test]
fn properties_of_wills_are_counted() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["limits.memory_bytes=1048576", "sys.interval_s=1"]);
        let mut bystander = BackgroundClient::new(&broker, V5);
        let value = "x".repeat(1_500);
        let mut holders = Vec::new();
        let refused = (0..200).find_map(|number| {
            let client_id = format!("will-{number}");
            let will = (0..8)
                .fold(WillMessage::new("will", b""), |will, _| will.property(Property::UserProperty("name", &value)));
            let mut client = broker.connecting(V5, &client_id).will(will).send();
            let code = client.expect_connack_code();
            holders.push(client);
            (code != 0).then_some(code)
        });
        assert_eq!(refused, Some(QUOTA_EXCEEDED), "{} wills of 12,000 bytes", holders.len());
        assert!((70..90).contains(&holders.len()), "{} wills of 12,000 bytes", holders.len());
        bystander.is_served();
        drop(holders);
        refusals_are_counted(&broker, 1);
    });
}

#[test]
fn filters_are_refused_in_suback() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.memory_bytes=1048576", "sys.interval_s=1"]);
        let mut bystander = BackgroundClient::new(&broker, case.version);
        let mut greedy = broker.connect(case.version, "greedy");
        let filter = |number: usize| format!("{number}{}", "x".repeat(60_000));
        let mut granted = Vec::new();
        let refused = (0..20).find_map(|number| {
            match greedy.subscribe_all(&[(&filter(number), options(AtLeastOnce))], &[])[..] {
                [1] => granted.push(number),
                ref codes => return Some(codes.to_vec()),
            }
            None
        });
        assert_eq!(refused, Some(vec![if case.version.is_v5() { QUOTA_EXCEEDED } else { 0x80 }]));
        assert!((1..10).contains(&granted.len()), "{} filters of 60,000 bytes were granted", granted.len());
        refusals_are_counted(&broker, 1);
        bystander.is_served();
        // The client keeps its filters, and can subscribe again after unsubscribing.
        let topic = filter(granted[0]);
        greedy.publish(&topic, AtLeastOnce, b"x");
        assert_eq!(greedy.receive().topic(), topic);
        greedy.unsubscribe(&[&topic]);
        greedy.subscribe(&topic, AtLeastOnce);
        // Another client can subscribe with small filters.
        broker.connect(case.version, "modest").subscribe("small", AtLeastOnce);
        greedy.ping();
    });
}

/// A message of one byte is stored with the identifiers of all matching subscriptions.
#[test]
fn subscription_identifiers_of_queued_messages_are_counted() {
    every_thread_count(|case| {
        const LEVELS: usize = 10;
        let broker = case.broker_set(&[
            "limits.memory_bytes=12000000",
            "limits.session_queue_bytes=1099511627776",
            "sys.interval_s=1",
        ]);
        let mut bystander = BackgroundClient::new(&broker, V5);
        let topic = ["a"; LEVELS].join("/");
        let names: Vec<String> = (0..1 << LEVELS)
            .map(|bits: usize| {
                let level = |at| if bits >> at & 1 == 0 { "a" } else { "+" };
                (0..LEVELS).map(level).collect::<Vec<_>>().join("/")
            })
            .collect();
        let mut greedy = broker.connecting(V5, "greedy").persistent().open();
        for (number, chunk) in names.chunks(64).enumerate() {
            let filters: Vec<_> = chunk.iter().map(|name| (name.as_str(), options(AtLeastOnce))).collect();
            let identifier = subscription_identifier(number as u32 + 1);
            assert_eq!(greedy.subscribe_all(&filters, &[identifier]), vec![1; 64]);
        }
        greedy.disconnect();
        let before = broker.resident_bytes();
        let mut publisher = broker.connect(V5, "publisher");
        let given = (0..8_000)
            .find(|_| publisher.publish(&topic, AtLeastOnce, b"x") == QUOTA_EXCEEDED)
            .expect("the session may not hold 8,000 times 4 KiB");
        assert!((200..3_000).contains(&given), "{given} messages with 4 KiB of identifiers each");
        let held_bytes = broker.resident_bytes().saturating_sub(before);
        assert!(held_bytes < 24 * MEGABYTE as u64, "the broker holds {held_bytes} bytes");
        bystander.is_served();
        let mut greedy = reconnect(&broker, V5, "greedy");
        for _ in 0..given {
            assert_eq!(greedy.receive().subscription_identifiers().len(), 1 << LEVELS);
        }
        greedy.expect_nothing();
    });
}

/// Sends parts of incomplete packets from each of `clients`: together twice the limit. Waits until `counter` has counted the excess.
fn overfill(broker: &Broker, clients: &mut [Client], counter: &str, begin: impl Fn(usize) -> Vec<u8>) {
    let before = broker.resident_bytes();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send_bytes_unless_closed(&begin(number));
    }
    let mut observer = broker.connect(V5, "observer");
    await_live_number(&mut observer, counter, |count| count >= 8.0);
    let held_bytes = broker.resident_bytes().saturating_sub(before);
    assert!(held_bytes < 24 * MEGABYTE as u64, "the broker holds {held_bytes} bytes");
}

const INCOMPLETE_BYTES: usize = 400 * KILOBYTE;

/// The start of a PUBLISH of 1 MiB.
fn incomplete_publish(version: ProtocolVersion) -> Vec<u8> {
    let payload = numbered(0, MEGABYTE);
    let mut bytes = Vec::new();
    let publish = OutgoingPublish::new("a", AtMostOnce, &payload);
    publish.publish(packet_id(1)).append_to(version, &mut bytes).expect("a legal PUBLISH");
    bytes.truncate(INCOMPLETE_BYTES);
    bytes
}

#[test]
fn connections_with_endless_packets_are_disconnected() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["limits.memory_bytes=4194304", "sys.interval_s=1"]);
        let mut bystander = BackgroundClient::new(&broker, V5);
        let mut clients: Vec<Client> = (0..20).map(|number| broker.connect(V5, &format!("slow-{number}"))).collect();
        overfill(&broker, &mut clients, "tautwire/resources_refused_memory", |_| incomplete_publish(V5));
        bystander.is_served();
        let mut refused = 0;
        for client in &mut clients {
            if client.has_input_within(Duration::from_millis(1)) {
                client.expect_server_disconnect(ReasonCode::QuotaExceeded);
                refused += 1;
            }
        }
        assert!((8..20).contains(&refused), "{refused} were disconnected");
        bystander.is_served();
    });
}

/// A 3.1.1 client cannot be notified. Reading from it pauses, with the usual timeout for an incomplete packet.
#[test]
fn connections_of_3_1_1_with_endless_packets_time_out() {
    every_thread_count(|case| {
        let broker = case.broker_set(&[
            "limits.memory_bytes=4194304",
            "limits.incomplete_packet_timeout_s=3",
            "sys.interval_s=1",
        ]);
        let mut bystander = BackgroundClient::new(&broker, V5);
        let mut clients: Vec<Client> =
            (0..20).map(|number| broker.connect(V3_1_1, &format!("slow-{number}"))).collect();
        let counter = "tautwire/publishers_paused_for_memory";
        overfill(&broker, &mut clients, counter, |_| incomplete_publish(V3_1_1));
        bystander.is_served();
        for client in &mut clients {
            client.expect_closed();
        }
        bystander.is_served();
        let mut observer = broker.connect(V5, "observer");
        await_live_number(&mut observer, "tautwire/incomplete_packet_timeouts", |count| count == 20.0);
        await_live_number(&mut observer, "tautwire/resources_refused_memory", |count| count == 0.0);
    });
}

#[test]
fn connections_with_an_endless_connect_are_refused() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.memory_bytes=4194304", "sys.interval_s=1"]);
        let mut bystander = BackgroundClient::new(&broker, case.version);
        let mut clients: Vec<Client> = (0..20).map(|_| broker.dial(case.version)).collect();
        let payload = vec![b'x'; 65_000];
        overfill(&broker, &mut clients, "tautwire/resources_refused_memory", |number| {
            // The fixed header announces 10 MB.
            let client_id = format!("slow-{number}");
            let whole = broker.connecting(case.version, &client_id).will(WillMessage::new("w", &payload)).bytes();
            let mut bytes = vec![0x10, 0x80, 0xad, 0xe2, 0x04];
            bytes.extend_from_slice(&whole[4..]);
            bytes.resize(INCOMPLETE_BYTES, b'x');
            bytes
        });
        bystander.is_served();
        let mut refused = 0;
        for client in &mut clients {
            if client.has_input_within(Duration::from_millis(1)) {
                // The answer to a CONNECT whose version is known.
                let expected = if case.version.is_v5() { ReasonCode::QuotaExceeded.as_u8() } else { 3 };
                assert_eq!(client.expect_connack_code(), expected);
                client.expect_closed();
                refused += 1;
            }
        }
        assert!((8..20).contains(&refused), "{refused} were closed");
        bystander.is_served();
    });
}

#[test]
fn clients_with_too_many_aliases_are_disconnected() {
    every_thread_count(|case| {
        let broker =
            case.broker_set(&["limits.memory_bytes=1048576", "mqtt.topic_alias_maximum=1000", "sys.interval_s=1"]);
        let mut bystander = BackgroundClient::new(&broker, V5);
        let mut greedy = broker.connect(V5, "greedy");
        let mut is_disconnected = false;
        for alias in 1..=40 {
            let topic = format!("{alias}{}", "x".repeat(60_000));
            let publish = OutgoingPublish::new(&topic, AtMostOnce, b"").property(topic_alias(alias));
            greedy.send_publish(&publish);
            greedy.send(&Packet::PingReq);
            let answer = greedy.next();
            if let Packet::Disconnect(disconnect) = answer.as_packet() {
                assert_eq!(disconnect.reason, DisconnectReason::QuotaExceeded);
                assert!((3..18).contains(&alias), "{alias} aliases for topics of 60,000 bytes");
                is_disconnected = true;
                break;
            }
        }
        assert!(is_disconnected, "40 aliases for topics of 60,000 bytes");
        refusals_are_counted(&broker, 1);
        bystander.is_served();
        // Its memory is freed.
        let mut modest = broker.connect(V5, "modest");
        modest.subscribe("a", AtLeastOnce);
        modest.deliver(&OutgoingPublish::new("a", AtLeastOnce, b"1:").property(topic_alias(1)));
        modest.deliver(&OutgoingPublish::by_alias(1, AtLeastOnce, b"2:"));
        assert_eq!([1, 2], [number_of(modest.receive().payload()), number_of(modest.receive().payload())]);
    });
}

/// If no memory is left at all, new connections are refused, and accepted again when memory is free.
#[test]
fn connections_are_refused_without_free_memory() {
    every_case(|case: Case| {
        let broker = case.broker_set(&["limits.memory_bytes=1048576"]);
        create_offline_session(&broker, case.version, "waits", "waits", AtLeastOnce);
        let mut holders = Vec::new();
        // Wills fill the memory, the smaller ones the rest.
        for len in [12_000, 2_000, 200, 0] {
            let payload = vec![b'x'; len];
            let mut refused = false;
            for number in 0..10_000 {
                let client_id = format!("will-{len}-{number}");
                let connecting = broker.connecting(case.version, &client_id).will(WillMessage::new("w", &payload));
                let mut client = connecting.send_unless_closed();
                let accepted = match client.next_or_closed().as_ref().map(|packet| packet.as_packet()) {
                    Some(Packet::ConnAck(connack)) => connack.reason.as_u8() == 0,
                    Some(other) => panic!("expected CONNACK, got {other:?}"),
                    None => false,
                };
                refused = !accepted;
                if refused {
                    break;
                }
                holders.push(client);
            }
            assert!(refused, "wills of {len} bytes are never refused");
        }
        // Connected clients are served.
        for client in &mut holders {
            client.ping();
        }
        for client in holders {
            client.disconnect();
        }
        reconnect(&broker, case.version, "waits").ping();
    });
}
