//! Tests packets larger than one read, and slow readers.

use std::thread;
use std::time::Instant;

use tautwire_engine::Settings;
use tautwire_protocol::QoS;

use crate::client::{Client, PATIENCE, pattern, publish_bytes, quiet, start};

#[test]
fn large_and_small_packets_arrive_intact_together() {
    // Nothing may be dropped, although the reader is slow.
    let broker = start(Settings { connection_output_bytes: 64 << 20, ..quiet() }, 1);
    let mut subscriber = Client::connect(&broker, "subscriber");
    subscriber.subscribe("t", QoS::AtMostOnce);
    let mut publisher = Client::connect(&broker, "publisher");
    let lengths = [300_000, 3, 5_000_000, 0, 262_144, 262_100, 4_096, 4_095, 300_000, 254_000, 1_000_000, 8_192, 1];
    let writer = thread::spawn(move || {
        for (n, length) in lengths.into_iter().enumerate() {
            publisher.write(&publish_bytes("t", None, false, &pattern(n, length)));
        }
        publisher
    });
    for (n, length) in lengths.into_iter().enumerate() {
        assert!(subscriber.next_payload() == pattern(n, length), "message {n} of {length} bytes");
    }
    drop(writer.join().expect("the publisher is served"));
}

#[test]
fn more_clients_than_pinned_buffers_can_send_large_packets() {
    const CLIENTS: usize = 48;
    let broker = start(quiet(), 1);
    let mut subscriber = Client::connect(&broker, "subscriber");
    subscriber.subscribe("t/+", QoS::AtLeastOnce);
    // Packets that fit into a chunk, and packets that do not.
    let length = |n: usize| if n.is_multiple_of(2) { 100_000 } else { 300_000 };
    let packet = |n: usize| publish_bytes(&format!("t/{n}"), Some(1), false, &pattern(n, length(n)));
    let mut publishers: Vec<Client> = (0..CLIENTS).map(|n| Client::connect(&broker, &format!("p{n}"))).collect();
    // A third of each in turn, so that all are in the middle of theirs at once.
    for part in 0..3 {
        for (n, publisher) in publishers.iter_mut().enumerate() {
            let bytes = packet(n);
            let third = bytes.len() / 3;
            let end = if part == 2 { bytes.len() } else { third * (part + 1) };
            publisher.write(&bytes[third * part..end]);
        }
    }
    let mut seen = [false; CLIENTS];
    for _ in 0..CLIENTS {
        let (topic, payload) = subscriber.next_message();
        let n: usize = topic.trim_start_matches("t/").parse().expect("a topic that was sent to");
        assert!(payload == pattern(n, length(n)), "message {n}");
        assert!(!std::mem::replace(&mut seen[n], true), "duplicate message {n}");
    }
}

#[test]
fn a_slow_reader_gets_everything_in_order() {
    const MESSAGES: usize = 60;
    let settings = Settings { connection_output_bytes: 300_000, ..quiet() };
    let broker = start(settings, 1);
    let mut subscriber = Client::connect(&broker, "subscriber");
    subscriber.subscribe("t", QoS::AtLeastOnce);
    let mut publisher = Client::connect(&broker, "publisher");
    for n in 0..MESSAGES {
        publisher.write(&publish_bytes("t", Some(n as u16 + 1), false, &pattern(n, 100_000)));
        // The broker has the message, and the subscriber reads nothing yet.
        assert!(publisher.next().is_some());
    }
    for n in 0..MESSAGES {
        assert!(subscriber.next_payload() == pattern(n, 100_000), "message {n}");
    }
}

#[test]
fn retained_messages_that_exceed_a_turn_all_arrive() {
    const MESSAGES: usize = 1_500;
    let broker = start(quiet(), 1);
    let mut publisher = Client::connect(&broker, "publisher");
    for n in 0..MESSAGES {
        publisher.write(&publish_bytes(&format!("r/{n}"), None, true, &pattern(n, 4_096)));
    }
    publisher.write(&publish_bytes("r/last", Some(1), true, b"x"));
    assert!(publisher.next().is_some(), "all are retained");
    let mut subscriber = Client::connect(&broker, "subscriber");
    subscriber.subscribe("r/#", QoS::AtMostOnce);
    for _ in 0..=MESSAGES {
        subscriber.next_payload();
    }
}

/// A large packet that arrives a few bytes at a time costs as much as its bytes, not its size each time.
#[test]
fn the_end_of_a_large_packet_can_arrive_byte_by_byte() {
    let broker = start(quiet(), 1);
    let mut publisher = Client::connect(&broker, "publisher");
    let packet = publish_bytes("t", Some(1), false, &pattern(1, 8_000_000));
    let (most, end) = packet.split_at(packet.len() - 3_000);
    let begun = Instant::now();
    publisher.write(most);
    for byte in end {
        publisher.write(&[*byte]);
    }
    assert!(publisher.next().is_some());
    assert!(begun.elapsed() < PATIENCE / 4, "took {:?}", begun.elapsed());
}
