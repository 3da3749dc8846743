//! The `$SYS` tree, with the names of mosquitto.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Case, Client, EXPECT_TIMEOUT, ExactlyOnce, NEVER, OutgoingPublish, V5, every_case,
    every_thread_count, expect_nothing_from,
};

/// Topics below `$SYS/broker/` that every broker has.
const TOPICS: [&str; 24] = [
    "version",
    "uptime",
    "clients/connected",
    "clients/disconnected",
    "clients/active",
    "clients/inactive",
    "clients/total",
    "clients/maximum",
    "clients/expired",
    "messages/received",
    "messages/sent",
    "messages/stored",
    "bytes/received",
    "bytes/sent",
    "publish/messages/received",
    "publish/messages/sent",
    "publish/messages/dropped",
    "publish/bytes/received",
    "publish/bytes/sent",
    "retained messages/count",
    "store/messages/count",
    "store/messages/bytes",
    "subscriptions/count",
    "shared_subscriptions/count",
];

/// Load averages, each over one, five and fifteen minutes.
const LOADS: [&str; 9] = [
    "messages/received",
    "messages/sent",
    "publish/received",
    "publish/sent",
    "publish/dropped",
    "bytes/received",
    "bytes/sent",
    "connections",
    "sockets",
];

fn broker(case: Case) -> Broker {
    case.broker_set(&["sys.interval_s=1"])
}

/// Waits until `$SYS/broker/<topic>` has a number that satisfies `is`.
#[track_caller]
pub(crate) fn await_number(observer: &mut Client, topic: &str, mut is: impl FnMut(f64) -> bool) -> f64 {
    let topic = format!("$SYS/broker/{topic}");
    observer.subscribe(&topic, AtMostOnce);
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    let mut last = String::from("nothing");
    while Instant::now() < deadline {
        let Some(message) = observer.publish_before(deadline) else { break };
        if message.topic() != topic {
            continue;
        }
        last = message.text().to_owned();
        let number: f64 = last.parse().expect("the topic's payload is a number");
        if is(number) {
            observer.unsubscribe(&[&topic]);
            observer.discard_pending_messages();
            return number;
        }
    }
    panic!("{topic} was last {last}");
}

/// The same with numbers published after this call: a retained one may be an interval old.
#[track_caller]
pub(crate) fn await_live_number(observer: &mut Client, topic: &str, is: impl Fn(f64) -> bool) -> f64 {
    let mut found = 0.0;
    await_live_numbers(observer, |numbers| match numbers.get(topic) {
        Some(&number) if is(number) => {
            found = number;
            Ok(())
        }
        last => Err(format!("{topic} was last {last:?}")),
    });
    found
}

/// Waits until all numbers below `$SYS/broker/` together satisfy the check, or reports what is wrong. They are published after this call,
/// and the observer has one subscription meanwhile.
#[track_caller]
pub(crate) fn await_live_numbers(
    observer: &mut Client,
    mut check: impl FnMut(&BTreeMap<String, f64>) -> Result<(), String>,
) {
    const ALL: &str = "$SYS/broker/#";
    observer.subscribe(ALL, AtMostOnce);
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    let mut numbers = BTreeMap::new();
    let mut wrong = String::from("nothing arrived");
    // Only changed topics are published, except for the uptime, which marks the end of an interval.
    let mut intervals = 0;
    while let Some(message) = observer.publish_before(deadline) {
        let topic = message.topic().trim_start_matches("$SYS/broker/").to_owned();
        if let Ok(number) = message.text().parse() {
            numbers.insert(topic, number);
            continue;
        }
        intervals += usize::from(topic == "uptime" && !message.retain());
        if intervals >= 2 {
            match check(&numbers) {
                Ok(()) => {
                    observer.unsubscribe(&[ALL]);
                    observer.discard_pending_messages();
                    return;
                }
                Err(why) => wrong = why,
            }
        }
    }
    panic!("{wrong}");
}

/// Every topic is present, retained, and well-formed.
#[test]
fn the_tree_is_complete_and_well_formed() {
    every_case(|case| {
        let broker = broker(case);
        let mut observer = broker.connect(case.version, "observer");
        observer.subscribe("$SYS/broker/#", AtMostOnce);
        let mut wanted: Vec<String> = TOPICS.iter().map(|topic| format!("$SYS/broker/{topic}")).collect();
        for load in LOADS {
            for window in ["1min", "5min", "15min"] {
                wanted.push(format!("$SYS/broker/load/{load}/{window}"));
            }
        }
        let mut seen = BTreeMap::new();
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        while !wanted.iter().all(|topic| seen.contains_key(topic)) {
            let Some(message) = observer.publish_before(deadline) else {
                wanted.retain(|topic| !seen.contains_key(topic));
                panic!("missing: {wanted:#?}");
            };
            seen.insert(message.topic().to_owned(), message.text().to_owned());
        }
        for topic in &wanted {
            let text = &seen[topic];
            match topic.as_str() {
                "$SYS/broker/version" => assert!(text.starts_with("tautwire "), "{text}"),
                "$SYS/broker/uptime" => {
                    let seconds = text.strip_suffix(" seconds").expect("uptime is `N seconds`");
                    assert!(seconds.parse::<u64>().is_ok(), "{text}");
                }
                load if load.contains("/load/") => {
                    assert!(text.parse::<f64>().is_ok_and(|load| load >= 0.0), "{load} {text}")
                }
                count => assert!(text.parse::<u64>().is_ok(), "{count} {text}"),
            }
        }
    });
}

/// A later subscriber receives the tree at once, as retained messages.
#[test]
fn the_tree_is_retained() {
    every_case(|case| {
        let broker = case.broker_set(&["sys.interval_s=3600"]);
        let mut observer = broker.connect(case.version, "observer");
        observer.subscribe("$SYS/broker/version", AtLeastOnce);
        let message = observer.receive();
        assert!(message.retain());
        assert!(message.text().starts_with("tautwire "));
    });
}

/// [MQTT-4.7.2-1]
#[test]
fn a_wildcard_at_the_front_does_not_match_the_tree() {
    every_case(|case| {
        let broker = broker(case);
        let mut observer = broker.connect(case.version, "observer");
        await_number(&mut observer, "clients/connected", |count| count == 1.0);
        let mut client = broker.connect(case.version, "client");
        client.subscribe("#", AtLeastOnce);
        client.subscribe("+/broker/#", AtLeastOnce);
        // After the next update of the tree.
        await_number(&mut observer, "clients/connected", |count| count == 2.0);
        expect_nothing_from(&mut observer, &mut client);
    });
}

/// `clients/*` over all threads.
#[test]
fn clients_are_counted() {
    every_case(|case| {
        let broker = broker(case);
        let mut observer = broker.connect(case.version, "observer");
        let clients: Vec<Client> = (0..5)
            .map(|number| broker.connecting(case.version, &format!("client-{number}")).persistent().open())
            .collect();
        await_number(&mut observer, "clients/connected", |count| count == 6.0);
        await_number(&mut observer, "clients/active", |count| count == 6.0);
        await_number(&mut observer, "clients/total", |count| count == 6.0);
        for client in clients {
            client.disconnect();
        }
        await_number(&mut observer, "clients/connected", |count| count == 1.0);
        await_number(&mut observer, "clients/disconnected", |count| count == 5.0);
        await_number(&mut observer, "clients/inactive", |count| count == 5.0);
        await_number(&mut observer, "clients/total", |count| count == 6.0);
        await_number(&mut observer, "clients/maximum", |count| count == 6.0);
    });
}

/// `clients/expired`
#[test]
fn expired_sessions_are_counted() {
    every_thread_count(|case| {
        let broker = broker(case);
        let mut observer = broker.connect(V5, "observer");
        for client_id in ["one", "two", "three"] {
            broker.connecting(V5, client_id).session_expiry_s(1).open().disconnect();
        }
        await_number(&mut observer, "clients/expired", |count| count == 3.0);
        await_number(&mut observer, "clients/disconnected", |count| count == 0.0);
    });
}

/// `subscriptions/count`, `shared_subscriptions/count`, `retained messages/count`
#[test]
fn subscriptions_and_retained_messages_are_counted() {
    every_thread_count(|case| {
        let broker = broker(case);
        let mut observer = broker.connect(V5, "observer");
        let before = await_number(&mut observer, "subscriptions/count", |_| true);
        let mut clients: Vec<Client> = (0..4).map(|number| broker.connect(V5, &format!("client-{number}"))).collect();
        for client in &mut clients {
            client.subscribe("a/+", AtLeastOnce);
            client.subscribe("a/#", AtLeastOnce);
            client.subscribe("a/#", ExactlyOnce);
        }
        clients[0].subscribe("$share/group/a", AtLeastOnce);
        await_number(&mut observer, "subscriptions/count", |count| count >= before + 8.0);
        await_number(&mut observer, "shared_subscriptions/count", |count| count == 1.0);
        // The tree itself may count as retained: up to three hundred topics.
        for number in 0..1000 {
            clients[0].deliver(&OutgoingPublish::new(&format!("kept/{number}"), AtLeastOnce, b"x").retained());
        }
        await_number(&mut observer, "retained messages/count", |count| (1000.0..1300.0).contains(&count));
        for number in 0..500 {
            clients[0].deliver(&OutgoingPublish::new(&format!("kept/{number}"), AtLeastOnce, b"").retained());
        }
        await_number(&mut observer, "retained messages/count", |count| (500.0..800.0).contains(&count));
        for mut client in clients {
            client.unsubscribe(&["a/+", "a/#", "$share/group/a"]);
        }
        await_number(&mut observer, "subscriptions/count", |count| count <= before + 1.0);
        await_number(&mut observer, "shared_subscriptions/count", |count| count == 0.0);
    });
}

/// `publish/*`, `messages/*`, `bytes/*`: at least the traffic of this test, and growing.
#[test]
fn traffic_is_counted() {
    every_thread_count(|case| {
        let broker = broker(case);
        let mut observer = broker.connect(V5, "observer");
        let mut publisher = broker.connect(V5, "publisher");
        let mut subscriber = broker.connect(V5, "subscriber");
        subscriber.subscribe("a", AtLeastOnce);
        let received = await_number(&mut observer, "publish/messages/received", |_| true);
        let bytes = await_number(&mut observer, "bytes/received", |_| true);
        for _ in 0..50 {
            publisher.publish("a", AtLeastOnce, &[b'x'; 1000]);
            subscriber.receive();
        }
        await_number(&mut observer, "publish/messages/received", |count| count == received + 50.0);
        await_number(&mut observer, "bytes/received", |count| count >= bytes + 50_000.0);
        for topic in ["publish/messages/sent", "messages/received", "messages/sent"] {
            await_number(&mut observer, topic, |count| count >= 50.0);
        }
        for topic in ["publish/bytes/received", "publish/bytes/sent", "bytes/sent"] {
            await_number(&mut observer, topic, |count| count >= 50_000.0);
        }
        for topic in ["load/publish/received/1min", "load/messages/received/1min", "load/bytes/sent/1min"] {
            await_number(&mut observer, topic, |load| load > 0.0);
        }
    });
}

/// `publish/messages/dropped`
#[test]
fn dropped_messages_are_counted() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["sys.interval_s=1", "limits.session_queue_messages=2"]);
        let mut observer = broker.connect(V5, "observer");
        let mut absent = broker.connecting(V5, "absent").session_expiry_s(NEVER).open();
        absent.subscribe("a", AtLeastOnce);
        absent.disconnect();
        for _ in 0..5 {
            observer.publish("a", AtLeastOnce, b"x");
        }
        await_number(&mut observer, "publish/messages/dropped", |count| count >= 3.0);
        await_number(&mut observer, "store/messages/count", |count| count >= 2.0);
    });
}

/// `sys.interval_s=0` turns the tree off.
#[test]
fn the_tree_can_be_disabled() {
    every_case(|case| {
        let broker = case.broker_set(&["sys.interval_s=0"]);
        let mut client = broker.connect(case.version, "client");
        client.subscribe("$SYS/#", AtLeastOnce);
        client.subscribe("fence", AtLeastOnce);
        client.publish("fence", AtLeastOnce, b"x");
        assert_eq!(client.receive().topic(), "fence");
    });
}
