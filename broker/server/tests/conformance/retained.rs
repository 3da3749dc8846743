//! Retained messages.

use std::time::{Duration, Instant};

use tautwire_protocol::{Property, RetainHandling, SubscriptionOptions};

use crate::support::property::{receive_maximum, response_topic};
use crate::support::{
    AtLeastOnce, AtMostOnce, Client, ExactlyOnce, NEVER, OutgoingPublish, QoS, V3_1_1, V5, every_case,
    every_thread_count, expect_nothing_from, options, remaining_expiry, sleep,
};

fn retain(publisher: &mut Client, topic: &str, qos: QoS, payload: &[u8]) {
    publisher.deliver(&OutgoingPublish::new(topic, qos, payload).retained());
    if qos == AtMostOnce {
        // QoS 0 has no acknowledgement: a later message on the same path serves as one.
        publisher.deliver(&OutgoingPublish::new("behind/it", AtLeastOnce, b"").retained());
    }
}

fn handling(retain_handling: RetainHandling) -> SubscriptionOptions {
    SubscriptionOptions { retain_handling, ..options(AtLeastOnce) }
}

/// [MQTT-3.3.1-5], [MQTT-3.3.1-9], [MQTT-3.8.4-8]; 3.1.1: [MQTT-3.3.1-5], [MQTT-3.3.1-6], [MQTT-3.3.1-8]
#[test]
fn a_retained_message_is_sent_to_a_new_subscription_at_the_lower_qos() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        for published in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            retain(&mut publisher, "kept/x", published, b"kept");
            for granted in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
                let mut subscriber = broker.connect(case.version, "subscriber");
                subscriber.subscribe("kept/x", granted);
                let message = subscriber.receive();
                assert_eq!((message.topic(), message.text()), ("kept/x", "kept"));
                assert_eq!(message.qos(), published.min(granted));
                assert!(message.retain());
                assert!(!message.dup());
            }
        }
    });
}

/// [MQTT-3.3.1-5]
#[test]
fn a_retained_message_replaces_the_previous_one() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut other = broker.connect(case.version, "other");
        retain(&mut publisher, "kept", AtLeastOnce, b"first");
        retain(&mut other, "kept", ExactlyOnce, b"second");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("kept", ExactlyOnce);
        let message = subscriber.receive();
        assert_eq!((message.text(), message.qos()), ("second", ExactlyOnce));
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-3.3.1-5]; 3.1.1: [MQTT-3.3.1-7]: the retained message is discarded, and the message at QoS 0 replaces it.
#[test]
fn a_retained_message_at_qos_0_replaces_the_previous_one() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        for (topic, before) in [("kept/0", AtMostOnce), ("kept/1", AtLeastOnce), ("kept/2", ExactlyOnce)] {
            retain(&mut publisher, topic, before, b"first");
            retain(&mut publisher, topic, AtMostOnce, b"second");
            let mut subscriber = broker.connect(case.version, "subscriber");
            subscriber.subscribe(topic, ExactlyOnce);
            let message = subscriber.receive();
            assert_eq!((message.text(), message.qos(), message.retain()), ("second", AtMostOnce, true));
            expect_nothing_from(&mut publisher, &mut subscriber);
        }
    });
}

/// [MQTT-3.3.1-6], [MQTT-3.3.1-7]; 3.1.1: [MQTT-3.3.1-10], [MQTT-3.3.1-11]
#[test]
fn an_empty_retained_message_deletes_and_is_forwarded_but_not_stored() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        retain(&mut publisher, "kept", AtLeastOnce, b"first");
        let mut live = broker.connect(case.version, "live");
        live.subscribe("kept", AtLeastOnce);
        assert_eq!(live.receive().text(), "first");
        retain(&mut publisher, "kept", AtLeastOnce, b"");
        assert_eq!(live.receive().payload(), b"");
        let mut late = broker.connect(case.version, "late");
        late.subscribe("kept", AtLeastOnce);
        expect_nothing_from(&mut publisher, &mut late);
    });
}

/// [MQTT-3.3.1-8]; 3.1.1: [MQTT-3.3.1-12]
#[test]
fn a_message_without_retain_does_not_change_the_retained_one() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        retain(&mut publisher, "kept", AtLeastOnce, b"first");
        publisher.publish("kept", AtLeastOnce, b"passing");
        publisher.publish("kept", AtLeastOnce, b"");
        publisher.publish("never", AtLeastOnce, b"passing");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("#", AtLeastOnce);
        assert_eq!(subscriber.receive().text(), "first");
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-3.3.1-12]; 3.1.1: [MQTT-3.3.1-9]
#[test]
fn retain_is_cleared_for_existing_subscriptions() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("kept", AtLeastOnce);
        retain(&mut publisher, "kept", AtLeastOnce, b"x");
        assert!(!subscriber.receive().retain());
    });
}

/// [MQTT-3.3.1-13]
#[test]
fn retain_as_published_preserves_the_retain_flag() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut subscriber = broker.connect(V5, "subscriber");
        subscriber.subscribe_as("kept", SubscriptionOptions { retain_as_published: true, ..options(AtLeastOnce) });
        retain(&mut publisher, "kept", AtLeastOnce, b"x");
        assert!(subscriber.receive().retain());
        publisher.publish("kept", AtLeastOnce, b"y");
        assert!(!subscriber.receive().retain());
    });
}

/// 3.3.1.3 of 5.0: a retained message sent for a new subscription has RETAIN 1, whatever Retain As Published is.
#[test]
fn a_retained_message_for_a_new_subscription_always_has_retain() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        retain(&mut publisher, "kept", AtLeastOnce, b"x");
        for retain_as_published in [false, true] {
            let mut subscriber = broker.connect(V5, "subscriber");
            subscriber.subscribe_as("kept", SubscriptionOptions { retain_as_published, ..options(AtLeastOnce) });
            assert!(subscriber.receive().retain());
        }
    });
}

/// [MQTT-3.3.1-9], [MQTT-3.8.4-4]; 3.1.1: [MQTT-3.8.4-3]
#[test]
fn subscribing_again_sends_the_retained_messages_again() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        retain(&mut publisher, "kept/a", AtLeastOnce, b"a");
        let mut subscriber = broker.connect(case.version, "subscriber");
        for _ in 0..3 {
            subscriber.subscribe("kept/#", AtLeastOnce);
            assert_eq!(subscriber.receive().text(), "a");
        }
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-3.3.1-10]
#[test]
fn retain_handling_1_sends_retained_messages_only_for_a_new_subscription() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        retain(&mut publisher, "kept", AtLeastOnce, b"x");
        let connecting = broker.connecting(V5, "subscriber").clean_start(false).session_expiry_s(NEVER);
        let mut subscriber = connecting.open();
        subscriber.subscribe_as("kept", handling(RetainHandling::SendIfNew));
        assert_eq!(subscriber.receive().text(), "x");
        subscriber.subscribe_as("kept", handling(RetainHandling::SendIfNew));
        expect_nothing_from(&mut publisher, &mut subscriber);
        // The subscription of a resumed session exists.
        subscriber.disconnect();
        let mut subscriber = connecting.open();
        subscriber.subscribe_as("kept", handling(RetainHandling::SendIfNew));
        expect_nothing_from(&mut publisher, &mut subscriber);
        // After UNSUBSCRIBE it is new again.
        subscriber.unsubscribe(&["kept"]);
        subscriber.subscribe_as("kept", handling(RetainHandling::SendIfNew));
        assert_eq!(subscriber.receive().text(), "x");
    });
}

/// [MQTT-3.3.1-11]
#[test]
fn retain_handling_2_sends_no_retained_messages() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        retain(&mut publisher, "kept", AtLeastOnce, b"x");
        let mut subscriber = broker.connect(V5, "subscriber");
        subscriber.subscribe_as("kept", handling(RetainHandling::DoNotSend));
        expect_nothing_from(&mut publisher, &mut subscriber);
        publisher.publish("kept", AtLeastOnce, b"live");
        assert_eq!(subscriber.receive().text(), "live");
    });
}

/// [MQTT-3.3.1-9]: every retained message under a wildcard, once.
#[test]
fn a_wildcard_subscription_gets_every_matching_retained_message() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let topics = ["a", "a/b", "a/c", "a/b/c", "/a", "a/", "b/a", "x/y/z"];
        for topic in topics {
            retain(&mut publisher, topic, AtLeastOnce, topic.as_bytes());
        }
        for (filter, mut expected) in [
            ("#", topics.to_vec()),
            ("a/#", vec!["a", "a/b", "a/c", "a/b/c", "a/"]),
            ("+", vec!["a"]),
            ("a/+", vec!["a/b", "a/c", "a/"]),
            ("+/a", vec!["/a", "b/a"]),
            ("+/+/+", vec!["a/b/c", "x/y/z"]),
            ("a/+/c", vec!["a/b/c"]),
            ("a/b", vec!["a/b"]),
        ] {
            let mut subscriber = broker.connect(case.version, "subscriber");
            subscriber.subscribe(filter, AtLeastOnce);
            let mut received = subscriber.receive_texts(expected.len());
            received.sort_unstable();
            expected.sort_unstable();
            assert_eq!(received, expected, "{filter}");
            expect_nothing_from(&mut publisher, &mut subscriber);
        }
    });
}

/// [MQTT-4.7.2-1]
#[test]
fn wildcards_at_the_front_do_not_match_retained_dollar_topics() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        retain(&mut publisher, "$app/x", AtLeastOnce, b"own");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("#", AtLeastOnce);
        subscriber.subscribe("+/x", AtLeastOnce);
        expect_nothing_from(&mut publisher, &mut subscriber);
        subscriber.subscribe("$app/#", AtLeastOnce);
        assert_eq!(subscriber.receive().text(), "own");
    });
}

/// [MQTT-3.3.1-9] and 3.8.4: retained messages have the identifier of the subscription they are sent for.
#[test]
fn a_retained_message_has_the_subscription_identifier() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        retain(&mut publisher, "kept/a", AtLeastOnce, b"x");
        let mut subscriber = broker.connect(V5, "subscriber");
        subscriber.subscribe_identified("kept/#", AtLeastOnce, 268_435_455);
        assert_eq!(subscriber.receive().subscription_identifiers(), [268_435_455]);
    });
}

/// [MQTT-3.3.2-5], [MQTT-3.3.2-6]
#[test]
fn a_retained_message_expires_and_counts_down() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let start = Instant::now();
        for (topic, seconds) in [("kept/short", 3), ("kept/long", 100)] {
            let expiring = OutgoingPublish::new(topic, AtLeastOnce, topic.as_bytes()).retained();
            publisher.deliver(&expiring.property(Property::MessageExpiryInterval(seconds)));
        }
        let mut early = broker.connect(V5, "early");
        early.subscribe("kept/#", AtLeastOnce);
        let mut texts = early.receive_texts(2);
        texts.sort_unstable();
        assert_eq!(texts, ["kept/long", "kept/short"]);
        sleep(Duration::from_millis(4200));
        let mut late = broker.connect(V5, "late");
        late.subscribe("kept/#", AtLeastOnce);
        let message = late.receive();
        assert_eq!(message.text(), "kept/long");
        let left_s = message.properties().message_expiry_interval();
        assert!(
            left_s.is_some_and(|left_s| left_s <= 96 && remaining_expiry(100, start).contains(&left_s)),
            "{left_s:?}"
        );
        expect_nothing_from(&mut publisher, &mut late);
    });
}

/// 3.3.1.3: properties are part of the retained message.
#[test]
fn a_retained_message_keeps_its_properties() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let full = OutgoingPublish::new("kept", AtLeastOnce, b"x")
            .retained()
            .property(Property::ContentType("text/plain"))
            .property(response_topic("answer"))
            .property(Property::CorrelationData(b"\x01"))
            .property(Property::UserProperty("k", "v"));
        publisher.deliver(&full);
        let mut subscriber = broker.connect(V5, "subscriber");
        subscriber.subscribe("kept", AtLeastOnce);
        let message = subscriber.receive();
        assert_eq!(message.properties().content_type(), Some("text/plain"));
        assert_eq!(message.properties().correlation_data(), Some(&b"\x01"[..]));
        assert_eq!(message.user_properties(), [("k".to_owned(), "v".to_owned())]);
        let mut old = broker.connect(V3_1_1, "old");
        old.subscribe("kept", AtLeastOnce);
        assert_eq!(old.receive().text(), "x");
    });
}

/// 4.1 of 5.0: retained messages are not part of a session and outlive that of their publisher.
#[test]
fn a_retained_message_survives_its_publisher() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        retain(&mut publisher, "kept", AtLeastOnce, b"left behind");
        publisher.disconnect();
        broker.connect(case.version, "publisher").disconnect();
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("kept", AtLeastOnce);
        assert_eq!(subscriber.receive().text(), "left behind");
    });
}

/// 3.8.4 of 5.0: retained messages obey the Receive Maximum like any other; none is lost.
#[test]
fn many_retained_messages_are_all_sent_within_the_window() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        for number in 0..200 {
            retain(&mut publisher, &format!("kept/{number}"), AtLeastOnce, b"x");
        }
        let mut subscriber = broker.connecting(V5, "subscriber").property(receive_maximum(2)).open();
        subscriber.subscribe("kept/#", AtLeastOnce);
        let mut topics: Vec<String> = (0..200).map(|_| subscriber.receive().topic().to_owned()).collect();
        topics.sort_unstable();
        topics.dedup();
        assert_eq!(topics.len(), 200);
    });
}

/// `limits.retained_messages`: beyond it no message is retained, and a 5.0 publisher is notified.
#[test]
fn retained_messages_are_bounded() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.retained_messages=2"]);
        let mut publisher = broker.connect(case.version, "publisher");
        let mut live = broker.connect(case.version, "live");
        live.subscribe("kept/#", AtLeastOnce);
        retain(&mut publisher, "kept/1", AtLeastOnce, b"1");
        retain(&mut publisher, "kept/2", AtLeastOnce, b"2");
        assert_eq!(live.receive_texts(2), ["1", "2"]);
        let reason = publisher.deliver(&OutgoingPublish::new("kept/3", AtLeastOnce, b"3").retained());
        assert!(matches!(reason, 0x00 | 0x97), "{reason:#x}");
        let mut late = broker.connect(case.version, "late");
        late.subscribe("kept/#", AtLeastOnce);
        let mut kept = late.receive_texts(2);
        kept.sort_unstable();
        assert_eq!(kept, ["1", "2"]);
        // Replacing a message still works, and deleting makes room.
        retain(&mut publisher, "kept/1", AtLeastOnce, b"new");
        retain(&mut publisher, "kept/2", AtLeastOnce, b"");
        retain(&mut publisher, "kept/3", AtLeastOnce, b"3");
        let mut last = broker.connect(case.version, "last");
        last.subscribe("kept/#", AtLeastOnce);
        let mut kept = last.receive_texts(2);
        kept.sort_unstable();
        assert_eq!(kept, ["3", "new"]);
    });
}
