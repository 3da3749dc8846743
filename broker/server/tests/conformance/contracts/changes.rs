//! Changing contracts while messages are in transit.

use std::time::Instant;

use super::support::{MANIFEST, World, answer_to, json, protobuf};
use crate::support::{
    AtLeastOnce, AtMostOnce, Client, EXPECT_TIMEOUT, OutgoingPublish, V3_1_1, V5, admin, every_case,
    every_thread_count, expect_nothing_from,
};

const TOPIC: &str = "sensors/7/reading";

/// Waits until the index of contracts satisfies `is`, as it is published.
#[track_caller]
fn await_index(client: &mut Client, is: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while !is(client.expect_publish().text()) {
        assert!(Instant::now() < deadline, "the index did not arrive");
    }
}

#[test]
fn a_contract_takes_effect_between_two_messages_on_all_threads() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let address = world.broker.admin_address();
        let mut publishers: Vec<Client> =
            (0..4).map(|number| world.connect(V5, &format!("publisher-{number}"))).collect();
        let body =
            r#"{"topics": "new/#", "format": "json", "schema": "{\"type\": \"object\"}", "on_violation": "reject"}"#;
        for _ in 0..3 {
            for publisher in &mut publishers {
                assert_eq!(publisher.publish("new/a", AtLeastOnce, b"[]"), 0x10);
            }
            admin(address, "PUT", "/contracts/new", body).expect(201);
            for publisher in &mut publishers {
                assert_eq!(publisher.publish("new/a", AtLeastOnce, b"[]"), 0x99);
                assert_eq!(publisher.publish("new/a", AtLeastOnce, b"{}"), 0x10);
            }
            admin(address, "DELETE", "/contracts/new", "").expect(204);
        }
    });
}

#[test]
fn discovery_topics_follow_the_contracts() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let address = world.broker.admin_address();
        let mut client = world.connect(V5, "client");
        client.subscribe("$SYS/contracts/index.json", AtMostOnce);
        await_index(&mut client, |index| index.contains("\"strict\""));
        admin(address, "DELETE", "/contracts/strict", "").expect(204);
        await_index(&mut client, |index| !index.contains("\"strict\""));
        let mut late = world.connect(V5, "late");
        late.subscribe("$SYS/contracts/bindings/strict", AtMostOnce);
        late.expect_nothing();
        let body = r#"{"topics": "strict/#", "format": "json", "schema_file": "numbered.json"}"#;
        admin(address, "PUT", "/contracts/strict", body).expect(201);
        await_index(&mut client, |index| index.contains("\"strict\""));
        // It is delivered live to existing subscribers, and retained for later ones.
        assert!(!late.receive().retain());
        let mut later = world.connect(V5, "later");
        later.subscribe("$SYS/contracts/bindings/strict", AtMostOnce);
        assert!(later.receive().retain());
    });
}

#[test]
fn queued_messages_are_delivered_after_their_contract_is_removed() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(V5, "publisher");
        let mut away = world.broker.connecting(case.version, "away").persistent().open();
        away.subscribe("sensors/#", AtLeastOnce);
        away.subscribe("$as/json/sensors/#", AtLeastOnce);
        away.cut();
        publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
        admin(world.broker.admin_address(), "DELETE", "/contracts/reading", "").expect(204);
        let mut back = world.broker.connecting(case.version, "away").persistent().open();
        let mut payloads = vec![back.receive().payload().to_vec(), back.receive().payload().to_vec()];
        payloads.sort();
        assert_eq!(payloads, [protobuf("7", 21.5), json("7", 21.5).into_bytes()]);
        // The format of its payloads is no longer known.
        publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
        assert_eq!(back.receive().payload(), protobuf("7", 21.5));
        if case.version.is_v5() {
            assert_eq!(back.receive().payload(), b"");
        }
        expect_nothing_from(&mut publisher, &mut back);
    });
}

#[test]
fn retained_messages_of_an_older_contract_are_not_transcoded_if_invalid() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(V5, "publisher");
        publisher.deliver(&OutgoingPublish::new(TOPIC, AtLeastOnce, &protobuf("7", 21.5)).retained());
        let schema = r#"syntax = \"proto3\"; message Reading { bool device_id = 1; }"#;
        let body = format!(r#"{{"topics": "sensors/+/reading", "format": "protobuf", "schema": "{schema}"}}"#);
        admin(world.broker.admin_address(), "PUT", "/contracts/reading", &body).expect(200);
        let mut verbose = world.connect(V5, "verbose");
        verbose.subscribe("$as/json/sensors/#", AtLeastOnce);
        let message = verbose.receive();
        assert_eq!(message.payload(), b"");
        assert_eq!(message.user_properties()[0].0, "tautwire-transcoding-error");
        let mut silent = world.connect(V3_1_1, "silent");
        silent.subscribe("$as/json/sensors/#", AtLeastOnce);
        silent.expect_nothing();
        assert_eq!(world.count("dropped_not_transcodable"), 1);
    });
}

#[test]
fn sighup_reloads_the_folder_completely_or_not_at_all() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let mut client = world.connect(V5, "client");
        client.subscribe("$SYS/contracts/index.json", AtMostOnce);
        await_index(&mut client, |index| index.contains("\"strict\""));
        world.folder.write("contracts/contracts.toml", &MANIFEST.replace("name = \"strict\"", "name = \"renamed\""));
        world.broker.signal("HUP");
        await_index(&mut client, |index| index.contains("\"renamed\"") && !index.contains("\"strict\""));
        let (reason, why) = answer_to(&mut client, &OutgoingPublish::new("strict/a", AtLeastOnce, b"1"));
        assert!(reason == 0x99 && why.contains("contract renamed"), "{why}");

        // With one error, nothing of the new folder is applied.
        let wrong = MANIFEST.replace("name = \"strict\"", "name = \"third\"").replace("numbered.json", "gone.json");
        world.folder.write("contracts/contracts.toml", &wrong);
        world.broker.signal("HUP");
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        while world.count("contract_changes_refused") == 0 {
            assert!(Instant::now() < deadline, "the folder was not reloaded");
        }
        let (_, why) = answer_to(&mut client, &OutgoingPublish::new("strict/a", AtLeastOnce, b"1"));
        assert!(why.contains("contract renamed"), "{why}");
        let right = MANIFEST.replace("name = \"strict\"", "name = \"fourth\"");
        world.folder.write("contracts/contracts.toml", &right);
        world.broker.signal("HUP");
        await_index(&mut client, |index| index.contains("\"fourth\""));
        let log = world.broker.end();
        for expected in [
            "the file gone.json is not in the folder",
            "SIGHUP: reload failed, the configuration is unchanged",
            "; 8 contracts",
        ] {
            assert!(log.contains(expected), "{expected}: {log}");
        }
        assert!(!log.contains("third"), "{log}");
    });
}
