//! Retained messages still pending for a subscription when it is removed or replaced.

use tautwire_protocol::{RetainHandling, SubscriptionOptions};

use crate::support::property::{receive_maximum, subscription_identifier};
use crate::support::{
    AtLeastOnce, Broker, Case, Client, ExactlyOnce, Message, OutgoingPublish, QoS, V5, every_case, every_thread_count,
    expect_nothing_from, options,
};

/// A broker that allows one message in flight, with five retained ones, `kept/0` to `kept/4`.
fn five_retained(case: Case) -> (Broker, Client) {
    let broker = case.broker_set(&["limits.in_flight_per_client=1"]);
    let mut publisher = broker.connect(case.version, "publisher");
    for number in 0..5 {
        let topic = format!("kept/{number}");
        publisher.deliver(&OutgoingPublish::new(&topic, ExactlyOnce, b"kept").retained());
    }
    (broker, publisher)
}

/// A subscriber that has received the first of the five and has not acknowledged it.
fn with_one_in_flight(case: Case, broker: &Broker, qos: QoS) -> (Client, Message) {
    let mut connecting = broker.connecting(case.version, "subscriber");
    if case.version.is_v5() {
        connecting = connecting.property(receive_maximum(1));
    }
    let mut subscriber = connecting.open();
    subscriber.subscribe("kept/#", qos);
    let first = subscriber.expect_publish();
    (subscriber, first)
}

/// [MQTT-3.10.4-2], [MQTT-3.10.4-3]; 3.1.1: [MQTT-3.10.4-2]
#[test]
fn unsubscribe_cancels_pending_retained_messages() {
    every_case(|case| {
        let (broker, mut publisher) = five_retained(case);
        for qos in [AtLeastOnce, ExactlyOnce] {
            let (mut subscriber, first) = with_one_in_flight(case, &broker, qos);
            subscriber.unsubscribe(&["kept/#"]);
            // A message already sent is completed.
            subscriber.acknowledge(&first);
            subscriber.expect_nothing();
            expect_nothing_from(&mut publisher, &mut subscriber);
            // Subscribed again, it receives all of them.
            subscriber.subscribe("kept/#", qos);
            let mut topics: Vec<String> = (0..5).map(|_| subscriber.receive().topic().to_owned()).collect();
            topics.sort_unstable();
            assert_eq!(topics, ["kept/0", "kept/1", "kept/2", "kept/3", "kept/4"]);
            subscriber.expect_nothing();
            subscriber.disconnect();
        }
    });
}

/// The same with a packet of so many filters that it is processed over several turns.
#[test]
fn unsubscribe_from_many_filters_cancels_pending_retained_messages() {
    every_case(|case| {
        let (broker, mut publisher) = five_retained(case);
        let (mut subscriber, first) = with_one_in_flight(case, &broker, AtLeastOnce);
        let others: Vec<String> = (0..2_000).map(|number| format!("other/{number}")).collect();
        let mut filters: Vec<&str> = others.iter().map(String::as_str).collect();
        filters.push("kept/#");
        subscriber.unsubscribe(&filters);
        subscriber.acknowledge(&first);
        subscriber.expect_nothing();
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// Messages pending for other subscriptions stay pending.
#[test]
fn unsubscribe_cancels_no_other_pending_messages() {
    every_case(|case| {
        let (broker, _publisher) = five_retained(case);
        let (mut subscriber, first) = with_one_in_flight(case, &broker, AtLeastOnce);
        subscriber.subscribe("kept/3", AtLeastOnce);
        subscriber.unsubscribe(&["kept/#"]);
        subscriber.acknowledge(&first);
        assert_eq!(subscriber.receive().topic(), "kept/3");
        subscriber.expect_nothing();
    });
}

/// The session continues while the client is offline: messages of a removed subscription are not sent after the reconnect.
#[test]
fn an_abandoned_message_is_not_resent_after_a_reconnect() {
    every_case(|case| {
        let (broker, mut publisher) = five_retained(case);
        let mut subscriber = broker.connecting(case.version, "subscriber").persistent().open();
        subscriber.subscribe("kept/#", AtLeastOnce);
        let first = subscriber.expect_publish();
        subscriber.unsubscribe(&["kept/#"]);
        subscriber.cut();
        let mut subscriber = broker.connecting(case.version, "subscriber").persistent().open();
        let again = subscriber.receive();
        assert_eq!((again.topic(), again.dup()), (first.topic(), true));
        subscriber.expect_nothing();
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

fn handling(qos: QoS, retain_handling: RetainHandling) -> SubscriptionOptions {
    SubscriptionOptions { retain_handling, ..options(qos) }
}

/// [MQTT-3.3.1-11], [MQTT-3.8.4-4]: with Retain Handling 2 the new subscription has no pending messages, and it replaces the old one.
#[test]
fn resubscribing_without_retained_messages_cancels_pending_ones() {
    every_thread_count(|case| {
        let (broker, mut publisher) = five_retained(case);
        let (mut subscriber, first) = with_one_in_flight(case, &broker, AtLeastOnce);
        subscriber.subscribe_as("kept/#", handling(AtLeastOnce, RetainHandling::DoNotSend));
        subscriber.acknowledge(&first);
        subscriber.expect_nothing();
        expect_nothing_from(&mut publisher, &mut subscriber);
        // The subscription is still active.
        publisher.publish("kept/7", AtLeastOnce, b"live");
        assert_eq!(subscriber.receive().text(), "live");
    });
}

/// [MQTT-3.3.1-10], [MQTT-3.8.4-4]: with Retain Handling 1 no message is added; pending ones use the new options.
#[test]
fn pending_retained_messages_use_the_new_qos_and_identifier() {
    every_thread_count(|case| {
        let (broker, mut publisher) = five_retained(case);
        for (before, after) in [(AtLeastOnce, ExactlyOnce), (ExactlyOnce, AtLeastOnce)] {
            let mut subscriber = broker.connecting(V5, "subscriber").property(receive_maximum(1)).open();
            subscriber.subscribe_identified("kept/#", before, 7);
            let first = subscriber.expect_publish();
            assert_eq!((first.qos(), first.subscription_identifiers()), (before, vec![7]));
            let new = handling(after, RetainHandling::SendIfNew);
            assert_eq!(subscriber.subscribe_all(&[("kept/#", new)], &[subscription_identifier(9)]), [after.as_u8()]);
            subscriber.acknowledge(&first);
            let mut topics = vec![first.topic().to_owned()];
            for _ in 0..4 {
                let message = subscriber.receive();
                assert_eq!((message.qos(), message.subscription_identifiers()), (after, vec![9]));
                topics.push(message.topic().to_owned());
            }
            topics.sort_unstable();
            assert_eq!(topics, ["kept/0", "kept/1", "kept/2", "kept/3", "kept/4"]);
            subscriber.expect_nothing();
            expect_nothing_from(&mut publisher, &mut subscriber);
            subscriber.disconnect();
        }
    });
}

/// [MQTT-3.3.1-9], [MQTT-3.8.4-4]: with Retain Handling 0 all messages are sent again, and the earlier pending ones are not duplicated.
#[test]
fn a_repeated_subscription_gets_all_retained_messages_once() {
    every_case(|case| {
        let (broker, mut publisher) = five_retained(case);
        let (mut subscriber, first) = with_one_in_flight(case, &broker, AtLeastOnce);
        subscriber.subscribe("kept/#", AtLeastOnce);
        subscriber.acknowledge(&first);
        let mut topics: Vec<String> = (0..5).map(|_| subscriber.receive().topic().to_owned()).collect();
        topics.sort_unstable();
        assert_eq!(topics, ["kept/0", "kept/1", "kept/2", "kept/3", "kept/4"]);
        subscriber.expect_nothing();
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}
