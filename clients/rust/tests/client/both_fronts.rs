//! Every feature once, blocking and async.

use std::time::Duration;

use tautwire_client::{
    Error, Options, Property, ProtocolVersion, Publication, QoS, ReasonCode, Reconnect, Refused, RetainHandling,
    Status, Subscribe, SubscriptionId, Will, blocking,
};

use crate::support::{PATIENCE, Running, eventually, options, soon};

const QOS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::V3_1_1, ProtocolVersion::V5];

#[test]
fn messages_arrive_once_and_in_order_at_every_qos_on_threads() {
    let broker = Running::start();
    for version in VERSIONS {
        for qos in QOS {
            let client = blocking::Client::connect(broker.options().version(version)).expect("connects");
            let mut stream = client.subscribe(Subscribe::to("a/+").qos(qos)).expect("granted");
            assert_eq!(stream.granted().collect::<Vec<_>>(), [("a/+", qos)]);
            for number in 0..1000u32 {
                client.publish(Publication::new("a/b", &number.to_be_bytes()).qos(qos)).expect("taken");
            }
            for number in 0..1000u32 {
                let message = stream.next_timeout(PATIENCE).expect("arrives");
                assert_eq!((message.topic(), message.qos()), ("a/b", qos));
                assert_eq!(message.payload(), number.to_be_bytes());
            }
            client.disconnect().expect("ends cleanly");
            assert!(stream.next().is_none());
            assert!(matches!(client.publish(Publication::new("a", "")), Err(Error::Closed)));
        }
    }
}

#[tokio::test]
async fn messages_arrive_once_and_in_order_at_every_qos_on_tokio() {
    use tautwire_client::Client;
    let broker = Running::start();
    for version in VERSIONS {
        for qos in QOS {
            let client = Client::connect(broker.options().version(version)).await.expect("connects");
            let mut stream = client.subscribe(Subscribe::to("a/+").qos(qos)).await.expect("granted");
            let mut handles = Vec::new();
            for number in 0..1000u32 {
                let bytes = number.to_be_bytes();
                handles.push(client.publish(Publication::new("a/b", &bytes).qos(qos)).await.expect("taken"));
            }
            for number in 0..1000u32 {
                let message = soon(stream.next()).await.expect("arrives");
                assert_eq!(message.payload(), number.to_be_bytes());
            }
            for handle in handles {
                soon(handle).await.expect("acknowledged");
            }
            client.disconnect().await.expect("ends cleanly");
            assert!(soon(stream.next()).await.is_none());
        }
    }
}

#[test]
fn a_handle_has_the_result_of_the_server() {
    let broker = Running::start();
    let client = blocking::Client::connect(broker.options()).expect("connects");
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let published = client.publish(Publication::new("nobody", "x").qos(qos)).expect("taken").wait().expect("taken");
        assert_eq!(published.reason, ReasonCode::NoMatchingSubscribers, "{qos:?}");
    }
    let refused = client.publish(Publication::new("$SYS/x", "x").qos(QoS::AtLeastOnce)).expect("taken").wait();
    assert!(matches!(refused, Err(Error::Refused { what: Refused::Message, reason: ReasonCode::NotAuthorized, .. })));
    let wildcard = tautwire_client::TopicName::new("a/#").expect_err("no topic");
    assert_eq!(
        client.publish(Publication::new("a/#", "x")).expect_err("no topic").code(),
        Error::Topic(wildcard).code()
    );
    let response = Publication::new("a", "x").response_topic("b/#");
    assert_eq!(client.publish(response).expect_err("no topic").code(), Error::Topic(wildcard).code());
}

#[test]
fn a_subscription_with_a_refused_filter_fails() {
    let broker = Running::start();
    let deep = "a/".repeat(300);
    for lasting in [false, true] {
        let options = broker.options().client_id("one");
        let options = if lasting { options.persistent(Duration::from_secs(60)) } else { options };
        let client = blocking::Client::connect(options).expect("connects");
        let held = client.subscribe("held").expect("granted");
        for subscribe in [Subscribe::to(deep.as_str()), Subscribe::to("held").and(deep.as_str()).and("ok")] {
            let refused = client.subscribe(subscribe).expect_err("too many levels");
            let what = Refused::Subscription(deep.as_str().into());
            assert!(matches!(&refused, Error::Refused { what: said, .. } if *said == what), "{refused}");
        }
        // Nothing of it remains on the server, except the filter of another subscription.
        for (topic, expected) in [("ok", ReasonCode::NoMatchingSubscribers), ("held", ReasonCode::Success)] {
            let published = client.publish(Publication::new(topic, "x").qos(QoS::AtLeastOnce)).expect("taken").wait();
            assert_eq!(published.expect("acknowledged").reason, expected, "{topic}, lasting: {lasting}");
        }
        drop(held);
        client.disconnect().expect("ended");
    }
}

#[test]
fn streams_of_one_client_get_their_messages() {
    let broker = Running::start();
    let client = blocking::Client::connect(broker.options()).expect("connects");
    let mut all = client.subscribe(Subscribe::to("#").qos(QoS::AtLeastOnce)).expect("granted");
    let mut some = client.subscribe(Subscribe::to("a/+").and("b").qos(QoS::AtLeastOnce)).expect("granted");
    for topic in ["a/1", "c", "b"] {
        client
            .publish(Publication::new(topic, topic).qos(QoS::AtLeastOnce))
            .expect("taken")
            .wait()
            .expect("acknowledged");
    }
    let topics = |stream: &mut blocking::Subscription, count| {
        (0..count).map(|_| stream.next_timeout(PATIENCE).expect("arrives").topic().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(topics(&mut some, 2), ["a/1", "b"]);
    assert_eq!(topics(&mut all, 3), ["a/1", "c", "b"]);
    assert!(some.try_next().is_none());
    assert!(all.try_next().is_none());
    eventually("all is acknowledged", || client.unacknowledged() == 0);
    some.unsubscribe().expect("ended");
    client.publish(Publication::new("b", "x")).expect("taken");
    assert_eq!(topics(&mut all, 1), ["b"]);
}

#[test]
fn a_dropped_stream_ends_its_subscription() {
    let broker = Running::start();
    let client = blocking::Client::connect(broker.options()).expect("connects");
    drop(client.subscribe(Subscribe::to("t").qos(QoS::AtLeastOnce)).expect("granted"));
    // Sent after the UNSUBSCRIBE on the same connection.
    let published = client.publish(Publication::new("t", "x").qos(QoS::AtLeastOnce)).expect("taken").wait();
    assert_eq!(published.expect("acknowledged").reason, ReasonCode::NoMatchingSubscribers);
}

#[test]
fn manual_acknowledgement_enforces_the_receive_maximum() {
    let broker = Running::start();
    let receive_maximum = 3.try_into().expect("not zero");
    let client = blocking::Client::connect(broker.options().receive_maximum(receive_maximum)).expect("connects");
    let mut stream =
        client.subscribe(Subscribe::to("t").qos(QoS::AtLeastOnce).manual_acknowledgement()).expect("granted");
    for number in 0..6u8 {
        client
            .publish(Publication::new("t", &[number]).qos(QoS::AtLeastOnce))
            .expect("taken")
            .wait()
            .expect("acknowledged");
    }
    let tokens: Vec<_> =
        (0..3).map(|_| stream.next_timeout(PATIENCE).expect("arrives").token().expect("QoS 1")).collect();
    assert!(stream.try_next().is_none(), "the server waits");
    for token in tokens {
        stream.acknowledge(token);
    }
    for number in 3..6 {
        assert_eq!(stream.next_timeout(PATIENCE).expect("arrives").payload(), [number]);
    }
}

#[test]
fn properties_arrive_unchanged() {
    let broker = Running::start();
    let client = blocking::Client::connect(broker.options()).expect("connects");
    let identifier = SubscriptionId::new(77).expect("not zero");
    let mut stream = client.subscribe(Subscribe::to("t").identifier(identifier)).expect("granted");
    let publication = Publication::new("t", "text")
        .text()
        .content_type("text/plain")
        .correlation_data(b"\0\x01")
        .user_property("k", "1")
        .user_property("j", "2")
        .user_property("k", "3")
        .expiry(Duration::from_secs(60));
    client.publish(publication).expect("taken");
    let message = stream.next_timeout(PATIENCE).expect("arrives");
    let properties = message.properties();
    assert_eq!(properties.content_type(), Some("text/plain"));
    assert_eq!(properties.correlation_data(), Some(&b"\0\x01"[..]));
    assert_eq!(properties.user_properties().collect::<Vec<_>>(), [("k", "1"), ("j", "2"), ("k", "3")]);
    assert_eq!(properties.subscription_identifiers().collect::<Vec<_>>(), [identifier]);
    assert!(properties.message_expiry_interval().is_some_and(|left_s| left_s <= 60 && left_s > 50));
}

#[test]
fn retained_messages_follow_the_retain_handling() {
    let broker = Running::start();
    let client = blocking::Client::connect(broker.options()).expect("connects");
    let retained = Publication::new("t", "old").retain(true).qos(QoS::AtLeastOnce);
    client.publish(retained).expect("taken").wait().expect("acknowledged");
    let mut stream = client.subscribe("t").expect("granted");
    let message = stream.next_timeout(PATIENCE).expect("arrives");
    assert!(message.retain());
    drop(stream);
    let mut none = client.subscribe(Subscribe::to("t").retain_handling(RetainHandling::DoNotSend)).expect("granted");
    client.publish(Publication::new("t", "new")).expect("taken");
    assert_eq!(none.next_timeout(PATIENCE).expect("arrives").payload(), b"new");
}

#[test]
fn a_will_is_published_when_its_client_disappears() {
    let broker = Running::start();
    let witness = blocking::Client::connect(broker.options()).expect("connects");
    let mut wills = witness.subscribe("will").expect("granted");
    let relay = crate::support::Relay::to(broker.address());
    let will = Will::new("will", "gone").expect("a topic");
    let client = blocking::Client::connect(relay.options().will(will).reconnect(None)).expect("connects");
    relay.cut();
    assert_eq!(wills.next_timeout(PATIENCE).expect("arrives").payload(), b"gone");
    eventually("it does not come back", || matches!(client.status(), Status::Closed(Error::Lost(_))));
}

/// Options with a host name that is too long for a name lookup.
fn unknown() -> tautwire_client::Options {
    tautwire_client::Options::new(&format!("mqtt://{}.invalid", "x".repeat(64))).expect("an address")
}

#[test]
fn the_first_failure_is_reported_at_once() {
    let listener = std::net::TcpListener::bind(crate::support::any_port()).expect("a port");
    // The local end of a connection: its port has no listener, and nothing else can bind it
    // meanwhile.
    let taken = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    let nobody = taken.local_addr().expect("bound");
    let error = blocking::Client::connect(options(nobody)).expect_err("nobody listens");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let unknown = unknown();
    let error = blocking::Client::connect(unknown).expect_err("nobody has this name");
    assert!(matches!(error, Error::NameNotFound { .. }), "{error}");
}

#[tokio::test]
async fn the_first_failure_is_reported_at_once_on_tokio() {
    let unknown = unknown();
    let error = soon(tautwire_client::Client::connect(unknown)).await.expect_err("nobody has this name");
    assert!(matches!(error, Error::NameNotFound { .. }), "{error}");
}

/// A server that accepts the connection and sends nothing: one time limit covers the whole attempt.
#[test]
fn an_attempt_times_out() {
    let silent = std::net::TcpListener::bind(crate::support::any_port()).expect("a port");
    let address = silent.local_addr().expect("bound");
    let options = options(address).connect_timeout(Duration::from_millis(50));
    let error = blocking::Client::connect(options).expect_err("no CONNACK");
    assert_eq!(error.code(), "connect_timeout");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn a_close_before_connack_is_distinguished_from_a_lost_connection() {
    let broker = Running::start();
    let relay = crate::support::Relay::to(broker.address());
    relay.refuse(true);
    let error = blocking::Client::connect(relay.options()).expect_err("closed at once");
    assert_eq!(error.code(), "handshake_failed", "{error}");
}

#[test]
fn a_taken_over_client_does_not_reconnect() {
    let broker = Running::start();
    let first = blocking::Client::connect(broker.options().client_id("same")).expect("connects");
    let mut watch = first.watch();
    let _second = blocking::Client::connect(broker.options().client_id("same")).expect("connects");
    loop {
        match watch.next_timeout(PATIENCE).expect("it changes") {
            Status::Closed(Error::Disconnected { .. }) => break,
            Status::Online { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_final_session_expiry_is_sent() {
    let broker = Running::start();
    let kept = || {
        blocking::Client::connect(broker.options().client_id("kept").persistent(Duration::from_secs(1000)))
            .expect("connects")
    };
    kept().disconnect().expect("ends cleanly");
    let client = kept();
    assert!(matches!(client.status(), Status::Online { session_present: true }));
    client.disconnect_with(&[Property::SessionExpiryInterval(0)]).expect("ends cleanly");
    assert!(matches!(kept().status(), Status::Online { session_present: false }));
}

#[test]
fn timeouts_can_exceed_the_range_of_the_clock() {
    let broker = Running::start();
    let for_ever = Reconnect { min: Duration::MAX, max: Duration::MAX };
    let options = broker.options().connect_timeout(Duration::MAX).disconnect_timeout(Duration::MAX);
    let client = blocking::Client::connect(options.ping_timeout(Duration::MAX)).expect("connects");
    let mut stream = client.subscribe(Subscribe::to("t").qos(QoS::AtLeastOnce)).expect("granted");
    let publishing = client.publish(Publication::new("t", "x").qos(QoS::AtLeastOnce)).expect("taken");
    publishing.wait_timeout(Duration::MAX).expect("in time").expect("acknowledged");
    stream.next_timeout(Duration::MAX).expect("arrives");
    client.watch().next_timeout(Duration::MAX).expect("a status");
    client.events().next_timeout(Duration::MAX).expect("an event");
    client.disconnect().expect("ends cleanly");
    // The listener is closed, so the client waits to reconnect.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let options = Options::new(&format!("mqtt://{nowhere}")).expect("an address").reconnect(Some(for_ever));
    let client = blocking::Client::start(options).expect("a thread");
    let mut events = client.events();
    events.next_timeout(PATIENCE).expect("an event");
    client.disconnect().expect("ends cleanly");
}
