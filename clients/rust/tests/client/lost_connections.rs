//! Lost connections, unavailable servers and lost sessions.

use std::num::NonZeroU32;
use std::time::Duration;

use tautwire_client::{Client, ConnectionEvent, Error, Limits, Publication, QoS, Status, Subscribe, blocking};

use crate::support::{PATIENCE, Relay, Running, eventually, soon};

/// Cuts the connection again and again while messages flow both ways through the same client.
#[test]
fn a_persistent_session_loses_and_duplicates_nothing_over_many_disconnects() {
    let broker = Running::start();
    let relay = Relay::to(broker.address());
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let options = relay.options().persistent(Duration::from_secs(1000)).client_id(format!("cut-{}", qos.as_u8()));
        let client = blocking::Client::connect(options).expect("connects");
        let mut stream = client.subscribe(Subscribe::to("t").qos(qos)).expect("granted");
        let publisher = client.clone();
        let sending = std::thread::spawn(move || {
            let mut handles = Vec::new();
            for number in 0..2000u32 {
                handles.push(publisher.publish(Publication::new("t", &number.to_be_bytes()).qos(qos)).expect("taken"));
                // Pauses leave time to cut the connection.
                if number % 50 == 49
                    && let Some(handle) = handles.pop()
                {
                    handle.wait().expect("acknowledged eventually");
                }
            }
            for handle in handles {
                handle.wait().expect("acknowledged eventually");
            }
        });
        let (mut next, mut cuts) = (0, 0);
        while next < 2000 {
            let message = stream.next_timeout(PATIENCE).expect("arrives");
            let number = u32::from_be_bytes(message.payload().try_into().expect("four bytes"));
            match qos {
                QoS::ExactlyOnce => assert_eq!(number, next, "once, and in order"),
                _ => assert!(number <= next, "{next} is missing before {number}"),
            }
            next = next.max(number + 1);
            if next / 100 > cuts {
                cuts = next / 100;
                relay.cut();
            }
        }
        sending.join().expect("no panic");
        assert!(client.counters().machine.connections > 5, "{:?}", client.counters());
        // The last cut may not have been noticed yet. A message published now is acknowledged on a live connection.
        client.publish(Publication::new("end", "").qos(qos)).expect("taken").wait().expect("acknowledged");
        client.disconnect().expect("ends cleanly");
    }
}

#[test]
fn a_session_without_expiry_is_resubscribed() {
    let broker = Running::start();
    let relay = Relay::to(broker.address());
    let client = blocking::Client::connect(relay.options().session_expiry(Duration::ZERO)).expect("connects");
    let mut stream = client.subscribe(Subscribe::to("t").qos(QoS::AtLeastOnce)).expect("granted");
    relay.cut();
    eventually("it has reconnected", || client.counters().machine.connections == 2);
    // On the same connection as the subscription, so after it.
    client.publish(Publication::new("t", "x").qos(QoS::AtLeastOnce)).expect("taken").wait().expect("acknowledged");
    assert_eq!(stream.next_timeout(PATIENCE).expect("arrives").payload(), b"x");
    assert_eq!(client.counters().machine.sessions_lost, 1);
}

#[tokio::test]
async fn operations_without_a_connection_wait_for_one() {
    let broker = Running::start();
    let relay = Relay::to(broker.address());
    relay.refuse(true);
    let mut limits = Limits::default();
    limits.queue_messages = 100_000;
    let client = Client::start(relay.options().limits(limits));
    let mut handles = Vec::new();
    // More than there are packet identifiers.
    for number in 0..70_000u32 {
        let bytes = number.to_be_bytes();
        let qos = if number % 2 == 0 { QoS::AtLeastOnce } else { QoS::AtMostOnce };
        handles.push(client.publish(Publication::new("t", &bytes).qos(qos)).await.expect("taken"));
    }
    let witness = Client::connect(broker.options()).await.expect("connects");
    let mut stream =
        witness.subscribe(Subscribe::to("t").qos(QoS::AtLeastOnce).capacity(100_000)).await.expect("granted");
    let witnessing = tokio::spawn(async move {
        // In order at each QoS; QoS 0 may overtake.
        let mut next = [0, 1];
        for _ in 0..70_000 {
            let message = soon(stream.next()).await.expect("arrives");
            let expected = &mut next[if message.qos() == QoS::AtLeastOnce { 0 } else { 1 }];
            assert_eq!(message.payload(), u32::to_be_bytes(*expected));
            *expected += 2;
        }
    });
    relay.refuse(false);
    for handle in handles {
        soon(handle).await.expect("sent and acknowledged eventually");
    }
    witnessing.await.expect("nothing is missing");
    client.disconnect().await.expect("ends cleanly");
}

#[test]
fn a_full_queue_refuses_callers_that_do_not_wait() {
    let broker = Running::start();
    let relay = Relay::to(broker.address());
    relay.refuse(true);
    let mut limits = Limits::default();
    limits.queue_messages = 10;
    let client = blocking::Client::start(relay.options().limits(limits)).expect("a thread");
    for _ in 0..10 {
        client.try_publish(Publication::new("t", "x")).expect("there is room");
    }
    assert!(matches!(client.try_publish(Publication::new("t", "x")), Err(Error::QueueFull)));
    let waiting = client.clone();
    let waiter = std::thread::spawn(move || waiting.publish(Publication::new("t", "x").qos(QoS::AtLeastOnce)));
    relay.refuse(false);
    waiter.join().expect("no panic").expect("room eventually").wait().expect("acknowledged");
}

#[test]
fn messages_of_an_earlier_process_wait_for_their_stream() {
    let broker = Running::start();
    let options = || broker.options().client_id("lasting").persistent(Duration::from_secs(1000));
    let client = blocking::Client::connect(options()).expect("connects");
    let stream = client.subscribe(Subscribe::to("t").qos(QoS::AtLeastOnce)).expect("granted");
    drop(stream);
    client.disconnect().expect("ends cleanly");
    let publisher = blocking::Client::connect(broker.options()).expect("connects");
    for number in 0..5u8 {
        let payload = [number];
        publisher
            .publish(Publication::new("t", &payload).qos(QoS::AtLeastOnce))
            .expect("taken")
            .wait()
            .expect("acknowledged");
    }
    let client = blocking::Client::connect(options()).expect("connects");
    assert!(matches!(client.status(), Status::Online { session_present: true }));
    eventually("they have arrived", || client.counters().machine.received == 5);
    let mut stream = client.listen("t").expect("open");
    for number in 0..5 {
        assert_eq!(stream.next_timeout(PATIENCE).expect("arrives").payload(), [number]);
    }
    assert!(stream.try_next().is_none());
    eventually("all is acknowledged", || client.unacknowledged() == 0);
}

#[test]
fn the_status_reports_each_step() {
    let broker = Running::start();
    let relay = Relay::to(broker.address());
    let client = blocking::Client::connect(relay.options()).expect("connects");
    let mut watch = client.watch();
    assert!(matches!(watch.next_timeout(PATIENCE), Ok(Status::Online { session_present: false })));
    relay.refuse(true);
    relay.cut();
    while !matches!(watch.next_timeout(PATIENCE), Ok(Status::Offline(_))) {}
    relay.refuse(false);
    while !matches!(watch.next_timeout(PATIENCE), Ok(Status::Online { .. })) {}
    client.disconnect().expect("ends cleanly");
    while !matches!(watch.next_timeout(PATIENCE), Ok(Status::Closed(Error::Closed))) {}
}

/// The session survives a lost connection, and ends when the client disconnects.
#[test]
fn a_session_is_resumed_and_ends_with_its_client() {
    let broker = Running::start();
    let relay = Relay::to(broker.address());
    let client = blocking::Client::connect(relay.options().client_id("resumed")).expect("connects");
    let mut events = client.events();
    let mut next = || events.next_timeout(PATIENCE).expect("in time").expect("not the end");
    assert!(matches!(next(), ConnectionEvent::Connected { session_present: false }));
    relay.cut();
    assert!(matches!(next(), ConnectionEvent::Disconnected(Error::Lost(_))));
    assert!(matches!(next(), ConnectionEvent::Connected { session_present: true }));
    client.disconnect().expect("ends cleanly");
    assert!(matches!(next(), ConnectionEvent::Ended(Error::Closed)));
    assert!(events.next().is_none());
    let again = broker.options().client_id("resumed").clean_start(false);
    let client = blocking::Client::connect(again).expect("connects");
    assert!(matches!(client.status(), Status::Online { session_present: false }));
}

#[tokio::test]
async fn each_failed_attempt_is_an_event() {
    let broker = Running::start();
    let relay = Relay::to(broker.address());
    relay.refuse(true);
    let client = Client::start(relay.options());
    let mut events = client.events();
    for _ in 0..3 {
        match soon(events.next()).await {
            Some(ConnectionEvent::AttemptFailed(Error::HandshakeFailed(_))) => {}
            other => panic!("{other:?}"),
        }
    }
    relay.refuse(false);
    while !matches!(soon(events.next()).await, Some(ConnectionEvent::Connected { session_present: false })) {}
    client.disconnect().await.expect("ends cleanly");
    assert!(matches!(soon(events.next()).await, Some(ConnectionEvent::Ended(Error::Closed))));
    assert!(soon(events.next()).await.is_none());
}

#[test]
fn attempts_can_be_limited() {
    let broker = Running::start();
    let relay = Relay::to(broker.address());
    relay.refuse(true);
    let three = NonZeroU32::new(3).expect("not zero");
    let client = blocking::Client::start(relay.options().attempts_max(three)).expect("a thread");
    let events: Vec<_> = client.events().collect();
    assert!(
        matches!(
            events[..],
            [
                ConnectionEvent::AttemptFailed(_),
                ConnectionEvent::AttemptFailed(_),
                ConnectionEvent::Ended(Error::HandshakeFailed(_))
            ]
        ),
        "{events:?}"
    );
    assert_eq!(client.disconnect().expect_err("it has ended").code(), "handshake_failed");
}

#[test]
fn an_offline_client_can_be_closed_at_once() {
    let broker = Running::start();
    let relay = Relay::to(broker.address());
    let client = blocking::Client::connect(relay.options()).expect("connects");
    relay.refuse(true);
    relay.cut();
    eventually("it is offline", || matches!(client.status(), Status::Offline(_) | Status::Connecting));
    let handle = client.publish(Publication::new("t", "x").qos(QoS::AtLeastOnce)).expect("taken");
    let _ = client.disconnect();
    let unresolved = handle.wait_timeout(Duration::from_secs(10)).expect("resolved in time");
    assert!(unresolved.is_err());
}
