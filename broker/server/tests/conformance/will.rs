//! Will Messages: when and how they are published.

use std::time::{Duration, Instant};

use tautwire_protocol::{DisconnectReason, PayloadFormat, Property, ReasonCode};

use crate::support::property::response_topic;
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Case, Client, ExactlyOnce, NEVER, V3_1_1, V5, WillMessage, every_case,
    every_thread_count, expect_nothing_from, options, remaining_expiry,
};

/// A watcher subscribed to `will/#` at QoS 2, and a second client for fences.
fn watchers(case: Case, broker: &Broker) -> (Client, Client) {
    let mut watcher = broker.connect(case.version, "watcher");
    watcher.subscribe("will/#", ExactlyOnce);
    (watcher, broker.connect(case.version, "fencer"))
}

fn will<'a>() -> WillMessage<'a> {
    WillMessage::new("will/a", b"gone").qos(AtLeastOnce)
}

/// [MQTT-3.1.2-8], [MQTT-3.1.2-14]; 3.1.1: [MQTT-3.1.2-8], [MQTT-3.1.2-16]
#[test]
fn a_will_is_published_when_the_connection_breaks() {
    every_case(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            broker.connecting(case.version, "mortal").will(will().qos(qos)).open().cut();
            let message = watcher.receive();
            assert_eq!((message.topic(), message.text(), message.qos()), ("will/a", "gone", qos));
            assert!(!message.retain());
        }
    });
}

/// [MQTT-3.14.4-3], [MQTT-3.1.2-10]; 3.1.1: [MQTT-3.14.4-3]
#[test]
fn a_will_is_not_published_after_a_normal_disconnect() {
    every_case(|case| {
        let broker = case.broker();
        let (mut watcher, mut fencer) = watchers(case, &broker);
        broker.connecting(case.version, "polite").will(will()).open().disconnect();
        expect_nothing_from(&mut fencer, &mut watcher);
    });
}

/// [MQTT-3.14.4-3], [MQTT-3.1.2-10]: deleted permanently, also if the session continues and ends later.
#[test]
fn a_will_deleted_by_disconnect_is_not_published_at_session_end() {
    every_thread_count(|case| {
        let broker = case.broker();
        let (mut watcher, mut fencer) = watchers(case, &broker);
        let connecting = broker.connecting(V5, "polite").session_expiry_s(NEVER).will(will());
        connecting.open().disconnect();
        broker.connect(V5, "polite").disconnect();
        expect_nothing_from(&mut fencer, &mut watcher);
    });
}

/// 3.14.2.1 of 5.0
#[test]
fn a_will_is_published_after_disconnect_with_will_message() {
    every_thread_count(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        let client = broker.connecting(V5, "leaver").will(will()).open();
        client.disconnect_as(DisconnectReason::DisconnectWithWillMessage, &[]);
        assert_eq!(watcher.receive().text(), "gone");
    });
}

/// [MQTT-3.14.4-3]: only Reason Code 0x00 deletes the will.
#[test]
fn a_will_is_published_after_disconnect_with_an_error() {
    every_thread_count(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        for reason in [DisconnectReason::UnspecifiedError, DisconnectReason::ImplementationSpecificError] {
            broker.connecting(V5, "failing").will(will()).open().disconnect_as(reason, &[]);
            assert_eq!(watcher.receive().text(), "gone");
        }
    });
}

/// [MQTT-3.1.2-15]; 3.1.1: [MQTT-3.1.2-17]
#[test]
fn a_retained_will_is_retained() {
    every_case(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        broker.connecting(case.version, "mortal").will(will().retained()).open().cut();
        let live = watcher.receive();
        assert!(!live.retain(), "forwarded to an established subscription");
        let mut late = broker.connect(case.version, "late");
        late.subscribe("will/a", AtLeastOnce);
        let message = late.receive();
        assert_eq!(message.text(), "gone");
        assert!(message.retain());
    });
}

/// [MQTT-3.1.2-14]
#[test]
fn a_will_that_is_not_retained_is_not_retained() {
    every_case(|case| {
        let broker = case.broker();
        let (mut watcher, mut fencer) = watchers(case, &broker);
        broker.connecting(case.version, "mortal").will(will()).open().cut();
        watcher.receive();
        let mut late = broker.connect(case.version, "late");
        late.subscribe("will/a", AtLeastOnce);
        expect_nothing_from(&mut fencer, &mut late);
    });
}

/// [MQTT-3.3.1-6]: an empty retained will deletes the retained message.
#[test]
fn an_empty_retained_will_clears_the_retained_message() {
    every_case(|case| {
        let broker = case.broker();
        let (mut watcher, mut fencer) = watchers(case, &broker);
        broker.connecting(case.version, "one").will(will().retained()).open().cut();
        watcher.receive();
        let empty = WillMessage::new("will/a", b"").qos(AtLeastOnce).retained();
        broker.connecting(case.version, "two").will(empty).open().cut();
        assert_eq!(watcher.receive().payload(), b"");
        let mut late = broker.connect(case.version, "late");
        late.subscribe("will/a", AtLeastOnce);
        expect_nothing_from(&mut fencer, &mut late);
    });
}

/// [MQTT-3.1.2-22], [MQTT-3.1.2-8]; 3.1.1: [MQTT-3.1.2-24]
#[test]
fn a_will_is_published_on_keep_alive_timeout() {
    every_case(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        let _silent = broker.connecting(case.version, "silent").keep_alive_s(1).will(will()).open();
        assert_eq!(watcher.receive().text(), "gone");
    });
}

/// [MQTT-3.1.2-8]: "the Server closes the Network Connection because of a protocol error" publishes it.
#[test]
fn a_will_is_published_on_a_protocol_error() {
    every_case(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        let connecting = broker.connecting(case.version, "wrong").will(will());
        let mut client = connecting.open();
        client.send_bytes(&connecting.bytes());
        client.expect_server_disconnect(ReasonCode::ProtocolError);
        assert_eq!(watcher.receive().text(), "gone");

        let mut client = connecting.open();
        client.send_bytes(&[0xc1, 0x00]);
        client.expect_server_disconnect(ReasonCode::MalformedPacket);
        assert_eq!(watcher.receive().text(), "gone");
    });
}

/// 3.1.3.2.2 of 5.0: a takeover ends the first connection without DISCONNECT 0x00; without a delay the will is published.
#[test]
fn a_will_without_delay_is_published_on_takeover() {
    every_case(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        for clean_start in [true, false] {
            let mut first = broker.connecting(case.version, "twice").persistent().will(will()).open();
            let second = broker.connecting(case.version, "twice").clean_start(clean_start).open();
            first.expect_server_disconnect(ReasonCode::SessionTakenOver);
            assert_eq!(watcher.receive().text(), "gone");
            second.disconnect();
        }
    });
}

/// [MQTT-3.1.3-9]
#[test]
fn a_delayed_will_is_not_published_when_the_session_is_taken_over_or_resumed() {
    every_thread_count(|case| {
        let broker = case.broker();
        let (mut watcher, mut fencer) = watchers(case, &broker);
        let connecting = broker.connecting(V5, "resumed").clean_start(false).session_expiry_s(NEVER);
        let with_will = connecting.clone().will(will().delay_s(3600));
        let mut first = with_will.open();
        let second = with_will.open();
        first.expect_server_disconnect(ReasonCode::SessionTakenOver);
        second.cut();
        let third = connecting.open();
        assert!(third.session_present());
        third.disconnect();
        expect_nothing_from(&mut fencer, &mut watcher);
    });
}

/// 3.1.3.2.2 of 5.0: the end of the session publishes a delayed will at once, and a clean start ends it.
#[test]
fn a_delayed_will_is_published_when_a_clean_start_ends_the_session() {
    every_thread_count(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        let connecting = broker.connecting(V5, "restarted").session_expiry_s(NEVER);
        connecting.clone().will(will().delay_s(3600)).open().cut();
        connecting.open();
        assert_eq!(watcher.receive().text(), "gone");
        // The same when the first connection is still open.
        let mut first = connecting.clone().will(will().delay_s(3600)).open();
        connecting.open();
        first.expect_server_disconnect(ReasonCode::SessionTakenOver);
        assert_eq!(watcher.receive().text(), "gone");
    });
}

/// [MQTT-3.1.2-8]: published after the Will Delay Interval, and not before.
#[test]
fn a_delayed_will_is_published_after_its_delay() {
    every_thread_count(|case| {
        let broker = case.broker();
        let (mut watcher, mut fencer) = watchers(case, &broker);
        let client = broker.connecting(V5, "mortal").session_expiry_s(NEVER).will(will().delay_s(3)).open();
        let start = Instant::now();
        client.cut();
        expect_nothing_from(&mut fencer, &mut watcher);
        assert_eq!(watcher.receive().text(), "gone");
        let waited = start.elapsed();
        assert!(waited >= Duration::from_millis(2900), "{waited:?}");
    });
}

/// [MQTT-3.1.2-8]: or when the session ends, whichever is first.
#[test]
fn a_delayed_will_is_published_when_the_session_expires_first() {
    every_thread_count(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        // The session ends with the connection: no delay at all.
        broker.connecting(V5, "brief").will(will().delay_s(3600)).open().cut();
        assert_eq!(watcher.receive().text(), "gone");
        // The session ends one second later.
        broker.connecting(V5, "second").session_expiry_s(1).will(will().delay_s(3600)).open().cut();
        assert_eq!(watcher.receive().text(), "gone");
    });
}

/// 3.14.2.2.2 of 5.0: DISCONNECT may end the session and request the will at once.
#[test]
fn a_delayed_will_is_published_when_disconnect_ends_the_session() {
    every_thread_count(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        let client = broker.connecting(V5, "ending").session_expiry_s(NEVER).will(will().delay_s(3600)).open();
        client.disconnect_as(DisconnectReason::DisconnectWithWillMessage, &[Property::SessionExpiryInterval(0)]);
        assert_eq!(watcher.receive().text(), "gone");
    });
}

/// [MQTT-3.1.2-10]: published once, not again when the session ends or the client reconnects.
#[test]
fn a_will_is_published_once() {
    every_case(|case| {
        let broker = case.broker();
        let (mut watcher, mut fencer) = watchers(case, &broker);
        let persistent = broker.connecting(case.version, "mortal").persistent();
        persistent.clone().will(will()).open().cut();
        assert_eq!(watcher.receive().text(), "gone");
        persistent.open().cut();
        persistent.clone().clean_start(true).open().disconnect();
        expect_nothing_from(&mut fencer, &mut watcher);
    });
}

/// [MQTT-3.1.2-7]: each connection has its own will, or none.
#[test]
fn a_new_connection_replaces_the_will() {
    every_case(|case| {
        let broker = case.broker();
        let (mut watcher, mut fencer) = watchers(case, &broker);
        let persistent = broker.connecting(case.version, "changing").persistent();
        persistent.clone().will(will()).open().disconnect();
        persistent.clone().will(WillMessage::new("will/b", b"second")).open().cut();
        assert_eq!(watcher.receive().text(), "second");
        persistent.open().cut();
        expect_nothing_from(&mut fencer, &mut watcher);
    });
}

/// 3.1.3.2 of 5.0: the properties of the will are those of the message.
#[test]
fn will_properties_are_published_with_the_will() {
    every_thread_count(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        let full = will()
            .delay_s(0)
            .property(Property::PayloadFormatIndicator(PayloadFormat::Utf8))
            .property(Property::MessageExpiryInterval(100))
            .property(Property::ContentType("text/plain"))
            .property(response_topic("answers/here"))
            .property(Property::CorrelationData(b"\x00\xff"))
            .property(Property::UserProperty("b", "1"))
            .property(Property::UserProperty("a", "2"))
            .property(Property::UserProperty("b", "3"));
        let start = Instant::now();
        broker.connecting(V5, "mortal").will(full).open().cut();
        let message = watcher.receive();
        let properties = message.properties();
        assert_eq!(properties.payload_format_indicator(), Some(PayloadFormat::Utf8));
        assert!(
            properties.message_expiry_interval().is_some_and(|left_s| remaining_expiry(100, start).contains(&left_s))
        );
        assert_eq!(properties.content_type(), Some("text/plain"));
        assert_eq!(properties.response_topic().map(|topic| topic.as_str().to_owned()), Some("answers/here".to_owned()));
        assert_eq!(properties.correlation_data(), Some(&b"\x00\xff"[..]));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        // [MQTT-3.1.3-10]
        assert_eq!(message.user_properties(), [pair("b", "1"), pair("a", "2"), pair("b", "3")]);
        assert!(!properties.iter().any(|property| matches!(property, Property::WillDelayInterval(_))));
    });
}

/// [MQTT-3.3.2-5]: the expiry of a will counts from its publication.
#[test]
fn the_message_expiry_of_a_will_counts_from_its_publication() {
    every_thread_count(|case| {
        let broker = case.broker();
        let (mut watcher, _) = watchers(case, &broker);
        let delayed = will().delay_s(2).property(Property::MessageExpiryInterval(1));
        broker.connecting(V5, "mortal").session_expiry_s(NEVER).will(delayed).open().cut();
        assert_eq!(watcher.receive().text(), "gone");
    });
}

/// [MQTT-3.8.3-3]: a will is published by its client, so No Local applies to it too.
#[test]
fn no_local_applies_to_a_will() {
    every_thread_count(|case| {
        let broker = case.broker();
        let (mut watcher, mut fencer) = watchers(case, &broker);
        let mut no_local = options(AtLeastOnce);
        no_local.no_local = true;
        let connecting = broker.connecting(V5, "selfish").persistent();
        let mut client = connecting.clone().will(will()).open();
        client.subscribe_as("will/#", no_local);
        client.cut();
        assert_eq!(watcher.receive().text(), "gone");
        let mut client = connecting.open();
        expect_nothing_from(&mut fencer, &mut client);
    });
}

/// [MQTT-4.7.2-1]: `$SYS` is reserved for the broker, for wills as well.
#[test]
fn a_will_to_sys_is_not_published() {
    every_case(|case| {
        let broker = case.broker();
        let mut watcher = broker.connect(case.version, "watcher");
        let mut fencer = broker.connect(case.version, "fencer");
        watcher.subscribe("$SYS/mine/#", AtLeastOnce);
        let mut connection =
            broker.connecting(case.version, "mortal").will(WillMessage::new("$SYS/mine/x", b"no")).send();
        // Refused at CONNECT or dropped later: both are correct.
        let accepted = connection.next();
        drop(accepted);
        drop(connection);
        broker.connect(case.version, "mortal").disconnect();
        expect_nothing_from(&mut fencer, &mut watcher);
    });
}

/// [MQTT-3.1.2-8]: a will reaches subscribers of the other version.
#[test]
fn a_will_crosses_protocol_versions() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut old = broker.connect(V3_1_1, "old");
        old.subscribe("will/#", AtLeastOnce);
        let mut new = broker.connect(V5, "new");
        new.subscribe("will/#", AtLeastOnce);
        let full = will().property(Property::ContentType("text/plain"));
        broker.connecting(V5, "mortal").will(full).open().cut();
        assert_eq!(old.receive().text(), "gone");
        assert_eq!(new.receive().properties().content_type(), Some("text/plain"));
        broker.connecting(V3_1_1, "mortal").will(will()).open().cut();
        assert_eq!(old.receive().text(), "gone");
        assert_eq!(new.receive().text(), "gone");
    });
}
