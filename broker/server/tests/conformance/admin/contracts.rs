//! Listing, adding, replacing and removing contracts.

use std::thread;

use crate::contracts::support::{MANIFEST, World};
use crate::support::{AtLeastOnce, Broker, Folder, TOKEN, V5, admin};

const OBJECT: &str =
    r#"{"topics": "new/#", "format": "json", "schema": "{\"type\": \"object\"}", "on_violation": "reject"}"#;

/// Restarts the broker with the same contracts.
fn restarted(world: World) -> World {
    let World { broker, folder } = world;
    broker.end();
    World::over(folder, 1)
}

#[test]
fn contracts_are_listed_and_shown_with_their_schemas() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    let all = admin(address, "GET", "/contracts", "").expect(200).body;
    assert!(all.starts_with("{\"contracts\":[{\"name\":\"anything\""), "{all}");
    let one = admin(address, "GET", "/contracts/reading", "").expect(200).body;
    for expected in ["\"name\":\"reading\"", "\"onViolation\":\"reject\"", "\"source\":\"", "\"descriptorSet\":\""] {
        assert!(one.contains(expected), "{one}");
    }
    let none = admin(address, "GET", "/contracts/nothing", "").expect(404).body;
    assert!(none.contains("\"code\":\"not_found\""), "{none}");
}

#[test]
fn a_contract_reports_the_number_and_causes_of_violations_without_payloads() {
    for threads in [1, 2] {
        let world = World::new(threads);
        let address = world.broker.admin_address();
        // Enough names that some clients belong to each thread.
        for number in 0..8 {
            let mut client = world.connect(V5, &format!("c{number}"));
            assert_eq!(client.publish("strict/a", AtLeastOnce, b"{\"n\": \"secret\"}"), 0x99);
            assert_eq!(client.publish("watched/a", AtLeastOnce, b"{}"), 0x10);
        }
        let mut client = world.connect(V5, "last");
        assert_eq!(client.publish("strict/b", AtLeastOnce, b"secret"), 0x99);
        let one = admin(address, "GET", "/v1/contracts/strict", "").expect(200);
        assert_eq!(one.number("violations"), 9);
        let sample = "{\"path\":\"n\",\"expected\":\"an integer\",\"rule\":\"type\",\"topic\":\"strict/a\",\"count\":";
        assert!(one.body.contains(sample), "{}", one.body);
        assert!(one.body.contains("\"rule\":\"malformed\",\"topic\":\"strict/b\",\"count\":1,"), "{}", one.body);
        let all = admin(address, "GET", "/contracts", "").expect(200).body;
        assert!(!all.contains("secret") && !one.body.contains("secret"), "{all}");
        let (_, watched) = all.split_once("\"name\":\"watched\"").expect("the contract is listed");
        assert!(watched.contains("\"violations\":8,\"samples\":[{\"path\":\"n\","), "{watched}");
        let (_, aside) = all.split_once("\"name\":\"aside\"").expect("the contract is listed");
        let first = aside.find("\"violations\":").expect("the count is shown");
        assert!(aside[first..].starts_with("\"violations\":0,\"samples\":[]"), "{aside}");
        admin(address, "DELETE", "/contracts/strict", "").expect(204);
        let body = OBJECT.replace("new/#", "strict/#");
        admin(address, "PUT", "/contracts/strict", &body).expect(201);
        let again = admin(address, "GET", "/v1/contracts/strict", "").expect(200);
        assert_eq!(again.number("violations"), 0, "a replaced contract starts at zero");
    }
}

#[test]
fn changes_are_persistent_and_the_operators_file_is_not_written() {
    let mut world = World::new(1);
    for status in [201, 200] {
        admin(world.broker.admin_address(), "PUT", "/contracts/new", OBJECT).expect(status);
        world = restarted(world);
        let mut client = world.connect(V5, "client");
        assert_eq!(client.publish("new/a", AtLeastOnce, b"[]"), 0x99);
    }
    let address = world.broker.admin_address();
    let replaced = OBJECT.replace("object", "array");
    let body = admin(address, "PUT", "/contracts/new", &replaced).expect(200).body;
    assert!(body.contains("{\\\"type\\\": \\\"array\\\"}"), "{body}");
    admin(address, "PUT", "/contracts/strict", &OBJECT.replace("new/#", "strict/only").replace("object", "integer"))
        .expect(200);
    admin(address, "DELETE", "/contracts/fatal", "").expect(204);
    admin(address, "DELETE", "/contracts/fatal", "").expect(404);
    let managed = world.folder.names("contracts/managed");
    let schemas = managed.iter().filter(|name| name.ends_with(".json")).count();
    assert_eq!((managed.len(), schemas), (5, 2), "the schema that was replaced is gone: {managed:?}");

    let world = restarted(world);
    let address = world.broker.admin_address();
    let mut client = world.connect(V5, "client");
    assert_eq!(client.publish("new/a", AtLeastOnce, b"[]"), 0x10);
    assert_eq!(client.publish("new/a", AtLeastOnce, b"{}"), 0x99);
    assert_eq!(client.publish("strict/a", AtLeastOnce, b"no JSON"), 0x10);
    assert_eq!(client.publish("strict/only", AtLeastOnce, b"[]"), 0x99);
    assert_eq!(client.publish("fatal/a", AtLeastOnce, b"no JSON"), 0x10);
    assert_eq!(world.folder.read("contracts/contracts.toml"), MANIFEST);

    // An added contract is removed without a trace, and a hidden one can be restored.
    admin(address, "DELETE", "/contracts/new", "").expect(204);
    let fatal = r#"{"topics": "fatal/#", "format": "json", "schema_file": "numbered.json", "on_violation": "reject"}"#;
    admin(address, "PUT", "/contracts/fatal", fatal).expect(201);
    assert_eq!(client.publish("fatal/a", AtLeastOnce, b"no JSON"), 0x99);
    let managed = world.folder.names("contracts/managed");
    assert!(!managed.contains(&"new.toml".to_owned()), "{managed:?}");
}

#[test]
fn a_protobuf_schema_is_compiled_with_the_files_of_the_folder() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    let schema =
        r#"syntax = \"proto3\";\nimport \"reading.proto\";\nmessage Pair { acme.Reading a = 1; acme.Reading b = 2; }"#;
    let body = format!(
        r#"{{"topics": "pairs/{{id}}", "format": ["protobuf", "json"], "schema": "{schema}", "message": "Pair",
            "unknown_fields": "reject", "unacknowledged": "disconnect", "on_violation": "reject", "topic_fields": {{"id": "a.device_id"}}}}"#
    );
    admin(address, "PUT", "/contracts/pair", &body).expect(201);
    let mut client = world.connect(V5, "client");
    assert_eq!(client.publish("pairs/7", AtLeastOnce, br#"{"a": {"deviceId": "7"}}"#), 0x10);
    assert_eq!(client.publish("pairs/8", AtLeastOnce, br#"{"a": {"deviceId": "7"}}"#), 0x99);
}

#[test]
fn an_invalid_contract_is_refused_with_its_location_and_the_old_one_stays() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    admin(address, "PUT", "/contracts/new", OBJECT).expect(201);
    let before = world.folder.names("contracts/managed");
    let refused = |body: &str, code: &str, parts: &[&str]| {
        let answer = admin(address, "PUT", "/contracts/new", body).expect(422);
        assert!(answer.body.contains(&format!("\"code\":\"{code}\"")), "{}", answer.body);
        for part in parts {
            assert!(answer.body.contains(part), "{part}: {}", answer.body);
        }
    };
    refused(
        r#"{"topics": "new/#", "format": "protobuf", "schema": "syntax = \"proto3\";\nmessage M {\n  strin a = 1;\n}", "schema_file": "m.proto"}"#,
        "contract_schema",
        &["\"file\":\"m.proto\"", "\"line\":3,\"column\":3"],
    );
    refused(
        r#"{"topics": "new/#", "format": "json", "schema": "{\n  \"type\": \"thing\"}", "schema_file": "m.json"}"#,
        "contract_schema",
        &["\"file\":\"m.json\",\"line\":2,"],
    );
    refused(r#"{"topics": "new/#/a", "format": "json", "schema": "{}"}"#, "contract_value", &["topics: "]);
    refused(r#"{"topics": "new/#", "format": "xml", "schema": "{}"}"#, "contract_value", &["format must be one of"]);
    refused(r#"{"topics": "$SYS/#", "format": "json", "schema": "{}"}"#, "contract_value", &["are reserved"]);
    refused(r#"{"topics": "new/#", "format": "json", "schema_file": "gone.json"}"#, "contract_schema", &["gone.json"]);
    refused(r#"{"topics": "new/#", "format": "json", "schema_file": "../token"}"#, "contract_schema", &["../token"]);
    refused(
        r##"{"topics": "#", "format": "json", "schema": "{}"}"##,
        "contract_overlap",
        &["the contracts new (#) and", "\"errors\":[{"],
    );
    refused(r#"{"format": "json", "schema": "{}"}"#, "contract_value", &["topics is missing"]);
    let mut client = world.connect(V5, "client");
    assert_eq!(client.publish("new/a", AtLeastOnce, b"[]"), 0x99);
    assert_eq!(client.publish("new/a", AtLeastOnce, b"{}"), 0x10);
    assert_eq!(world.folder.names("contracts/managed"), before);
}

#[test]
fn schema_bombs_are_refused_and_the_broker_keeps_serving() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    let fields: String = (1..=20_000).map(|number| format!("int32 f{number} = {number};")).collect();
    let nested = format!("{}{}", "message M {".repeat(2_000), "}".repeat(2_000));
    let json_nested = format!("{}{}", "{\\\"not\\\":".repeat(3_000), "}".repeat(3_000));
    for schema in [
        format!("syntax = \\\"proto3\\\"; message M {{ {fields} }}"),
        format!("syntax = \\\"proto3\\\"; {nested}"),
        format!("syntax = \\\"proto3\\\"; message M {{ {} }}", "int32 a = 1;".repeat(60_000)),
        "syntax = \\\"proto3\\\"; import \\\"/etc/passwd\\\"; message M {}".to_owned(),
        "{\\\"$ref\\\": \\\"http://127.0.0.1:1/schema.json\\\"}".to_owned(),
        "{\\\"$ref\\\": \\\"#\\\"}".to_owned(),
        json_nested,
    ] {
        let format = if schema.starts_with('{') { "json" } else { "protobuf" };
        let body = format!(r#"{{"topics": "new/#", "format": "{format}", "schema": "{schema}"}}"#);
        let answer = admin(address, "PUT", "/contracts/new", &body);
        assert_eq!(answer.status, 422, "{}: {}", schema.chars().take(60).collect::<String>(), answer.body);
    }
    assert_eq!(world.count("contracts"), 8);
    world.connect(V5, "client").ping();
}

#[test]
fn concurrent_changes_are_serialized() {
    let world = World::new(2);
    let address = world.broker.admin_address();
    thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || {
                let body = OBJECT.replace("new/#", &format!("new/{number}"));
                admin(address, "PUT", &format!("/contracts/new-{number}"), &body).expect(201);
            });
        }
    });
    assert_eq!(world.count("contracts"), 16);
    assert_eq!(world.folder.names("contracts/managed").len(), 8 + 1, "one shared schema");
    assert_eq!(restarted(world).count("contracts"), 16);
}

#[test]
fn names_cannot_escape_the_folder() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    for name in ["..", "../evil", "a/b", "%2e%2e%2fevil", "a.toml", "ä", "", &"n".repeat(65)] {
        let answer = admin(address, "PUT", &format!("/contracts/{name}"), OBJECT);
        assert!(answer.status == 422 || answer.status == 400, "{name}: {answer:?}");
        let answer = admin(address, "DELETE", &format!("/contracts/{name}"), "");
        assert!(answer.status == 404 || answer.status == 400, "{name}: {answer:?}");
    }
    assert!(world.folder.names("contracts/managed").is_empty());
    assert_eq!(world.folder.names("."), ["contracts", "token"]);
}

#[test]
fn an_unwritable_folder_leaves_the_contracts_unchanged() {
    let world = World::new(1);
    // A file in place of the folder.
    world.folder.write("contracts/managed", "");
    let answer = admin(world.broker.admin_address(), "PUT", "/contracts/new", OBJECT).expect(500);
    assert!(answer.body.contains("\"code\":\"contracts_not_written\""), "{}", answer.body);
    assert_eq!(world.count("contracts"), 8);
    assert_eq!(world.count("contract_changes_refused"), 1);
}

#[test]
fn without_a_folder_contracts_cannot_be_changed() {
    let folder = Folder::new(&[("token", TOKEN)]);
    let token = format!("admin.token_file={}", folder.path().join("token").display());
    let broker = Broker::set(&[&token, "admin.listen=0"]);
    let address = broker.admin_address();
    assert!(address.ip().is_loopback());
    let answer = admin(address, "PUT", "/contracts/new", OBJECT).expect(409);
    assert!(answer.body.contains("set contracts.path"), "{}", answer.body);
    assert_eq!(admin(address, "GET", "/contracts", "").expect(200).body, "{\"contracts\":[]}");
}

#[test]
fn the_api_is_never_served_without_a_token() {
    let stderr = Broker::refused(&["admin.listen=127.0.0.1:0"]);
    assert!(stderr.contains("admin.listen: needs admin.token_file"), "{stderr}");
    for token in ["short", "has a space in the middle", "", "first-line-is-long\nsecond-line-is-long"] {
        let folder = Folder::new(&[("token", token)]);
        let file = format!("admin.token_file={}", folder.path().join("token").display());
        let stderr = Broker::refused(&["admin.listen=127.0.0.1:0", &file]);
        assert!(stderr.contains("must hold one line of 16 to 1024 visible characters"), "{stderr}");
        assert!(token.is_empty() || !stderr.contains(token), "{stderr}");
    }
    let stderr = Broker::refused(&["admin.listen=127.0.0.1:0", "admin.token_file=/no/such/file"]);
    assert!(stderr.contains("cannot read the token file /no/such/file"), "{stderr}");
}
