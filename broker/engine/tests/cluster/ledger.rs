//! What is promised, and what clients have got.

use std::collections::{BTreeMap, BTreeSet};

use tautwire_protocol::QoS;

use crate::client::Client;

/// A message, as its payload says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) publisher: usize,
    pub(crate) topic: usize,
    pub(crate) qos: u8,
    pub(crate) number: usize,
}

impl Name {
    pub(crate) fn payload(self) -> String {
        let Name { publisher, topic, qos, number } = self;
        format!("{publisher} {topic} {qos} {number}")
    }

    fn of(payload: &str) -> Name {
        let numbers: Vec<usize> = payload.split(' ').map(|part| part.parse().expect("a number")).collect();
        let [publisher, topic, qos, number] = numbers[..] else { panic!("{payload} is no message of ours") };
        Name { publisher, topic, qos: qos as u8, number }
    }
}

/// What a subscriber to everything has got, held to what publishers were told. Messages to topics of `at_memory` may be lost when they have been
/// acknowledged; gives how many were.
pub(crate) fn judge(subscriber: &Client, granted: QoS, at_memory: usize, publishers: &[&Client]) -> usize {
    let received: Vec<Name> = subscriber.payloads().into_iter().map(Name::of).collect();
    let mut counts: BTreeMap<Name, usize> = BTreeMap::new();
    let mut last: BTreeMap<(usize, usize, u8), usize> = BTreeMap::new();
    for name in received {
        let count = counts.entry(name).or_default();
        *count += 1;
        // Of each message, the first counts [MQTT-4.6.0-6].
        if *count == 1 {
            let last = last.entry((name.publisher, name.topic, name.qos)).or_default();
            assert!(*last < name.number, "{}: {name:?} came behind {last}", subscriber.name);
            *last = name.number;
        }
    }
    let done = publishers.iter().flat_map(|publisher| &publisher.done).map(|payload| Name::of(payload));
    let (may_be_lost, must_be_there): (Vec<_>, Vec<_>) = done.partition(|name| name.topic == at_memory);
    for name in must_be_there {
        assert!(counts.contains_key(&name), "{}: {name:?} was acknowledged and never came", subscriber.name);
    }
    for (name, count) in &counts {
        let is_once = name.qos == 2 && granted == QoS::ExactlyOnce;
        assert!(!is_once || *count == 1, "{}: {name:?} came {count} times", subscriber.name);
    }
    may_be_lost.iter().filter(|name| !counts.contains_key(name)).count()
}

/// What all members of a group have got together. A message of QoS 1 may come twice, to whomever.
pub(crate) fn judge_group(members: &[Client], at_memory: usize, publishers: &[&Client]) {
    let received: BTreeSet<Name> = members.iter().flat_map(|member| member.payloads()).map(Name::of).collect();
    for payload in publishers.iter().flat_map(|publisher| &publisher.done) {
        let name = Name::of(payload);
        assert!(name.topic == at_memory || received.contains(&name), "{name:?} was acknowledged and came to no member");
    }
    for received in members.iter().flat_map(|member| &member.received) {
        assert!(received.qos != QoS::ExactlyOnce, "a group has QoS 1 at most");
    }
}
