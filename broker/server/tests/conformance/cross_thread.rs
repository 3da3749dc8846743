//! Behaviour that must not depend on the thread of a client. Client ids are distributed over the threads, so each test involves several of
//! them.

use std::thread;

use tautwire_protocol::{Packet, ReasonCode};

use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, ExactlyOnce, OutgoingPublish, V5, WillMessage, every_thread_count,
    expect_nothing_from, options,
};

const CLIENTS: usize = 8;

fn clients(broker: &Broker, name: &str) -> Vec<Client> {
    (0..CLIENTS).map(|number| broker.connect(V5, &format!("{name}-{number}"))).collect()
}

/// Each client receives the messages of each other client, whatever their threads.
#[test]
fn every_client_reaches_every_other() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut everybody = clients(&broker, "client");
        for client in &mut everybody {
            client.subscribe("all/#", ExactlyOnce);
        }
        for from in 0..CLIENTS {
            let qos = [AtMostOnce, AtLeastOnce, ExactlyOnce][from % 3];
            everybody[from].publish(&format!("all/{from}"), qos, from.to_string().as_bytes());
            for to in &mut everybody {
                let message = to.receive();
                assert_eq!((message.text(), message.qos()), (from.to_string().as_str(), qos));
            }
        }
    });
}

/// 3.4.2.1 of 5.0: "no matching subscribers" means none on any thread.
#[test]
fn no_matching_subscribers_means_on_no_thread() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publishers = clients(&broker, "publisher");
        for number in 0..CLIENTS {
            let mut subscriber = broker.connect(V5, &format!("subscriber-{number}"));
            subscriber.subscribe("some/+", AtMostOnce);
            for publisher in &mut publishers {
                assert_eq!(publisher.publish("some/where", AtLeastOnce, b"x"), 0x00);
                assert_eq!(publisher.publish("else/where", AtLeastOnce, b"x"), 0x10);
            }
            subscriber.unsubscribe(&["some/+"]);
            for publisher in &mut publishers {
                assert_eq!(publisher.publish("some/where", ExactlyOnce, b"x"), 0x10);
            }
        }
    });
}

/// The end of a session removes its subscriptions on all threads.
#[test]
fn the_subscriptions_of_an_ended_session_are_removed_on_every_thread() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publishers = clients(&broker, "publisher");
        for number in 0..CLIENTS {
            let name = format!("subscriber-{number}");
            let mut subscriber = broker.connect(V5, &name);
            subscriber.subscribe("a/#", AtLeastOnce);
            subscriber.subscribe("$share/group/a/b", AtLeastOnce);
            subscriber.disconnect();
            // The CONNACK of a new connection with that id comes after the end of the session.
            broker.connect(V5, &name).disconnect();
            for publisher in &mut publishers {
                assert_eq!(publisher.publish("a/b", AtLeastOnce, b"x"), 0x10);
            }
        }
    });
}

/// [MQTT-3.3.1-5]: one retained message per topic in the whole broker, the last one acknowledged.
#[test]
fn retained_messages_are_the_same_on_every_thread() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publishers = clients(&broker, "publisher");
        let mut subscribers = clients(&broker, "subscriber");
        for (number, publisher) in publishers.iter_mut().enumerate() {
            let text = number.to_string();
            publisher.deliver(&OutgoingPublish::new("kept", AtLeastOnce, text.as_bytes()).retained());
            for subscriber in &mut subscribers {
                subscriber.subscribe("kept", AtLeastOnce);
                assert_eq!(subscriber.receive().text(), text);
                subscriber.unsubscribe(&["kept"]);
            }
        }
        publishers[0].deliver(&OutgoingPublish::new("kept", AtLeastOnce, b"").retained());
        for subscriber in &mut subscribers {
            subscriber.subscribe("kept", AtLeastOnce);
            expect_nothing_from(&mut publishers[0], subscriber);
        }
    });
}

/// 3.3.1.3 of 5.0: no message is missing between the retained message and the live ones, regardless of timing.
#[test]
fn a_subscription_made_while_a_retained_message_changes_misses_no_change() {
    every_thread_count(|case| {
        let broker = case.broker();
        thread::scope(|scope| {
            let broker = &broker;
            scope.spawn(move || {
                let mut publisher = broker.connect(V5, "publisher");
                for number in 0..300 {
                    publisher
                        .deliver(&OutgoingPublish::new("state", AtLeastOnce, number.to_string().as_bytes()).retained());
                }
            });
            for subscriber in 0..4 {
                scope.spawn(move || {
                    let mut subscriber = broker.connect(V5, &format!("subscriber-{subscriber}"));
                    subscriber.subscribe("state", AtLeastOnce);
                    // From the first number received, each number up to the last arrives in order; the first live message may be a
                    // duplicate.
                    let mut last: Option<u32> = None;
                    while last != Some(299) {
                        let number: u32 = subscriber.receive().text().parse().expect("a number");
                        if let Some(last) = last {
                            assert!(number == last + 1 || number == last, "{number} after {last}");
                        }
                        last = Some(number);
                    }
                });
            }
        });
    });
}

/// [MQTT-3.1.4-3]: at any time one connection has the client id, whichever threads the rivals are on.
#[test]
fn concurrent_takeovers_leave_one_connection() {
    every_thread_count(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(V5, "contested").persistent();
        let rivals: Vec<Client> = thread::scope(|scope| {
            let rivals: Vec<_> = (0..16).map(|_| scope.spawn(|| connecting.open())).collect();
            rivals.into_iter().map(|rival| rival.join().expect("every rival was accepted first")).collect()
        });
        let mut survivors = 0;
        for mut rival in rivals {
            // Each one has been taken over already, or is the one that answers a ping.
            rival.send_bytes_unless_closed(&[0xc0, 0x00]);
            match rival.next_or_closed() {
                Some(packet) if matches!(packet.as_packet(), Packet::PingResp) => survivors += 1,
                Some(packet) => match packet.as_packet() {
                    Packet::Disconnect(disconnect) => {
                        assert_eq!(disconnect.reason.as_u8(), ReasonCode::SessionTakenOver.as_u8());
                    }
                    other => panic!("expected DISCONNECT or PINGRESP, got {other:?}"),
                },
                None => panic!("closed without DISCONNECT"),
            }
        }
        assert_eq!(survivors, 1);
    });
}

/// [MQTT-3.1.2-8]: a will reaches its subscribers on every thread.
#[test]
fn wills_reach_every_thread() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut watchers = clients(&broker, "watcher");
        for watcher in &mut watchers {
            watcher.subscribe("will/+", AtLeastOnce);
        }
        for number in 0..CLIENTS {
            let name = format!("mortal-{number}");
            let will = WillMessage::new("will/x", name.as_bytes()).qos(AtLeastOnce);
            broker.connecting(V5, &name).will(will).open().cut();
            for watcher in &mut watchers {
                assert_eq!(watcher.receive().text(), name);
            }
        }
    });
}

/// Subscribing and unsubscribing during a stream of messages does not affect other clients.
#[test]
fn subscriptions_can_change_under_load() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut steady = broker.connect(V5, "steady");
        steady.subscribe("load/+", AtLeastOnce);
        thread::scope(|scope| {
            let broker = &broker;
            for number in 0..4 {
                scope.spawn(move || {
                    let mut churning = broker.connect(V5, &format!("churning-{number}"));
                    for round in 0..60 {
                        let filter = ["load/#", "+/a", "load/a", "$share/group/load/+"][(round + number) % 4];
                        churning.subscribe(filter, AtMostOnce);
                        churning.unsubscribe(&[filter]);
                    }
                });
            }
            scope.spawn(move || {
                let mut publisher = broker.connect(V5, "publisher");
                for number in 0..300 {
                    publisher.publish("load/a", AtLeastOnce, number.to_string().as_bytes());
                }
            });
            let expected: Vec<String> = (0..300).map(|number| number.to_string()).collect();
            assert_eq!(steady.receive_texts(300), expected);
        });
    });
}

/// [MQTT-3.8.3-3]: No Local depends on the client id, not on the connection or thread.
#[test]
fn no_local_applies_on_every_thread() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut everybody = clients(&broker, "client");
        let mut no_local = options(AtLeastOnce);
        no_local.no_local = true;
        for client in &mut everybody {
            client.subscribe_as("a", no_local);
        }
        for from in 0..CLIENTS {
            everybody[from].publish("a", AtLeastOnce, from.to_string().as_bytes());
            for (to, client) in everybody.iter_mut().enumerate() {
                if to == from {
                    client.expect_nothing();
                } else {
                    assert_eq!(client.receive().text(), from.to_string());
                }
            }
        }
    });
}
