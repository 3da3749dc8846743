//! Contracts in observe mode are reported, and so are messages that cannot be transcoded because of them.

use std::fs;

use crate::contracts::Folder;
use crate::process::{Broker, run};

const SCHEMA: &str = "{\"type\": \"object\", \"required\": [\"on\"]}";
const TOKEN: &str = "a-token-for-tests-0123456789";

fn entry(name: &str, rest: &str) -> String {
    format!("[[contract]]\nname = \"{name}\"\ntopics = \"{name}/#\"\nformat = \"json\"\nschema = \"s.json\"\n{rest}\n")
}

fn folder() -> Folder {
    let manifest = entry("strict", "") + &entry("lax", "on_violation = \"observe\"");
    Folder::new(&[("contracts.toml", &manifest), ("s.json", SCHEMA), ("token", TOKEN)])
}

#[test]
fn a_contract_rejects_violations_by_default() {
    let folder = folder();
    let broker = Broker::with(&[&format!("contracts.path={}", folder.path(""))]);
    let subscriber = broker.subscribe(&["-v", "-q", "1", "-C", "2", "#"]);
    let stderr_text = broker.publish(&["-q", "1", "strict/a", "{}"]).expect(3).stderr;
    assert!(stderr_text.contains("Payload format invalid (0x99): contract strict: on: expected"), "{stderr_text}");
    broker.publish(&["-q", "1", "lax/a", "{}"]).expect(0);
    broker.publish(&["-q", "1", "strict/b", "{\"on\":1}"]).expect(0);
    assert_eq!(subscriber.end().expect(0).text(), "lax/a {}\nstrict/b {\"on\":1}\n");
}

#[test]
fn an_observing_contract_is_reported_by_start_reload_list_and_doctor() {
    let folder = folder();
    let path = format!("contracts.path={}", folder.path(""));
    let token = folder.path("token");
    let token_file = format!("admin.token_file={token}");
    let broker = Broker::with(&[&path, &token_file, "admin.listen=127.0.0.1:0"]);
    let listed = run(&["contract", "list", "--path", &folder.path("")]).expect(0).text();
    let line = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("lax").contains("  observe (delivers)  ") && line("strict").contains("  reject  "), "{listed}");
    assert_eq!(broker.discover(&[]).expect(0).text(), listed);

    let set = ["--memory", "--set", &path, "--set", &token_file];
    let text = run(&[&["doctor"], &set[..]].concat()).text();
    let found = text.lines().find(|line| line.contains("the contract lax is in observe mode"));
    assert!(found.is_some_and(|line| line.starts_with("warning")), "{text}");

    let manifest = entry("strict", "on_violation = \"observe\"") + &entry("lax", "on_violation = \"observe\"");
    fs::write(folder.path("contracts.toml"), manifest).expect("writes");
    let admin = ["--admin", broker.admin(), "--token-file", &token];
    run(&[&["config", "reload"], &admin[..]].concat()).expect(0);
    let schema = folder.path("s.json");
    let new = ["--topics", "new", "--format", "json", "--schema", &schema, "--on-violation", "observe", "new"];
    run(&[&["contract", "add"], &admin[..], &new].concat()).expect(0);
    let log = broker.stop();
    for expected in [
        "the contract lax is in observe mode: payloads that violate it are counted and delivered",
        "2 contracts are in observe mode: payloads that violate them are counted and delivered: lax, strict",
        "the contract new is in observe mode",
    ] {
        assert!(log.contains(expected), "{log}");
    }
}

/// MQTT 5.0 clients get the reason; a 3.1.1 client gets nothing, see docs/concepts/contracts.md.
#[test]
fn a_message_that_cannot_be_transcoded_is_reported_with_the_reason() {
    let folder = folder();
    let broker = Broker::with(&[&format!("contracts.path={}", folder.path(""))]);
    let filter = "$as/json/lax/#";
    let mut plain = broker.subscribe(&["-v", "-C", "1", filter]);
    let old_version = broker.subscribe(&["-V", "3.1.1", "-v", "-C", "1", filter]);
    let json = broker.subscribe(&["--json", "-C", "2", filter]);
    let nested = broker.subscribe(&["-F", "%J", "-C", "1", filter]);
    broker.publish(&["-q", "1", "lax/a", "{}"]).expect(0);
    plain.wait_for("the broker could not transcode a message on \"lax/a\": on: expected");
    broker.publish(&["-q", "1", "lax/b", "{\"on\":1}"]).expect(0);
    assert_eq!(plain.end().expect(0).text(), "lax/b {\"on\":1}\n");
    let old = old_version.end().expect(0);
    assert_eq!(old.text(), "lax/b {\"on\":1}\n");
    assert!(!old.stderr.contains("lax/a"), "{}", old.stderr);
    let lines = json.end().expect(0).text();
    let (first, second) = lines.split_once('\n').expect("two lines");
    assert!(first.contains("\"transcoding_error\":\"on: expected"), "{first}");
    assert!(first.ends_with("\"payload\":null}") && !second.contains("transcoding_error"), "{lines}");
    let line = nested.end().expect(0).text();
    assert!(line.contains("\"topic\":\"lax/a\"") && line.contains("\"transcoding_error\":\"on: expected"), "{line}");
}
