//! What `data.path` keeps: a broker that is killed goes on where it was.

use std::collections::BTreeMap;

use tautwire_protocol::{Packet, PacketId};

use crate::support::{
    AtLeastOnce, Broker, Client, ExactlyOnce, Folder, Outgoing, QoS, V3_1_1, V5, WillMessage, back, every_version,
};

/// How often the broker is killed, for each version.
const KILLS: usize = 25;
/// Messages published between two kills.
const MESSAGES: usize = 20;

/// A broker that keeps its state in `folder`.
fn start(folder: &Folder) -> Broker {
    Broker::set(&[&format!("data.path={}", folder.path().join("data").display())])
}

/// The broker gets no chance to do anything more.
fn kill(broker: Broker) {
    broker.signal("KILL");
    drop(broker);
}

/// What a subscriber has received over all its connections.
#[derive(Default)]
struct Received {
    /// How often, by the number in the payload.
    counts: BTreeMap<usize, usize>,
    /// QoS 2 identifiers that have not been released.
    held: BTreeMap<PacketId, usize>,
}

impl Received {
    /// Takes in and completes up to `count` messages.
    fn take(&mut self, client: &mut Client, count: usize) {
        let mut left = count;
        while left > 0 {
            match client.next().as_packet() {
                Packet::Publish(publish) => {
                    let number = std::str::from_utf8(publish.payload).ok().and_then(|text| text.parse().ok());
                    let number: usize = number.expect("the payload is a number");
                    let id = publish.packet_id().expect("QoS 1 or 2");
                    if publish.qos() == QoS::AtLeastOnce {
                        *self.counts.entry(number).or_default() += 1;
                        client.send_puback(id.get());
                        left -= 1;
                    } else {
                        if self.held.insert(id, number) != Some(number) {
                            *self.counts.entry(number).or_default() += 1;
                        }
                        client.send_pubrec(id.get());
                    }
                }
                Packet::PubRel(release) => {
                    self.held.remove(&release.packet_id);
                    client.send_pubcomp(release.packet_id.get());
                    left -= 1;
                }
                other => panic!("expected PUBLISH or PUBREL, got {other:?}"),
            }
        }
    }
}

fn qos_of(number: usize) -> QoS {
    if number.is_multiple_of(2) { AtLeastOnce } else { ExactlyOnce }
}

/// 4.1.0 of 5.0: the server keeps session state. Messages that were acknowledged come to their subscriber, those of QoS 2 once;
/// the session is there, and what it had begun to receive goes on.
#[test]
fn what_was_acknowledged_survives_a_kill() {
    every_version(|case| {
        let folder = Folder::new(&[]);
        let mut broker = start(&folder);
        let mut subscriber = broker.connecting(case.version, "subscriber").persistent().open();
        subscriber.subscribe("t/#", ExactlyOnce);
        let mut received = Received::default();
        for round in 0..KILLS {
            // Some wait in the queue, some are in flight when the broker is killed.
            subscriber.disconnect();
            let mut publisher = broker.connect(V5, "publisher");
            for number in round * MESSAGES..(round + 1) * MESSAGES {
                assert_eq!(publisher.publish("t/x", qos_of(number), number.to_string().as_bytes()), 0);
            }
            let mut client = back(&broker, case.version, "subscriber");
            received.take(&mut client, MESSAGES / 2);
            kill(broker);
            broker = start(&folder);
            subscriber = back(&broker, case.version, "subscriber");
        }
        while received.counts.len() < KILLS * MESSAGES || !received.held.is_empty() {
            received.take(&mut subscriber, 1);
        }
        for (number, count) in &received.counts {
            assert!(*count == 1 || qos_of(*number) == AtLeastOnce, "message {number} of QoS 2 came {count} times");
        }
    });
}

/// Retained messages are as they were acknowledged, and those that were cleared stay so.
#[test]
fn retained_messages_survive_a_kill() {
    every_version(|case| {
        let folder = Folder::new(&[]);
        let mut broker = start(&folder);
        for round in 0..3 {
            let mut publisher = broker.connect(case.version, "publisher");
            let text = round.to_string();
            publisher.deliver(&Outgoing::new("kept", AtLeastOnce, text.as_bytes()).retained());
            publisher.deliver(&Outgoing::new("cleared", AtLeastOnce, text.as_bytes()).retained());
            publisher.deliver(&Outgoing::new("cleared", AtLeastOnce, b"").retained());
            kill(broker);
            broker = start(&folder);
            let mut subscriber = broker.connect(case.version, "subscriber");
            subscriber.subscribe("#", AtLeastOnce);
            let message = subscriber.receive();
            assert_eq!((message.topic(), message.text(), message.retain()), ("kept", text.as_str(), true));
            subscriber.expect_nothing();
        }
    });
}

/// 3.1.2.5 of 5.0: the will of a client that was connected is due, whether its session ends with its connection or not.
#[test]
fn wills_of_clients_that_were_connected_are_published_after_a_kill() {
    every_version(|case| {
        let folder = Folder::new(&[]);
        let broker = start(&folder);
        let mut watcher = broker.connecting(V3_1_1, "watcher").persistent().open();
        watcher.subscribe("will/#", AtLeastOnce);
        let will = |topic| WillMessage::new(topic, b"gone").qos(AtLeastOnce);
        let _lasting = broker.connecting(case.version, "lasting").persistent().will(will("will/lasting")).open();
        let _clean = broker.connecting(case.version, "clean").will(will("will/clean")).open();
        let discarded = broker.connecting(case.version, "discarded").will(will("will/discarded")).open();
        discarded.disconnect();
        // That has been taken in.
        broker.connect(case.version, "discarded").disconnect();
        kill(broker);
        let broker = start(&folder);
        let mut watcher = back(&broker, V3_1_1, "watcher");
        let mut topics = [watcher.receive().topic().to_owned(), watcher.receive().topic().to_owned()];
        topics.sort();
        assert_eq!(topics, ["will/clean", "will/lasting"]);
        watcher.expect_nothing();
    });
}

/// Two brokers would destroy each other's state.
#[test]
fn a_directory_is_used_by_one_broker() {
    let folder = Folder::new(&[]);
    let broker = start(&folder);
    let said = Broker::refused(&[&format!("data.path={}", folder.path().join("data").display())]);
    assert!(said.contains("another process has the journal open"), "{said}");
    broker.connect(V5, "client").ping();
}
