//! Tests messages to more connections than are written to in one turn.

use tautwire_protocol::QoS;

use crate::client::{Client, Running, publish_bytes, quiet, start};

const SUBSCRIBERS: usize = 300;
const MESSAGES: usize = 20;

struct Audience {
    subscribers: Vec<Client>,
    heard: usize,
}

impl Audience {
    fn of(broker: &Running, qos: QoS) -> Audience {
        let subscriber = |n: usize| {
            let mut subscriber = Client::connect(broker, &format!("subscriber-{n}"));
            subscriber.subscribe("t", qos);
            subscriber
        };
        Audience { subscribers: (0..SUBSCRIBERS).map(subscriber).collect(), heard: 0 }
    }

    /// All get the next messages, in order.
    fn hear(&mut self, messages: usize) {
        for subscriber in &mut self.subscribers {
            for n in self.heard..self.heard + messages {
                assert_eq!(subscriber.next_payload(), n.to_string().as_bytes());
            }
        }
        self.heard += messages;
    }
}

fn messages(from: usize, packet_id: impl Fn(usize) -> Option<u16>) -> Vec<u8> {
    (from..from + MESSAGES).flat_map(|n| publish_bytes("t", packet_id(n), false, n.to_string().as_bytes())).collect()
}

#[test]
fn a_fan_out_is_written_in_turns_and_its_publisher_resumes() {
    for threads in [1, 2] {
        let broker = start(quiet(), threads);
        let mut audience = Audience::of(&broker, QoS::AtMostOnce);
        let mut publisher = Client::connect(&broker, "publisher");
        for round in 0..5 {
            publisher.write(&messages(round * MESSAGES, |_| None));
        }
        audience.hear(5 * MESSAGES);
        assert!(broker.control().totals().fan_outs_deferred > 0, "{threads} threads");
    }
}

#[test]
fn a_fan_out_is_acknowledged() {
    let broker = start(quiet(), 1);
    let mut audience = Audience::of(&broker, QoS::AtLeastOnce);
    let mut publisher = Client::connect(&broker, "publisher");
    for round in 0..3 {
        publisher.write(&messages(round * MESSAGES, |n| Some(n as u16 + 1)));
        for _ in 0..MESSAGES {
            assert!(publisher.next().is_some());
        }
        audience.hear(MESSAGES);
    }
}

/// The rest of a burst is not lost if its publisher disconnects or vanishes right after it.
#[test]
fn a_split_burst_arrives_whole() {
    let broker = start(quiet(), 1);
    let mut audience = Audience::of(&broker, QoS::AtMostOnce);
    let filled = |n: usize| format!("{n:0>200}");
    let burst: Vec<u8> = (0..200).flat_map(|n| publish_bytes("t", None, false, filled(n).as_bytes())).collect();
    for goodbye in [true, false] {
        let mut publisher = Client::connect(&broker, "publisher");
        publisher.write(&burst);
        if goodbye {
            publisher.write(&[0xe0, 0]);
        }
        publisher.finish_writing();
        for subscriber in &mut audience.subscribers {
            for n in 0..200 {
                assert_eq!(subscriber.next_payload(), filled(n).as_bytes());
            }
        }
    }
}

#[test]
fn disconnected_receivers_do_not_delay_a_fan_out() {
    let broker = start(quiet(), 1);
    let mut audience = Audience::of(&broker, QoS::AtMostOnce);
    let mut publisher = Client::connect(&broker, "publisher");
    publisher.write(&messages(0, |_| None));
    audience.subscribers.truncate(SUBSCRIBERS / 2);
    publisher.write(&messages(MESSAGES, |_| None));
    audience.hear(2 * MESSAGES);
}
