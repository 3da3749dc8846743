//! Tests messages that are not published over a connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tautwire_engine::{Publication, Settings};
use tautwire_protocol::{QoS, TopicName};
use tautwire_reactor::{Control, PublishError};

use crate::client::{Client, PATIENCE, eventually, pattern, quiet, start};

fn publish(control: &Control, topic: &str, payload: &[u8]) -> Result<bool, PublishError> {
    let topic = TopicName::new(topic).expect("a valid topic");
    let publication = Publication { topic, content_type: None, payload, qos: QoS::AtLeastOnce, retain: false };
    control.publish(&publication, PATIENCE)
}

/// Nothing else wakes the threads here: each message must.
#[test]
fn a_sleeping_thread_is_woken_for_every_message() {
    for threads in [1, 2] {
        let broker = start(quiet(), threads);
        let control = broker.control();
        assert_eq!(publish(&control, "t", b"no subscriber"), Ok(false));
        let mut subscriber = Client::connect(&broker, "subscriber");
        subscriber.subscribe("t", QoS::AtLeastOnce);
        for n in 0..2_000 {
            assert_eq!(publish(&control, "t", &pattern(n, n * 5)), Ok(true));
            assert!(subscriber.next_payload() == pattern(n, n * 5), "{n}");
        }
    }
}

/// The ring between two threads holds one batch at a time here. A rejected publisher retries; nothing accepted is lost, and all of it
/// arrives in order.
#[test]
fn accepted_commands_are_executed_in_order_and_refused_ones_are_not() {
    const PUBLISHERS: usize = 4;
    const MESSAGES: usize = 500;
    let broker = start(Settings { shard_queue_batches: 1, ..quiet() }, 2);
    let subscribers: Vec<Client> = (0..8)
        .map(|n| {
            let mut subscriber = Client::connect(&broker, &format!("subscriber-{n}"));
            subscriber.subscribe("t/#", QoS::AtLeastOnce);
            subscriber
        })
        .collect();
    thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let control = broker.control();
            scope.spawn(move || {
                for n in 0..MESSAGES {
                    let outcome =
                        std::iter::repeat_with(|| publish(&control, &format!("t/{publisher}"), &n.to_be_bytes()))
                            .find(|outcome| *outcome != Err(PublishError::Busy));
                    assert_eq!(outcome, Some(Ok(true)));
                }
            });
        }
        for mut subscriber in subscribers {
            scope.spawn(move || {
                let mut next = [0_usize; PUBLISHERS];
                for _ in 0..PUBLISHERS * MESSAGES {
                    let (topic, payload) = subscriber.next_message();
                    let publisher: usize = topic[2..].parse().expect("a number");
                    assert_eq!(payload, next[publisher].to_be_bytes());
                    next[publisher] += 1;
                }
            });
        }
    });
}

#[test]
fn a_stopping_broker_is_not_awaited() {
    for threads in [1, 2] {
        let broker = start(quiet(), threads);
        let control = broker.control();
        let published = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    loop {
                        match publish(&control, "t", b"x") {
                            Ok(_) => published.fetch_add(1, Ordering::Relaxed),
                            Err(error) => {
                                assert_eq!(error, PublishError::Stopping);
                                return;
                            }
                        };
                    }
                });
            }
            eventually("messages are published", || published.load(Ordering::Relaxed) > 100);
            broker.stop();
        });
        assert_eq!(publish(&control, "t", b"late"), Err(PublishError::Stopping));
    }
}
