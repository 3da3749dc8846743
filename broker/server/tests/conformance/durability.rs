//! Persistence in `data.path`: a killed broker continues with its state.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use tautwire_protocol::{Packet, PacketId, PayloadFormat, Property, SubscriptionOptions};

use crate::support::http::post;
use crate::support::property::{response_topic, subscription_identifier};
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, ExactlyOnce, Folder, Message, OutgoingPublish, QoS, TOKEN, V3_1_1, V5,
    WillMessage, admin, every_version, options, program, reconnect, wait_until,
};

/// The number of kills for each version.
const KILLS: usize = 25;
/// Messages published between two kills.
const MESSAGES: usize = 20;

/// A broker that stores its state in `folder`.
fn start(folder: &Folder) -> Broker {
    start_with(1, folder)
}

fn start_with(threads: usize, folder: &Folder) -> Broker {
    Broker::with(threads, &[&format!("data.path={}", folder.path().join("data").display())])
}

/// SIGKILL, without a chance to shut down.
fn kill(broker: Broker) {
    broker.signal("KILL");
    drop(broker);
}

/// The messages that a subscriber has received over all its connections.
#[derive(Default)]
struct Received {
    /// The number of arrivals by the number in the payload.
    counts: BTreeMap<usize, usize>,
    /// QoS 2 identifiers that are not released.
    unreleased: BTreeMap<PacketId, usize>,
}

impl Received {
    /// Receives and completes up to `count` messages.
    fn receive(&mut self, client: &mut Client, count: usize) {
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
                        if self.unreleased.insert(id, number) != Some(number) {
                            *self.counts.entry(number).or_default() += 1;
                        }
                        client.send_pubrec(id.get());
                    }
                }
                Packet::PubRel(release) => {
                    self.unreleased.remove(&release.packet_id);
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

/// 4.1.0 of 5.0: the server stores session state. Acknowledged messages reach their subscriber, those of QoS 2 once; the session exists,
/// and exchanges in progress continue.
#[test]
fn acknowledged_messages_survive_a_kill() {
    every_version(|case| {
        let folder = Folder::new(&[]);
        let mut broker = start_with(2, &folder);
        let mut subscriber = broker.connecting(case.version, "subscriber").persistent().open();
        subscriber.subscribe("t/#", ExactlyOnce);
        let mut received = Received::default();
        for round in 0..KILLS {
            // Some messages are queued and some in flight when the broker is killed.
            subscriber.disconnect();
            let mut publisher = broker.connect(V5, "publisher");
            for number in round * MESSAGES..(round + 1) * MESSAGES {
                assert_eq!(publisher.publish("t/x", qos_of(number), number.to_string().as_bytes()), 0);
            }
            let mut client = reconnect(&broker, case.version, "subscriber");
            received.receive(&mut client, MESSAGES / 2);
            kill(broker);
            // The number of threads changes the threads of the clients.
            broker = start_with(1 + round % 3, &folder);
            subscriber = reconnect(&broker, case.version, "subscriber");
        }
        while received.counts.len() < KILLS * MESSAGES || !received.unreleased.is_empty() {
            received.receive(&mut subscriber, 1);
        }
        for (number, count) in &received.counts {
            assert!(*count == 1 || qos_of(*number) == AtLeastOnce, "message {number} of QoS 2 came {count} times");
        }
    });
}

/// Retained messages survive as acknowledged, and removed ones stay removed.
#[test]
fn retained_messages_survive_a_kill() {
    every_version(|case| {
        let folder = Folder::new(&[]);
        let mut broker = start(&folder);
        for round in 0..3 {
            let mut publisher = broker.connect(case.version, "publisher");
            let text = round.to_string();
            publisher.deliver(&OutgoingPublish::new("kept", AtLeastOnce, text.as_bytes()).retained());
            publisher.deliver(&OutgoingPublish::new("cleared", AtLeastOnce, text.as_bytes()).retained());
            publisher.deliver(&OutgoingPublish::new("cleared", AtLeastOnce, b"").retained());
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

/// All properties of messages, wills and subscriptions survive a kill, also after a snapshot has replaced the log.
#[test]
fn messages_wills_and_subscriptions_survive_a_kill_and_a_snapshot() {
    const EXPIRY_S: u32 = 3_600;
    let say_all = |outgoing: OutgoingPublish<'static>| {
        outgoing
            .retained()
            .property(Property::PayloadFormatIndicator(PayloadFormat::Utf8))
            .property(Property::MessageExpiryInterval(EXPIRY_S))
            .property(Property::ContentType("text/plain"))
            .property(response_topic("answers"))
            .property(Property::CorrelationData(b"\0\xFF"))
            .property(Property::UserProperty("a", "1"))
            .property(Property::UserProperty("a", "2"))
    };
    let check = |message: &Message| {
        assert_eq!((message.topic(), message.text(), message.retain()), ("t/x", "said", true));
        let properties = message.properties();
        assert_eq!(properties.payload_format_indicator(), Some(PayloadFormat::Utf8));
        assert!(
            properties.message_expiry_interval().is_some_and(|left_s| left_s > EXPIRY_S - 600 && left_s <= EXPIRY_S)
        );
        assert_eq!(properties.content_type(), Some("text/plain"));
        assert_eq!(properties.response_topic().map(|topic| topic.as_str()), Some("answers"));
        assert_eq!(properties.correlation_data(), Some(&b"\0\xFF"[..]));
        assert_eq!(message.user_properties(), [("a".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())]);
    };
    let folder = Folder::new(&[]);
    let mut broker = start(&folder);
    let wish = SubscriptionOptions { no_local: true, retain_as_published: true, ..options(AtLeastOnce) };
    let mut subscriber = broker.connecting(V5, "subscriber").persistent().open();
    assert_eq!(subscriber.subscribe_all(&[("t/#", wish)], &[subscription_identifier(77)]), [1]);
    for is_compacted in [false, true] {
        subscriber.disconnect();
        let will = WillMessage::new("t/will", b"gone").qos(AtLeastOnce).property(Property::ContentType("w")).delay_s(1);
        let _mortal = broker.connecting(V5, "mortal").persistent().will(will).open();
        let outgoing = say_all(OutgoingPublish::new("t/x", AtLeastOnce, b"said"));
        assert_eq!(broker.connect(V5, "publisher").deliver(&outgoing), 0);
        kill(broker);
        if is_compacted {
            let data = folder.path().join("data").display().to_string();
            let compacted = Command::new(program()).args(["data", "compact", "--data", &data]).output();
            assert!(compacted.expect("starts").status.success());
        }
        broker = start(&folder);
        subscriber = reconnect(&broker, V5, "subscriber");
        let queued = subscriber.receive();
        check(&queued);
        assert_eq!((queued.qos(), queued.subscription_identifiers()), (AtLeastOnce, vec![77]));
        // No Local: the client does not receive its own messages.
        subscriber.publish("t/own", AtLeastOnce, b"x");
        let will = subscriber.receive();
        assert_eq!((will.topic(), will.properties().content_type()), ("t/will", Some("w")));
        let mut observer = broker.connect(V5, "observer");
        observer.subscribe("t/#", AtLeastOnce);
        check(&observer.receive());
    }
}

/// A message that the API has confirmed survives, like one acknowledged to a client.
#[test]
fn operator_messages_survive_a_kill() {
    let folder = Folder::new(&[("token", TOKEN)]);
    let settings = [
        format!("data.path={}", folder.path().join("data").display()),
        "admin.listen=127.0.0.1:0".to_owned(),
        format!("admin.token_file={}", folder.path().join("token").display()),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut broker = Broker::with(2, &settings);
    broker.connecting(V5, "subscriber").persistent().open().subscribe("queued", AtLeastOnce);
    for round in 0..5 {
        let text = round.to_string();
        post(broker.admin_address(), "/messages/queued?qos=1", "", text.as_bytes()).expect(200);
        post(broker.admin_address(), "/messages/kept?retain=true", "", text.as_bytes()).expect(200);
        kill(broker);
        broker = Broker::with(1 + round % 3, &settings);
        let mut observer = broker.connect(V5, "observer");
        observer.subscribe("kept", AtLeastOnce);
        assert_eq!(observer.receive().text(), text);
    }
    let mut subscriber = reconnect(&broker, V5, "subscriber");
    for round in 0..5 {
        assert_eq!(subscriber.receive().text(), round.to_string());
    }
}

/// 3.1.2.5 of 5.0: the will of a connected client is published, whether its session ends with the connection or not.
#[test]
fn wills_of_connected_clients_are_published_after_a_kill() {
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
        // The disconnect is in the log by then: nothing waits for it, but the CONNACK of a persistent session follows it.
        broker.connect(case.version, "discarded").disconnect();
        broker.connecting(V3_1_1, "later").persistent().open().disconnect();
        kill(broker);
        let broker = start(&folder);
        // Its will is published all the same [MQTT-3.1.2-8].
        let _back = reconnect(&broker, case.version, "lasting");
        let mut watcher = reconnect(&broker, V3_1_1, "watcher");
        let mut topics = [watcher.receive().topic().to_owned(), watcher.receive().topic().to_owned()];
        topics.sort();
        assert_eq!(topics, ["will/clean", "will/lasting"]);
        watcher.expect_nothing();
    });
}

/// Published data is readable by the owner only, even if others may read the directory.
#[test]
fn persisted_files_are_readable_only_by_their_owner() {
    let folder = Folder::new(&[]);
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a new directory");
    let settings =
        [&format!("data.path={}", data.display()), "limits.spill_threshold_bytes=65536", "limits.memory_bytes=2097152"];
    let broker = Broker::set(&settings);
    broker.connecting(V5, "subscriber").persistent().open().subscribe("a", AtLeastOnce);
    let mut publisher = broker.connect(V5, "publisher");
    for _ in 0..20 {
        assert_eq!(publisher.publish("a", AtLeastOnce, &vec![b'x'; 100_000]), 0);
    }
    let mut folders = vec![data];
    let mut names = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder is readable") {
            let entry = entry.expect("the folder is readable");
            let metadata = entry.metadata().expect("the file exists");
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                let mode = metadata.permissions().mode() & 0o777;
                assert_eq!(mode & 0o077, 0, "{} is open to others: {mode:o}", entry.path().display());
                names.push(entry.file_name().into_string().expect("a UTF-8 name"));
            }
        }
    }
    for kind in ["LOCK", "segment-", "spill-"] {
        assert!(names.iter().any(|name| name.starts_with(kind)), "there is no {kind}: {names:?}");
    }
}

/// Two brokers would destroy each other's state.
#[test]
fn a_directory_is_used_by_one_broker() {
    let folder = Folder::new(&[]);
    let broker = start(&folder);
    let stderr = Broker::refused(&[&format!("data.path={}", folder.path().join("data").display())]);
    assert!(stderr.contains("another broker uses it"), "{stderr}");
    broker.connect(V5, "client").ping();
}

/// 3.4.2.1 of 5.0: Quota exceeded. No acknowledged message is lost, and there is space again after messages have been delivered.
#[test]
fn a_full_disk_refuses_persistent_publishes_until_there_is_space() {
    let folder = Folder::new(&[]);
    let data = format!("data.path={}", folder.path().join("data").display());
    let broker = Broker::set(&[&data, "disk.limit=67108864", "limits.session_queue_bytes=1000000000"]);
    broker.connecting(V5, "subscriber").persistent().open().subscribe("kept/#", AtLeastOnce);
    let mut publisher = broker.connect(V5, "publisher");
    let payload = vec![b'x'; 200_000];
    let mut kept = 0;
    while publisher.publish("kept/x", AtLeastOnce, &payload) == 0 {
        kept += 1;
        assert!(kept < 1_000, "more was stored than the limit allows");
    }
    assert!(kept > 200, "64 MiB hold more than {kept} messages");
    assert_eq!(publisher.publish("kept/x", AtLeastOnce, b"small"), 0x97);
    assert_eq!(broker.connecting(V5, "newcomer").persistent().refused(), 0x89);
    assert_eq!(broker.connecting(V3_1_1, "newcomer").persistent().refused(), 3, "Server unavailable");
    // A client without persistent state does not notice.
    let mut watcher = broker.connect(V3_1_1, "watcher");
    watcher.subscribe("live/#", AtLeastOnce);
    assert_eq!(publisher.publish("live/x", AtLeastOnce, b"on"), 0);
    assert_eq!(watcher.receive().text(), "on");
    // 3.1.1 has no answer for this.
    let mut old = broker.connect(V3_1_1, "old");
    old.send_publish(&OutgoingPublish::new("kept/x", AtLeastOnce, b"small"));
    old.expect_closed();

    let mut subscriber = reconnect(&broker, V5, "subscriber");
    for _ in 0..kept {
        assert_eq!(subscriber.receive().text().len(), payload.len());
    }
    // A snapshot shortens the log.
    wait_until("room", || publisher.publish("kept/x", AtLeastOnce, b"small") == 0);
    assert_eq!(subscriber.receive().text(), "small");
}

/// A few bytes of acknowledgements are enough to free the space of a snapshot that holds all the messages.
#[test]
fn a_disk_filled_by_a_snapshot_has_space_after_messages_are_consumed() {
    let folder = Folder::new(&[]);
    let data = folder.path().join("data").display().to_string();
    let path = format!("data.path={data}");
    let payload = vec![b'x'; 200_000];
    let broker = Broker::set(&[&path, "disk.limit=1000000000", "limits.session_queue_bytes=1000000000"]);
    let mut subscriber = broker.connecting(V5, "subscriber").persistent().open();
    subscriber.subscribe("kept/#", AtLeastOnce);
    subscriber.disconnect();
    let mut publisher = broker.connect(V5, "publisher");
    for _ in 0..400 {
        assert_eq!(publisher.publish("kept/x", AtLeastOnce, &payload), 0);
    }
    broker.end();
    let compacted = Command::new(program()).args(["data", "compact", "--data", &data]).output().expect("starts");
    assert!(compacted.status.success(), "{compacted:?}");

    let snapshots = || -> Vec<String> {
        let entries = fs::read_dir(&data).expect("is there").map(|entry| entry.expect("reads").file_name());
        let names = entries.map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("snapshot-") && !name.ends_with(".new")).collect()
    };
    let before = snapshots();
    let broker = Broker::set(&[&path, "disk.limit=67108864", "limits.session_queue_bytes=1000000000"]);
    let mut publisher = broker.connect(V5, "publisher");
    assert_eq!(publisher.publish("kept/x", AtLeastOnce, b"small"), 0x97);
    // A snapshot is made of the state found at startup.
    wait_until("another snapshot", || snapshots().len() == 1 && snapshots() != before);
    let mut subscriber = reconnect(&broker, V5, "subscriber");
    for _ in 0..400 {
        assert_eq!(subscriber.receive().text().len(), payload.len());
    }
    wait_until("room", || publisher.publish("kept/x", AtLeastOnce, b"small") == 0);
    assert_eq!(subscriber.receive().text(), "small");
}

/// Data handed to the operating system survives the end of the process.
#[test]
fn messages_acknowledged_at_level_os_survive_a_kill() {
    let folder = Folder::new(&[]);
    let data = format!("data.path={}", folder.path().join("data").display());
    let start = || Broker::set(&[&data, "data.ack=os"]);
    let mut broker = start();
    broker.connecting(V5, "subscriber").persistent().open().subscribe("t/#", AtLeastOnce);
    for round in 0..5 {
        let mut publisher = broker.connect(V5, "publisher");
        for number in 0..10 {
            assert_eq!(publisher.publish("t/x", AtLeastOnce, format!("{round}.{number}").as_bytes()), 0);
        }
        kill(broker);
        broker = start();
        let mut subscriber = reconnect(&broker, V5, "subscriber");
        for number in 0..10 {
            assert_eq!(subscriber.receive().text(), format!("{round}.{number}"));
        }
        subscriber.disconnect();
    }
}

/// Clients without persistent state never use the log: neither their packets nor `$SYS` are in it.
#[test]
fn transient_messages_are_never_persisted() {
    /// The smallest write of the log.
    const BLOCK_BYTES: u64 = 4_096;
    let folder = Folder::new(&[("token", TOKEN)]);
    let data = format!("data.path={}", folder.path().join("data").display());
    let token = format!("admin.token_file={}", folder.path().join("token").display());
    let broker = Broker::with(2, &[&data, &token, "admin.listen=127.0.0.1:0", "sys.interval_s=1"]);
    let metric = |name| admin(broker.admin_address(), "GET", "/metrics", "").expect(200).number(name);
    let look = || [metric("data_syncs"), metric("data_log_bytes")];
    let mut keeper = broker.connect(V5, "keeper");
    let mut keep = || {
        // No matching subscribers [MQTT 5.0 section 3.4.2.1].
        assert_eq!(keeper.deliver(&OutgoingPublish::new("kept", AtLeastOnce, b"x").retained()), 0x10);
    };
    keep();
    let before = look();
    for version in [V3_1_1, V5] {
        let mut subscriber = broker.connect(version, "passing");
        subscriber.subscribe("live/#", ExactlyOnce);
        let mut publisher = broker.connect(version, "publisher");
        for number in 0..60 {
            let qos = [AtMostOnce, AtLeastOnce, ExactlyOnce][number % 3];
            publisher.publish("live/x", qos, &[b'x'; 1_000]);
            subscriber.receive();
        }
        subscriber.unsubscribe(&["live/#"]);
        subscriber.disconnect();
        publisher.cut();
    }
    let mut watcher = broker.connect(V5, "watcher");
    watcher.subscribe("$SYS/broker/uptime", AtLeastOnce);
    watcher.receive_texts(2);
    keep();
    let after = look();
    let written = [after[0] - before[0], after[1] - before[1]];
    assert_eq!(written, [1, BLOCK_BYTES], "only the persistent message at the end");
}

/// A listener for clients that do not want to wait; each listener has its own acknowledgement level.
#[test]
fn a_listener_has_its_own_ack_level() {
    let folder = Folder::new(&[]);
    let data = format!("data.path={}", folder.path().join("data").display());
    let broker = Broker::with(3, &[&data, "data.ack_listeners=127.0.0.1:0 = memory"]);
    let mut subscriber = broker.connecting(V5, "subscriber").persistent().open();
    subscriber.subscribe("t/#", ExactlyOnce);
    for number in 0..20 {
        let text = number.to_string();
        assert_eq!(broker.connect(V5, &text).publish("t/x", qos_of(number), text.as_bytes()), 0);
        assert_eq!(subscriber.receive().text(), text);
    }
}

/// 4.13 of 5.0: clients that rely on the disk are notified when it fails, and everything else continues.
#[test]
fn clients_are_notified_when_the_disk_fails() {
    let folder = Folder::new(&[("token", "a-token-for-this-test")]);
    let data = format!("data.path={}", folder.path().join("data").display());
    let token = format!("admin.token_file={}", folder.path().join("token").display());
    let broker = Broker::with_failable_disk(&[&data, "admin.listen=0", &token]);
    let mut lasting = broker.connecting(V5, "lasting").persistent().open();
    lasting.subscribe("kept/#", AtLeastOnce);
    let mut passing = broker.connect(V5, "passing");
    passing.subscribe("live/#", AtLeastOnce);
    assert_eq!(passing.publish("kept/x", AtLeastOnce, b"before"), 0);
    assert_eq!(lasting.receive().text(), "before");

    // The journal prepares segments ahead, so it may detect the failure before this message or by it.
    broker.fail_disk();
    let mut unlucky = broker.connect(V5, "unlucky");
    unlucky.send_publish(&OutgoingPublish::new("kept/x", AtLeastOnce, b"while it fails"));
    assert_eq!(unlucky.expect_refusal(), 0x97, "it is not acknowledged");
    if let Some(handed_on) = lasting.publish_or_disconnect() {
        assert_eq!(handed_on.text(), "while it fails");
    }
    assert_eq!(lasting.expect_disconnect(), 0x97);
    assert_eq!(passing.publish("kept/x", AtLeastOnce, b"after"), 0x97);
    assert_eq!(broker.connecting(V5, "lasting").persistent().refused(), 0x88);
    assert_eq!(broker.connecting(V3_1_1, "other").persistent().refused(), 3);
    assert_eq!(passing.publish("live/x", AtLeastOnce, b"on"), 0);
    assert_eq!(passing.receive().text(), "on");
    let (status, body) = health(&broker);
    assert_eq!((status, body.trim()), (503, r#"{"status":"failed","disk":"failed"}"#));
    kill(broker);

    // Everything acknowledged before the failure is there.
    let broker = Broker::set(&[&data]);
    reconnect(&broker, V5, "lasting").ping();
}

fn health(broker: &Broker) -> (u16, String) {
    let mut stream = TcpStream::connect(broker.admin_address()).expect("the API is served");
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("the request is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, text.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
}
