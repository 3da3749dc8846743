//! MQTT 3.1, the predecessor of 3.1.1: its protocol name is MQIsdp, its level 3.

use tautwire_protocol::Packet;

use crate::support::{AtLeastOnce, Broker, ExactlyOnce, OutgoingPublish, V3_1, every_thread_count};

#[test]
fn mqtt_3_1_connects_publishes_and_subscribes() {
    let broker = Broker::start();
    let mut client = broker.connect(V3_1, "old");
    client.subscribe("a/b", ExactlyOnce);
    client.publish("a/b", ExactlyOnce, b"hello");
    assert_eq!(client.receive().text(), "hello");
}

/// Sections 2.1, 3.6, 3.8 and 3.10 of 3.1: the client sets DUP when it resends one of these. Each is sent twice, the first already with
/// DUP, as if the network had lost an earlier one.
#[test]
fn mqtt_3_1_accepts_resent_packets_with_dup() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut client = broker.connect(V3_1, "old");
        for _ in 0..2 {
            client.send_bytes(b"\x8a\x08\x00\x0a\x00\x03a/b\x02");
            assert_eq!(client.expect_suback(10), [2]);
        }
        client.send_publish_as(&OutgoingPublish::new("a/b", ExactlyOnce, b"once"), 11);
        client.expect_pubrec(11);
        for _ in 0..2 {
            client.send_bytes(b"\x6a\x02\x00\x0b");
            client.expect_pubcomp(11);
        }
        client.publish("a/b", AtLeastOnce, b"fence");
        assert_eq!(client.receive_texts(2), ["once", "fence"]);
        for _ in 0..2 {
            client.send_bytes(b"\xaa\x07\x00\x0c\x00\x03a/b");
            client.acknowledgement("UNSUBACK", |packet| match packet {
                Packet::UnsubAck(unsuback) if unsuback.packet_id.get() == 12 => Some(()),
                _ => None,
            });
        }
        client.publish("a/b", AtLeastOnce, b"nobody is subscribed");
        client.expect_nothing();
    });
}
