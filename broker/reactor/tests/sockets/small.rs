//! Tests small packets in odd pieces.

use std::thread;

use tautwire_protocol::{Packet, QoS};

use crate::client::{Client, publish_bytes, quiet, start};

const MESSAGES: usize = 3_000;

/// Sends the bytes in pieces of varying lengths.
fn write_in_pieces(client: &mut Client, bytes: &[u8]) {
    let mut rest = bytes;
    let mut length = 1;
    while !rest.is_empty() {
        let (piece, others) = rest.split_at(length.min(rest.len()));
        client.write(piece);
        rest = others;
        length = (length * 7 + 3) % 641 + 1;
    }
}

#[test]
fn packets_split_anywhere_arrive_whole_and_in_order() {
    for threads in [1, 2] {
        let broker = start(quiet(), threads);
        let mut subscriber = Client::connect(&broker, "subscriber");
        subscriber.subscribe("t/#", QoS::AtMostOnce);
        let mut publisher = Client::connect(&broker, "publisher");
        let writer = thread::spawn(move || {
            let packet = |n: usize| publish_bytes(&format!("t/{}", n % 7), None, false, n.to_string().as_bytes());
            let bytes: Vec<u8> = (0..MESSAGES).flat_map(packet).collect();
            write_in_pieces(&mut publisher, &bytes);
            publisher
        });
        for n in 0..MESSAGES {
            assert_eq!(subscriber.next_payload(), n.to_string().as_bytes());
        }
        drop(writer.join().expect("the publisher is served"));
    }
}

#[test]
fn acknowledgements_of_a_flood_arrive_in_order() {
    let broker = start(quiet(), 1);
    let mut publisher = Client::connect(&broker, "publisher");
    let mut writer = publisher.second_hand();
    let writing = thread::spawn(move || {
        let packet = |n: usize| publish_bytes("nobody", Some(n as u16), false, b"x");
        let bytes: Vec<u8> = (1..=MESSAGES).flat_map(packet).collect();
        write_in_pieces(&mut writer, &bytes);
    });
    for n in 1..=MESSAGES {
        let packet = publisher.next().expect("the connection is open");
        let Packet::PubAck(ack) = packet.as_packet() else { panic!("{packet:?}") };
        assert_eq!(usize::from(ack.packet_id.get()), n);
    }
    writing.join().expect("the publisher is served");
}
