//! Sessions: start, persistence, resumption, takeover and end.

use std::time::Duration;

use tautwire_protocol::{DisconnectReason, Property, ReasonCode};

use crate::support::property::subscription_identifier;
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, ExactlyOnce, NEVER, OutgoingPublish, V3_1_1, V5, every_case, every_thread_count,
    expect_nothing_from, options, sleep,
};
use crate::sys::await_number;

/// [MQTT-3.1.2-5], [MQTT-3.1.2-23], [MQTT-3.2.2-3], [MQTT-4.5.0-1]; 3.1.1: [MQTT-3.1.2-4], [MQTT-3.1.2-5]
#[test]
fn a_resumed_session_has_its_subscriptions_and_queued_messages() {
    every_case(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "sleeper").persistent();
        let mut sleeper = connecting.open();
        assert!(!sleeper.session_present());
        sleeper.subscribe("news/#", ExactlyOnce);
        sleeper.disconnect();

        let mut publisher = broker.connect(case.version, "publisher");
        publisher.publish("news/one", AtLeastOnce, b"1");
        publisher.publish("news/one", ExactlyOnce, b"2");
        publisher.publish("news/one", AtLeastOnce, b"3");

        let mut sleeper = connecting.open();
        assert!(sleeper.session_present());
        assert_eq!(sleeper.receive_texts(3), ["1", "2", "3"]);
        publisher.publish("news/two", AtMostOnce, b"live");
        assert_eq!(sleeper.receive().text(), "live");
    });
}

/// [MQTT-3.1.2-5]: the same after the connection broke without DISCONNECT.
#[test]
fn a_session_survives_a_broken_connection() {
    every_case(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "broken").persistent();
        let mut client = connecting.open();
        client.subscribe("news", AtLeastOnce);
        client.cut();
        let mut publisher = broker.connect(case.version, "publisher");
        publisher.publish("news", AtLeastOnce, b"kept");
        let mut client = connecting.open();
        assert!(client.session_present());
        assert_eq!(client.receive().text(), "kept");
    });
}

/// [MQTT-3.1.2-4], [MQTT-3.2.2-2]; 3.1.1: [MQTT-3.1.2-6], [MQTT-3.2.2-1]
#[test]
fn a_clean_start_discards_the_session() {
    every_case(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "fresh").persistent();
        let mut client = connecting.open();
        client.subscribe("news", AtLeastOnce);
        client.disconnect();
        let mut publisher = broker.connect(case.version, "publisher");
        publisher.publish("news", AtLeastOnce, b"discarded");

        let mut client = connecting.clone().clean_start(true).open();
        assert!(!client.session_present());
        publisher.publish("news", AtLeastOnce, b"not subscribed");
        expect_nothing_from(&mut publisher, &mut client);
    });
}

/// 3.1.1: [MQTT-3.1.2-6]: a clean session ends with its connection.
#[test]
fn a_clean_session_of_3_1_1_ends_with_its_connection() {
    let broker = Broker::start();
    let mut client = broker.connect(V3_1_1, "brief");
    client.subscribe("news", AtLeastOnce);
    client.disconnect();
    let client = broker.connecting(V3_1_1, "brief").clean_start(false).open();
    assert!(!client.session_present());
}

/// 3.1.2.11.2 of 5.0: an absent Session Expiry Interval is 0. [MQTT-4.1.0-2]
#[test]
fn a_session_without_expiry_interval_ends_with_its_connection() {
    every_thread_count(|case| {
        let broker = case.broker();
        for end_by_cut in [false, true] {
            let mut client = broker.connecting(V5, "brief").clean_start(false).open();
            assert!(!client.session_present());
            client.subscribe("news", AtLeastOnce);
            if end_by_cut { client.cut() } else { client.disconnect() }
        }
        let again = broker.connecting(V5, "brief").clean_start(false).open();
        assert!(!again.session_present());
    });
}

/// [MQTT-4.1.0-2], [MQTT-3.1.2-23]
#[test]
fn a_session_ends_when_its_expiry_interval_has_passed() {
    every_thread_count(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(V5, "expiring").clean_start(false).session_expiry_s(3);
        let mut client = connecting.open();
        client.subscribe("news", AtLeastOnce);
        client.disconnect();
        // Reconnected in time: the session still exists.
        let client = connecting.open();
        assert!(client.session_present());
        client.disconnect();
        sleep(Duration::from_millis(4200));
        let client = connecting.open();
        assert!(!client.session_present());
    });
}

/// [MQTT-4.1.0-1]: the interval counts from the end of the connection, not from its start.
#[test]
fn a_session_does_not_expire_while_connected() {
    let broker = Broker::start();
    let connecting = broker.connecting(V5, "connected").clean_start(false).session_expiry_s(1);
    let mut client = connecting.open();
    client.subscribe("news", AtLeastOnce);
    sleep(Duration::from_millis(2200));
    client.publish("news", AtLeastOnce, b"still here");
    assert_eq!(client.receive().text(), "still here");
    client.disconnect();
    assert!(connecting.open().session_present());
}

/// 3.14.2.2.2 of 5.0
#[test]
fn an_expiry_interval_of_zero_on_disconnect_ends_the_session() {
    every_thread_count(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(V5, "ending").clean_start(false).session_expiry_s(NEVER);
        connecting.open().disconnect_as(DisconnectReason::NormalDisconnection, &[Property::SessionExpiryInterval(0)]);
        assert!(!connecting.open().session_present());
    });
}

/// 3.14.2.2.2 of 5.0
#[test]
fn an_expiry_interval_on_disconnect_replaces_the_one_of_connect() {
    every_thread_count(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(V5, "changing").clean_start(false);
        let long = connecting.clone().session_expiry_s(NEVER);
        long.open().disconnect_as(DisconnectReason::NormalDisconnection, &[Property::SessionExpiryInterval(3)]);
        assert!(connecting.clone().session_expiry_s(3).open().session_present());

        let short = broker.connecting(V5, "lengthened").clean_start(false).session_expiry_s(1);
        short.open().disconnect_as(DisconnectReason::NormalDisconnection, &[Property::SessionExpiryInterval(NEVER)]);
        sleep(Duration::from_millis(4200));
        assert!(short.open().session_present());
        assert!(!long.open().session_present());
    });
}

/// 3.14.2.2.2 of 5.0: from zero the interval cannot be changed, which is a Protocol Error.
#[test]
fn an_expiry_interval_on_disconnect_after_zero_on_connect_is_refused() {
    let broker = Broker::start();
    for connecting in [broker.connecting(V5, "absent"), broker.connecting(V5, "zero").session_expiry_s(0)] {
        let mut client = connecting.open();
        client.send_bytes(&[0xe0, 7, 0x00, 5, 0x11, 0, 0, 0, 10]);
        assert_eq!(client.expect_disconnect(), 0x82);
    }
}

/// 3.2.2.3.2 of 5.0: the server announces it if it uses another Session Expiry Interval.
#[test]
fn the_session_expiry_interval_is_capped_and_sent_in_connack() {
    let broker = Broker::set(&["mqtt.max_session_expiry_s=1"]);
    let connecting = broker.connecting(V5, "capped").clean_start(false).session_expiry_s(3600);
    let client = connecting.open();
    assert_eq!(client.connack().properties.session_expiry_interval(), Some(1));
    client.disconnect();
    sleep(Duration::from_millis(2200));
    assert!(!connecting.open().session_present());
}

/// 3.2.2.3.2 of 5.0
#[test]
fn a_session_expiry_interval_within_the_cap_is_unchanged() {
    let broker = Broker::set(&["mqtt.max_session_expiry_s=100"]);
    let client = broker.connecting(V5, "modest").session_expiry_s(99).open();
    assert!(matches!(client.connack().properties.session_expiry_interval(), None | Some(99)));
}

/// [MQTT-3.1.4-3]; 3.1.1: [MQTT-3.1.4-2]
#[test]
fn a_second_connection_takes_the_session_over() {
    every_case(|case| {
        let broker = case.broker();
        for client_id in ["one", "two", "three", "four"] {
            let connecting = broker.connecting(case.version, client_id).persistent();
            let mut first = connecting.open();
            first.subscribe(client_id, AtLeastOnce);
            let mut second = connecting.open();
            assert!(second.session_present());
            first.expect_server_disconnect(ReasonCode::SessionTakenOver);
            second.publish(client_id, AtLeastOnce, b"mine now");
            assert_eq!(second.receive().text(), "mine now");
        }
    });
}

/// [MQTT-3.1.4-3], [MQTT-3.1.2-4]
#[test]
fn a_clean_start_disconnects_the_first_connection_and_ends_its_session() {
    every_case(|case| {
        let broker = case.broker();
        let mut first = broker.connecting(case.version, "same").persistent().open();
        first.subscribe("a", AtLeastOnce);
        let mut second = broker.connect(case.version, "same");
        assert!(!second.session_present());
        first.expect_server_disconnect(ReasonCode::SessionTakenOver);
        second.publish("a", AtLeastOnce, b"x");
        second.expect_nothing();
    });
}

/// [MQTT-3.1.4-3]: if the first connection's session ends with it [3.1.2.11.2], the second starts a new one.
#[test]
fn a_takeover_of_a_session_without_expiry_starts_or_resumes_it() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut first = broker.connecting(V5, "same").clean_start(false).open();
        first.subscribe("a", AtLeastOnce);
        let mut second = broker.connecting(V5, "same").clean_start(false).open();
        first.expect_server_disconnect(ReasonCode::SessionTakenOver);
        // Session present or not, CONNACK must be correct.
        let resumed = second.session_present();
        second.publish("a", AtLeastOnce, b"x");
        if resumed {
            assert_eq!(second.receive().text(), "x");
        } else {
            second.expect_nothing();
        }
    });
}

/// [MQTT-3.1.4-3]: the version may differ between connections.
#[test]
fn a_session_is_taken_over_across_protocol_versions() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut old = broker.connecting(V3_1_1, "mixed").persistent().open();
        old.subscribe("a/+", AtLeastOnce);
        let mut new = broker.connecting(V5, "mixed").persistent().open();
        assert!(new.session_present());
        old.expect_server_disconnect(ReasonCode::SessionTakenOver);
        new.publish("a/b", AtLeastOnce, b"to 5.0");
        assert_eq!(new.receive().text(), "to 5.0");
        // The broker has processed the acknowledgement before the next takeover.
        new.ping();
        let mut old = broker.connecting(V3_1_1, "mixed").persistent().open();
        assert!(old.session_present());
        new.expect_server_disconnect(ReasonCode::SessionTakenOver);
        old.publish("a/b", AtLeastOnce, b"to 3.1.1");
        assert_eq!(old.receive().text(), "to 3.1.1");
    });
}

/// [MQTT-3.1.4-3]: however many connections compete for one client id, one remains and works.
#[test]
fn the_last_of_many_takeovers_wins() {
    every_case(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "contested").persistent();
        let mut clients: Vec<_> = (0..30).map(|_| connecting.open()).collect();
        let mut last = clients.pop().expect("thirty clients connected");
        for mut thrown_out in clients {
            thrown_out.expect_server_disconnect(ReasonCode::SessionTakenOver);
        }
        last.subscribe("a", AtLeastOnce);
        last.publish("a", AtLeastOnce, b"survivor");
        assert_eq!(last.receive().text(), "survivor");
    });
}

/// [MQTT-3.1.2-23], [MQTT-4.4.0-1]: a takeover with messages in flight loses nothing.
#[test]
fn a_takeover_keeps_the_messages_in_flight() {
    every_case(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "loaded").persistent();
        let mut first = connecting.open();
        first.subscribe("load", ExactlyOnce);
        let mut publisher = broker.connect(case.version, "publisher");
        for number in 0..20 {
            publisher.publish("load", ExactlyOnce, number.to_string().as_bytes());
        }
        let mut second = connecting.open();
        let texts = second.receive_texts(20);
        assert_eq!(texts, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
    });
}

/// 3.1.2.11.2 of 5.0: each CONNECT has its own Session Expiry Interval.
#[test]
fn reconnecting_with_another_expiry_interval_changes_it() {
    every_thread_count(|case| {
        let broker = case.broker();
        broker.connecting(V5, "changing").clean_start(false).session_expiry_s(NEVER).open().disconnect();
        let client = broker.connecting(V5, "changing").clean_start(false).open();
        assert!(client.session_present());
        client.disconnect();
        assert!(!broker.connecting(V5, "changing").clean_start(false).open().session_present());
    });
}

/// [MQTT-3.10.4-1], [MQTT-3.1.2-5]: a removed subscription stays removed in a resumed session.
#[test]
fn an_unsubscribed_filter_is_not_restored_with_the_session() {
    every_case(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "subscriber").persistent();
        let mut client = connecting.open();
        client.subscribe("keep", AtLeastOnce);
        client.subscribe("drop", AtLeastOnce);
        client.unsubscribe(&["drop"]);
        client.disconnect();
        let mut publisher = broker.connect(case.version, "publisher");
        publisher.publish("drop", AtLeastOnce, b"no");
        publisher.publish("keep", AtLeastOnce, b"yes");
        let mut client = connecting.open();
        assert_eq!(client.receive().text(), "yes");
        expect_nothing_from(&mut publisher, &mut client);
    });
}

/// [MQTT-3.1.2-5]: Subscription Identifiers and options are part of the session.
#[test]
fn subscription_options_and_identifiers_survive_a_reconnect() {
    every_thread_count(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(V5, "optioned").persistent();
        let mut client = connecting.open();
        let mut chosen = options(AtLeastOnce);
        chosen.no_local = true;
        chosen.retain_as_published = true;
        assert_eq!(client.subscribe_all(&[("a", chosen)], &[subscription_identifier(77)]), [1]);
        client.disconnect();

        let mut client = connecting.open();
        let mut publisher = broker.connect(V5, "publisher");
        client.publish("a", AtLeastOnce, b"own");
        publisher.deliver(&OutgoingPublish::new("a", ExactlyOnce, b"other").retained());
        let message = client.receive();
        assert_eq!(message.text(), "other");
        assert_eq!(message.qos(), AtLeastOnce);
        assert!(message.retain());
        assert_eq!(message.subscription_identifiers(), [77]);
    });
}

/// 3.1.1, 3.1.2.4 and 5.0, 4.1: messages at QoS 1 and 2 are queued for an offline client up to the limit, then the policy applies.
#[test]
fn the_queue_of_an_offline_session_is_bounded_and_drops_the_newest_by_default() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.session_queue_messages=5", "sys.interval_s=1"]);
        let connecting = broker.connecting(case.version, "absent").persistent();
        let mut client = connecting.open();
        client.subscribe("a", AtLeastOnce);
        client.disconnect();
        let mut publisher = broker.connect(case.version, "publisher");
        for number in 0..10 {
            publisher.publish("a", AtLeastOnce, number.to_string().as_bytes());
        }
        // All ten have reached the session, on whichever thread it is.
        await_number(&mut publisher, "publish/messages/dropped", |count| count == 5.0);
        let mut client = connecting.open();
        assert_eq!(client.receive_texts(5), ["0", "1", "2", "3", "4"]);
        expect_nothing_from(&mut publisher, &mut client);
    });
}

/// The other policy of a full queue.
#[test]
fn the_queue_of_an_offline_session_drops_the_oldest_when_configured() {
    every_case(|case| {
        let broker =
            case.broker_set(&["limits.session_queue_messages=5", "limits.slow_consumer=drop_old", "sys.interval_s=1"]);
        let connecting = broker.connecting(case.version, "absent").persistent();
        let mut client = connecting.open();
        client.subscribe("a", AtLeastOnce);
        client.disconnect();
        let mut publisher = broker.connect(case.version, "publisher");
        for number in 0..10 {
            publisher.publish("a", AtLeastOnce, number.to_string().as_bytes());
        }
        // All ten have reached the session, on whichever thread it is.
        await_number(&mut publisher, "publish/messages/dropped", |count| count == 5.0);
        let mut client = connecting.open();
        assert_eq!(client.receive_texts(5), ["5", "6", "7", "8", "9"]);
        expect_nothing_from(&mut publisher, &mut client);
    });
}

/// The same limit counted in bytes.
#[test]
fn the_queue_of_an_offline_session_is_bounded_in_bytes() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.session_queue_bytes=100000", "sys.interval_s=1"]);
        let connecting = broker.connecting(case.version, "absent").persistent();
        let mut client = connecting.open();
        client.subscribe("a", AtLeastOnce);
        client.disconnect();
        let mut publisher = broker.connect(case.version, "publisher");
        let payload = vec![b'x'; 30_000];
        for _ in 0..10 {
            publisher.publish("a", AtLeastOnce, &payload);
        }
        await_number(&mut publisher, "publish/messages/dropped", |count| count == 7.0);
        let mut client = connecting.open();
        for _ in 0..3 {
            assert_eq!(client.receive().payload().len(), payload.len());
        }
        expect_nothing_from(&mut publisher, &mut client);
    });
}
