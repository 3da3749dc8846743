//! At the limit of `limits.memory_bytes`: publishers are notified or paused, and acknowledged messages arrive.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tautwire_protocol::Packet;

use super::{
    KILOBYTE, MEGABYTE, QUOTA_EXCEEDED, create_offline_session, number_of, numbered, receive_numbers, reconnect,
};
use crate::support::{
    AtLeastOnce, Broker, Case, Client, ExactlyOnce, OutgoingPublish, ProtocolVersion, QoS, V3_1_1, V5, every_case,
    every_thread_count, options, packet_id,
};
use crate::sys::{await_live_number, await_live_numbers};

/// An explicit queue limit, so that a queue that takes too much memory is not full: publishers are refused.
const DEEP_QUEUES: &str = "limits.session_queue_bytes=1099511627776";
/// Enough clients that each of two threads has some of them.
const HOGS: usize = 6;

/// `limits.memory_bytes` limits all queues together. A 5.0 publisher is notified when it is reached, and every successfully acknowledged
/// message is queued for its subscriber, in order.
#[test]
fn all_queues_are_bounded_together_and_keep_acknowledged_messages() {
    every_case(|case| {
        const SESSIONS: usize = 20;
        let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=4000000", "sys.interval_s=1"]);
        let before = broker.resident_bytes();
        let qos = |number: usize| if number.is_multiple_of(2) { AtLeastOnce } else { ExactlyOnce };
        for number in 0..SESSIONS {
            create_offline_session(
                &broker,
                case.version,
                &format!("absent-{number}"),
                &format!("queue/{number}"),
                qos(number),
            );
        }
        let mut publisher = broker.connect(V5, "publisher");
        let mut kept: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let (mut refused, mut disconnected) = (0, 0);
        for round in 0..600 {
            let number = round % SESSIONS;
            let payload = numbered(round, 64 * KILOBYTE);
            match publish_or_reconnect(&broker, &mut publisher, &format!("queue/{number}"), qos(number), &payload) {
                Some(0) => kept.entry(number).or_default().push(round),
                Some(QUOTA_EXCEEDED) => refused += 1,
                Some(other) => panic!("answered with 0x{other:02x}"),
                None => disconnected += 1,
            }
        }
        let held_bytes = broker.resident_bytes().saturating_sub(before);
        assert!(held_bytes < 24 * MEGABYTE as u64, "the broker holds {held_bytes} bytes");
        assert!(refused > 100, "only {refused} were refused, and the publisher disconnected {disconnected} times");
        assert!(kept.values().flatten().count() >= SESSIONS, "{kept:?}");
        await_live_number(&mut publisher, "tautwire/publishes_refused_memory", |count| count == f64::from(refused));
        for (number, rounds) in kept {
            let mut client = reconnect(&broker, case.version, &format!("absent-{number}"));
            assert_eq!(receive_numbers(&mut client, rounds.len()), rounds);
            client.expect_nothing();
        }
        await_live_number(&mut publisher, "tautwire/dropped_memory_full", |count| count == 0.0);
    });
}

/// Publishes and completes the handshake. Returns the Reason Code. Without memory for an incomplete packet the publisher receives
/// DISCONNECT, and reconnects.
fn publish_or_reconnect(broker: &Broker, publisher: &mut Client, topic: &str, qos: QoS, payload: &[u8]) -> Option<u8> {
    let publish = OutgoingPublish::new(topic, qos, payload);
    let id = publisher.next_packet_id();
    let bytes = publisher.encoded(&Packet::Publish(publish.publish(id)));
    publisher.send_bytes_unless_closed(&bytes);
    let answer = publisher.next();
    match answer.as_packet() {
        Packet::PubAck(puback) => Some(puback.reason.as_u8()),
        Packet::PubRec(pubrec) if pubrec.reason.is_error() => Some(pubrec.reason.as_u8()),
        Packet::PubRec(_) => {
            publisher.send_pubrel(id.get());
            assert_eq!(publisher.expect_pubcomp(id.get()), 0);
            Some(0)
        }
        Packet::Disconnect(disconnect) => {
            assert_eq!(disconnect.reason.as_u8(), QUOTA_EXCEEDED);
            *publisher = broker.connect(V5, "publisher");
            None
        }
        other => panic!("expected an acknowledgement, got {other:?}"),
    }
}

/// 3.1.1 has no code for this: reading from the publisher pauses until there is memory. Later packets wait too.
#[test]
fn a_publisher_of_3_1_1_is_paused_until_memory_is_free() {
    every_case(|case| {
        const COUNT: usize = 130;
        const LEN: usize = 20 * KILOBYTE;
        let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=2097152", "sys.interval_s=1"]);
        let mut observer = broker.connect(V5, "observer");
        for name in 0..HOGS {
            let name = format!("absent-{name}");
            create_offline_session(&broker, case.version, &name, &name, AtLeastOnce);
            let mut publisher = broker.connect(V3_1_1, "publisher");
            let before = await_live_number(&mut observer, "tautwire/publishers_paused_for_memory", |_| true);
            let mut bytes = Vec::new();
            for number in 0..COUNT {
                let payload = numbered(number, LEN);
                let publish = OutgoingPublish::new(&name, AtLeastOnce, &payload);
                bytes.extend(publisher.encoded(&Packet::Publish(publish.publish(packet_id(number as u16 + 1)))));
            }
            bytes.extend(publisher.encoded(&Packet::PingReq));
            publisher.send_bytes(&bytes);
            await_live_numbers(&mut observer, |numbers| {
                assert_eq!(numbers["tautwire/resources_refused_memory"], 0.0, "{name}: the publisher was disconnected");
                let waits = numbers["tautwire/publishers_paused_for_memory"];
                if waits > before { Ok(()) } else { Err(format!("{name}: the publisher does not wait")) }
            });
            let (mut acknowledged, mut pinged) = (0, false);
            while let Some(packet) = publisher.next_before(Instant::now() + Duration::from_millis(100)) {
                match packet.as_packet() {
                    Packet::PubAck(puback) => {
                        acknowledged += 1;
                        assert_eq!(puback.packet_id.get(), acknowledged);
                    }
                    // It may be answered before the pending message.
                    Packet::PingResp if !pinged => pinged = true,
                    other => panic!("expected PUBACK, got {other:?}"),
                }
            }
            assert!((10..COUNT as u16).contains(&acknowledged), "{acknowledged} were acknowledged");

            let mut client = reconnect(&broker, case.version, &name);
            assert_eq!(receive_numbers(&mut client, COUNT), (0..COUNT).collect::<Vec<_>>());
            while (acknowledged, pinged) != (COUNT as u16, true) {
                match publisher.next().as_packet() {
                    Packet::PubAck(puback) => {
                        acknowledged += 1;
                        assert_eq!(puback.packet_id.get(), acknowledged);
                    }
                    Packet::PingResp if !pinged => pinged = true,
                    other => panic!("expected PUBACK or PINGRESP, got {other:?}"),
                }
            }
            client.unsubscribe(&[&name]);
            client.disconnect();
            publisher.disconnect();
        }
        await_live_number(&mut observer, "tautwire/dropped_memory_full", |count| count == 0.0);
    });
}

/// The memory is held by the paused client itself: its later acknowledgements are processed all the same.
#[test]
fn a_3_1_1_client_whose_acknowledgements_free_memory_is_not_stuck() {
    every_thread_count(|case| {
        // A session may hold about 410 messages. The broker looks for acknowledgements within one read.
        const COUNT: u16 = 418;
        let broker =
            case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=16777216", "limits.in_flight_per_client=65535"]);
        let mut client = broker.connect(V3_1_1, "client");
        client.subscribe("own", AtLeastOnce);
        let mut bytes = Vec::new();
        for id in 1..=COUNT {
            let payload = numbered(usize::from(id), 20 * KILOBYTE);
            let publish = OutgoingPublish::new("own", AtLeastOnce, &payload);
            bytes.extend(client.encoded(&Packet::Publish(publish.publish(packet_id(id)))));
        }
        client.send_bytes(&bytes);
        let (mut acknowledged, mut received) = (0, 0);
        while (acknowledged, received) != (COUNT, COUNT) {
            let packet = client.next();
            match packet.as_packet() {
                Packet::PubAck(_) => acknowledged += 1,
                Packet::Publish(publish) => {
                    received += 1;
                    assert_eq!(number_of(publish.payload), usize::from(received));
                    client.send_puback(publish.packet_id().expect("QoS 1").get());
                }
                other => panic!("expected PUBACK and PUBLISH, got {other:?}"),
            }
        }
    });
}

/// 3.1.1 clients that have each sent `count` messages of `len` bytes to `common`, waiting for acknowledgements.
fn flooding_publishers(broker: &Broker, publishers: usize, count: usize, len: usize) -> Vec<Client> {
    let mut publishers: Vec<Client> =
        (0..publishers).map(|number| broker.connect(V3_1_1, &format!("publisher-{number}"))).collect();
    for publisher in &mut publishers {
        let mut bytes = Vec::new();
        for number in 0..count {
            let payload = numbered(number, len);
            let publish = OutgoingPublish::new("common", AtLeastOnce, &payload);
            bytes.extend(publisher.encoded(&Packet::Publish(publish.publish(packet_id(number as u16 + 1)))));
        }
        publisher.send_bytes_unless_closed(&bytes);
    }
    publishers
}

/// Reconnects the client of `create_offline_session`, which receives all messages of the publishers, and each publisher is answered.
fn drain(broker: &Broker, publishers: Vec<Client>, count: usize) {
    let mut client = reconnect(broker, V3_1_1, "absent");
    let all = publishers.len() * count;
    assert_eq!(receive_numbers(&mut client, all).len(), all);
    for mut publisher in publishers {
        (1..=count as u16).for_each(|id| assert_eq!(publisher.expect_puback(id), 0));
    }
}

/// Many paused publishers, each with more data than the broker reads at a time, stay connected: the data waits in their sockets.
#[test]
fn publishers_of_3_1_1_that_wait_for_memory_stay_connected() {
    every_thread_count(|case| {
        const PUBLISHERS: usize = 12;
        const COUNT: usize = 60;
        const LEN: usize = 12 * KILOBYTE;
        let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=1048576", "sys.interval_s=1"]);
        let mut observer = broker.connect(V5, "observer");
        create_offline_session(&broker, V3_1_1, "absent", "common", AtLeastOnce);
        let publishers = flooding_publishers(&broker, PUBLISHERS, COUNT, LEN);
        // Each of them is paused.
        await_live_number(&mut observer, "tautwire/publishers_paused_for_memory", |count| count >= PUBLISHERS as f64);
        await_live_number(&mut observer, "tautwire/resources_refused_memory", |count| count == 0.0);
        drain(&broker, publishers, COUNT);
    });
}

/// The same if incomplete messages alone take all the memory: one after the other is completed.
#[test]
fn publishers_of_3_1_1_with_incomplete_large_messages_stay_connected() {
    every_thread_count(|case| {
        const PUBLISHERS: usize = 10;
        const COUNT: usize = 8;
        const LEN: usize = 200 * KILOBYTE;
        let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=1500000", "sys.interval_s=1"]);
        let mut observer = broker.connect(V5, "observer");
        create_offline_session(&broker, V3_1_1, "absent", "common", AtLeastOnce);
        let publishers = flooding_publishers(&broker, PUBLISHERS, COUNT, LEN);
        await_live_number(&mut observer, "tautwire/publishers_paused_for_memory", |count| count >= PUBLISHERS as f64);
        drain(&broker, publishers, COUNT);
        await_live_number(&mut observer, "tautwire/resources_refused_memory", |count| count == 0.0);
    });
}

/// A paused publisher can disconnect, and its messages are accepted when it resends them.
#[test]
fn a_publisher_of_3_1_1_that_waits_for_memory_can_reconnect() {
    every_thread_count(|case| {
        const LEN: usize = 150 * KILOBYTE;
        let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=2097152", "sys.interval_s=1"]);
        let mut observer = broker.connect(V5, "observer");
        create_offline_session(&broker, V3_1_1, "absent", "a", ExactlyOnce);
        let mut publisher = broker.connecting(V3_1_1, "publisher").persistent().open();
        let before = await_live_number(&mut observer, "tautwire/publishers_paused_for_memory", |_| true);
        for number in 0..12 {
            let payload = numbered(number, LEN);
            publisher.send_publish_as(&OutgoingPublish::new("a", ExactlyOnce, &payload), number as u16 + 1);
        }
        await_live_number(&mut observer, "tautwire/publishers_paused_for_memory", |count| count > before);
        // Some have been received, and the publisher does not know which.
        drop(publisher);
        let mut publisher = broker.connecting(V3_1_1, "publisher").persistent().open();
        let mut client = reconnect(&broker, V3_1_1, "absent");
        for id in 1..=12 {
            let payload = numbered(usize::from(id) - 1, LEN);
            publisher.send_publish_as(&OutgoingPublish::new("a", ExactlyOnce, &payload).dup(), id);
        }
        let numbers: Vec<usize> = receive_numbers(&mut client, 12);
        assert_eq!(numbers, (0..12).collect::<Vec<_>>());
        for id in 1..=12 {
            publisher.expect_pubrec(id);
        }
        for id in 1..=12 {
            publisher.send_pubrel(id);
            assert_eq!(publisher.expect_pubcomp(id), 0);
        }
        client.expect_nothing();
    });
}

/// Publishes to `hog` until refused. Returns the number of accepted messages.
#[track_caller]
fn fill(publisher: &mut Client, hog: &str, len: usize) -> usize {
    fill_from(publisher, hog, 0, len)
}

/// The same, with messages numbered from `first`.
#[track_caller]
fn fill_from(publisher: &mut Client, hog: &str, first: usize, len: usize) -> usize {
    // No test here lets the broker hold this much.
    let most = 20 * MEGABYTE / len;
    let refused = (0..most).find(|number| match publisher.publish(hog, AtLeastOnce, &numbered(first + number, len)) {
        0 => false,
        QUOTA_EXCEEDED => true,
        other => panic!("answered with 0x{other:02x}"),
    });
    refused.unwrap_or_else(|| panic!("{hog} is not limited"))
}

/// A message of another publisher to an empty session is stored.
fn expect_unrelated_publish_stored(broker: &Broker, version: ProtocolVersion, qos: QoS) {
    for number in 0..HOGS {
        let name = format!("modest-{number}");
        create_offline_session(broker, version, &name, &name, qos);
        let mut stranger = broker.connect(V5, "stranger");
        assert_eq!(stranger.publish(&name, qos, b"small"), 0);
        let mut client = reconnect(broker, version, &name);
        assert_eq!(client.receive().text(), "small");
        client.expect_nothing();
    }
}

/// One session at its limit leaves memory for others, whichever threads they are on.
#[test]
fn one_offline_client_cannot_exhaust_memory_of_others() {
    every_case(|case| {
        let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=4000000"]);
        let mut publisher = broker.connect(V5, "publisher");
        for number in 0..HOGS {
            let name = format!("hog-{number}");
            create_offline_session(&broker, case.version, &name, &name, AtLeastOnce);
            let given = fill(&mut publisher, &name, 64 * KILOBYTE);
            assert!(given >= 10, "{name} got {given}");
            expect_unrelated_publish_stored(&broker, case.version, ExactlyOnce);
            let mut hog = reconnect(&broker, case.version, &name);
            assert_eq!(receive_numbers(&mut hog, given), (0..given).collect::<Vec<_>>());
            hog.expect_nothing();
        }
    });
}

/// The same for a connected client that acknowledges nothing.
#[test]
fn one_client_that_acknowledges_nothing_cannot_exhaust_memory_of_others() {
    every_case(|case| {
        let broker =
            case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=4000000", "limits.in_flight_per_client=65535"]);
        let mut publisher = broker.connect(V5, "publisher");
        for number in 0..HOGS {
            let name = format!("hog-{number}");
            let mut hog = broker.connect(case.version, &name);
            hog.subscribe(&name, AtLeastOnce);
            let given = fill(&mut publisher, &name, 64 * KILOBYTE);
            assert!(given >= 10, "{name} got {given}");
            expect_unrelated_publish_stored(&broker, case.version, AtLeastOnce);
            assert_eq!(receive_numbers(&mut hog, given), (0..given).collect::<Vec<_>>());
            hog.expect_nothing();
        }
    });
}

/// Messages in one burst are no exception, whichever thread the hog is on.
#[test]
fn one_burst_cannot_exhaust_memory_of_others() {
    every_case(|case| {
        const COUNT: u16 = 600;
        let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=2000000"]);
        for number in 0..HOGS {
            let name = format!("hog-{number}");
            create_offline_session(&broker, case.version, &name, &name, AtLeastOnce);
            let mut publisher = broker.connect(V5, "publisher");
            let payload = numbered(0, 4 * KILOBYTE);
            let publish = OutgoingPublish::new(&name, AtLeastOnce, &payload);
            let packets = (1..=COUNT).map(|id| Packet::Publish(publish.publish(packet_id(id))));
            let bytes: Vec<u8> = packets.flat_map(|packet| publisher.encoded(&packet)).collect();
            publisher.send_bytes(&bytes);
            let kept = (1..=COUNT).filter(|id| publisher.expect_puback(*id) == 0).count();
            assert!((100..COUNT.into()).contains(&kept), "{kept} were kept");
            expect_unrelated_publish_stored(&broker, case.version, AtLeastOnce);
            let mut hog = reconnect(&broker, case.version, &name);
            assert_eq!(receive_numbers(&mut hog, kept).len(), kept);
            hog.expect_nothing();
        }
    });
}

/// A client with very many subscriptions is no exception.
#[test]
fn one_client_with_many_filters_cannot_exhaust_memory_of_others() {
    every_case(|case| {
        const FILTERS: usize = 1_500;
        let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=8000000"]);
        let mut publisher = broker.connect(V5, "publisher");
        let mut hog = broker.connecting(case.version, "hog").persistent().open();
        let names: Vec<String> = (0..FILTERS).map(|number| format!("hog/{number}")).collect();
        let filters: Vec<_> = names.iter().map(|name| (name.as_str(), options(AtLeastOnce))).collect();
        assert_eq!(hog.subscribe_all(&filters, &[]), vec![1; FILTERS]);
        hog.disconnect();
        let mut kept = Vec::new();
        // Smaller messages take what larger ones leave.
        for (round, name) in names.iter().enumerate() {
            let len = [64 * KILOBYTE, KILOBYTE, 16][round / 500];
            if publisher.publish(name, AtLeastOnce, &numbered(round, len)) == 0 {
                kept.push(round);
            }
        }
        expect_unrelated_publish_stored(&broker, case.version, AtLeastOnce);
        let mut hog = reconnect(&broker, case.version, "hog");
        assert_eq!(receive_numbers(&mut hog, kept.len()), kept);
    });
}

/// When a hog has caught up, its filters accept messages again, on all threads.
#[test]
fn a_client_that_has_caught_up_is_served_again() {
    every_case(|case| {
        let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=2000000"]);
        for number in 0..HOGS {
            let (hog, publisher) = (format!("hog-{number}"), format!("publisher-{number}"));
            create_offline_session(&broker, case.version, &hog, &hog, AtLeastOnce);
            let mut publisher = broker.connect(V5, &publisher);
            for _ in 0..3 {
                let given = fill(&mut publisher, &hog, 32 * KILOBYTE);
                assert!(given >= 10, "{hog} got {given}");
                let mut client = reconnect(&broker, case.version, &hog);
                assert_eq!(receive_numbers(&mut client, given), (0..given).collect::<Vec<_>>());
                // The last acknowledgement has been processed.
                client.expect_nothing();
                client.disconnect();
            }
        }
    });
}

/// Unsubscribing or ending the session reopens the filters of a hog for others.
#[test]
fn filters_of_a_removed_hog_are_unblocked() {
    every_case(|case| {
        let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=2000000", "sys.interval_s=1"]);
        let mut publisher = broker.connect(V5, "publisher");
        for number in 0..HOGS {
            let hog = format!("hog-{number}");
            create_offline_session(&broker, case.version, &hog, "common", AtLeastOnce);
            let mut other = broker.connect(case.version, "other");
            other.subscribe("common", AtLeastOnce);
            let given = fill(&mut publisher, "common", 32 * KILOBYTE);
            assert_eq!(receive_numbers(&mut other, given), (0..given).collect::<Vec<_>>());
            // Acknowledged messages are no longer held for it.
            other.ping();
            if number.is_multiple_of(2) {
                broker.connect(case.version, &hog).disconnect();
            } else {
                // After UNSUBSCRIBE it still holds its messages.
                let mut client = reconnect(&broker, case.version, &hog);
                client.unsubscribe(&["common"]);
            }
            assert_eq!(publisher.publish("common", AtLeastOnce, b"9:"), 0);
            assert_eq!(number_of(other.receive().payload()), 9);
            broker.connect(case.version, &hog).disconnect();
            other.disconnect();
        }
    });
}

/// A message in many sessions is stored once, and counts once.
#[test]
fn a_payload_shared_by_many_sessions_counts_once() {
    // Each counts once, whether separate copies would fit or not.
    every_case(|case| [5, 20].into_iter().for_each(|sessions| check_shared_payload(case, sessions)));
}

fn check_shared_payload(case: Case, sessions: usize) {
    let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=8388608"]);
    for number in 0..sessions {
        create_offline_session(&broker, case.version, &format!("absent-{number}"), "common", AtLeastOnce);
    }
    create_offline_session(&broker, case.version, "other", "other", AtLeastOnce);
    let mut publisher = broker.connect(V5, "publisher");
    let large = 3;
    for number in 0..large {
        let reason = publisher.publish("common", AtLeastOnce, &numbered(number, MEGABYTE));
        assert_eq!(reason, 0, "message {number} of 1 MiB fits into 8 MiB");
    }
    let given = large + fill_from(&mut publisher, "common", large, 64 * KILOBYTE);
    assert!(given < 128, "{given} messages fit into 8 MiB");
    let mut stranger = broker.connect(V5, "stranger");
    assert_eq!(stranger.publish("other", AtLeastOnce, b"small"), 0);
    assert_eq!(reconnect(&broker, case.version, "other").receive().text(), "small");
    for number in 0..sessions {
        let mut client = reconnect(&broker, case.version, &format!("absent-{number}"));
        assert_eq!(receive_numbers(&mut client, given), (0..given).collect::<Vec<_>>());
        client.expect_nothing();
    }
}

/// Retained messages and messages for shared subscriptions are accepted or refused like any other.
#[test]
fn retained_and_shared_messages_are_not_lost() {
    every_case(|case: Case| {
        const MANY: usize = 100;
        let broker = case.broker_set(&[DEEP_QUEUES, "limits.memory_bytes=2000000"]);
        let mut publisher = broker.connect(V5, "publisher");
        create_offline_session(&broker, case.version, "member", "$share/group/work/#", AtLeastOnce);
        create_offline_session(&broker, case.version, "keeper", "kept/#", AtLeastOnce);
        let mut kept = Vec::new();
        for number in 0..MANY {
            let payload = numbered(number, 32 * KILOBYTE);
            let topic = format!("kept/{number}");
            let reason = publisher.deliver(&OutgoingPublish::new(&topic, AtLeastOnce, &payload).retained());
            assert!(reason == 0 || reason == QUOTA_EXCEEDED, "0x{reason:02x}");
            if reason == 0 {
                kept.push(number);
            }
        }
        let shared = fill(&mut publisher, "work/x", 32 * KILOBYTE);
        assert!(shared >= 5 && kept.len() < MANY, "{shared} shared, {} retained", kept.len());
        let mut member = reconnect(&broker, case.version, "member");
        assert_eq!(receive_numbers(&mut member, shared), (0..shared).collect::<Vec<_>>());
        member.expect_nothing();
        let mut keeper = reconnect(&broker, case.version, "keeper");
        assert_eq!(receive_numbers(&mut keeper, kept.len()), kept);
        keeper.expect_nothing();
        // A refused message is not retained.
        let mut late = broker.connect(case.version, "late");
        late.subscribe("kept/#", AtLeastOnce);
        let mut retained = receive_numbers(&mut late, kept.len());
        retained.sort_unstable();
        assert_eq!(retained, kept);
        late.expect_nothing();
    });
}

/// One setting limits the process, whatever else is set.
#[test]
fn the_process_respects_its_memory_limit() {
    const LIMIT_BYTES: u64 = 96 << 20;
    let broker = Broker::set(&[&format!("memory.limit={LIMIT_BYTES}"), "limits.session_queue_bytes=1000000000"]);
    broker.connecting(V5, "away").persistent().open().subscribe("queue/#", AtLeastOnce);
    let mut publisher = broker.connect(V5, "publisher");
    let payload = vec![b'x'; 100_000];
    let mut until_refused = |outgoing: &dyn Fn(usize) -> String, retained: bool| {
        (0..2_000).find(|number| {
            let topic = outgoing(*number);
            let message = OutgoingPublish::new(&topic, AtLeastOnce, &payload);
            publisher.deliver(&if retained { message.retained() } else { message }) == 0x97
        })
    };
    let queued = until_refused(&|_| "queue/x".to_owned(), false).expect("it is refused eventually");
    let retained = until_refused(&|number| format!("kept/{number}"), true).expect("it is refused eventually");
    assert!(queued > 50 && retained > 50, "{queued} were queued and {retained} retained");
    assert!(broker.resident_bytes() <= LIMIT_BYTES, "{} bytes", broker.resident_bytes());
}
