//! SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, and which messages a subscription receives.

use tautwire_protocol::{Property, RetainHandling, SubscriptionOptions};

use crate::support::property::subscription_identifier;
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, ExactlyOnce, OutgoingPublish, V3_1_1, V5, every_case, every_thread_count,
    every_version, expect_nothing_from, options,
};
use crate::sys::await_number;

/// [MQTT-3.8.4-1], [MQTT-3.8.4-2], [MQTT-3.8.4-5] to [MQTT-3.8.4-7], [MQTT-3.9.3-1], [MQTT-3.9.3-2], [MQTT-2.2.1-6];
/// 3.1.1: [MQTT-3.8.4-1], [MQTT-3.8.4-2], [MQTT-3.8.4-4], [MQTT-3.8.4-5], [MQTT-3.9.3-1]
#[test]
fn suback_grants_each_filter_in_order() {
    every_case(|case| {
        let broker = case.broker();
        let mut client = broker.connect(case.version, "subscriber");
        let filters = [
            ("a", options(ExactlyOnce)),
            ("b/+", options(AtMostOnce)),
            ("#", options(AtLeastOnce)),
            ("a", options(AtMostOnce)),
        ];
        assert_eq!(client.subscribe_all(&filters, &[]), [2, 0, 1, 0]);
    });
}

/// [MQTT-4.7.1-1], [MQTT-4.7.1-2], [MQTT-4.7.3-4], [MQTT-3.3.2-3]; 3.1.1: the same of 4.7
#[test]
fn wildcards_match_as_the_standard_specifies() {
    const TOPICS: [&str; 14] = [
        "sport",
        "sport/",
        "sport/tennis",
        "sport/tennis/player1",
        "/sport",
        "/",
        "//",
        "a",
        "A",
        "a b",
        "Ä/ö",
        "ä/ö",
        "sport/tennis/player1/ranking",
        "sports",
    ];
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        for (filter, expected) in [
            (
                "sport/#",
                vec!["sport", "sport/", "sport/tennis", "sport/tennis/player1", "sport/tennis/player1/ranking"],
            ),
            ("sport/+", vec!["sport/", "sport/tennis"]),
            ("sport/tennis/+/ranking", vec!["sport/tennis/player1/ranking"]),
            ("+", vec!["sport", "a", "A", "a b", "sports"]),
            ("+/+", vec!["sport/", "sport/tennis", "/sport", "/", "Ä/ö", "ä/ö"]),
            ("/+", vec!["/sport", "/"]),
            ("+/", vec!["sport/", "/"]),
            ("//", vec!["//"]),
            ("/#", vec!["/sport", "/", "//"]),
            ("+/ö", vec!["Ä/ö", "ä/ö"]),
            ("a", vec!["a"]),
            (
                "+/+/#",
                vec![
                    "sport/",
                    "sport/tennis",
                    "sport/tennis/player1",
                    "/sport",
                    "/",
                    "//",
                    "Ä/ö",
                    "ä/ö",
                    "sport/tennis/player1/ranking",
                ],
            ),
            ("#", TOPICS.to_vec()),
        ] {
            let mut subscriber = broker.connect(case.version, "subscriber");
            subscriber.subscribe(filter, AtLeastOnce);
            for topic in TOPICS {
                publisher.publish(topic, AtLeastOnce, topic.as_bytes());
            }
            assert_eq!(subscriber.receive_texts(expected.len()), expected, "{filter}");
            expect_nothing_from(&mut publisher, &mut subscriber);
        }
    });
}

/// [MQTT-1.5.4-3], [MQTT-4.7.3-4]: U+FEFF is an ordinary character, also at the front.
#[test]
fn a_zero_width_no_break_space_is_preserved() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut with = broker.connect(case.version, "with");
        with.subscribe("\u{feff}a", AtLeastOnce);
        let mut without = broker.connect(case.version, "without");
        without.subscribe("a", AtLeastOnce);
        publisher.publish("\u{feff}a", AtLeastOnce, b"x");
        assert_eq!(with.receive().topic(), "\u{feff}a");
        expect_nothing_from(&mut publisher, &mut without);
    });
}

/// [MQTT-4.7.3-3]: topics and filters may have the maximum length of a string.
#[test]
fn a_topic_of_65_535_bytes_works() {
    every_case(|case| {
        let broker = case.broker();
        let mut client = broker.connect(case.version, "client");
        let longest = "x".repeat(65_535);
        client.subscribe(&longest, AtLeastOnce);
        client.publish(&longest, AtLeastOnce, b"x");
        assert_eq!(client.receive().topic().len(), 65_535);
    });
}

/// [MQTT-4.7.2-1]
#[test]
fn wildcards_at_the_front_do_not_match_dollar_topics() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut front = broker.connect(case.version, "front");
        let filters = ["#", "+/x", "+/#", "+"].map(|filter| (filter, options(AtLeastOnce)));
        assert_eq!(front.subscribe_all(&filters, &[]), [1, 1, 1, 1]);
        let mut named = broker.connect(case.version, "named");
        named.subscribe("$app/+", AtLeastOnce);
        let mut plain = broker.connect(case.version, "plain");
        plain.subscribe("$app", AtLeastOnce);
        publisher.publish("$app/x", AtLeastOnce, b"x");
        publisher.publish("$app", AtLeastOnce, b"top");
        assert_eq!(named.receive().text(), "x");
        assert_eq!(plain.receive().text(), "top");
        publisher.publish("a/$app", AtLeastOnce, b"inside");
        assert_eq!(front.receive().text(), "inside");
        expect_nothing_from(&mut publisher, &mut named);
    });
}

/// [MQTT-3.3.4-2]; 3.1.1: [MQTT-3.3.5-1]: one copy at the highest QoS.
#[test]
fn overlapping_subscriptions_deliver_one_copy_at_the_highest_qos() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut subscriber = broker.connect(case.version, "subscriber");
        let filters =
            [("over/+", options(AtMostOnce)), ("over/lap", options(ExactlyOnce)), ("#", options(AtLeastOnce))];
        assert_eq!(subscriber.subscribe_all(&filters, &[]), [0, 2, 1]);
        publisher.publish("over/lap", ExactlyOnce, b"once");
        assert_eq!(subscriber.receive().qos(), ExactlyOnce);
        publisher.publish("over/other", ExactlyOnce, b"less");
        assert_eq!(subscriber.receive().qos(), AtLeastOnce);
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-3.3.4-3], [MQTT-3.3.4-4]
#[test]
fn one_copy_has_the_identifiers_of_all_overlapping_subscriptions() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut subscriber = broker.connect(V5, "subscriber");
        subscriber.subscribe_identified("over/#", AtLeastOnce, 1);
        subscriber.subscribe_identified("over/+", AtMostOnce, 200);
        subscriber.subscribe_identified("over/lap", AtLeastOnce, 70_000);
        subscriber.subscribe("#", AtLeastOnce);
        publisher.publish("over/lap", AtLeastOnce, b"x");
        let message = subscriber.receive();
        assert_eq!(message.subscription_identifiers(), [1, 200, 70_000]);
        publisher.publish("over/lap/deep", AtLeastOnce, b"x");
        assert_eq!(subscriber.receive().subscription_identifiers(), [1]);
        publisher.publish("other", AtLeastOnce, b"x");
        assert_eq!(subscriber.receive().subscription_identifiers(), [0_u32; 0]);
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// 3.8.2.1.2 of 5.0: several subscriptions may share an identifier, and several clients use the same.
#[test]
fn subscription_identifiers_belong_to_their_session() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut one = broker.connect(V5, "one");
        let both = [("a/+", options(AtLeastOnce)), ("a/b", options(AtLeastOnce))];
        assert_eq!(one.subscribe_all(&both, &[subscription_identifier(5)]), [1, 1]);
        let mut two = broker.connect(V5, "two");
        two.subscribe_identified("a/b", AtLeastOnce, 6);
        publisher.publish("a/b", AtLeastOnce, b"x");
        // One per subscription, or one for both: the standard allows either.
        assert!(matches!(one.receive().subscription_identifiers().as_slice(), [5] | [5, 5]));
        assert_eq!(two.receive().subscription_identifiers(), [6]);
    });
}

/// [MQTT-3.8.4-3], [MQTT-3.8.4-4]; 3.1.1: [MQTT-3.8.4-3]
#[test]
fn subscribing_again_replaces_the_subscription() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("a", ExactlyOnce);
        subscriber.subscribe("a", AtMostOnce);
        publisher.publish("a", ExactlyOnce, b"x");
        assert_eq!(subscriber.receive().qos(), AtMostOnce);
        expect_nothing_from(&mut publisher, &mut subscriber);
        subscriber.unsubscribe(&["a"]);
        publisher.publish("a", ExactlyOnce, b"x");
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-3.8.4-3]: identifier and options are replaced with it.
#[test]
fn subscribing_again_replaces_identifier_and_options() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut client = broker.connect(V5, "subscriber");
        let no_local = SubscriptionOptions { no_local: true, ..options(AtLeastOnce) };
        assert_eq!(client.subscribe_all(&[("a", no_local)], &[subscription_identifier(1)]), [1]);
        client.subscribe_identified("a", AtLeastOnce, 2);
        client.publish("a", AtLeastOnce, b"x");
        assert_eq!(client.receive().subscription_identifiers(), [2]);
        client.subscribe("a", AtLeastOnce);
        client.publish("a", AtLeastOnce, b"x");
        assert_eq!(client.receive().subscription_identifiers(), [0_u32; 0]);
    });
}

/// [MQTT-3.8.4-4]: "Application Messages MUST NOT be lost due to replacing the Subscription."
#[test]
fn replacing_a_subscription_under_load_loses_nothing() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("a", AtLeastOnce);
        for number in 0..100 {
            publisher.send_publish(&OutgoingPublish::new("a", AtLeastOnce, number.to_string().as_bytes()));
            subscriber.subscribe("a", AtLeastOnce);
        }
        let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(subscriber.receive_texts(100), expected);
    });
}

/// [MQTT-3.8.3-3]
#[test]
fn no_local_excludes_a_clients_own_messages() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut other = broker.connect(V5, "other");
        let mut client = broker.connect(V5, "client");
        client.subscribe_as("a", SubscriptionOptions { no_local: true, ..options(AtLeastOnce) });
        client.publish("a", AtLeastOnce, b"own");
        other.publish("a", AtLeastOnce, b"other");
        assert_eq!(client.receive().text(), "other");
        // No Local applies to one subscription: an overlapping one without it still delivers.
        client.subscribe_identified("+", AtMostOnce, 9);
        client.publish("a", AtLeastOnce, b"own again");
        let message = client.receive();
        assert_eq!((message.text(), message.qos()), ("own again", AtMostOnce));
        assert_eq!(message.subscription_identifiers(), [9]);
        expect_nothing_from(&mut other, &mut client);
    });
}

/// [MQTT-3.10.4-1], [MQTT-3.10.4-2], [MQTT-3.10.4-4] to [MQTT-3.10.4-6], [MQTT-3.11.3-1], [MQTT-3.11.3-2]
#[test]
fn unsuback_has_the_result_of_each_filter_in_order() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut client = broker.connect(V5, "client");
        let filters = ["a", "b/#", "$share/group/a"].map(|filter| (filter, options(AtLeastOnce)));
        assert_eq!(client.subscribe_all(&filters, &[]), [1, 1, 1]);
        let codes = client.unsubscribe(&["a", "b", "b/+", "b/#", "a", "$share/other/a", "$share/group/a"]);
        assert_eq!(codes, [0x00, 0x11, 0x11, 0x00, 0x11, 0x11, 0x00]);
    });
}

/// 3.1.1: [MQTT-3.10.4-1] to [MQTT-3.10.4-6]: UNSUBACK has no codes and is always sent.
#[test]
fn unsubscribing_stops_delivery_and_is_always_acknowledged() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut client = broker.connect(case.version, "client");
        client.subscribe("a/+", AtLeastOnce);
        client.subscribe("a/b", AtLeastOnce);
        // Compared character by character: `a/b` is not `a/+`.
        client.unsubscribe(&["a/b"]);
        client.unsubscribe(&["never/there"]);
        publisher.publish("a/b", AtLeastOnce, b"still");
        assert_eq!(client.receive().text(), "still");
        client.unsubscribe(&["a/+"]);
        publisher.publish("a/b", AtLeastOnce, b"no more");
        expect_nothing_from(&mut publisher, &mut client);
    });
}

/// [MQTT-3.10.4-6]; 3.1.1: [MQTT-3.10.4-6]: several filters in one packet, one answer for all.
#[test]
fn one_unsubscribe_ends_several_subscriptions_with_one_unsuback() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut client = broker.connect(case.version, "client");
        let filters = ["a", "b/+", "c/#", "d"].map(|filter| (filter, options(AtLeastOnce)));
        assert_eq!(client.subscribe_all(&filters, &[]), [1, 1, 1, 1]);
        let codes = client.unsubscribe(&["c/#", "never/there", "a", "b/+", "a"]);
        assert_eq!(codes, if case.version.is_v5() { vec![0x00, 0x11, 0x00, 0x00, 0x11] } else { vec![] });
        client.expect_nothing();
        for topic in ["a", "b/x", "c/x/y", "d"] {
            publisher.publish(topic, AtLeastOnce, b"x");
        }
        assert_eq!(client.receive().topic(), "d");
        expect_nothing_from(&mut publisher, &mut client);
    });
}

/// [MQTT-3.10.4-3]: exchanges in progress are completed.
#[test]
fn messages_in_flight_are_completed_after_unsubscribing() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let connecting = broker.connecting(case.version, "client").persistent();
        let mut client = connecting.open();
        client.subscribe("a", ExactlyOnce);
        publisher.publish("a", ExactlyOnce, b"1");
        publisher.publish("a", AtLeastOnce, b"2");
        let first = client.expect_publish();
        let second = client.expect_publish();
        client.unsubscribe(&["a"]);
        client.acknowledge(&first);
        client.cut();
        let mut client = connecting.open();
        let again = client.receive();
        assert_eq!((again.id(), again.text(), again.dup()), (second.id(), "2", true));
    });
}

/// 3.8.4 of 5.0: the subscription is active from SUBACK on, for publishers on any thread.
#[test]
fn a_subscription_is_active_after_suback() {
    every_case(|case| {
        let broker = case.broker();
        let mut publishers: Vec<_> =
            (0..8).map(|number| broker.connect(case.version, &format!("publisher-{number}"))).collect();
        for round in 0..20 {
            let mut subscriber = broker.connect(case.version, &format!("subscriber-{round}"));
            subscriber.subscribe("now/+", AtMostOnce);
            for publisher in &mut publishers {
                publisher.publish("now/x", AtMostOnce, b"x");
            }
            assert_eq!(subscriber.receive_texts(publishers.len()).len(), publishers.len());
            subscriber.unsubscribe(&["now/+"]);
            for publisher in &mut publishers {
                publisher.publish("now/x", AtLeastOnce, b"x");
            }
            expect_nothing_from(&mut publishers[0], &mut subscriber);
        }
    });
}

/// 3.2.2.3.11 of 5.0: SUBACK 0xA2; 3.1.1 only has 0x80.
#[test]
fn wildcards_are_refused_where_not_available() {
    every_version(|case| {
        let broker = case.broker_set(&["mqtt.wildcard_subscription_available=false"]);
        let mut client = broker.connect(case.version, "client");
        let filters = ["a/#", "+", "plain"].map(|filter| (filter, options(AtLeastOnce)));
        let refused = if case.version.is_v5() { 0xa2 } else { 0x80 };
        assert_eq!(client.subscribe_all(&filters, &[]), [refused, refused, 1]);
        client.publish("a/b", AtLeastOnce, b"no");
        client.publish("plain", AtLeastOnce, b"yes");
        assert_eq!(client.receive().text(), "yes");
    });
}

/// 3.2.2.3.13 of 5.0
#[test]
fn shared_subscriptions_are_refused_where_not_available() {
    every_version(|case| {
        let broker = case.broker_set(&["mqtt.shared_subscription_available=false"]);
        let mut client = broker.connect(case.version, "client");
        let filters = ["$share/group/a", "a"].map(|filter| (filter, options(AtLeastOnce)));
        let codes = client.subscribe_all(&filters, &[]);
        assert_eq!(codes, [if case.version.is_v5() { 0x9e } else { 0x80 }, 1]);
    });
}

/// 3.2.2.3.12 of 5.0: the code may be in SUBACK or DISCONNECT.
#[test]
fn subscription_identifiers_are_refused_where_not_available() {
    let broker = Broker::set(&["mqtt.subscription_identifier_available=false"]);
    let mut client = broker.connect(V5, "client");
    let codes = client.subscribe_all(&[("a", options(AtLeastOnce))], &[subscription_identifier(1)]);
    assert_eq!(codes, [0xa1]);
    client.subscribe("a", AtLeastOnce);
}

/// `limits.subscriptions_per_session`: 3.9.3 of 5.0 names 0x97; replacing and unsubscribing still work.
#[test]
fn subscriptions_of_a_session_are_bounded() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.subscriptions_per_session=3", "sys.interval_s=1"]);
        let mut client = broker.connect(case.version, "client");
        let refused = if case.version.is_v5() { 0x97 } else { 0x80 };
        let filters = ["a", "b", "c", "d", "a"].map(|filter| (filter, options(AtLeastOnce)));
        assert_eq!(client.subscribe_all(&filters, &[]), [1, 1, 1, refused, 1]);
        client.unsubscribe(&["b"]);
        client.subscribe("d", AtLeastOnce);
        assert_eq!(client.subscribe_all(&[("b", options(AtLeastOnce))], &[]), [refused]);
        client.publish("d", AtLeastOnce, b"x");
        assert_eq!(client.receive().text(), "x");
        let mut observer = broker.connect(case.version, "observer");
        await_number(&mut observer, "tautwire/subscriptions_refused", |count| count == 2.0);
    });
}

/// 3.8.3.1 of 5.0: all options at once, each with its own filter.
#[test]
fn every_combination_of_options_is_granted() {
    let broker = Broker::start();
    let mut client = broker.connect(V5, "client");
    for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
        for no_local in [false, true] {
            for retain_as_published in [false, true] {
                for retain_handling in
                    [RetainHandling::SendAtSubscribe, RetainHandling::SendIfNew, RetainHandling::DoNotSend]
                {
                    client
                        .subscribe_as("a", SubscriptionOptions { qos, no_local, retain_as_published, retain_handling });
                }
            }
        }
    }
}

/// A message reaches subscribers of both versions, without its properties in 3.1.1.
#[test]
fn messages_cross_protocol_versions() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut old = broker.connect(V3_1_1, "old");
        let mut new = broker.connect(V5, "new");
        old.subscribe("a", ExactlyOnce);
        new.subscribe("a", ExactlyOnce);
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            new.deliver(&OutgoingPublish::new("a", qos, b"from 5.0").property(Property::UserProperty("k", "v")));
            assert_eq!(new.receive().user_properties().len(), 1);
            let message = old.receive();
            assert_eq!((message.text(), message.qos()), ("from 5.0", qos));
            old.publish("a", qos, b"from 3.1.1");
            assert_eq!(old.receive().text(), "from 3.1.1");
            assert!(new.receive().properties().is_empty());
        }
    });
}
