//! Messages spilled to the data directory and loaded again before they are sent.

use std::fs;
use std::thread;
use std::time::Instant;

use crate::support::{
    AtLeastOnce, Broker, Case, Client, EXPECT_TIMEOUT, ExactlyOnce, Folder, OutgoingPublish, QoS, TOKEN, V5, admin,
    every_version, reconnect,
};

/// Far more than the brokers of these tests may hold in memory.
const MESSAGES: usize = 1_000;
const PAYLOAD_BYTES: usize = 4 << 10;

fn start(folder: &Folder, settings: &[&str]) -> Broker {
    let path = format!("data.path={}", folder.path().join("data").display());
    folder.write("token", TOKEN);
    let token = format!("admin.token_file={}", folder.path().join("token").display());
    let mut all = vec![
        path.as_str(),
        token.as_str(),
        "admin.listen=127.0.0.1:0",
        "limits.memory_bytes=2097152",
        "limits.spill_threshold_bytes=65536",
        "sys.interval_s=0",
    ];
    all.extend(settings);
    Broker::set(&all)
}

fn count(broker: &Broker, name: &str) -> u64 {
    admin(broker.admin_address(), "GET", "/metrics", "").expect(200).number(name)
}

fn health(broker: &Broker) -> String {
    admin(broker.admin_address(), "GET", "/health", "").expect(200).body
}

/// A separate thread does disk I/O, and updates the counters a moment later.
fn wait_until_above(broker: &Broker, name: &str, least: u64) {
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while count(broker, name) <= least {
        assert!(Instant::now() < deadline, "{name} is {}", count(broker, name));
        thread::yield_now();
    }
}

fn payload(number: usize) -> Vec<u8> {
    let mut payload = format!("{number:06}:").into_bytes();
    payload.resize(PAYLOAD_BYTES, b'a' + (number % 26) as u8);
    payload
}

fn qos_of(number: usize) -> QoS {
    if number.is_multiple_of(5) { ExactlyOnce } else { AtLeastOnce }
}

/// Publishes messages one by one. Returns how many were accepted before one was refused.
fn publish(broker: &Broker, count: usize) -> usize {
    let mut publisher = broker.connect(V5, "publisher");
    (0..count).find(|n| publisher.publish("t/x", qos_of(*n), &payload(*n)) >= 0x80).unwrap_or(count)
}

/// Messages of one QoS arrive in order. Those of QoS 2 wait for the log, unlike those of QoS 1.
fn expect_in_order(client: &mut Client, count: usize) {
    let mut expected = [AtLeastOnce, ExactlyOnce].map(|qos| (0..count).filter(move |number| qos_of(*number) == qos));
    for _ in 0..count {
        let message = client.receive();
        let number = expected[usize::from(message.qos() == ExactlyOnce)].next().expect("no more were sent");
        assert!(message.payload() == payload(number), "message {number} is {}", &message.text()[..7]);
    }
    client.expect_nothing();
}

/// An offline session subscribed to all messages.
fn create_offline_session(broker: &Broker, case: Case) {
    let mut subscriber = broker.connecting(case.version, "subscriber").persistent().open();
    subscriber.subscribe("t/#", ExactlyOnce);
    subscriber.disconnect();
}

/// A queue of four megabytes, with two of memory: it is delivered in order [MQTT-4.6.0-6], also after a kill.
#[test]
fn a_queue_larger_than_memory_is_delivered_in_order() {
    every_version(|case| {
        for is_killed in [false, true] {
            let folder = Folder::new(&[]);
            let mut broker = start(&folder, &[]);
            create_offline_session(&broker, case);
            assert_eq!(publish(&broker, MESSAGES), MESSAGES, "none is refused");
            wait_until_above(&broker, "spilled_messages", MESSAGES as u64 / 2);
            if is_killed {
                broker.signal("KILL");
                drop(broker);
                broker = start(&folder, &[]);
            }
            let mut subscriber = reconnect(&broker, case.version, "subscriber");
            expect_in_order(&mut subscriber, MESSAGES);
            assert_eq!((count(&broker, "spill_read_failures"), count(&broker, "spill_lost")), (0, 0));
        }
    });
}

/// The backlog of a connected client that acknowledges nothing.
#[test]
fn the_backlog_of_a_slow_client_is_delivered_in_order() {
    every_version(|case| {
        let folder = Folder::new(&[]);
        let broker = start(&folder, &["limits.in_flight_per_client=3"]);
        let mut subscriber = broker.connecting(case.version, "subscriber").persistent().open();
        subscriber.subscribe("t/#", ExactlyOnce);
        assert_eq!(publish(&broker, MESSAGES), MESSAGES, "none is refused");
        wait_until_above(&broker, "spilled_messages", MESSAGES as u64 / 2);
        expect_in_order(&mut subscriber, MESSAGES);
        // It reconnects, and messages loaded ahead are loaded again.
        subscriber.disconnect();
        assert_eq!(publish(&broker, 300), 300);
        for _ in 0..3 {
            let mut subscriber = reconnect(&broker, case.version, "subscriber");
            assert_eq!(subscriber.expect_publish().text().len(), PAYLOAD_BYTES);
            subscriber.cut();
        }
        expect_in_order(&mut reconnect(&broker, case.version, "subscriber"), 300);
    });
}

#[test]
fn spilled_retained_messages_are_sent_to_a_new_subscription() {
    every_version(|case| {
        let folder = Folder::new(&[]);
        let mut broker = start(&folder, &[]);
        for round in 0..2 {
            if round == 0 {
                let mut publisher = broker.connect(case.version, "publisher");
                let retain = |publisher: &mut Client, number: usize, payload: &[u8]| {
                    let topic = format!("r/{}/{number}", number % 7);
                    publisher.deliver(&OutgoingPublish::new(&topic, AtLeastOnce, payload).retained());
                };
                (0..MESSAGES).for_each(|number| retain(&mut publisher, number, b"an older one that is long enough to leave memory too: ...................................................................................................................................................."));
                (0..MESSAGES).for_each(|number| retain(&mut publisher, number, &payload(number)));
                (0..MESSAGES).step_by(10).for_each(|number| retain(&mut publisher, number, b""));
            }
            wait_until_above(&broker, "spilled_messages", MESSAGES as u64 / 2);
            for qos in [AtLeastOnce, ExactlyOnce] {
                let mut subscriber = broker.connect(case.version, "subscriber");
                subscriber.subscribe("r/#", qos);
                let mut seen = vec![false; MESSAGES];
                for _ in 0..MESSAGES - MESSAGES / 10 {
                    let message = subscriber.receive();
                    let number: usize =
                        message.topic().rsplit('/').next().and_then(|n| n.parse().ok()).expect("a number");
                    assert!(message.retain() && message.payload() == payload(number) && !seen[number]);
                    seen[number] = true;
                }
                subscriber.expect_nothing();
            }
            broker.signal("KILL");
            drop(broker);
            broker = start(&folder, &[]);
        }
    });
}

/// If the disk returns corrupt data, nothing is delivered in its place, and nothing is lost.
#[test]
fn delivery_pauses_while_spilled_messages_cannot_be_read() {
    every_version(|case| {
        let folder = Folder::new(&[]);
        let broker = start(&folder, &[]);
        create_offline_session(&broker, case);
        assert_eq!(publish(&broker, 500), 500);
        for name in folder.names("data/spill") {
            let path = folder.path().join("data/spill").join(name);
            let bytes = fs::read(&path).expect("the file is readable").len();
            fs::write(&path, vec![0; bytes]).expect("the file is writable");
        }
        let mut subscriber = reconnect(&broker, case.version, "subscriber");
        subscriber.ping();
        subscriber.expect_nothing();
        wait_until_above(&broker, "spill_read_failures", 0);
        wait_until_above(&broker, "spill_unreadable", 0);
        assert_eq!(health(&broker), "{\"status\":\"degraded\",\"disk\":\"unreadable\"}\n");
        broker.signal("KILL");
        drop((subscriber, broker));
        let broker = start(&folder, &[]);
        assert_eq!(health(&broker), "{\"status\":\"ok\"}\n");
        expect_in_order(&mut reconnect(&broker, case.version, "subscriber"), 500);
    });
}

/// `limits.spill_bytes`: messages that do not fit stay in memory, and when that is full, publishers are notified.
#[test]
fn messages_that_do_not_fit_on_disk_stay_in_memory() {
    every_version(|case| {
        let folder = Folder::new(&[]);
        // With an explicit queue limit, publishers are refused for lack of memory.
        let broker = start(&folder, &["limits.spill_bytes=1048576", "limits.session_queue_bytes=1000000000"]);
        create_offline_session(&broker, case);
        let taken = publish(&broker, MESSAGES);
        assert!((300..900).contains(&taken), "{taken} were taken");
        wait_until_above(&broker, "spill_limit_reached", 0);
        expect_in_order(&mut reconnect(&broker, case.version, "subscriber"), taken);
    });
}
