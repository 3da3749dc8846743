//! Several subscriptions to the same filter, which are one subscription for the server.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use tautwire_client::{Message, Publication, QoS, RetainHandling, Subscribe, SubscriptionId, blocking};

use crate::support::{PATIENCE, Running};

fn connect(broker: &Running) -> blocking::Client {
    blocking::Client::connect(broker.options()).expect("connects")
}

fn publish(client: &blocking::Client, topic: &str, payload: &str, qos: QoS) {
    client.publish(Publication::new(topic, payload).qos(qos)).expect("taken").wait().expect("acknowledged");
}

/// The payload and the QoS of the next message.
fn next(stream: &mut blocking::Subscription) -> (String, QoS) {
    let message = stream.next_timeout(PATIENCE).expect("arrives");
    (String::from_utf8_lossy(message.payload()).into_owned(), message.qos())
}

#[test]
fn a_second_subscription_does_not_lower_the_qos_of_the_first() {
    let broker = Running::start();
    let (client, publisher) = (connect(&broker), connect(&broker));
    let mut high = client.subscribe(Subscribe::to("same").qos(QoS::ExactlyOnce)).expect("granted");
    let mut low = client.subscribe(Subscribe::to("same")).expect("granted");
    publish(&publisher, "same", "both", QoS::ExactlyOnce);
    assert_eq!(next(&mut high), ("both".into(), QoS::ExactlyOnce));
    assert_eq!(next(&mut low), ("both".into(), QoS::ExactlyOnce));
    low.unsubscribe().expect("ended");
    publish(&publisher, "same", "one", QoS::ExactlyOnce);
    assert_eq!(next(&mut high), ("one".into(), QoS::ExactlyOnce));
}

#[test]
fn when_one_subscription_ends_the_other_keeps_its_options() {
    let broker = Running::start();
    let (client, publisher) = (connect(&broker), connect(&broker));
    let retained = Publication::new("same", "retained").qos(QoS::AtLeastOnce).retain(true);
    publisher.publish(retained).expect("taken").wait().expect("acknowledged");
    let mut low = client.subscribe(Subscribe::to("same").retain_handling(RetainHandling::DoNotSend)).expect("granted");
    let high = Subscribe::to("same").qos(QoS::ExactlyOnce).retain_handling(RetainHandling::DoNotSend);
    drop(client.subscribe(high).expect("granted"));
    // This is sent after the SUBSCRIBE that reverts the options of the second, on the same
    // connection.
    publish(&client, "other", "", QoS::AtLeastOnce);
    publish(&publisher, "same", "x", QoS::ExactlyOnce);
    assert_eq!(next(&mut low), ("x".into(), QoS::AtMostOnce), "not the retained message again, and at QoS 0");
}

#[test]
fn no_local_applies_only_if_all_subscriptions_have_it() {
    let broker = Running::start();
    let client = connect(&broker);
    let mut hears_itself = client.subscribe(Subscribe::to("same").qos(QoS::AtLeastOnce)).expect("granted");
    let silent = Subscribe::to("same").qos(QoS::AtLeastOnce).no_local();
    let mut other = client.subscribe(silent.clone()).expect("granted");
    publish(&client, "same", "own", QoS::AtLeastOnce);
    assert_eq!(next(&mut hears_itself).0, "own");
    assert_eq!(next(&mut other).0, "own", "the server has one subscription for both");
    // The remaining subscription has No Local.
    hears_itself.unsubscribe().expect("ended");
    let publisher = connect(&broker);
    publish(&client, "same", "own again", QoS::AtLeastOnce);
    publish(&publisher, "same", "of another", QoS::AtLeastOnce);
    assert_eq!(next(&mut other).0, "of another");
}

#[test]
fn retain_as_published_applies_if_one_subscription_has_it() {
    let broker = Running::start();
    let (client, publisher) = (connect(&broker), connect(&broker));
    let mut keeps = client.subscribe(Subscribe::to("same").retain_as_published()).expect("granted");
    let mut clears = client.subscribe(Subscribe::to("same")).expect("granted");
    let retained = Publication::new("same", "x").retain(true).qos(QoS::AtLeastOnce);
    publisher.publish(retained).expect("taken").wait().expect("acknowledged");
    for stream in [&mut keeps, &mut clears] {
        assert!(stream.next_timeout(PATIENCE).expect("arrives").retain());
    }
}

/// The server has one identifier for the filter, whichever subscription set it.
#[test]
fn subscriptions_with_their_own_identifiers_both_receive_messages() {
    let broker = Running::start();
    let client = connect(&broker);
    let id = |number| SubscriptionId::new(number).expect("not zero");
    let mut one = client.subscribe(Subscribe::to("same").identifier(id(1))).expect("granted");
    let mut other = client.subscribe(Subscribe::to("same").identifier(id(2))).expect("granted");
    let mut plain = client.subscribe(Subscribe::to("same")).expect("granted");
    publish(&client, "same", "x", QoS::AtLeastOnce);
    for stream in [&mut one, &mut other, &mut plain] {
        assert_eq!(next(stream).0, "x");
    }
}

#[test]
fn several_filters_form_one_subscription_and_can_overlap() {
    let broker = Running::start();
    let (client, publisher) = (connect(&broker), connect(&broker));
    let mut both = client.subscribe(Subscribe::to("a").and("b").qos(QoS::AtLeastOnce)).expect("granted");
    let one = client.subscribe(Subscribe::to("a")).expect("granted");
    publish(&publisher, "a", "1", QoS::AtLeastOnce);
    publish(&publisher, "b", "2", QoS::AtLeastOnce);
    assert_eq!([next(&mut both), next(&mut both)], [("1".into(), QoS::AtLeastOnce), ("2".into(), QoS::AtLeastOnce)]);
    both.unsubscribe().expect("ended");
    // `a` remains at QoS 0; `b` has ended.
    publish(&client, "other", "", QoS::AtLeastOnce);
    publish(&publisher, "b", "3", QoS::AtLeastOnce);
    publish(&publisher, "a", "4", QoS::AtLeastOnce);
    let mut one = one;
    assert_eq!(next(&mut one), ("1".into(), QoS::AtLeastOnce));
    assert_eq!(next(&mut one), ("4".into(), QoS::AtMostOnce));
}

/// The next messages of a stream that is polled.
fn polled(stream: &mut tautwire_client::Subscription, count: usize) -> Vec<Message> {
    let mut next = || blocking::block_on(poll_fn(|cx| stream.poll_next(cx)), Some(Instant::now() + PATIENCE));
    (0..count).map(|_| next().flatten().expect("arrives")).collect()
}

#[test]
fn returned_messages_are_delivered_again() {
    let broker = Running::start();
    let lasting = broker.options().client_id("lasting").persistent(Duration::from_secs(600));
    let (client, publisher) = (blocking::Client::connect(lasting).expect("connects"), connect(&broker));
    let subscribe = || {
        let subscribe = Subscribe::to("back").qos(QoS::AtLeastOnce).manual_acknowledgement();
        let subscribing = client.subscribing(subscribe).expect("asked for");
        blocking::block_on(subscribing, Some(Instant::now() + PATIENCE)).expect("answered").expect("granted")
    };
    let mut stream = subscribe();
    let expected = ["one", "two", "three"].map(str::as_bytes);
    for payload in ["one", "two", "three"] {
        publish(&publisher, "back", payload, QoS::AtLeastOnce);
    }
    for _ in 0..2 {
        let messages = polled(&mut stream, 3);
        assert!(messages.iter().map(Message::payload).eq(expected), "{messages:?}");
        stream.put_back(messages);
    }
    // The session persists, and the next stream gets them.
    drop(stream);
    let messages = polled(&mut subscribe(), 3);
    assert!(messages.iter().map(Message::payload).eq(expected), "{messages:?}");
}
