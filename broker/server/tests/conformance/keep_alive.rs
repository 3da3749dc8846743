//! Keep Alive.

use std::time::{Duration, Instant};

use tautwire_protocol::{DisconnectReason, Packet, ReasonCode};

use crate::support::{AtLeastOnce, AtMostOnce, Broker, EXPECT_TIMEOUT, V5, every_case, every_version, sleep};

/// [MQTT-3.1.2-22]; 3.1.1: [MQTT-3.1.2-24]
#[test]
fn a_silent_client_is_closed_after_one_and_a_half_times_its_keep_alive() {
    every_case(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "silent").keep_alive_s(1);
        let start = Instant::now();
        let mut client = connecting.open();
        client.expect_server_disconnect(ReasonCode::KeepAliveTimeout);
        let lasted = start.elapsed();
        assert!(lasted >= Duration::from_millis(1400), "closed after {lasted:?}");
    });
}

/// [MQTT-3.1.2-22]: any packet counts, not only PINGREQ.
#[test]
fn any_packet_keeps_a_client_alive() {
    every_version(|case| {
        let broker = case.broker();
        let mut client = broker.connecting(case.version, "busy").keep_alive_s(3).open();
        for round in 0..3 {
            sleep(Duration::from_millis(1600));
            match round % 3 {
                0 => client.ping(),
                1 => client.subscribe("a", AtLeastOnce),
                _ => _ = client.publish("b", AtMostOnce, b"x"),
            }
        }
        client.ping();
    });
}

/// [MQTT-3.1.2-22]: packets from the broker do not count.
#[test]
fn receiving_messages_does_not_keep_a_client_alive() {
    every_version(|case| {
        let broker = case.broker();
        let mut silent = broker.connecting(case.version, "silent").keep_alive_s(1).open();
        silent.subscribe("a", AtMostOnce);
        let mut publisher = broker.connect(case.version, "publisher");
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        loop {
            publisher.publish("a", AtMostOnce, b"x");
            match silent.next_or_closed() {
                Some(packet) if matches!(packet.as_packet(), Packet::Publish(_)) => {
                    assert!(Instant::now() < deadline, "still served {EXPECT_TIMEOUT:?} later");
                    sleep(Duration::from_millis(100));
                }
                Some(packet) => match packet.as_packet() {
                    Packet::Disconnect(disconnect) if case.version.is_v5() => {
                        break assert_eq!(disconnect.reason, DisconnectReason::KeepAliveTimeout);
                    }
                    other => panic!("expected PUBLISH or the end, got {other:?}"),
                },
                None => break assert!(!case.version.is_v5(), "closed without DISCONNECT"),
            }
        }
        silent.expect_closed();
    });
}

/// 3.1.2.10 of 5.0 and 3.1.1: a Keep Alive of 0 turns it off.
#[test]
fn a_keep_alive_of_zero_never_closes() {
    every_version(|case| {
        let broker = case.broker();
        let mut client = broker.connecting(case.version, "patient").keep_alive_s(0).open();
        sleep(Duration::from_millis(2000));
        client.ping();
    });
}

/// [MQTT-3.1.2-21], [MQTT-3.2.2-21]: the broker's own keep alive is imposed and announced.
#[test]
fn the_server_keep_alive_is_sent_and_used() {
    let broker = Broker::set(&["mqtt.max_keep_alive_s=1"]);
    let start = Instant::now();
    let none = broker.connecting(V5, "none").keep_alive_s(0).open();
    let long = broker.connecting(V5, "long").keep_alive_s(60).open();
    for mut client in [none, long] {
        assert_eq!(client.connack().properties.server_keep_alive(), Some(1));
        client.expect_server_disconnect(ReasonCode::KeepAliveTimeout);
        let lasted = start.elapsed();
        assert!(lasted >= Duration::from_millis(1400), "{lasted:?}");
    }
}

/// [MQTT-3.2.2-22]
#[test]
fn no_server_keep_alive_is_sent_when_the_clients_is_used() {
    let broker = Broker::set(&["mqtt.max_keep_alive_s=100"]);
    let client = broker.connecting(V5, "modest").keep_alive_s(100).open();
    assert!(matches!(client.connack().properties.server_keep_alive(), None | Some(100)));
}

/// [MQTT-3.1.2-22]: half a packet is not a packet.
#[test]
fn trickling_bytes_do_not_keep_a_client_alive() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.incomplete_packet_timeout_s=3600"]);
        let mut client = broker.connecting(case.version, "trickler").keep_alive_s(1).open();
        client.trickle_until_answered([0x30, 0xff, 0x7f].into_iter().chain(std::iter::repeat(0)));
        client.expect_server_disconnect(ReasonCode::KeepAliveTimeout);
    });
}
