//! Global limits.

use std::time::Instant;

use tautwire_protocol::{Packet, ReasonCode};

use super::users::delivered_of_two;
use super::{
    ACCEPTED, After, Before, CLOSED, NO, QUOTA_EXCEEDED, ReloadTest, Row, YES, code, connack_of, connect_result,
    try_all, yes_if,
};
use crate::support::{AtLeastOnce, AtMostOnce, Client, EXPECT_TIMEOUT, OutgoingPublish, options, packet_id, sleep};

pub(super) const ROWS: &[Row] = &[
    Row {
        keys: &["limits.connections"],
        file: "{}\n",
        off: "",
        on: "limits.connections = 3",
        see: After(connect_five),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.connections_per_address"],
        file: "{}\n",
        off: "",
        on: "limits.connections_per_address = 3",
        see: After(connect_five),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.connect_rate"],
        file: "{}\n",
        off: "",
        on: "limits.connect_rate = 1",
        see: After(connect_five),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.connect_burst"],
        file: "limits.connect_rate = 1\n{}\n",
        off: "",
        on: "limits.connect_burst = 1000",
        see: After(connect_five),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.connect_rate_per_address"],
        file: "{}\n",
        off: "",
        on: "limits.connect_rate_per_address = 1",
        see: After(connect_five),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.connect_burst_per_address"],
        file: "limits.connect_rate_per_address = 1\n{}\n",
        off: "",
        on: "limits.connect_burst_per_address = 1000",
        see: After(connect_five),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.sessions"],
        file: "{}\n",
        off: "",
        on: "limits.sessions = 3",
        see: After(connect_five),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.client_id_bytes"],
        file: "{}\n",
        off: "",
        on: "limits.client_id_bytes = 23",
        see: After(|scene| {
            connect_result(&scene.connecting(&format!("an-identifier-of-some-length-{}", scene.name())))
        }),
        without: ACCEPTED,
        with: "0x85",
    },
    Row {
        keys: &["limits.payload_bytes"],
        file: "{}\n",
        off: "",
        on: "limits.payload_bytes = 10",
        see: Before(|_, mut client| code(client.publish("payload", AtLeastOnce, &[b'x'; 11]))),
        without: "0x10",
        with: "0x83",
    },
    Row {
        keys: &["limits.in_flight_bytes_per_client"],
        file: "{}\n",
        off: "",
        on: "limits.in_flight_bytes_per_client = 1",
        see: Before(delivered_of_two),
        without: "2",
        with: "1",
    },
    Row {
        keys: &["limits.flapping_disconnects"],
        file: "limits.flapping_window_s = 3600\n{}\n",
        off: "",
        on: "limits.flapping_disconnects = 2",
        see: After(|scene| disconnects(scene, 2)),
        without: ACCEPTED,
        with: "0x9f",
    },
    Row {
        keys: &["limits.flapping_window_s"],
        file: "limits.flapping_disconnects = 2\n{}\n",
        off: "limits.flapping_window_s = 3600",
        on: "limits.flapping_window_s = 1",
        see: After(|scene| {
            assert_eq!(disconnects(scene, 1), ACCEPTED);
            sleep(std::time::Duration::from_millis(1_100));
            disconnects(scene, 1)
        }),
        without: "0x9f",
        with: ACCEPTED,
    },
    Row {
        keys: &["limits.flapping_block_s"],
        file: "limits.flapping_disconnects = 1\n{}\n",
        off: "limits.flapping_block_s = 3600",
        on: "limits.flapping_block_s = 1",
        see: After(|scene| {
            disconnects(scene, 1);
            let until = Instant::now() + scene.patience(YES);
            loop {
                match disconnects(scene, 0) == ACCEPTED {
                    true => return YES.to_owned(),
                    false if Instant::now() > until => return NO.to_owned(),
                    false => {}
                }
            }
        }),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.topic_bytes"],
        file: "{}\n",
        off: "",
        on: "limits.topic_bytes = 20",
        see: Before(|scene, mut client| {
            code(client.publish(&format!("a/topic/of/some/length/{}", scene.name()), AtLeastOnce, b""))
        }),
        without: "0x10",
        with: "0x90",
    },
    Row {
        keys: &["limits.topic_levels"],
        file: "{}\n",
        off: "",
        on: "limits.topic_levels = 4",
        see: Before(|_, mut client| code(client.publish("a/b/c/d/e", AtLeastOnce, b""))),
        without: "0x10",
        with: "0x90",
    },
    Row {
        keys: &["limits.subscriptions_per_session"],
        file: "{}\n",
        off: "",
        on: "limits.subscriptions_per_session = 1",
        see: Before(subscribes_twice),
        without: ACCEPTED,
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["limits.subscriptions_per_packet"],
        file: "{}\n",
        off: "",
        on: "limits.subscriptions_per_packet = 1",
        see: Before(|_, mut client| {
            client.send_subscribe(&[("a", options(AtMostOnce)), ("b", options(AtMostOnce))], &[]);
            match client.next().as_packet() {
                Packet::Disconnect(disconnect) => code(ReasonCode::from(disconnect.reason).as_u8()),
                _ => ACCEPTED.to_owned(),
            }
        }),
        without: ACCEPTED,
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["limits.retained_messages"],
        file: "{}\n",
        off: "",
        on: "limits.retained_messages = 1",
        see: Before(retains_two),
        without: "0x10",
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["limits.retained_bytes"],
        file: "{}\n",
        off: "",
        on: "limits.retained_bytes = 1500",
        see: Before(retains_two),
        without: "0x10",
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["limits.retained_messages_per_client"],
        file: "{}\n",
        off: "",
        on: "limits.retained_messages_per_client = 1",
        see: Before(retains_two),
        without: "0x10",
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["limits.retained_bytes_per_client"],
        file: "{}\n",
        off: "",
        on: "limits.retained_bytes_per_client = 1500",
        see: Before(retains_two),
        without: "0x10",
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["limits.session_queue_messages"],
        file: "limits.slow_consumer = \"drop_old\"\n{}\n",
        off: "",
        on: "limits.session_queue_messages = 1",
        see: Before(first_of_two_that_wait),
        without: "1",
        with: "2",
    },
    Row {
        keys: &["limits.session_queue_bytes"],
        file: "limits.slow_consumer = \"drop_old\"\n{}\n",
        off: "",
        on: "limits.session_queue_bytes = 1024",
        see: Before(first_of_two_that_wait),
        without: "1",
        with: "2",
    },
    Row {
        keys: &["limits.slow_consumer"],
        file: "limits.session_queue_messages = 1\n{}\n",
        off: "",
        on: "limits.slow_consumer = \"drop_old\"",
        see: Before(first_of_two_that_wait),
        without: "1",
        with: "2",
    },
    Row {
        keys: &["limits.slow_consumer_topics"],
        file: "limits.session_queue_messages = 1\n{}\n",
        off: "",
        on: "limits.slow_consumer_topics = [\"+ = drop_old\"]",
        see: Before(first_of_two_that_wait),
        without: "1",
        with: "2",
    },
    Row {
        keys: &["limits.shared_queue_bytes"],
        file: "limits.session_queue_messages = 1\n{}\n",
        off: "",
        on: "limits.shared_queue_bytes = 2000",
        see: Before(fills_the_queue_of_a_group),
        without: ACCEPTED,
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["mqtt.shared_ack_timeout_s"],
        file: "{}\n",
        off: "",
        on: "mqtt.shared_ack_timeout_s = 1",
        see: Before(is_redelivered_to_other_member),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.stale_session_s"],
        file: "{}\n",
        off: "",
        on: "limits.stale_session_s = 1",
        see: Before(is_listed_stale),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.publish_messages_per_s"],
        file: "{}\n",
        off: "",
        on: "limits.publish_messages_per_s = 1",
        see: Before(is_publisher_paused),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.publish_burst_messages"],
        file: "limits.publish_messages_per_s = 1\n{}\n",
        off: "",
        on: "limits.publish_burst_messages = 1000",
        see: After(is_new_client_paused),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.publish_bytes_per_s"],
        file: "{}\n",
        off: "",
        on: "limits.publish_bytes_per_s = 1000",
        see: Before(is_publisher_paused),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.publish_burst_bytes"],
        file: "limits.publish_bytes_per_s = 1000\n{}\n",
        off: "",
        on: "limits.publish_burst_bytes = 1000000",
        see: After(is_new_client_paused),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.connection_output_bytes"],
        file: "{}\n",
        off: "",
        on: "limits.connection_output_bytes = 1024",
        see: Before(gets_all_of_one_write),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.memory_bytes"],
        file: "limits.session_queue_bytes = 1099511627776\n{}\n",
        off: "",
        on: "limits.memory_bytes = 1048576",
        see: Before(stores_two_megabytes),
        without: ACCEPTED,
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["memory.limit"],
        file: "limits.session_queue_bytes = 1099511627776\n{}\n",
        off: "",
        on: "memory.limit = 2097152",
        see: Before(stores_two_megabytes),
        without: ACCEPTED,
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["limits.memory_bytes_per_client"],
        file: "limits.session_queue_bytes = 1099511627776\n{}\n",
        off: "",
        on: "limits.memory_bytes_per_client = 65536",
        see: Before(stores_two_megabytes),
        without: ACCEPTED,
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["limits.incomplete_packet_timeout_s"],
        file: "{}\n",
        off: "limits.incomplete_packet_timeout_s = 3600",
        on: "limits.incomplete_packet_timeout_s = 1",
        see: Before(|scene, mut client| {
            client.send_bytes(&[0x30, 0x10]);
            yes_if(client.has_input_within(scene.patience(YES)))
        }),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.write_stall_timeout_s"],
        file: "{}\n",
        off: "limits.write_stall_timeout_s = 0",
        on: "limits.write_stall_timeout_s = 1",
        see: Before(is_closed_for_taking_nothing),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["sys.interval_s"],
        file: "{}\n",
        off: "sys.interval_s = 0",
        on: "sys.interval_s = 1",
        see: Before(|scene, mut client| {
            client.subscribe("$SYS/broker/uptime", AtMostOnce);
            let until = Instant::now() + scene.patience(YES);
            // Retained messages are not new.
            let live = std::iter::from_fn(|| client.publish_before(until)).find(|message| !message.retain());
            yes_if(live.is_some())
        }),
        without: NO,
        with: YES,
    },
];

#[test]
fn limits_apply_to_connected_clients_and_can_be_reverted() {
    try_all(ROWS, &[]);
}

/// Whether five clients connecting at once are all accepted.
pub(super) fn connect_five(scene: &ReloadTest) -> String {
    let names = [1, 2, 3, 4, 5].map(|number| format!("{}-{number}", scene.name()));
    let mut clients = names.each_ref().map(|name| scene.connecting(name).send_unless_closed());
    let connect_result = clients.each_mut().map(connack_of);
    if connect_result.iter().all(|connect_result| connect_result == ACCEPTED) {
        // Their disconnects make room.
        clients.into_iter().for_each(Client::disconnect);
        return YES.to_owned();
    }
    assert!(
        connect_result.iter().all(|connect_result| [ACCEPTED, CLOSED, QUOTA_EXCEEDED].contains(&&**connect_result)),
        "{connect_result:?}"
    );
    NO.to_owned()
}

/// Breaks the connections of a client this often. Returns the result of one more CONNECT.
fn disconnects(scene: &ReloadTest, times: usize) -> String {
    let name = format!("breaks-{}", scene.name());
    for _ in 0..times {
        let mut client = scene.connecting(&name).send();
        match connack_of(&mut client) {
            connect_result if connect_result == ACCEPTED => client.cut(),
            connect_result => return connect_result,
        }
    }
    let mut client = scene.connecting(&name).send();
    let connect_result = connack_of(&mut client);
    if connect_result == ACCEPTED {
        client.disconnect();
    }
    connect_result
}

pub(super) fn subscribes_twice(scene: &ReloadTest, mut client: Client) -> String {
    client.subscribe(&format!("one/{}", scene.name()), AtMostOnce);
    code(client.subscribe_all(&[(&format!("two/{}", scene.name()), options(AtMostOnce))], &[])[0])
}

/// The result of the second of two retained messages of a kilobyte. Both are removed again.
pub(super) fn retains_two(scene: &ReloadTest, mut client: Client) -> String {
    let topics = [1, 2].map(|number| format!("{}/{number}", scene.name()));
    let codes = topics
        .each_ref()
        .map(|topic| client.deliver(&OutgoingPublish::new(topic, AtLeastOnce, &[b'r'; 1000]).retained()));
    assert_eq!(code(codes[0]), "0x10");
    topics.iter().for_each(|topic| _ = client.deliver(&OutgoingPublish::new(topic, AtLeastOnce, b"").retained()));
    code(codes[1])
}

/// Whether a session with a queued message is listed as stale soon.
fn is_listed_stale(scene: &ReloadTest, mut client: Client) -> String {
    let name = scene.name();
    let mut away = scene.connecting(&format!("away-{name}")).persistent().open();
    away.subscribe(&name, AtLeastOnce);
    away.disconnect();
    assert_eq!(client.publish(&name, AtLeastOnce, b"x"), 0);
    let before = scene.metric("sessions_stale");
    let deadline = Instant::now() + scene.patience(YES);
    while scene.metric("sessions_stale") == before && Instant::now() < deadline {
        client.ping();
    }
    yes_if(scene.metric("sessions_stale") > before)
}

/// The first message that a client receives after reconnecting, if two messages of 600 bytes were published meanwhile.
pub(super) fn first_of_two_that_wait(scene: &ReloadTest, mut client: Client) -> String {
    let name = scene.name();
    let away_id = format!("away-{name}");
    let connecting = || scene.connecting(&away_id).user_name(&name);
    let mut away = connecting().persistent().open();
    away.subscribe(&name, AtLeastOnce);
    away.disconnect();
    let before = dropped_for_queues(scene);
    let dropped = |scene: &ReloadTest| dropped_for_queues(scene) - before;
    for first in [b'1', b'2'] {
        let mut payload = [b'x'; 600];
        payload[0] = first;
        assert_eq!(client.publish(&name, AtLeastOnce, &payload), 0);
    }
    // With two threads, the publisher is answered before the thread of the session has queued or dropped the message.
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while scene.ask("GET", &format!("/v1/clients/{away_id}")).expect(200).number("queued_messages") + dropped(scene) < 2
    {
        assert!(Instant::now() < deadline, "the messages have reached no queue");
    }
    let mut away = connecting().clean_start(false).open();
    char::from(away.receive().payload()[0]).to_string()
}

fn dropped_for_queues(scene: &ReloadTest) -> u64 {
    ["dropped_queue_full", "dropped_queue_full_for_user"].iter().map(|name| scene.metric(name)).sum()
}

/// Whether reading pauses for a client that publishes twenty messages of 1,000 bytes at once.
pub(super) fn is_publisher_paused(scene: &ReloadTest, mut client: Client) -> String {
    const MESSAGES: usize = 20;
    let before = scene.metric("clients_paused_for_rate");
    for _ in 0..MESSAGES {
        client.send_publish(&OutgoingPublish::new("x", AtLeastOnce, &[b'x'; 1_000]));
    }
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    let mut answered = 0;
    while answered < MESSAGES {
        if scene.metric("clients_paused_for_rate") > before {
            // The rest of its messages must not count in the next step.
            scene.ask("DELETE", &format!("/v1/clients/{}/connection", scene.name())).expect(204);
            return YES.to_owned();
        }
        let soon = Instant::now() + std::time::Duration::from_millis(50);
        answered += usize::from(client.next_before(soon).is_some());
        assert!(Instant::now() < deadline, "{answered} of {MESSAGES} are answered, and the client is not paused");
    }
    NO.to_owned()
}

/// The same for a new client, which has not sent anything for a while.
pub(super) fn is_new_client_paused(scene: &ReloadTest) -> String {
    is_publisher_paused(scene, scene.connecting(&scene.name()).open())
}

/// Whether all of five QoS 0 messages arrive that are published, and delivered, in one write.
fn gets_all_of_one_write(scene: &ReloadTest, mut client: Client) -> String {
    let name = scene.name();
    client.subscribe(&name, AtLeastOnce);
    let mut publisher = scene.connecting("publisher").open();
    let small = OutgoingPublish::new(&name, AtMostOnce, &[b'x'; 1_500]);
    let one = publisher.encoded(&Packet::Publish(small.publish(packet_id(1))));
    publisher.send_bytes(&one.repeat(5));
    publisher.publish(&name, AtLeastOnce, b"last");
    let before_last = (0..).find(|_| client.receive().payload() == b"last").unwrap_or(0);
    yes_if(before_last == 5)
}

/// The result of twenty messages of 100 kB for an offline session, which is ended afterwards.
fn stores_two_megabytes(scene: &ReloadTest, mut client: Client) -> String {
    let name = scene.name();
    let away_id = format!("away-{name}");
    let mut away = scene.connecting(&away_id).persistent().open();
    away.subscribe(&name, AtLeastOnce);
    away.disconnect();
    let codes: Vec<u8> = (0..20).map(|_| client.publish(&name, AtLeastOnce, &[b'x'; 100_000])).collect();
    scene.connecting(&away_id).open().disconnect();
    code(codes.into_iter().max().unwrap_or(0))
}

/// The result of a hundred messages for a shared subscription whose only member is offline. The session is ended afterwards.
fn fills_the_queue_of_a_group(scene: &ReloadTest, mut client: Client) -> String {
    let name = scene.name();
    let away_id = format!("away-{name}");
    let mut away = scene.connecting(&away_id).persistent().open();
    away.subscribe(&format!("$share/group/{name}"), AtLeastOnce);
    away.disconnect();
    let refused = (0..100).map(|_| client.publish(&name, AtLeastOnce, b"x")).find(|code| *code != 0);
    scene.connecting(&away_id).open().disconnect();
    code(refused.unwrap_or(0))
}

/// Whether a message is redispatched to another member of a shared subscription while the first one does not acknowledge it.
fn is_redelivered_to_other_member(scene: &ReloadTest, mut stuck: Client) -> String {
    let name = scene.name();
    let filter = format!("$share/group/{name}");
    stuck.subscribe(&filter, AtLeastOnce);
    scene.connecting("publisher").open().publish(&name, AtLeastOnce, b"x");
    stuck.expect_publish();
    let id = format!("other-{name}");
    let mut other = scene.connecting(&id).open();
    other.subscribe(&filter, AtLeastOnce);
    // With one second, it is redispatched after at most one and a half.
    let until = Instant::now() + scene.patience(YES) + std::time::Duration::from_secs(1);
    yes_if(other.next_before(until).is_some())
}

/// Whether a client that reads nothing is closed.
fn is_closed_for_taking_nothing(scene: &ReloadTest, mut client: Client) -> String {
    let before = scene.metric("write_stall_timeouts");
    client.subscribe("flood", AtMostOnce);
    let mut publisher = scene.connecting("publisher").open();
    for _ in 0..200 {
        publisher.publish("flood", AtMostOnce, &[b'x'; 64 << 10]);
    }
    publisher.ping();
    let until = Instant::now() + scene.patience(YES);
    while Instant::now() < until {
        if scene.metric("write_stall_timeouts") > before {
            return YES.to_owned();
        }
    }
    NO.to_owned()
}
