//! Reloads of the contracts folder, the token and the audit log.

use std::fs;
use std::time::Instant;

use super::{World, keys};
use crate::support::http::exchange;
use crate::support::{AtLeastOnce, AtMostOnce, Broker, Client, EXPECT_TIMEOUT, Folder, TOKEN, V5, admin};

const OBJECT: &str = "{\"type\": \"object\"}";
const NEW: &str =
    r#"{"topics": "new", "format": "json", "schema": "{\"type\": \"object\"}", "on_violation": "reject"}"#;

/// A contract for a topic, which `7` violates.
fn manifest(topic: &str) -> String {
    format!(
        "[[contract]]\nname = \"c\"\ntopics = \"{topic}\"\nformat = \"json\"\nschema = \"s.json\"\non_violation = \"reject\"\n"
    )
}

#[test]
fn a_contracts_folder_can_be_added_changed_and_removed() {
    let one = manifest("one");
    let two = manifest("two");
    let folder = Folder::new(&[
        ("a/contracts.toml", &one),
        ("a/s.json", OBJECT),
        ("b/contracts.toml", &two),
        ("b/s.json", OBJECT),
        ("wrong/contracts.toml", "[[contract]]\n"),
    ]);
    let world = World::within(folder, 2, "", &[]);
    let mut client = world.broker.connect(V5, "c");
    let mut rejected = || ["one", "two", "new"].map(|topic| client.publish(topic, AtLeastOnce, b"7") == 0x99);
    let put = |status| admin(world.broker.admin_address(), "PUT", "/contracts/new", NEW).expect(status);
    let reload = |name: &str| world.reload(&format!("[contracts]\npath = \"{name}\"\n"));
    assert_eq!(rejected(), [false; 3]);
    assert!(put(409).body.contains("contracts_not_configured"));

    let answer = reload("a").expect(200);
    assert_eq!(keys(&answer, "applied"), ["contracts.path"]);
    assert!(answer.body.contains("\"contracts\":1"), "{}", answer.body);
    assert_eq!(rejected(), [true, false, false]);
    put(201);
    assert_eq!(rejected(), [true, false, true]);

    let wrong = reload("wrong").expect(422);
    assert!(wrong.body.contains("wrong/contracts.toml"), "{}", wrong.body);
    assert_eq!(rejected(), [true, false, true], "the contracts are unchanged");

    // Contracts added by operators go to the current folder.
    reload("b").expect(200);
    assert_eq!(rejected(), [false, true, false]);
    put(201);
    assert_eq!(rejected(), [false, true, true]);
    assert!(world.folder.read("b/contracts.toml") == two && world.folder.read("a/contracts.toml") == one);

    world.reload("").expect(200);
    assert_eq!(rejected(), [false; 3]);
    assert!(put(409).body.contains("contracts_not_configured"));
}

#[test]
fn clients_are_notified_of_contracts_when_configured() {
    let text = manifest("one");
    let folder = Folder::new(&[("a/contracts.toml", &text), ("a/s.json", OBJECT)]);
    let enabled = "contracts.path = \"a\"\n";
    let world = World::within(folder, 2, enabled, &[]);
    let mut client = world.broker.connect(V5, "c");
    client.subscribe("$SYS/contracts/index.json", AtMostOnce);
    assert!(client.receive().text().contains("\"c\""));
    let answer = world.reload(&format!("{enabled}contracts.discovery = false\n")).expect(200);
    assert_eq!(keys(&answer, "applied"), ["contracts.discovery"]);
    assert_eq!(client.receive().text(), "", "the retained index is removed");
    world.reload(enabled).expect(200);
    assert!(client.receive().text().contains("\"c\""));
}

#[test]
fn a_new_token_is_valid_after_the_reload() {
    const OTHER: &str = "another-token-0123456789";
    let world = World::new(1, "", &[]);
    let address = world.broker.admin_address();
    let status = |token: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: admin\r\nAuthorization: Bearer {token}\r\n\r\n");
        exchange(address, request.as_bytes()).status
    };
    world.folder.write("token", "short");
    let refused = world.reload_again().expect(422).body;
    assert!(refused.contains("token") && !refused.contains("short"), "{refused}");
    assert_eq!((status(TOKEN), status(OTHER)), (200, 401));
    world.folder.write("token", OTHER);
    world.reload_again().expect(200);
    assert_eq!((status(TOKEN), status(OTHER)), (401, 200));
}

/// Waits until the broker has written this to a file.
#[track_caller]
pub(super) fn await_line(folder: &Folder, name: &str, text: &str) {
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    let read = || fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    while !read().contains(text) {
        assert!(Instant::now() < deadline, "{name} has no {text}: {}", read());
    }
}

#[test]
fn the_audit_log_is_reopened_and_can_change_its_file() {
    let world = World::new(2, "", &[]);
    let reload = |name: &str| world.reload(&format!("[audit]\nfile = \"{name}\"\n"));
    let comes = |client_id: &str| world.broker.connect(V5, client_id).ping();
    let line = |client_id: &str| format!("\"event\":\"connect\",\"client_id\":\"{client_id}\"");
    comes("nobody-looks");
    assert_eq!(keys(&reload("a.log").expect(200), "applied"), ["audit.file"]);
    comes("one");
    await_line(&world.folder, "a.log", &line("one"));

    // Renamed by log rotation.
    fs::rename(world.folder.path().join("a.log"), world.folder.path().join("a.old")).expect("it is there");
    world.reload_again().expect(200);
    comes("two");
    await_line(&world.folder, "a.log", &line("two"));

    let refused = reload("no/such/folder/audit.log").expect(422).body;
    assert!(refused.contains("audit.file") && refused.contains("no/such/folder"), "{refused}");
    comes("three");
    await_line(&world.folder, "a.log", &line("three"));

    reload("b.log").expect(200);
    comes("four");
    await_line(&world.folder, "b.log", &line("four"));

    world.reload("").expect(200);
    comes("five");
    assert_eq!(keys(&reload("b.log").expect(200), "applied"), ["audit.file"]);
    comes("six");
    await_line(&world.folder, "b.log", &line("six"));
    let World { broker, folder, .. } = world;
    broker.end();
    let all = ["a.old", "a.log", "b.log"].map(|name| folder.read(name));
    let has = |at: usize, client_id: &str| all[at].contains(&line(client_id));
    assert!(has(0, "one") && !has(0, "two") && has(1, "three") && !has(1, "four") && has(2, "six"), "{all:?}");
    assert!(!has(2, "five") && !all.concat().contains("nobody-looks"), "{all:?}");
}

#[test]
fn changed_files_are_reloaded_automatically() {
    let rules = |denied: &str| {
        format!(
            "[[assign]]\neveryone = true\nroles = \"all\"\n[[role]]\nname = \"all\"\nrules = [\n    \
             {denied}{{ allow = [\"publish\", \"subscribe\"], topics = \"#\" }},\n]\n"
        )
    };
    let (open, closed) = (rules(""), rules("{ deny = \"publish\", topics = \"secret\" },\n    "));
    let folder = Folder::new(&[("rules.toml", &open)]);
    let file = "[auth]\nanonymous = true\n[acl]\nfile = \"rules.toml\"\n[audit]\nfile = \"audit.log\"\n";
    let world = World::within(folder, 1, &format!("file_watch_interval_s = 1\n{file}"), &[]);
    let mut client = world.broker.connect(V5, "c");
    let is_refused = |client: &mut Client| client.publish("secret", AtLeastOnce, b"") == 0x87;
    assert!(!is_refused(&mut client));

    // Replaced by rename, as most programs do.
    world.folder.write("next", &closed);
    fs::rename(world.folder.path().join("next"), world.folder.path().join("rules.toml")).expect("renamed");
    await_condition(|| is_refused(&mut client));

    // An invalid file changes nothing, and the next valid one is applied.
    world.folder.write("rules.toml", "[[role]]\n");
    await_condition(|| world.folder.read("audit.log").contains("\"result\":\"failure\""));
    assert!(is_refused(&mut client));
    world.folder.write("rules.toml", &open);
    await_condition(|| !is_refused(&mut client));

    // The configuration file is watched too, and may turn watching off.
    Broker::write_file(1, &world.folder, file);
    await_condition(|| !world.config().contains("file_watch_interval_s = 1"));
}

#[track_caller]
fn await_condition(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline);
    }
}
