//! Publishing messages through the API.

use std::net::SocketAddr;

use crate::contracts::support::{EVERY_QOS, MANIFEST, World, messagepack};
use crate::support::http::{Answer, exchange, post};
use crate::support::{
    AtLeastOnce, Client, ExactlyOnce, ProtocolVersion, QoS, TOKEN, V5, admin, every_case, every_thread_count,
};

const GOOD: &[u8] = br#"{"n": 1}"#;
const BAD: &[u8] = br#"{"n": "one"}"#;
const WHY: &str = "n: expected an integer, found a string at byte";
/// Enough names that some clients belong to each thread.
const CLIENTS: usize = 8;

/// Publishes without a Content-Type.
#[track_caller]
fn publish(address: SocketAddr, target: &str, payload: &[u8]) -> Answer {
    post(address, &format!("/messages/{target}"), "", payload)
}

#[track_caller]
fn matched(answer: Answer) -> bool {
    match answer.expect(200).body.as_str() {
        "{\"matched\":true}\n" => true,
        "{\"matched\":false}\n" => false,
        other => panic!("{other}"),
    }
}

#[track_caller]
fn refused(answer: Answer, status: u16, code: &str) -> String {
    let body = answer.expect(status).body;
    assert!(body.starts_with(&format!("{{\"code\":\"{code}\",\"message\":\"")), "{code}: {body}");
    body
}

fn subscribers(world: &World, version: ProtocolVersion, filter: &str) -> Vec<Client> {
    let subscriber = |number| {
        let mut subscriber = world.connect(version, &format!("subscriber-{number}"));
        subscriber.subscribe(filter, ExactlyOnce);
        subscriber
    };
    (0..CLIENTS).map(subscriber).collect()
}

#[test]
fn a_posted_message_arrives_on_every_thread_with_its_qos_and_payload() {
    every_case(|case| {
        let world = World::new(case.threads);
        let address = world.broker.admin_address();
        let mut subscribers = subscribers(&world, case.version, "any/#");
        let large: Vec<u8> = (0..100_000_u32).map(|at| (at >> 5) as u8).collect();
        for payload in [&b""[..], b"\0\xff\r\n\r\n", &large] {
            for qos in EVERY_QOS {
                assert!(matched(publish(address, &format!("any/where?qos={}", qos.as_u8()), payload)));
                for subscriber in &mut subscribers {
                    let message = subscriber.receive();
                    assert_eq!((message.topic(), message.qos(), message.retain()), ("any/where", qos, false));
                    assert!(message.payload() == payload);
                }
            }
        }
        assert!(!matched(publish(address, "else/where?qos=1", b"x")));
        assert_eq!(world.count("admin_messages_published"), 10);
        assert_eq!(
            (world.count("publishes_received"), world.count("packets_too_large")),
            (0, 0),
            "no packet was received"
        );
    });
}

#[test]
fn the_defaults_of_the_query_are_qos_0_and_not_retained() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let mut subscriber = world.connect(V5, "subscriber");
        subscriber.subscribe("#", ExactlyOnce);
        let retained = world.count("retained_messages");
        for target in ["a", "a?", "a?qos=0&retain=false"] {
            assert!(matched(publish(world.broker.admin_address(), target, b"x")));
            let message = subscriber.receive();
            assert_eq!((message.qos(), message.retain()), (QoS::AtMostOnce, false));
        }
        assert_eq!(world.count("retained_messages"), retained);
    });
}

#[test]
fn a_topic_is_percent_decoded_and_keeps_its_levels() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    let mut subscriber = world.connect(V5, "subscriber");
    subscriber.subscribe("#", AtLeastOnce);
    for (path, topic) in [
        ("k%C3%BCche/licht", "küche/licht"),
        ("a%20b/100%25", "a b/100%"),
        ("a%3Fqos=1", "a?qos=1"),
        ("a%2Fb", "a/b"),
        ("/a//b/", "/a//b/"),
        ("$else/a", ""),
        ("end", "end"),
    ] {
        publish(address, path, b"x").expect(200);
        if !topic.is_empty() {
            assert_eq!(subscriber.receive().topic(), topic);
        }
    }
}

#[test]
fn a_posted_message_can_be_retained_and_cleared() {
    every_case(|case| {
        let world = World::new(case.threads);
        let address = world.broker.admin_address();
        assert!(!matched(publish(address, "kept/a?qos=2&retain=true", b"first")));
        for mut subscriber in subscribers(&world, case.version, "kept/#") {
            let message = subscriber.receive();
            assert_eq!((message.text(), message.qos(), message.retain()), ("first", ExactlyOnce, true));
        }
        publish(address, "kept/a?retain=true", b"").expect(200);
        for mut subscriber in subscribers(&world, case.version, "kept/#") {
            subscriber.expect_nothing();
        }
    });
}

#[test]
fn invalid_messages_are_refused_with_the_reason_and_not_delivered() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let address = world.broker.admin_address();
        let mut subscribers = subscribers(&world, V5, "#");
        for root in ["strict", "stricter", "fatal"] {
            for options in ["qos=0", "qos=1", "qos=2", "qos=1&retain=true"] {
                let body =
                    refused(publish(address, &format!("{root}/a?{options}"), BAD), 422, "payload_format_invalid");
                assert!(body.contains(&format!("\"contract {root}: {WHY} ")), "{body}");
            }
            assert!(matched(publish(address, &format!("{root}/a?qos=1"), GOOD)));
            for subscriber in &mut subscribers {
                let message = subscriber.receive();
                assert_eq!(message.payload(), GOOD, "the first to arrive on {}", message.topic());
            }
        }
        assert_eq!((world.count("payloads_checked"), world.count("violations_rejected")), (15, 12));
        assert_eq!((world.count("admin_messages_published"), world.count("admin_requests_refused")), (3, 12));
        let mut late = world.connect(V5, "late");
        late.subscribe("+/a", AtLeastOnce);
        late.expect_nothing();
    });
}

#[test]
fn quarantined_and_observed_messages_are_accepted() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let address = world.broker.admin_address();
        let mut subscribers = subscribers(&world, V5, "#");
        assert!(!matched(publish(address, "aside/a?qos=1", BAD)), "there is no subscriber");
        let mut guard = world.connect(V5, "guard");
        guard.subscribe("$quarantine/#", ExactlyOnce);
        assert!(matched(publish(address, "aside/a?qos=2&retain=true", BAD)));
        let message = guard.receive();
        assert_eq!((message.topic(), message.payload(), message.qos()), ("$quarantine/aside/a", BAD, ExactlyOnce));
        let contract = ("tautwire-contract".to_owned(), "aside".to_owned());
        assert!(message.user_properties().contains(&contract));
        assert!(matched(publish(address, "watched/a?qos=1", BAD)));
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.receive().topic(), "watched/a");
        }
        assert_eq!((world.count("violations_quarantined"), world.count("violations_observed")), (2, 1));
        assert_eq!(world.count("admin_messages_published"), 3);
    });
}

#[test]
fn a_content_type_is_forwarded_except_the_default_of_curl() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let address = world.broker.admin_address();
        let mut subscribers = subscribers(&world, V5, "#");
        for (field, expected) in [
            ("Content-Type: application/json\r\n", Some("application/json")),
            ("content-type:  text/plain; charset=utf-8 \r\n", Some("text/plain; charset=utf-8")),
            ("Content-Type: application/x-www-form-urlencoded\r\n", None),
            ("Content-Type: Application/X-WWW-Form-URLencoded; charset=utf-8\r\n", None),
            ("Content-Type:\r\n", None),
            ("", None),
        ] {
            assert!(matched(post(address, "/messages/a?qos=1", field, b"{}")), "{field}");
            for subscriber in &mut subscribers {
                let message = subscriber.receive();
                assert_eq!(message.properties().content_type(), expected, "{field}");
                assert_eq!(message.properties().iter().count(), usize::from(expected.is_some()));
            }
        }
        // The content type names the format that the contract checks the payload against.
        let reading = messagepack("7", 21.5);
        for (format, status) in [("application/msgpack", 200), ("application/json", 422), ("application/protobuf", 422)]
        {
            let field = format!("Content-Type: {format}\r\n");
            post(address, "/messages/sensors/7/reading", &field, &reading).expect(status);
        }
        for field in
            ["Content-Type: a/b\r\nContent-Type: a/b\r\n", "Content-Type: a\tb\r\n", "Content-Type: a\u{81}b\r\n"]
        {
            refused(post(address, "/messages/a", field, b"{}"), 400, "bad_request");
        }
    });
}

#[test]
fn topics_that_clients_cannot_publish_to_are_refused() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    for topic in ["$SYS/broker/version", "$SYS/contracts/request", "$share/g/a", "$as/json/a", "$quarantine/a", "$SYS"]
    {
        refused(publish(address, topic, b"x"), 403, "not_authorized");
    }
    for (topic, why) in [
        ("", "empty"),
        ("a/+/b", "contains + or #"),
        ("a/%23", "contains + or #"),
        ("a%00b", "U+0000"),
        ("a%FFb", "not UTF-8"),
        ("a%2", "%25"),
        ("a%zz", "%25"),
    ] {
        let body = refused(publish(address, topic, b"x"), 400, "topic_name_invalid");
        assert!(body.contains(why), "{topic}: {body}");
    }
    assert_eq!(world.count("admin_messages_published"), 0);
}

#[test]
fn an_unknown_query_parameter_is_refused_by_name() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    for (query, named) in [
        ("qos=3", "qos must be 0, 1 or 2"),
        ("qos", "qos must be 0, 1 or 2"),
        ("retain=yes", "retain must be true or false"),
        ("retained=true", "retained"),
        ("qos=1&qos=1", "duplicate parameter qos"),
        ("qos=1?retain=true", "1?retain=true"),
    ] {
        let body = refused(publish(address, &format!("strict/a?{query}"), GOOD), 400, "bad_query");
        assert!(body.contains(named), "{query}: {body}");
    }
}

#[test]
fn publishing_needs_post_a_token_and_a_length() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    for token in ["", "Authorization: Bearer a-token-for-tests-012345678\r\n"] {
        let request = format!("POST /messages/a HTTP/1.1\r\n{token}Content-Length: 1\r\n\r\nx");
        refused(exchange(address, request.as_bytes()), 401, "unauthorized");
    }
    for method in ["GET", "PUT", "DELETE"] {
        let answer = admin(address, method, "/messages/a", "x");
        assert!(answer.head.contains("\r\nAllow: POST\r\n"), "{}", answer.head);
        refused(answer, 405, "method_not_allowed");
    }
    refused(admin(address, "POST", "/messages", "x"), 404, "not_found");
    refused(admin(address, "POST", "/messages/a", ""), 411, "length_required");
    let request = format!(
        "POST /messages/a HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n",
        8 * 1024 * 1024 + 1
    );
    refused(exchange(address, request.as_bytes()), 413, "body_too_large");
    assert_eq!(world.count("admin_messages_published"), 0);
}

#[test]
fn the_limits_of_clients_apply() {
    every_thread_count(|case| {
        let settings = [
            "limits.topic_levels=3",
            "limits.topic_bytes=20",
            "limits.retained_messages=1",
            "mqtt.maximum_packet_size=1000",
            "mqtt.max_qos=1",
            // Topics of contract discovery are retained too.
            "contracts.discovery=false",
        ];
        let world = World::set(World::folder(MANIFEST), case.threads, &settings);
        let address = world.broker.admin_address();
        for topic in ["a/b/c/d", "123456789012345678901"] {
            refused(publish(address, topic, b"x"), 400, "topic_name_invalid");
        }
        publish(address, "a/b/c", b"x").expect(200);
        refused(publish(address, "a?qos=2", b"x"), 400, "qos_not_supported");
        // Fixed header, topic and the length of the properties count towards the packet size.
        publish(address, "a", &[0; 993]).expect(200);
        refused(publish(address, "a", &[0; 994]), 413, "packet_too_large");
        publish(address, "a?retain=true", b"kept").expect(200);
        refused(publish(address, "b?retain=true", b"x"), 507, "quota_exceeded");
        publish(address, "a?retain=true", b"replaced").expect(200);
        assert_eq!(world.count("retained_refused"), 1);
    });
    let world = World::set(World::folder(MANIFEST), 1, &["mqtt.retain_available=false"]);
    refused(publish(world.broker.admin_address(), "a?retain=true", b"x"), 400, "retain_not_supported");
}
