//! `tautwire contract`, `tautwire discover`, `pub --json` and `sub --decode`.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::{Broker, Ended, run, run_with_input};

const MANIFEST: &str = r#"
[[contract]]
name = "reading"
topics = "sensors/{device_id}/reading"
format = ["protobuf", "json"]
schema = "reading.proto"
on_violation = "reject"
topic_fields = { device_id = "device_id" }

[[contract]]
name = "state"
topics = "state/#"
format = ["messagepack", "json"]
schema = "state.json"
on_violation = "observe"
"#;
const READING: &str =
    "syntax = \"proto3\";\npackage acme;\nmessage Reading {\n  string device_id = 1;\n  double celsius = 2;\n}\n";
const STATE: &str =
    "{\"type\": \"object\", \"properties\": {\"on\": {\"type\": \"boolean\"}}, \"required\": [\"on\"]}\n";
const TOKEN: &str = "a-token-for-tests-0123456789";

/// A temporary folder, removed when this is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(files: &[(&str, &str)]) -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = Folder(std::env::temp_dir().join(format!("tautwire-cli-{}-{number}", std::process::id())));
        fs::create_dir_all(&folder.0).expect("makes a folder");
        for (name, text) in files {
            folder.write(name, text.as_bytes());
        }
        folder
    }

    fn contracts() -> Folder {
        Folder::new(&[("contracts.toml", MANIFEST), ("reading.proto", READING), ("state.json", STATE)])
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.0.join(name), bytes).expect("writes");
        self.path(name)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A broker with these contracts and the admin API, and the folder with its token.
fn broker(contracts: &Folder) -> (Broker, Folder) {
    let secrets = Folder::new(&[("token", TOKEN)]);
    let path = format!("contracts.path={}", contracts.path(""));
    let token = format!("admin.token_file={}", secrets.path("token"));
    (Broker::with(&[&path, &token, "admin.listen=127.0.0.1:0"]), secrets)
}

fn contract(arguments: &[&str]) -> Ended {
    run(&[&["contract"], arguments].concat())
}

#[test]
fn contract_check_reports_all_errors_with_file_line_and_column() {
    let folder = Folder::contracts();
    assert_eq!(contract(&["check", "--path", &folder.path("")]).expect(0).text(), "2 contracts are valid\n");
    folder.write("reading.proto", READING.replace("double", "doubel").as_bytes());
    folder.write("contracts.toml", MANIFEST.replace("state.json", "gone.json").as_bytes());
    let wrong = contract(&["check", "--path", &folder.path("")]).expect(1);
    for expected in ["reading.proto:5:3: ", "contracts.toml:14:10: the file gone.json is not in the folder"] {
        assert!(wrong.stderr.contains(expected), "{}", wrong.stderr);
    }
    // Then the configuration is invalid, too.
    let set = format!("contracts.path={}", folder.path(""));
    let wrong = run(&["config", "check", "--set", &set]).expect(1);
    assert!(wrong.stderr.contains("reading.proto:5:3: "), "{}", wrong.stderr);
    assert!(contract(&["check", "--path", "/no/such/folder"]).expect(1).stderr.contains("/no/such/folder"));
}

#[test]
fn contracts_are_equal_in_the_folder_the_api_and_over_mqtt() {
    let folder = Folder::contracts();
    let (broker, secrets) = broker(&folder);
    let (path, token) = (folder.path(""), secrets.path("token"));
    let admin = ["--admin", broker.admin(), "--token-file", &token];
    for output in [&[][..], &["--json"]] {
        let here = contract(&[&["list", "--path", &path], output].concat()).expect(0).text();
        assert!(here.contains("reading") && here.contains("sensors/{device_id}/reading"), "{here}");
        assert_eq!(contract(&[&["list"], &admin[..], output].concat()).expect(0).text(), here);
        assert_eq!(broker.discover(output).expect(0).text(), here);
        assert_eq!(broker.discover(&[&["-V", "3.1.1"], output].concat()).expect(0).text(), here);

        let here = contract(&[&["show", "--path", &path, "reading"], output].concat()).expect(0).text();
        assert!(here.contains("message Reading {"), "{here}");
        assert_eq!(contract(&[&["show", "reading"], &admin[..], output].concat()).expect(0).text(), here);
        assert_eq!(broker.discover(&[&["reading"], output].concat()).expect(0).text(), here);
        assert_eq!(broker.discover(&[&["--topic", "sensors/7/reading"], output].concat()).expect(0).text(), here);
    }
    let near = contract(&["show", "--path", &path, "raeding"]).expect(1);
    assert!(near.stderr.contains("did you mean reading?"), "{}", near.stderr);
    assert!(broker.discover(&["--topic", "nothing"]).expect(1).stderr.contains("no contract for nothing"));
}

#[test]
fn many_contracts_are_discovered_page_by_page() {
    let entry = |number: u32| {
        format!(
            "[[contract]]\nname = \"c{number:03}\"\ntopics = \"c/{number}\"\nformat = \"json\"\nschema = \"s.json\"\n"
        )
    };
    let manifest: String = (0..65).map(entry).collect();
    let folder = Folder::new(&[("contracts.toml", &manifest), ("s.json", "{}")]);
    let (broker, _secrets) = broker(&folder);
    let lines: Vec<String> = broker.discover(&[]).expect(0).text().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 66);
    assert!(lines[65].starts_with("c064 "), "{}", lines[65]);
}

#[test]
fn only_a_missing_broker_is_a_failure_not_missing_contracts() {
    let broker = Broker::start();
    assert_eq!(broker.discover(&[]).expect(0).text().lines().count(), 1);
    assert_eq!(broker.discover(&["--json"]).expect(0).text(), "{}\n");
    run(&["discover", "-h", "127.0.0.1", "-p", "1"]).expect(2);
    assert_eq!(run(&["discover", "-h", "127.0.0.1", "-p", "1", "--quiet"]).expect(2).stderr, "");
}

#[test]
fn payloads_are_checked_with_local_or_remote_contracts() {
    let folder = Folder::contracts();
    let (broker, secrets) = broker(&folder);
    let (path, token) = (folder.path(""), secrets.path("token"));
    let good = folder.write("good.bin", b"\x0a\x017");
    let bad = folder.write("bad.bin", b"\x0a\x018\x10\x01");
    let json = folder.write("good.txt", br#"{"deviceId": "7", "celsius": 21.5}"#);
    for source in [&["--path", &path][..], &["--admin", broker.admin(), "--token-file", &token]] {
        let test = |arguments: &[&str]| contract(&[&["test"], source, arguments].concat());
        let topic = ["--topic", "sensors/7/reading", "reading"];
        let stdout_text = test(&[&topic[..], &[&good, &json]].concat()).expect(0).text();
        assert_eq!(stdout_text, format!("{good}: ok (protobuf)\n{json}: ok (json)\n"));
        let stdout_text = test(&[&topic[..], &[&good, &bad]].concat()).expect(3).text();
        assert!(stdout_text.contains(&format!("{bad}: celsius: expected ")), "{stdout_text}");
        let stdout_text = test(&[&["--format", "json"], &topic[..], &[&good]].concat()).expect(3).text();
        assert!(stdout_text.contains("[malformed]"), "{stdout_text}");
        assert!(test(&["reading", &good]).expect(1).stderr.contains("use --topic"));
        let other = test(&["--topic", "elsewhere", "reading", &good]).expect(1);
        assert!(other.stderr.contains("the contract is for sensors/{device_id}/reading"), "{}", other.stderr);
    }
    let ended = run_with_input(&["contract", "test", "--path", &path, "state", "-"], b"\x81\xa2on\xc3").expect(0);
    assert_eq!(ended.text(), "-: ok (messagepack)\n");
}

#[test]
fn a_change_is_rated_by_field_and_exit_code() {
    let old = Folder::contracts();
    let changed = |manifest: &str, reading: &str, state: &str| {
        Folder::new(&[("contracts.toml", manifest), ("reading.proto", reading), ("state.json", state)])
    };
    let number = READING.replace("double", "string");
    let stricter = STATE.replace("\"required\": [\"on\"]", "\"required\": [\"on\", \"at\"]");
    let looser = STATE.replace(", \"required\": [\"on\"]", "");
    let more = READING.replace("}", "  bool ok = 3;\n}");
    for (new, code, expected) in [
        (changed(MANIFEST, READING, STATE), 0, "compatible\n"),
        (changed(MANIFEST, &more, STATE), 0, "reading: ok: was added [compatible]\ncompatible\n"),
        (changed(MANIFEST, READING, &looser), 4, "backward\n"),
        (changed(MANIFEST, READING, &stricter), 5, "forward\n"),
        (changed(MANIFEST, &number, STATE), 6, "breaking\n"),
    ] {
        let stdout_text = contract(&["diff", &old.path(""), &new.path("")]).expect(code).text();
        assert!(stdout_text.ends_with(expected), "{stdout_text}");
        let json = contract(&["diff", "--json", &old.path(""), &new.path("")]).expect(code).text();
        let verdict = expected.trim_end().rsplit('\n').next().unwrap_or_default();
        assert!(json.starts_with(&format!("{{\"verdict\":\"{verdict}\",\"differences\":[")), "{json}");
    }
    let new = changed(MANIFEST, READING, &looser);
    contract(&["diff", "--allow", "backward", &old.path(""), &new.path("")]).expect(0);
    contract(&["diff", "--allow", "forward", &old.path(""), &new.path("")]).expect(4);
    let (broker, secrets) = broker(&old);
    let token = secrets.path("token");
    contract(&["diff", "--admin", broker.admin(), "--token-file", &token, &new.path("")]).expect(4);
}

#[test]
fn contracts_are_added_to_an_empty_folder() {
    let work = Folder::new(&[("state.json", STATE)]);
    let (path, schema) = (work.path("contracts"), work.path("state.json"));
    let add = |name: &str, topics: &str| {
        contract(&["add", "--path", &path, "--topics", topics, "--format", "json", "--schema", &schema, name])
    };
    add("first", "first/{id}").expect(0);
    contract(&[
        "add",
        "--path",
        &path,
        "--topics",
        "second/#",
        "--format",
        "messagepack",
        "--format",
        "json",
        "--schema",
        &schema,
        "--on-violation",
        "reject",
        "--unacknowledged",
        "disconnect",
        "--unknown-fields",
        "reject",
        "second",
    ])
    .expect(0);
    let before = fs::read_to_string(work.0.join("contracts/contracts.toml")).expect("reads");
    assert!(before.contains("unacknowledged = \"disconnect\"\n"), "{before}");
    assert!(add("first", "third").expect(1).stderr.contains("two contracts with the name first"));
    assert!(add("third", "second/a").expect(1).stderr.contains("[contract_overlap]"));
    assert!(add("third", "a/#/b").expect(1).stderr.contains("contracts.toml:18:10: topics: "));
    work.write("state.json", b"{}");
    assert!(add("third", "third").expect(1).stderr.contains("already exists with different content"));
    assert_eq!(fs::read_to_string(work.0.join("contracts/contracts.toml")).expect("reads"), before);
    assert_eq!(contract(&["check", "--path", &path]).expect(0).text(), "2 contracts are valid\n");
}

#[test]
fn contracts_are_added_to_a_running_broker() {
    let folder = Folder::contracts();
    let (broker, secrets) = broker(&folder);
    let token = secrets.path("token");
    let schema = secrets.path("new.proto");
    fs::write(&schema, "syntax = \"proto3\";\nmessage New {\n  bool ok = 1;\n}\n").expect("writes");
    let admin = ["--admin", broker.admin(), "--token-file", &token];
    let options =
        ["--topics", "new/{ok}", "--format", "protobuf", "--schema", &schema, "--topic-field", "ok=ok", "new"];
    let add = || contract(&[&["add"], &admin[..], &options].concat());
    assert_eq!(add().expect(0).text(), "contract new added\n");
    assert_eq!(add().expect(0).text(), "contract new replaced\n");
    fs::write(&schema, "syntax = \"proto3\";\nmessage New {\n  boole ok = 1;\n}\n").expect("writes");
    assert!(add().expect(3).stderr.starts_with("tautwire: new.proto:3:3: "));
    assert!(broker.discover(&["new"]).expect(0).text().contains("bool ok = 1;"));

    let wrong = secrets.write("wrong", b"another-token-0123456789");
    let refused = contract(&["list", "--admin", broker.admin(), "--token-file", &wrong]).expect(3);
    assert!(refused.stderr.contains("[unauthorized]"), "{}", refused.stderr);
    let nobody = contract(&["list", "--admin", "http://127.0.0.1:1", "--token-file", &token]).expect(2);
    assert!(!nobody.stderr.contains("a-token"), "{}", nobody.stderr);
}

#[test]
fn json_is_published_in_the_format_of_the_contract() {
    let folder = Folder::contracts();
    let (broker, _secrets) = broker(&folder);
    for version in ["5", "3.1.1"] {
        let subscriber = broker.subscribe(&["-C", "2", "-F", "%t %x %C", "#"]);
        let json = r#"{"deviceId": "7", "celsius": 21.5}"#;
        broker.publish(&["-V", version, "-q", "1", "--json", json, "sensors/7/reading"]).expect(0);
        broker.publish(&["-V", version, "--json", r#"{"on": true}"#, "state/lamp"]).expect(0);
        let stdout_text = subscriber.end().expect(0).text();
        let of = |content_type| if version == "5" { content_type } else { "" };
        let (protobuf, messagepack) = (of("application/x-protobuf"), of("application/msgpack"));
        let expected =
            format!("sensors/7/reading 0a0137110000000000803540 {protobuf}\nstate/lamp 81a26f6ec3 {messagepack}\n");
        assert_eq!(stdout_text, expected);
    }
    let refused = |json: &str, topic: &str, code: i32, expected: &str| {
        let ended = broker.publish(&["--json", json, topic]).expect(code);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    };
    refused(r#"{"celsius": "warm"}"#, "sensors/7/reading", 3, "violates the contract reading: celsius: expected");
    refused(r#"{"deviceId": "8"}"#, "sensors/7/reading", 3, "[topic_field_mismatch]");
    refused(r#"{"on": 1}"#, "state/lamp", 3, "on: expected");
    refused("{", "state/lamp", 3, "[malformed]");
    refused("{}", "free", 1, "has no contract for free");
}

#[test]
fn messages_of_any_format_are_printed_as_json() {
    let folder = Folder::contracts();
    let (broker, secrets) = broker(&folder);
    let token = secrets.path("token");
    broker.publish(&["-r", "-q", "1", "--json", r#"{"on": false}"#, "state/kept"]).expect(0);
    for version in ["5", "3.1.1"] {
        let mut subscriber = broker.subscribe(&["-V", version, "--decode", "-v", "-q", "1", "-C", "6", "#"]);
        broker.publish(&["-q", "1", "--json", r#"{"deviceId": "7"}"#, "sensors/7/reading"]).expect(0);
        broker.publish(&["-q", "1", "-m", r#"{"deviceId":"9"}"#, "sensors/9/reading"]).expect(0);
        broker.publish_with_input(&["-q", "1", "-s", "state/lamp"], b"\x81\xa2on\xc3").expect(0);
        broker.publish_with_input(&["-q", "1", "-s", "state/broken"], b"\xc1").expect(0);
        subscriber.wait_for("\"state/broken\" violates the contract state");
        broker.publish(&["-q", "1", "free", "[1]"]).expect(0);
        broker.publish(&["-q", "1", "free", "text"]).expect(0);
        subscriber.wait_for("\"free\" is not JSON, and no contract covers the topic");
        // A contract that is added while it runs.
        let schema = folder.path("state.json");
        let options = ["--topics", "new", "--format", "messagepack", "--schema", &schema, "new"];
        let admin = ["--admin", broker.admin(), "--token-file", &token];
        contract(&[&["add"], &admin[..], &options].concat()).expect(0);
        broker.publish(&["-q", "1", "--json", r#"{"on":true}"#, "new"]).expect(0);
        let stdout_text = subscriber.end().expect(0).text();
        assert_eq!(
            stdout_text,
            "state/kept {\"on\":false}\nsensors/7/reading {\"deviceId\":\"7\"}\nsensors/9/reading {\"deviceId\":\"9\"}\n\
             state/lamp {\"on\":true}\nfree [1]\nnew {\"on\":true}\n",
            "{version}"
        );
    }
}

/// The commands of the page can be pasted and print the output on the page.
#[test]
fn the_first_example_of_the_documentation_runs_as_pasted() {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/concepts/contracts.md")).expect("reads");
    let block = |kind: &str, number: usize| {
        let rest = page.split(&format!("```{kind}\n")).nth(number).expect("the page has such a block");
        rest.split("```").next().unwrap_or_default().to_owned()
    };
    let work = Folder::new(&[]);
    let shell = |script: &str| {
        let output =
            std::process::Command::new("sh").args(["-e", "-c", script]).current_dir(&work.0).output().expect("sh runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let program = env!("CARGO_BIN_EXE_tautwire");
    let setup = block("sh", 1);
    let (setup, serve) = setup.trim_end().rsplit_once('\n').expect("several lines");
    assert_eq!(serve, "bin/tautwire serve --set contracts.path=contracts");
    assert_eq!(shell(&setup.replace("bin/tautwire", program)), "1 contract is valid\n");

    let broker = Broker::with(&[&format!("contracts.path={}", work.path("contracts"))]);
    let publishing = format!("{program} pub -h 127.0.0.1 -p {}", broker.port());
    let stdout_text: String =
        block("sh", 2).lines().map(|line| shell(&line.replace("bin/tautwire pub", &publishing))).collect();
    assert_eq!(stdout_text, block("text", 1));
}

#[test]
fn the_contracts_of_the_examples_are_valid() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/contracts");
    assert_eq!(contract(&["check", "--path", examples]).expect(0).text(), "3 contracts are valid\n");
    let broker = Broker::with(&[&format!("contracts.path={examples}")]);
    let subscriber = broker.subscribe(&["--decode", "-v", "-q", "1", "-C", "3", "#"]);
    let reading = r#"{"deviceId":"7","measuredAt":"2026-05-01T12:00:00Z","celsius":21.5,"batteryPercent":80}"#;
    let lamp = r##"{"on":true,"brightness":80,"colour":"#ff8800"}"##;
    let alarm = r#"{"source":{"deviceId":"7"},"kind":"KIND_WATER"}"#;
    let messages = [("sensors/7/reading", reading), ("lamps/kitchen/state", lamp), ("alarms/7", alarm)];
    for (topic, json) in messages {
        broker.publish(&["-q", "1", "--json", json, topic]).expect(0);
    }
    let expected: String = messages.iter().map(|(topic, json)| format!("{topic} {json}\n")).collect();
    assert_eq!(subscriber.end().expect(0).text(), expected);
    let guard = broker.subscribe(&["-v", "-C", "1", "-F", "%t %P", "$quarantine/#"]);
    broker.publish(&["-q", "1", "alarms/7", "fire!"]).expect(0);
    assert!(guard.end().expect(0).text().starts_with("$quarantine/alarms/7 tautwire-contract:alarm"));
    broker.publish(&["-q", "1", "lamps/kitchen/state", r#"{"on": true, "brightness": 101}"#]).expect(3);
}
