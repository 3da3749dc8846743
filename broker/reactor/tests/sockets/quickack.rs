//! Tests clients whose kernel holds small packets back until ours has acknowledged the previous one.

use std::time::Instant;

use tautwire_protocol::QoS;

use crate::client::{Client, PATIENCE, publish_bytes, quiet, start};

/// Publishes to itself and acknowledges the messages: PUBACK is a separate write, followed by the next PUBLISH.
fn exchange(client: &mut Client, number: u16) {
    let text = number.to_string();
    client.write(&publish_bytes("own", Some(number), false, text.as_bytes()));
    assert_eq!(client.next_payload(), text.as_bytes());
    assert!(client.next().is_some(), "the broker acknowledges");
}

#[test]
#[cfg(target_os = "linux")]
fn a_client_that_waits_for_acknowledgements_gets_them_at_once() {
    for threads in [1, 2] {
        let broker = start(quiet(), threads);
        let mut client = Client::connect(&broker, "delaying");
        client.delay_small_packets();
        client.subscribe("own", QoS::AtLeastOnce);
        let begun = Instant::now();
        // After two delayed messages, each further one is acknowledged at once.
        for number in 1.. {
            exchange(&mut client, number);
            if broker.control().totals().quickacks_sent >= 20 {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{threads} threads: {number} messages, and none acknowledged at once");
        }
        assert_eq!(broker.control().totals().quickacks_disabled, 0, "{threads} threads");
    }
}

#[test]
fn a_client_that_sends_at_once_costs_no_system_call() {
    let broker = start(quiet(), 1);
    let mut client = Client::connect(&broker, "prompt");
    client.subscribe("own", QoS::AtLeastOnce);
    for number in 1..=500 {
        exchange(&mut client, number);
    }
    assert_eq!(broker.control().totals().quickacks_sent, 0);
}
