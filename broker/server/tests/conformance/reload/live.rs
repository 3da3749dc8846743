//! Keys that hold without a restart: each is set and taken back while the broker runs, and a client sees what comes of it.

use tautwire_protocol::{Packet, Property, PropertyId, ReasonCode};

use super::{World, keys};
use crate::support::{AtLeastOnce, AtMostOnce, Client, Folder, Outgoing, V5, Way, options};
use crate::tokens::{now_s, token};

/// A key that holds for those who are connected.
struct Case {
    /// What is set, a key on each line.
    set: &'static str,
    /// Tries it with a client that has been connected since before the reload, and a name that nobody else has.
    attempt: fn(&World, Client, &str) -> u8,
    /// What comes of it where nothing is set.
    without: u8,
    /// What comes of it where it is set.
    with: u8,
}

const ACCEPTED: u8 = 0;
const NOBODY_WANTS_IT: u8 = 0x10;
const QUOTA_EXCEEDED: u8 = 0x97;

const CASES: [Case; 10] = [
    Case {
        set: "limits.topic_bytes = 20",
        attempt: |_, mut client, name| client.publish(&format!("a/topic/of/some/length/{name}"), AtLeastOnce, b""),
        without: NOBODY_WANTS_IT,
        with: 0x90,
    },
    Case {
        set: "limits.client_id_bytes = 23",
        attempt: |world, _, name| arrives(world, &format!("an-identifier-of-some-length-{name}")),
        without: ACCEPTED,
        with: 0x85,
    },
    Case {
        set: "limits.client_breaks = 2\nlimits.client_breaks_s = 3600\nlimits.client_hold_s = 3600",
        attempt: |world, _, name| {
            for _ in 0..3 {
                let code = arrives(world, &format!("breaks-{name}"));
                if code > ACCEPTED {
                    return code;
                }
            }
            ACCEPTED
        },
        without: ACCEPTED,
        with: 0x9F,
    },
    Case {
        set: "limits.subscriptions_per_session = 1",
        attempt: |_, mut client, name| {
            client.subscribe(&format!("one/{name}"), AtMostOnce);
            client.subscribe_all(&[(&format!("two/{name}"), options(AtMostOnce))], &[])[0]
        },
        without: ACCEPTED,
        with: QUOTA_EXCEEDED,
    },
    Case {
        set: "limits.subscriptions_per_packet = 1",
        attempt: |_, mut client, _| {
            client.send_subscribe(&[("a", options(AtMostOnce)), ("b", options(AtMostOnce))], &[]);
            match client.next().as_packet() {
                Packet::Disconnect(disconnect) => ReasonCode::from(disconnect.reason).as_u8(),
                _ => ACCEPTED,
            }
        },
        without: ACCEPTED,
        with: QUOTA_EXCEEDED,
    },
    Case {
        set: "limits.retained_messages_per_client = 1",
        attempt: |_, client, name| retains_two(client, name),
        without: NOBODY_WANTS_IT,
        with: QUOTA_EXCEEDED,
    },
    Case {
        set: "limits.retained_bytes_per_client = 1500",
        attempt: |_, client, name| retains_two(client, name),
        without: NOBODY_WANTS_IT,
        with: QUOTA_EXCEEDED,
    },
    Case {
        set: "limits.retained_bytes = 1500",
        attempt: |_, client, name| retains_two(client, name),
        without: NOBODY_WANTS_IT,
        with: QUOTA_EXCEEDED,
    },
    Case {
        set: "limits.session_queue_messages = 1\nlimits.slow_consumer = \"drop_old\"",
        attempt: |world, client, name| first_of_two_that_wait(world, client, name),
        without: b'1',
        with: b'2',
    },
    Case {
        set: "limits.session_queue_bytes = 1024\nlimits.slow_consumer = \"drop_old\"",
        attempt: |world, client, name| first_of_two_that_wait(world, client, name),
        without: b'1',
        with: b'2',
    },
];

/// What a client is told who connects, and breaks off then.
fn arrives(world: &World, client_id: &str) -> u8 {
    let mut client = world.broker.connecting(V5, client_id).send();
    let packet = client.next();
    let Packet::ConnAck(connack) = packet.as_packet() else { panic!("{packet:?} is no CONNACK") };
    let code = connack.reason.as_u8();
    if code == ACCEPTED {
        client.cut();
    }
    code
}

/// What comes of the second of two messages of a kilobyte that are to be retained. Both are taken back.
fn retains_two(mut client: Client, name: &str) -> u8 {
    let topics = [1, 2].map(|number| format!("{name}/{number}"));
    let codes =
        topics.each_ref().map(|topic| client.deliver(&Outgoing::new(topic, AtLeastOnce, &[b'r'; 1000]).retained()));
    assert_eq!(codes[0], NOBODY_WANTS_IT);
    topics.iter().for_each(|topic| _ = client.deliver(&Outgoing::new(topic, AtLeastOnce, b"").retained()));
    codes[1]
}

/// The first of what a client gets that comes back, after two messages of 600 bytes have come meanwhile.
fn first_of_two_that_wait(world: &World, mut client: Client, name: &str) -> u8 {
    let mut away = world.broker.connecting(V5, &format!("away-{name}")).persistent().open();
    away.subscribe(name, AtLeastOnce);
    away.disconnect();
    for first in [b'1', b'2'] {
        let mut payload = [b'x'; 600];
        payload[0] = first;
        assert_eq!(client.publish(name, AtLeastOnce, &payload), ACCEPTED);
    }
    let mut away = world.broker.connecting(V5, &format!("away-{name}")).clean_start(false).open();
    away.receive().payload()[0]
}

#[test]
fn keys_hold_for_those_who_are_connected_and_can_be_taken_back() {
    for threads in [1, 2] {
        let world = World::new(threads, "", &[]);
        for (number, Case { set, attempt, without, with }) in CASES.iter().enumerate() {
            for (step, (text, expected)) in [("", without), (set, with), ("", without)].into_iter().enumerate() {
                let name = format!("{number}-{step}");
                let client = world.broker.connect(V5, &name);
                let answer = world.reload(text).expect(200);
                let applied = keys(&answer, "applied");
                for line in set.lines().filter(|_| step > 0) {
                    let key = line.split(' ').next().unwrap_or_default();
                    assert!(applied.contains(&key.to_owned()), "{key} is not named: {applied:?}");
                }
                assert_eq!(attempt(&world, client, &name), *expected, "{set}, step {step}, {threads} threads");
            }
        }
    }
}

/// What those are told in CONNACK who connect from then on, and nobody who has come before.
#[test]
fn what_new_clients_are_told_changes() {
    let cases = [
        ("mqtt.receive_maximum = 7", PropertyId::ReceiveMaximum),
        ("mqtt.max_qos = 1", PropertyId::MaximumQoS),
        ("mqtt.retain_available = false", PropertyId::RetainAvailable),
        ("mqtt.wildcard_subscription_available = false", PropertyId::WildcardSubscriptionAvailable),
        ("mqtt.subscription_identifier_available = false", PropertyId::SubscriptionIdentifierAvailable),
        ("mqtt.shared_subscription_available = false", PropertyId::SharedSubscriptionAvailable),
        ("mqtt.maximum_packet_size = 5000", PropertyId::MaximumPacketSize),
        ("mqtt.topic_alias_maximum = 3", PropertyId::TopicAliasMaximum),
        ("mqtt.max_keep_alive_s = 5", PropertyId::ServerKeepAlive),
        ("mqtt.max_session_expiry_s = 5", PropertyId::SessionExpiryInterval),
        ("mqtt.response_information = \"answers/\"", PropertyId::ResponseInformation),
    ];
    let world = World::new(2, "", &[]);
    let told = |property: PropertyId| {
        let connecting = world.broker.connecting(V5, "c").session_expiry_s(60);
        let client = connecting.property(Property::RequestResponseInformation(true)).open();
        let told = client.connack().properties.get(property).map(|property| format!("{property:?}"));
        client.disconnect();
        told
    };
    for (set, property) in cases {
        let before = told(property);
        let key = set.split(' ').next().unwrap_or_default();
        assert_eq!(keys(&world.reload(set).expect(200), "new_connections"), [key]);
        let after = told(property);
        assert!(after.is_some() && after != before, "{set}: {before:?}, then {after:?}");
        world.reload("").expect(200);
        assert_eq!(told(property), before, "{set} has been taken back");
    }
}

/// The clock of a packet that is not whole, and of a connection that says nothing.
#[test]
fn timeouts_hold_for_what_begins_after_the_reload() {
    let world = World::new(2, "", &[]);
    let mut slow = world.broker.connect(V5, "slow");
    let text = "limits.incomplete_packet_timeout_s = 1\nmqtt.connect_timeout_s = 1\n";
    let answer = world.reload(text).expect(200);
    assert_eq!(keys(&answer, "applied"), ["limits.incomplete_packet_timeout_s"]);
    assert_eq!(keys(&answer, "new_connections"), ["mqtt.connect_timeout_s"]);
    let mut silent = Client::dial(Way::Tcp(world.broker.address()), V5);
    slow.send_bytes(&[0x30, 0x10]);
    slow.packets_until_closed();
    silent.expect_closed();
}

/// Who comes with a token is held to the keys and claims that the broker wants then.
#[test]
fn keys_of_tokens_hold_for_the_next_attempt() {
    const ONE: &str = "a secret of at least thirty-two bytes";
    const OTHER: &str = "another secret of thirty-two bytes and more";
    let folder = Folder::new(&[("one", ONE), ("other", OTHER)]);
    let base = "auth.jwt_secret_file = \"one\"\n";
    let world = World::within(folder, 2, base, &[]);
    let token = token(&format!("{{\"sub\":\"ann\",\"exp\":{}}}", now_s() + 3_600), ONE);
    let comes = || {
        let mut client = world.broker.connecting(V5, "c").user_name("").password(&token).send();
        matches!(client.next().as_packet(), Packet::ConnAck(connack) if connack.reason.as_u8() == ACCEPTED)
    };
    for (key, text) in [
        ("auth.jwt_secret_file", "auth.jwt_secret_file = \"other\"\n".to_owned()),
        ("auth.jwt_algorithms", format!("{base}auth.jwt_algorithms = [\"HS384\"]\n")),
        ("auth.jwt_issuers", format!("{base}auth.jwt_issuers = [\"somebody\"]\n")),
        ("auth.jwt_audiences", format!("{base}auth.jwt_audiences = [\"somebody\"]\n")),
        ("auth.jwt_user_claim", format!("{base}auth.jwt_user_claim = \"name\"\n")),
    ] {
        assert!(comes(), "before {key}");
        assert_eq!(keys(&world.reload(&text).expect(200), "applied"), [key]);
        assert!(!comes(), "{key}");
        world.reload(base).expect(200);
    }
    assert!(comes());
}

/// It is agreed on when a client connects.
#[test]
fn what_is_in_flight_at_a_time_holds_for_the_next_connection() {
    let world = World::new(1, "", &[]);
    let mut publisher = world.broker.connect(V5, "publisher");
    // How many of two messages come while none is acknowledged.
    let mut come = |name: &str| {
        let mut client = world.broker.connect(V5, name);
        client.subscribe(name, AtLeastOnce);
        (0..2).for_each(|_| assert_eq!(publisher.publish(name, AtLeastOnce, b"x"), ACCEPTED));
        client.send(&Packet::PingReq);
        (0..).find(|_| matches!(client.next().as_packet(), Packet::PingResp)).unwrap_or(0)
    };
    assert_eq!(come("a"), 2);
    let answer = world.reload("limits.in_flight_per_client = 1\n").expect(200);
    assert_eq!(keys(&answer, "new_connections"), ["limits.in_flight_per_client"]);
    assert_eq!(come("b"), 1);
    world.reload("").expect(200);
    assert_eq!(come("c"), 2);
}

/// At this rate they would take longer than anybody waits here.
#[test]
fn rates_in_bytes_hold_for_those_who_are_connected() {
    let world = World::new(2, "", &[]);
    let mut publisher = world.broker.connect(V5, "publisher");
    world.reload("limits.publish_bytes_per_s = 100\nlimits.publish_burst_bytes = 2000\n").expect(200);
    let payload = [b'x'; 1_000];
    let ids: Vec<u16> = (0..20).map(|_| publisher.send_publish(&Outgoing::new("x", AtLeastOnce, &payload))).collect();
    publisher.expect_puback(ids[0]);
    world.await_sum(&["clients_paused_for_rate"], 1);
    world.reload("").expect(200);
    ids[1..].iter().for_each(|id| _ = publisher.expect_puback(*id));
}
