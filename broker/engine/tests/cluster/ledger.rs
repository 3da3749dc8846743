//! Checks the messages that clients received against the acknowledged ones.

use std::collections::{BTreeMap, BTreeSet};

use tautwire_protocol::QoS;

use crate::client::Client;

/// The identity of a message, which is its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MessageName {
    pub(crate) publisher: usize,
    pub(crate) topic: usize,
    pub(crate) qos: u8,
    pub(crate) number: usize,
}

impl MessageName {
    pub(crate) fn payload(self) -> String {
        let MessageName { publisher, topic, qos, number } = self;
        format!("{publisher} {topic} {qos} {number}")
    }

    fn of(payload: &str) -> MessageName {
        let numbers: Vec<usize> = payload.split(' ').map(|part| part.parse().expect("a number")).collect();
        let [publisher, topic, qos, number] = numbers[..] else { panic!("{payload} is not a message of this test") };
        MessageName { publisher, topic, qos: qos as u8, number }
    }
}

/// Checks the messages of a subscriber to everything against the acknowledgements of publishers. Acknowledged messages to the topic
/// `at_memory` may be lost; returns how many were.
pub(crate) fn check(subscriber: &Client, granted: QoS, at_memory: usize, publishers: &[&Client]) -> usize {
    let received: Vec<MessageName> = subscriber.payloads().into_iter().map(MessageName::of).collect();
    let mut counts: BTreeMap<MessageName, usize> = BTreeMap::new();
    let mut last: BTreeMap<(usize, usize, u8), usize> = BTreeMap::new();
    for name in received {
        let count = counts.entry(name).or_default();
        *count += 1;
        // Only the first copy of a message counts [MQTT-4.6.0-6].
        if *count == 1 {
            let last = last.entry((name.publisher, name.topic, name.qos)).or_default();
            assert!(*last < name.number, "{}: {name:?} came after {last}", subscriber.name);
            *last = name.number;
        }
    }
    let done = publishers.iter().flat_map(|publisher| &publisher.done).map(|payload| MessageName::of(payload));
    let (may_be_lost, required): (Vec<_>, Vec<_>) = done.partition(|name| name.topic == at_memory);
    for name in required {
        assert!(counts.contains_key(&name), "{}: {name:?} was acknowledged and never came", subscriber.name);
    }
    for (name, count) in &counts {
        let is_once = name.qos == 2 && granted == QoS::ExactlyOnce;
        assert!(!is_once || *count == 1, "{}: {name:?} came {count} times", subscriber.name);
    }
    may_be_lost.iter().filter(|name| !counts.contains_key(name)).count()
}

/// Checks the messages of all members of a group. A message of QoS 1 may come twice, to any members.
pub(crate) fn check_group(members: &[Client], at_memory: usize, publishers: &[&Client]) {
    let received: BTreeSet<MessageName> =
        members.iter().flat_map(|member| member.payloads()).map(MessageName::of).collect();
    for payload in publishers.iter().flat_map(|publisher| &publisher.done) {
        let name = MessageName::of(payload);
        assert!(name.topic == at_memory || received.contains(&name), "{name:?} was acknowledged and came to no member");
    }
    for received in members.iter().flat_map(|member| &member.received) {
        assert!(received.qos != QoS::ExactlyOnce, "a group has QoS 1 at most");
    }
}
