//! Contract discovery by clients.

use tautwire_protocol::{Properties, Property};

use super::support::{MANIFEST, World};
use crate::support::property::response_topic;
use crate::support::{
    AtLeastOnce, AtMostOnce, Client, Message, OutgoingPublish, V3_1_1, V5, every_case, every_thread_count,
    every_version, expect_nothing_from,
};

const REQUEST: &str = "$SYS/contracts/request";

fn request(payload: &str) -> OutgoingPublish<'_> {
    OutgoingPublish::new(REQUEST, AtMostOnce, payload.as_bytes())
}

#[track_caller]
fn ask(client: &mut Client, payload: &str) -> Message {
    client.deliver(&request(payload));
    client.expect_publish()
}

#[test]
fn bindings_and_schemas_are_retained_in_both_encodings() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut client = world.connect(case.version, "client");
        client.subscribe("$SYS/contracts/index.json", AtLeastOnce);
        let index = client.receive();
        assert!(index.retain());
        for name in ["anything", "aside", "fatal", "loose", "reading", "strict", "stricter", "watched"] {
            assert!(index.text().contains(&format!("\"name\":\"{name}\"")), "{}", index.text());
        }
        client.subscribe("$SYS/contracts/bindings/reading.json", AtLeastOnce);
        let binding = client.receive();
        let (_, rest) = binding.text().split_once("\"schemaSha256\":\"").expect("a binding names its schema");
        let sha256 = rest.split('"').next().unwrap_or_default().to_owned();
        client.subscribe(&format!("$SYS/contracts/schemas/{sha256}.json"), AtLeastOnce);
        let schema = client.receive();
        assert!(schema.text().contains("message Reading {") && schema.text().contains("\"descriptorSet\":\""));
        client.subscribe(&format!("$SYS/contracts/schemas/{sha256}"), AtLeastOnce);
        let schema = client.receive();
        // Field 1 of Schema is the name itself.
        assert!(schema.payload().starts_with(&[&[0x0a, 64], sha256.as_bytes()].concat()));
        if case.version.is_v5() {
            assert_eq!(schema.properties().content_type(), Some("application/x-protobuf"));
        }
    });
}

#[test]
fn a_response_goes_only_to_the_requester() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut client = world.connect(case.version, "client");
        let mut other = world.connect(case.version, "other");
        for client in [&mut client, &mut other] {
            client.subscribe("$SYS/contracts/response", AtLeastOnce);
            client.subscribe("answers/#", AtLeastOnce);
        }
        let answer = ask(&mut client, r#"{"topic": "sensors/7/reading"}"#);
        assert_eq!(answer.topic(), "$SYS/contracts/response");
        assert!(
            answer.text().contains("\"name\":\"reading\"") && !answer.text().contains("schemas"),
            "{}",
            answer.text()
        );
        if case.version.is_v5() {
            let outgoing =
                request("").property(response_topic("answers/1")).property(Property::CorrelationData(b"seven"));
            client.deliver(&outgoing);
            let answer = client.expect_publish();
            assert_eq!(answer.topic(), "answers/1");
            let properties: Properties<'_> = answer.properties();
            assert_eq!(properties.correlation_data(), Some(&b"seven"[..]));
            assert_eq!(properties.content_type(), Some("application/json"));
        }
        client.expect_nothing();
        other.expect_nothing();
    });
}

#[test]
fn a_long_response_is_paged() {
    let world = World::new(1);
    let mut client = world.connect(V5, "client");
    let mut after = String::new();
    let mut names = Vec::new();
    loop {
        let answer = ask(&mut client, &format!("{{\"limit\": 3, \"after\": \"{after}\", \"schemas\": true}}"));
        let text = answer.text().to_owned();
        names.extend(
            text.split("\"name\":\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default().to_owned()),
        );
        match text.split_once("\"next\":\"") {
            Some((_, rest)) => after = rest.split('"').next().unwrap_or_default().to_owned(),
            None => break,
        }
    }
    assert_eq!(names, ["anything", "aside", "fatal", "loose", "reading", "strict", "stricter", "watched"]);
}

#[test]
fn an_invalid_request_is_answered_with_the_error() {
    every_version(|case| {
        let world = World::new(1);
        let mut client = world.connect(case.version, "client");
        for (payload, why) in
            [("{", "error"), (r#"{"limit": -1}"#, "limit: expected"), (r#"{"topic": 7}"#, "topic: expected")]
        {
            let answer = ask(&mut client, payload);
            assert!(answer.text().contains("\"error\":\"") && answer.text().contains(why), "{}", answer.text());
        }
    });
}

/// `ServiceDiscoveryResponse`, on the topic and in the format that ProtoMQ's clients expect.
#[test]
fn a_protomq_discovery_response_goes_only_to_the_requester() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut client = world.connect(case.version, "client");
        let mut other = world.connect(case.version, "other");
        for client in [&mut client, &mut other] {
            client.subscribe("$SYS/discovery/response", AtMostOnce);
        }
        client.publish("$SYS/discovery/request", AtMostOnce, b"");
        let answer = client.expect_publish();
        assert_eq!(answer.topic(), "$SYS/discovery/response");
        let text = String::from_utf8_lossy(answer.payload()).into_owned();
        for expected in ["\n\u{11}sensors/+/reading", "\u{12}\u{c}acme.Reading", "message Reading {"] {
            assert!(text.contains(expected), "{expected:?} in {text:?}");
        }
        client.expect_nothing();
        other.expect_nothing();
    });
}

#[test]
fn a_broker_without_contracts_reports_it() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut client = broker.connect(V3_1_1, "client");
        assert_eq!(ask(&mut client, "").text(), "{}");
        let mut client = broker.connect(V5, "client-5");
        client.deliver(&OutgoingPublish::new("$SYS/discovery/request", AtLeastOnce, b""));
        assert_eq!(client.expect_publish().payload(), b"");
    });
}

#[test]
fn discovery_can_be_disabled() {
    every_thread_count(|case| {
        let world = World::set(World::folder(MANIFEST), case.threads, &["contracts.discovery=false"]);
        let mut client = world.connect(V5, "client");
        client.subscribe("$SYS/contracts/#", AtMostOnce);
        for topic in [REQUEST, "$SYS/discovery/request"] {
            assert_eq!(client.deliver(&OutgoingPublish::new(topic, AtLeastOnce, b"")), 0x87, "{topic}");
        }
        // Contracts apply all the same.
        let broken = OutgoingPublish::new("strict/1", AtLeastOnce, b"?");
        assert_eq!(client.deliver(&broken), 0x99);
        expect_nothing_from(&mut world.connect(V5, "publisher"), &mut client);
    });
}
