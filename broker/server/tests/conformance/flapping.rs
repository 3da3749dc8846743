//! `limits.flapping_disconnects`: clients whose connections are lost again and again are refused for a while, and no others.

use std::time::Instant;

use crate::support::{AtLeastOnce, EXPECT_TIMEOUT, every_case, every_version};
use crate::sys::await_number;

const SETTINGS: [&str; 4] = [
    "limits.flapping_disconnects=3",
    "limits.flapping_window_s=3600",
    "limits.flapping_block_s=3600",
    "sys.interval_s=1",
];

/// Two devices with the same identifier take over from each other [MQTT-3.1.4-3] until one of them is refused.
#[test]
fn of_two_clients_with_one_identifier_one_is_served_eventually() {
    every_case(|case| {
        let broker = case.broker_set(&SETTINGS);
        let mut served = broker.connect(case.version, "twin");
        for _ in 0..3 {
            let other = broker.connect(case.version, "twin");
            served.packets_until_closed();
            served = other;
        }
        for _ in 0..3 {
            let code = broker.connecting(case.version, "twin").refused();
            assert_eq!(code, if case.version.is_v5() { 0x9f } else { 3 });
        }
        served.subscribe("a", AtLeastOnce);
        served.publish("a", AtLeastOnce, b"still here");
        assert_eq!(served.receive().text(), "still here");
        let mut witness = broker.connect(case.version, "witness");
        await_number(&mut witness, "tautwire/clients_flapping_blocked", |count| count == 1.0);
        await_number(&mut witness, "tautwire/connects_refused_flapping", |count| count == 3.0);
    });
}

/// Only connections that end without DISCONNECT count.
#[test]
fn a_client_that_sends_disconnect_can_reconnect_without_limit() {
    every_case(|case| {
        let broker = case.broker_set(&SETTINGS);
        for _ in 0..20 {
            let mut client = broker.connect(case.version, "polite");
            client.ping();
            client.disconnect();
        }
    });
}

/// Lost connections count, and those that the broker closes because of a protocol violation [MQTT-4.13.1-1].
#[test]
fn a_client_in_a_loop_is_refused() {
    every_version(|case| {
        let broker = case.broker_set(&SETTINGS);
        broker.connect(case.version, "loop").cut();
        for _ in 0..2 {
            // A lost connection may be noticed late; then the next connection takes over, which counts as well.
            let mut client = broker.connect(case.version, "loop");
            client.send_bytes(&[0xf0, 0xff, 0xff, 0xff, 0xff]);
            client.packets_until_closed();
        }
        assert_eq!(broker.connecting(case.version, "loop").refused(), if case.version.is_v5() { 0x9f } else { 3 });
        broker.connect(case.version, "another");
    });
}

#[test]
fn a_flapping_client_is_accepted_again_after_its_ban() {
    every_version(|case| {
        let broker = case.broker_set(&[
            "limits.flapping_disconnects=2",
            "limits.flapping_window_s=3600",
            "limits.flapping_block_s=1",
        ]);
        let mut first = broker.connect(case.version, "late");
        let second = broker.connect(case.version, "late");
        first.packets_until_closed();
        second.cut();
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        let mut was_refused = false;
        loop {
            assert!(Instant::now() < deadline, "the client is never accepted again");
            let mut client = broker.connecting(case.version, "late").send();
            let code = client.expect_connack_code();
            was_refused |= code != 0;
            if code == 0 && was_refused {
                break;
            }
        }
    });
}

#[test]
fn no_client_is_refused_without_flapping_detection() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.flapping_disconnects=0"]);
        let mut last = broker.connect(case.version, "twin");
        for _ in 0..100 {
            let next = broker.connect(case.version, "twin");
            last.packets_until_closed();
            last = next;
        }
        last.ping();
    });
}
