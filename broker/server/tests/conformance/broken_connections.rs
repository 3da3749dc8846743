//! Deliveries over connections that break at every step of the handshakes. Publishers and subscribers keep their own half of the session
//! state, as the standard requires of clients, and reconnect again and again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::thread;

use tautwire_protocol::Packet;

use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Case, Client, ConnectBuilder, ExactlyOnce, Message, OutgoingPublish, QoS, Rng,
    every_case,
};

const PUBLISHERS: usize = 3;
const SUBSCRIBERS: usize = 3;
const MESSAGES: usize = 120;
/// Unacknowledged messages of a publisher.
const WINDOW: usize = 8;
const TOPIC: &str = "broken";

/// Breaks a connection in one of several ways.
fn break_connection(client: Client, scatter: &mut Rng, left_open: &mut Vec<Client>) {
    match scatter.below(3) {
        0 => client.cut(),
        // Possibly with unread packets, which resets the connection.
        1 => drop(client),
        // Left open for the next connection to take over.
        _ => left_open.push(client),
    }
}

/// A message that the publisher has not completed.
struct PendingPublish {
    id: u16,
    text: String,
    /// PUBREC has arrived: PUBREL is to be sent, and never the PUBLISH again [MQTT-4.3.3-6].
    received: bool,
}

/// Publishes `MESSAGES` numbers over connections that break.
fn publish_all(connecting: &ConnectBuilder<'_>, name: &str, qos: QoS, mut scatter: Rng) {
    let mut unfinished: VecDeque<PendingPublish> = VecDeque::new();
    let mut next = 0;
    let mut left_open = Vec::new();
    while next < MESSAGES || !unfinished.is_empty() {
        let mut client = connecting.open();
        for message in &unfinished {
            if message.received {
                client.send_pubrel(message.id);
            } else {
                client.send_publish_as(&OutgoingPublish::new(TOPIC, qos, message.text.as_bytes()).dup(), message.id);
            }
        }
        for _ in 0..1 + scatter.below(4 * WINDOW) {
            while next < MESSAGES && unfinished.len() < WINDOW {
                let message = PendingPublish { id: next as u16 + 1, text: format!("{name} {next}"), received: false };
                client.send_publish_as(&OutgoingPublish::new(TOPIC, qos, message.text.as_bytes()), message.id);
                unfinished.push_back(message);
                next += 1;
            }
            if unfinished.is_empty() {
                break;
            }
            match client.next().as_packet() {
                Packet::PubAck(puback) => unfinished.retain(|message| message.id != puback.packet_id.get()),
                Packet::PubRec(pubrec) => {
                    let id = pubrec.packet_id.get();
                    unfinished
                        .iter_mut()
                        .filter(|message| message.id == id)
                        .for_each(|message| message.received = true);
                    client.send_pubrel(id);
                }
                Packet::PubComp(pubcomp) => unfinished.retain(|message| message.id != pubcomp.packet_id.get()),
                other => panic!("expected an acknowledgement, got {other:?}"),
            }
        }
        break_connection(client, &mut scatter, &mut left_open);
    }
}

/// Receives messages over connections that break, until `total` different ones have arrived. Returns all that were new by the rules of the
/// client's half of QoS 2, in order.
fn receive_all(connecting: &ConnectBuilder<'_>, total: usize, mut scatter: Rng) -> Vec<String> {
    let mut taken = Vec::new();
    let mut different = HashSet::new();
    // QoS 2 messages that are not released yet: a repetition is not a new message [MQTT-4.3.3-10].
    let mut unreleased = HashSet::new();
    let mut left_open = Vec::new();
    while different.len() < total || !unreleased.is_empty() {
        let mut client = connecting.open();
        assert!(client.session_present());
        for _ in 0..1 + scatter.below(40) {
            if different.len() == total && unreleased.is_empty() {
                break;
            }
            let packet = client.next();
            match packet.as_packet() {
                Packet::Publish(publish) => {
                    let message = Message::from(publish);
                    if message.qos() != ExactlyOnce || unreleased.insert(message.id()) {
                        different.insert(message.text().to_owned());
                        taken.push(message.text().to_owned());
                    }
                    match message.qos() {
                        AtMostOnce => panic!("published at QoS 1 and 2, got {message:?}"),
                        AtLeastOnce => client.send_puback(message.id()),
                        ExactlyOnce => client.send_pubrec(message.id()),
                    }
                }
                Packet::PubRel(pubrel) => {
                    unreleased.remove(&pubrel.packet_id.get());
                    client.send_pubcomp(pubrel.packet_id.get());
                }
                other => panic!("expected PUBLISH or PUBREL, got {other:?}"),
            }
        }
        break_connection(client, &mut scatter, &mut left_open);
    }
    taken
}

/// Runs publishers and subscribers concurrently. Returns what each subscriber received.
fn run(case: Case, broker: &Broker, qos: QoS) -> Vec<Vec<String>> {
    let names: Vec<String> = (0..PUBLISHERS.max(SUBSCRIBERS)).map(|number| number.to_string()).collect();
    let ids = |kind: &str| names.iter().map(|name| format!("{kind}-{name}")).collect::<Vec<_>>();
    let (publishers, subscribers) = (ids("publisher"), ids("subscriber"));
    let persistent = |id| broker.connecting(case.version, id).persistent();
    for id in &subscribers {
        let mut subscriber = persistent(id).open();
        subscriber.subscribe(TOPIC, qos);
        subscriber.disconnect();
    }
    thread::scope(|scope| {
        for (number, id) in publishers.iter().take(PUBLISHERS).enumerate() {
            let connecting = persistent(id);
            scope.spawn(move || publish_all(&connecting, id, qos, Rng(number as u64 + 1)));
        }
        let taking: Vec<_> = subscribers
            .iter()
            .take(SUBSCRIBERS)
            .enumerate()
            .map(|(number, id)| {
                let connecting = persistent(id);
                scope.spawn(move || receive_all(&connecting, PUBLISHERS * MESSAGES, Rng(number as u64 + 100)))
            })
            .collect();
        taking.into_iter().map(|taking| taking.join().expect("the subscriber received all")).collect()
    })
}

/// The numbers of each publisher, in the order received.
fn by_publisher(taken: &[String]) -> HashMap<&str, Vec<usize>> {
    let mut numbers: HashMap<&str, Vec<usize>> = HashMap::new();
    for text in taken {
        let (publisher, number) = text.split_once(' ').expect("the payload is `publisher number`");
        numbers.entry(publisher).or_default().push(number.parse().expect("the payload ends in a number"));
    }
    numbers
}

/// [MQTT-4.3.3-8] to [MQTT-4.3.3-12], [MQTT-4.4.0-1], [MQTT-4.6.0-5]; 3.1.1: [MQTT-4.3.3-2], [MQTT-4.4.0-1]
#[test]
fn qos_2_messages_arrive_exactly_once_and_in_order() {
    every_case(|case| {
        let broker = case.broker();
        for taken in run(case, &broker, ExactlyOnce) {
            for (publisher, numbers) in by_publisher(&taken) {
                assert!(numbers.iter().copied().eq(0..MESSAGES), "{publisher}: {numbers:?}");
            }
        }
    });
}

/// [MQTT-4.3.2-3], [MQTT-4.3.2-4], [MQTT-4.4.0-1], [MQTT-4.6.0-5]: none is lost, some are duplicated, and first arrivals are in order.
#[test]
fn qos_1_messages_arrive_at_least_once_and_in_order() {
    every_case(|case| {
        let broker = case.broker();
        for taken in run(case, &broker, AtLeastOnce) {
            for (publisher, numbers) in by_publisher(&taken) {
                let mut seen = HashSet::new();
                let first: Vec<usize> = numbers.iter().copied().filter(|number| seen.insert(*number)).collect();
                assert!(first.iter().copied().eq(0..MESSAGES), "{publisher}: {numbers:?}");
            }
        }
    });
}

/// 4.8.2 of 5.0: members of a shared subscription join, receive some messages, acknowledge some, and leave; one stays to the end.
#[test]
fn a_shared_subscription_loses_nothing_while_members_reconnect() {
    every_case(|case| {
        let broker = case.broker();
        let mut staying = broker.connect(case.version, "staying");
        staying.subscribe("$share/group/broken", AtLeastOnce);
        let total = 400;
        let mut seen: HashSet<String> = thread::scope(|scope| {
            scope.spawn(|| {
                let mut publisher = broker.connect(case.version, "publisher");
                for number in 0..total {
                    publisher.publish(TOPIC, AtLeastOnce, number.to_string().as_bytes());
                }
            });
            let passing: Vec<_> = (0..4_u64)
                .map(|number| {
                    let broker = &broker;
                    scope.spawn(move || {
                        let mut scatter = Rng(number + 1);
                        let mut acknowledged = Vec::new();
                        for visit in 0..15 {
                            let mut member = broker.connect(case.version, &format!("passing-{number}-{}", visit % 3));
                            member.subscribe("$share/group/broken", AtLeastOnce);
                            for _ in 0..scatter.below(6) {
                                // Other members may receive everything: a ping bounds the wait.
                                member.ping();
                                if let Some(message) = member.pending_message()
                                    && scatter.below(3) > 0
                                {
                                    member.acknowledge(&message);
                                    acknowledged.push(message.text().to_owned());
                                }
                            }
                            if scatter.below(2) == 0 { member.cut() } else { member.disconnect() }
                        }
                        acknowledged
                    })
                })
                .collect();
            passing.into_iter().flat_map(|passing| passing.join().expect("the member joined and left")).collect()
        });
        while seen.len() < total {
            seen.insert(staying.receive().text().to_owned());
        }
    });
}
