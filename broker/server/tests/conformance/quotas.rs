//! Quotas of one client: its publish rate, and its retained messages.

use std::time::{Duration, Instant};

use tautwire_protocol::Packet;

use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Case, Client, EXPECT_TIMEOUT, ExactlyOnce, Folder, OutgoingPublish, TOKEN,
    WillMessage, admin, every_case, every_version, packet_id,
};

/// A broker with immediate counters, and the folder with its token.
struct World {
    broker: Broker,
    folder: Folder,
}

impl World {
    fn new(case: Case, settings: &[&str]) -> World {
        World::over(Folder::new(&[("token", TOKEN)]), case, settings)
    }

    fn over(folder: Folder, case: Case, settings: &[&str]) -> World {
        let token = format!("admin.token_file={}", folder.path().join("token").display());
        let own = [&*token, "admin.listen=127.0.0.1:0", "sys.interval_s=0"];
        World { broker: case.broker_set(&[&own, settings].concat()), folder }
    }

    /// Everything answered before is counted.
    fn count(&self, name: &str) -> u64 {
        admin(self.broker.admin_address(), "GET", "/metrics", "").expect(200).number(name)
    }

    /// Waits until a counter has this value.
    #[track_caller]
    fn await_count(&self, name: &str, value: u64) {
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        while self.count(name) != value {
            assert!(Instant::now() < deadline, "{name} is {}", self.count(name));
        }
    }
}

/// Sends QoS 1 messages `1` to `count` and a PINGREQ in one write.
fn send_at_once(client: &mut Client, count: u16) {
    let mut bytes = Vec::new();
    for number in 1..=count {
        let text = number.to_string();
        let publish = OutgoingPublish::new("a", AtLeastOnce, text.as_bytes());
        bytes.extend(client.encoded(&Packet::Publish(publish.publish(packet_id(number)))));
    }
    bytes.extend(client.encoded(&Packet::PingReq));
    client.send_bytes(&bytes);
}

/// The shortest plausible wait between a message that emptied a bucket and the next one: less is a leak, however slow the machine is. The
/// clock may be read before the message.
fn about_half(duration: Duration) -> Duration {
    duration / 2
}

/// `limits.publish_messages_per_s`, `limits.publish_burst_messages`: nothing is dropped or refused, and everything waits its turn,
/// including keep alive [MQTT-3.1.2-22].
#[test]
fn a_client_publishes_a_burst_at_once_and_then_at_its_rate() {
    every_case(|case| {
        let counting = World::new(case, &["limits.publish_messages_per_s=1", "limits.publish_burst_messages=5"]);
        let broker = &counting.broker;
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("a", AtLeastOnce);
        let mut client = broker.connecting(case.version, "client").keep_alive_s(1).open();
        let start = Instant::now();
        send_at_once(&mut client, 8);
        for id in 1..=5 {
            client.expect_puback(id);
        }
        let others = broker.connect(case.version, "other");
        let mut others = [others, broker.connect(case.version, "another")];
        for other in &mut others {
            other.publish("b", AtLeastOnce, b"has a bucket of its own");
        }
        assert!(counting.count("clients_paused_for_rate") >= 1);
        for id in 6..=8 {
            client.expect_puback(id);
        }
        assert!(start.elapsed() > about_half(Duration::from_secs(3)), "{:?}", start.elapsed());
        // The answer to PINGREQ comes last.
        assert!(matches!(client.next().as_packet(), Packet::PingResp));
        assert_eq!(subscriber.receive_texts(8), ["1", "2", "3", "4", "5", "6", "7", "8"]);
        // For three messages, and no more often; on a slow machine the bucket may already have the next one's share.
        assert!((1..=3).contains(&counting.count("clients_paused_for_rate")));
        assert_eq!(counting.count("keep_alive_timeouts"), 0);
        assert_eq!(counting.count("publishes_received"), 10);
    });
}

/// Without a rate, or below it, no client is paused.
#[test]
fn a_publisher_below_the_rate_is_not_paused() {
    every_version(|case| {
        for settings in [&[][..], &["limits.publish_messages_per_s=1000", "limits.publish_bytes_per_s=1000000"]] {
            let counting = World::new(case, settings);
            let mut client = counting.broker.connect(case.version, "client");
            send_at_once(&mut client, 500);
            for id in 1..=500 {
                client.expect_puback(id);
            }
            assert_eq!(counting.count("clients_paused_for_rate"), 0);
        }
    });
}

/// `limits.publish_bytes_per_s`, `limits.publish_burst_bytes`: a packet larger than the bucket passes, and later ones wait longer.
#[test]
fn a_packet_larger_than_the_burst_passes_and_delays_the_next() {
    every_version(|case| {
        let counting = World::new(case, &["limits.publish_bytes_per_s=10000", "limits.publish_burst_bytes=1000"]);
        let mut client = counting.broker.connect(case.version, "client");
        let start = Instant::now();
        client.publish("a", AtLeastOnce, &[b'x'; 10_000]);
        client.publish("a", AtLeastOnce, b"next");
        assert!(start.elapsed() > about_half(Duration::from_millis(900)), "{:?}", start.elapsed());
        assert_eq!(counting.count("clients_paused_for_rate"), 1);
        // It does not block for ever.
        client.publish("a", ExactlyOnce, &[b'x'; 5_000]);
    });
}

/// A new connection, and a new session, inherit the bucket.
#[test]
fn reconnecting_does_not_fill_the_bucket() {
    every_case(|case| {
        let counting = World::new(case, &["limits.publish_messages_per_s=1", "limits.publish_burst_messages=2"]);
        let start = Instant::now();
        for _ in 0..2 {
            let mut client = counting.broker.connect(case.version, "client");
            client.publish("a", AtLeastOnce, b"x");
            client.disconnect();
        }
        let mut client = counting.broker.connect(case.version, "client");
        client.publish("a", AtLeastOnce, b"waits");
        assert!(start.elapsed() > about_half(Duration::from_secs(1)), "{:?}", start.elapsed());
    });
}

/// Publishes a retained message. Returns the reason code.
fn retain(client: &mut Client, topic: &str, payload: &[u8]) -> u8 {
    client.deliver(&OutgoingPublish::new(topic, AtLeastOnce, payload).retained())
}

/// The retained topics below `kept/`.
fn retained_topics(case: Case, broker: &Broker, count: usize) -> Vec<String> {
    let mut late = broker.connect(case.version, "late");
    late.subscribe("kept/#", AtMostOnce);
    let mut retained_topics: Vec<String> = (0..count).map(|_| late.receive().text().to_owned()).collect();
    late.expect_nothing();
    retained_topics.sort_unstable();
    retained_topics
}

/// `limits.retained_messages_per_client`: 3.4.2.1 and 3.5.2.1 of 5.0 name 0x97. A message counts for the client that published it last.
#[test]
fn the_retained_messages_of_a_client_are_limited() {
    every_case(|case| {
        let counting = World::new(case, &["limits.retained_messages_per_client=2"]);
        let broker = &counting.broker;
        let refused = if case.version.is_v5() { 0x97 } else { 0x00 };
        let mut live = broker.connect(case.version, "live");
        live.subscribe("kept/#", AtMostOnce);
        let mut first = broker.connect(case.version, "first");
        let mut second = broker.connect(case.version, "second");
        assert!(retain(&mut first, "kept/1", b"1") < 0x80 && retain(&mut first, "kept/2", b"2") < 0x80);
        assert_eq!(retain(&mut first, "kept/3", b"no"), refused);
        let id = first.send_publish(&OutgoingPublish::new("kept/3", ExactlyOnce, b"no").retained());
        assert_eq!(first.expect_pubrec(id), refused);
        if !case.version.is_v5() {
            first.send_pubrel(id);
            first.expect_pubcomp(id);
        }
        first.deliver(&OutgoingPublish::new("kept/3", AtMostOnce, b"no").retained());
        first.ping();
        assert_eq!((counting.count("retained_refused_for_client"), counting.count("retained_refused")), (3, 3));
        // A refused message reaches no subscriber; without RETAIN it does.
        first.publish("kept/3", AtLeastOnce, b"live");
        assert_eq!(live.receive_texts(3), ["1", "2", "live"]);
        // Another client has its own quota, and its messages count for it.
        assert!(retain(&mut second, "kept/3", b"3") < 0x80);
        assert!(retain(&mut second, "kept/1", b"one") < 0x80);
        assert_eq!(retain(&mut second, "kept/4", b"no"), refused);
        assert!(retain(&mut first, "kept/4", b"4") < 0x80);
        assert_eq!(retain(&mut first, "kept/5", b"no"), refused);
        // Replacing one's own message is free, and removing one frees quota.
        assert!(retain(&mut first, "kept/4", b"four") < 0x80);
        assert!(retain(&mut first, "kept/2", b"") < 0x80);
        assert!(retain(&mut first, "kept/5", b"5") < 0x80);
        assert_eq!(retained_topics(case, broker, 4), ["3", "5", "four", "one"]);
        // The end of the session frees no quota.
        first.disconnect();
        let mut first = broker.connect(case.version, "first");
        assert_eq!(retain(&mut first, "kept/6", b"no"), refused);
    });
}

/// `limits.retained_bytes_per_client`
#[test]
fn the_bytes_of_a_clients_retained_messages_are_bounded() {
    every_case(|case| {
        let counting = World::new(case, &["limits.retained_bytes_per_client=10000"]);
        let broker = &counting.broker;
        let refused = if case.version.is_v5() { 0x97 } else { 0x00 };
        let mut client = broker.connect(case.version, "client");
        assert!(retain(&mut client, "kept/1", &[b'x'; 6_000]) < 0x80);
        assert_eq!(retain(&mut client, "kept/2", &[b'x'; 6_000]), refused);
        assert!(retain(&mut client, "kept/1", &[b'x'; 9_000]) < 0x80, "it replaces the first message");
        assert_eq!(retain(&mut client, "kept/1", &[b'x'; 11_000]), refused);
        assert!(retain(&mut client, "kept/1", &[b'x'; 1_000]) < 0x80);
        assert!(retain(&mut client, "kept/2", &[b'x'; 6_000]) < 0x80);
        assert_eq!(counting.count("retained_refused_for_client"), 2);
    });
}

/// A retained will counts for its client.
#[test]
fn a_will_counts_against_the_quota_of_its_client() {
    every_case(|case| {
        let counting = World::new(case, &["limits.retained_messages_per_client=1"]);
        let broker = &counting.broker;
        for (topic, refusals) in [("kept/1", 0), ("kept/2", 1)] {
            let will = WillMessage::new(topic, b"will").qos(AtLeastOnce).retained();
            broker.connecting(case.version, "client").will(will).open().cut();
            counting.await_count("sessions", 0);
            assert_eq!(counting.count("retained_refused_for_client"), refusals);
        }
        assert_eq!(retained_topics(case, broker, 1), ["will"]);
    });
}

/// The log does not store the owner of a retained message: after a restart it has none until it is published again.
#[test]
fn after_a_restart_retained_messages_have_no_owner() {
    every_version(|case| {
        let folder = Folder::new(&[("token", TOKEN)]);
        let data = format!("data.path={}", folder.path().join("data").display());
        let settings = [&*data, "limits.retained_messages_per_client=1"];
        let refused = if case.version.is_v5() { 0x97 } else { 0x00 };
        let counting = World::over(folder, case, &settings);
        let mut client = counting.broker.connect(case.version, "client");
        assert!(retain(&mut client, "kept/1", b"1") < 0x80);
        assert_eq!(retain(&mut client, "kept/2", b"no"), refused);
        let World { broker, folder } = counting;
        broker.signal("KILL");
        drop(broker);
        let counting = World::over(folder, case, &settings);
        let mut client = counting.broker.connect(case.version, "client");
        assert!(retain(&mut client, "kept/2", b"2") < 0x80);
        assert_eq!(retain(&mut client, "kept/1", b"no"), refused, "it would be the second from now on");
        assert_eq!(retained_topics(case, &counting.broker, 2), ["1", "2"]);
    });
}
