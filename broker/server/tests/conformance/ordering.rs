//! Order and completeness under load: per publisher and topic, at every QoS, on one thread and on two.

use std::collections::HashMap;
use std::thread;

use tautwire_protocol::Packet;

use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Case, Client, ExactlyOnce, OutgoingPublish, QoS, every_case, packet_id,
};

const PUBLISHERS: usize = 4;
const SUBSCRIBERS: usize = 4;
const MESSAGES: usize = 400;
/// Unacknowledged messages of a publisher.
const WINDOW: usize = 50;
const END: &str = "end";

/// Publishes `payloads` in order, a window per write, and completes their handshakes.
fn flood(publisher: &mut Client, topic: &str, qos: QoS, payloads: &[String]) {
    for window in payloads.chunks(WINDOW) {
        let mut bytes = Vec::new();
        let mut ids = Vec::new();
        for payload in window {
            let id = publisher.next_packet_id().get();
            let outgoing = OutgoingPublish::new(topic, qos, payload.as_bytes());
            bytes.extend(publisher.encoded(&Packet::Publish(outgoing.publish(packet_id(id)))));
            ids.push(id);
        }
        publisher.send_bytes(&bytes);
        match qos {
            AtMostOnce => {}
            AtLeastOnce => ids.iter().for_each(|&id| assert!(publisher.expect_puback(id) < 0x80)),
            ExactlyOnce => {
                ids.iter().for_each(|&id| assert!(publisher.expect_pubrec(id) < 0x80));
                ids.iter().for_each(|&id| publisher.send_pubrel(id));
                ids.iter().for_each(|&id| assert_eq!(publisher.expect_pubcomp(id), 0));
            }
        }
    }
}

/// Receives messages until every publisher has sent `END`. Returns the numbers of each publisher, in order of arrival.
fn receive_until_end(subscriber: &mut Client) -> HashMap<String, Vec<usize>> {
    let mut ends = 0;
    let mut numbers: HashMap<String, Vec<usize>> = HashMap::new();
    while ends < PUBLISHERS {
        let message = subscriber.receive();
        let (publisher, number) = message.text().split_once(' ').expect("the payload is `publisher number`");
        if number == END {
            ends += 1;
        } else {
            let number = number.parse().expect("the payload ends in a number");
            numbers.entry(format!("{} {publisher}", message.topic())).or_default().push(number);
        }
    }
    numbers
}

/// Every publisher floods two topics while every subscriber receives both. Returns what each subscriber received.
fn run(case: Case, broker: &Broker, published: QoS, granted: QoS) -> Vec<HashMap<String, Vec<usize>>> {
    let mut subscribers: Vec<Client> = (0..SUBSCRIBERS)
        .map(|number| {
            let mut subscriber = broker.connect(case.version, &format!("subscriber-{number}"));
            subscriber.subscribe("flood/+", granted);
            subscriber.subscribe(END, AtLeastOnce);
            subscriber
        })
        .collect();
    thread::scope(|scope| {
        let taking: Vec<_> =
            subscribers.iter_mut().map(|subscriber| scope.spawn(|| receive_until_end(subscriber))).collect();
        for number in 0..PUBLISHERS {
            scope.spawn(move || {
                let name = format!("publisher-{number}");
                let mut publisher = broker.connect(case.version, &name);
                for half in 0..2 {
                    let range = half * MESSAGES / 2..(half + 1) * MESSAGES / 2;
                    let payloads: Vec<String> = range.map(|number| format!("{name} {number}")).collect();
                    flood(&mut publisher, "flood/a", published, &payloads);
                    flood(&mut publisher, "flood/b", published, &payloads);
                }
                publisher.publish(END, AtLeastOnce, format!("{name} {END}").as_bytes());
            });
        }
        taking.into_iter().map(|taking| taking.join().expect("the subscriber received all")).collect()
    })
}

/// [MQTT-4.6.0-5], [MQTT-4.6.0-6]; 3.1.1: [MQTT-4.6.0-5], [MQTT-4.6.0-6]
#[test]
fn qos_0_messages_arrive_in_order() {
    every_case(|case| {
        let broker = case.broker();
        for taken in run(case, &broker, AtMostOnce, AtMostOnce) {
            for (from, numbers) in taken {
                assert!(numbers.is_sorted_by(|one, next| one < next), "{from}: {numbers:?}");
            }
        }
    });
}

/// [MQTT-4.6.0-5], [MQTT-4.3.2-4]: in order, and once each on unbroken connections.
#[test]
fn qos_1_messages_arrive_complete_and_in_order() {
    every_case(|case| {
        let broker = case.broker();
        expect_complete(&run(case, &broker, AtLeastOnce, AtLeastOnce));
    });
}

/// [MQTT-4.6.0-5], [MQTT-4.3.3-8] to [MQTT-4.3.3-12]
#[test]
fn qos_2_messages_arrive_exactly_once_and_in_order() {
    every_case(|case| {
        let broker = case.broker();
        expect_complete(&run(case, &broker, ExactlyOnce, ExactlyOnce));
    });
}

/// [MQTT-4.6.0-5]: the same for messages published at QoS 2 and delivered at QoS 1.
#[test]
fn messages_downgraded_to_qos_1_arrive_complete_and_in_order() {
    every_case(|case| {
        let broker = case.broker();
        expect_complete(&run(case, &broker, ExactlyOnce, AtLeastOnce));
    });
}

/// `limits.shard_queue_batches`: with hardly any room between the threads, publishers wait; nothing is lost, and threads that wait for one
/// another do not deadlock.
#[test]
fn full_queues_between_threads_lose_no_qos_1_or_2_messages() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.shard_queue_batches=2"]);
        expect_complete(&run(case, &broker, AtLeastOnce, AtLeastOnce));
        expect_complete(&run(case, &broker, ExactlyOnce, ExactlyOnce));
    });
}

fn expect_complete(taken: &[HashMap<String, Vec<usize>>]) {
    let expected: Vec<usize> = (0..MESSAGES).collect();
    for by_origin in taken {
        assert_eq!(by_origin.len(), 2 * PUBLISHERS);
        for (from, numbers) in by_origin {
            assert!(*numbers == expected, "{from}: {numbers:?}");
        }
    }
}

/// [MQTT-4.6.0-5] while the client is offline: the queue of a session preserves the order.
#[test]
fn order_is_preserved_across_offline_and_online_phases() {
    every_case(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "coming-and-going").persistent();
        connecting.open().subscribe("a", ExactlyOnce);
        let mut publisher = broker.connect(case.version, "publisher");
        let mut received = Vec::new();
        for round in 0..10 {
            let payloads: Vec<String> = (round * 30..(round + 1) * 30).map(|number| number.to_string()).collect();
            let qos = if round % 2 == 0 { AtLeastOnce } else { ExactlyOnce };
            flood(&mut publisher, "a", qos, &payloads[..20]);
            let mut subscriber = connecting.open();
            flood(&mut publisher, "a", qos, &payloads[20..]);
            received.extend(subscriber.receive_texts(30));
            subscriber.ping();
            if round % 3 == 0 { subscriber.cut() } else { subscriber.disconnect() }
        }
        assert_eq!(received, (0..300).map(|number| number.to_string()).collect::<Vec<_>>());
    });
}

/// [MQTT-4.3.3-10], [MQTT-4.4.0-1]: exactly once, however often both sides lose their connections.
#[test]
fn qos_2_is_exactly_once_over_many_broken_connections() {
    every_case(|case| {
        let broker = case.broker();
        let to = broker.connecting(case.version, "to").persistent();
        let from = broker.connecting(case.version, "from").persistent();
        let mut subscriber = to.open();
        subscriber.subscribe("a", ExactlyOnce);
        let mut publisher = from.open();
        let mut received = Vec::new();
        for number in 0..30_u16 {
            let text = number.to_string();
            let outgoing = OutgoingPublish::new("a", ExactlyOnce, text.as_bytes());
            let id = number + 1;
            publisher.send_publish_as(&outgoing, id);
            // The connection is lost at each of the three steps of the handshake in turn.
            if number % 3 == 0 {
                publisher.ping_ignoring_acknowledgements();
                publisher.cut();
                publisher = from.open();
                publisher.send_publish_as(&outgoing.clone().dup(), id);
            }
            assert!(publisher.expect_pubrec(id) < 0x80);
            if number % 3 == 1 {
                publisher.cut();
                publisher = from.open();
            }
            publisher.send_pubrel(id);
            if number % 3 == 2 {
                publisher.cut();
                publisher = from.open();
                publisher.send_pubrel(id);
            }
            publisher.expect_pubcomp(id);

            let message = subscriber.expect_publish();
            received.push(message.text().to_owned());
            if number % 2 == 0 {
                subscriber.cut();
                subscriber = to.open();
                assert_eq!(subscriber.expect_publish().id(), message.id());
            }
            subscriber.send_pubrec(message.id());
            subscriber.expect_pubrel(message.id());
            if number % 5 == 0 {
                subscriber.cut();
                subscriber = to.open();
                subscriber.expect_pubrel(message.id());
            }
            subscriber.send_pubcomp(message.id());
        }
        assert_eq!(received, (0..30).map(|number| number.to_string()).collect::<Vec<_>>());
        subscriber.expect_nothing();
    });
}
