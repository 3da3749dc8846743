//! `limits.session_queue_bytes`: queued messages, and messages that are sent and not acknowledged.

use tautwire_protocol::ReasonCode;

use super::{KILOBYTE, MEGABYTE, create_offline_session, number_of, numbered, receive_numbers, reconnect};
use crate::support::property::receive_maximum;
use crate::support::{AtLeastOnce, Broker, Case, Client, V5, every_case};
use crate::sys::await_live_number;

/// `limits.slow_consumer=drop_old`: a large message displaces as many old ones as necessary.
#[test]
fn the_oldest_messages_are_dropped_until_a_large_one_fits() {
    every_case(|case| {
        const SMALL: usize = 2_000;
        const LARGE: usize = 30;
        let broker = case.broker_set(&[
            "limits.slow_consumer=drop_old",
            "limits.session_queue_bytes=8388608",
            "sys.interval_s=1",
        ]);
        create_offline_session(&broker, case.version, "absent", "a", AtLeastOnce);
        let mut publisher = broker.connect(case.version, "publisher");
        for number in 0..SMALL {
            publisher.publish("a", AtLeastOnce, &numbered(number, KILOBYTE));
        }
        let before = broker.resident_bytes();
        for number in 0..LARGE {
            publisher.publish("a", AtLeastOnce, &numbered(SMALL + number, 3_000_000));
        }
        // Two of them fit, and the buffers of a publisher of such messages.
        let held_bytes = broker.resident_bytes().saturating_sub(before);
        assert!(held_bytes < 40 * MEGABYTE as u64, "the broker holds {held_bytes} bytes");
        // Each dropped message is counted.
        let mut observer = broker.connect(V5, "observer");
        let dropped = SMALL + LARGE - 2;
        await_live_number(&mut observer, "tautwire/dropped_queue_full", |count| count == dropped as f64);
        let mut client = reconnect(&broker, case.version, "absent");
        assert_eq!(receive_numbers(&mut client, 2), [dropped, dropped + 1]);
        client.expect_nothing();
    });
}

/// A queue with a large message at its front loses no more than necessary.
#[test]
fn only_as_many_of_the_oldest_are_dropped_as_necessary() {
    every_case(|case| {
        let settings = ["limits.slow_consumer=drop_old", "limits.session_queue_bytes=1000000", "sys.interval_s=1"];
        let broker = case.broker_set(&settings);
        create_offline_session(&broker, case.version, "absent", "a", AtLeastOnce);
        let mut publisher = broker.connect(case.version, "publisher");
        for (number, len) in [(0, 300_000), (1, 300_000), (2, 300_000), (3, 650_000), (4, 10_000), (5, 20_000)] {
            publisher.publish("a", AtLeastOnce, &numbered(number, len));
        }
        // With two threads they may still be in transit. Messages already sent to the client cannot be dropped.
        let mut observer = broker.connect(V5, "observer");
        await_live_number(&mut observer, "tautwire/dropped_queue_full", |count| count == 2.0);
        let mut client = reconnect(&broker, case.version, "absent");
        assert_eq!(receive_numbers(&mut client, 4), [2, 3, 4, 5]);
        client.expect_nothing();
    });
}

/// Publishes 20 messages of about 1 MiB to a subscriber that acknowledges nothing and whose session may hold four of them.
fn window_of_four(case: Case, broker: &Broker) -> Client {
    let mut connecting = broker.connecting(case.version, "subscriber");
    if case.version.is_v5() {
        connecting = connecting.property(receive_maximum(65_535));
    }
    let mut subscriber = connecting.open();
    subscriber.subscribe("a", AtLeastOnce);
    let mut publisher = broker.connect(case.version, "publisher");
    for number in 0..20 {
        publisher.publish("a", AtLeastOnce, &numbered(number, 1_000_000));
        // It reads at once: a disconnected client has two seconds to read pending output.
        if number < 4 {
            assert_eq!(number_of(subscriber.expect_publish().payload()), number);
        }
    }
    subscriber
}

const WINDOW: [&str; 3] =
    ["limits.session_queue_bytes=4194304", "limits.in_flight_per_client=65535", "sys.interval_s=1"];

/// Unacknowledged messages count too, with `limits.slow_consumer=drop_new` and `drop_old`.
#[test]
fn unacknowledged_messages_are_limited_by_the_session_limit() {
    every_case(|case| {
        for choice in ["limits.slow_consumer=drop_new", "limits.slow_consumer=drop_old"] {
            let broker = case.broker_set(&[&WINDOW[..], &[choice]].concat());
            let mut subscriber = window_of_four(case, &broker);
            subscriber.expect_nothing();
            let mut observer = broker.connect(V5, "observer");
            await_live_number(&mut observer, "tautwire/dropped_queue_full", |count| count == 16.0);
        }
    });
}

/// The same with `limits.slow_consumer=disconnect`.
#[test]
fn a_client_that_acknowledges_nothing_is_disconnected_where_configured() {
    every_case(|case| {
        let broker = case.broker_set(&[&WINDOW[..], &["limits.slow_consumer=disconnect"]].concat());
        let mut subscriber = window_of_four(case, &broker);
        subscriber.expect_server_disconnect(ReasonCode::QuotaExceeded);
    });
}

/// Acknowledgements make room again.
#[test]
fn acknowledgements_free_the_window() {
    every_case(|case| {
        let broker = case.broker_set(&WINDOW);
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("a", AtLeastOnce);
        let mut publisher = broker.connect(case.version, "publisher");
        for number in 0..40 {
            publisher.publish("a", AtLeastOnce, &numbered(number, 1_000_000));
            assert_eq!(number_of(subscriber.receive().payload()), number);
            // The acknowledgement has been processed.
            subscriber.ping();
        }
    });
}

/// `limits.session_queue_bytes` is the operator's choice and overrides the memory share: drops because of it do not count as lack of
/// memory, and the publisher gets a success.
#[test]
fn configured_drops_still_happen() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.session_queue_bytes=100000", "sys.interval_s=1"]);
        create_offline_session(&broker, case.version, "absent", "a", AtLeastOnce);
        let mut publisher = broker.connect(V5, "publisher");
        for number in 0..20 {
            assert_eq!(publisher.publish("a", AtLeastOnce, &numbered(number, 30_000)), 0);
        }
        await_live_number(&mut publisher, "tautwire/dropped_queue_full", |count| count == 17.0);
        assert_eq!(receive_numbers(&mut reconnect(&broker, case.version, "absent"), 3), [0, 1, 2]);
    });
}
