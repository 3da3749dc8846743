//! Bridges: their status, and the commands for them.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Instant;

use super::clients::texts;
use crate::reload::World;
use crate::support::http::{Answer, ask, bearer};
use crate::support::{AtLeastOnce, Broker, EXPECT_TIMEOUT, Folder, TOKEN, V5, admin, program};

const RULES: &str = r#"[{ filter = "out/#", direction = "out" }, { filter = "in/#", direction = "in", remote_prefix = "site/", qos = 2 }]"#;

/// A table for the bridge `cloud` to this address.
fn bridge(address: SocketAddr, rules: &str, more: &str) -> String {
    format!(
        "[[bridge]]\nname = \"cloud\"\naddresses = [\"mqtt://{address}\"]\nretry_max_s = 1\nrules = {rules}\n{more}"
    )
}

impl World {
    fn command_bridge(&self, action: &str) -> Answer {
        admin(self.broker.admin_address(), "POST", &format!("/v1/bridges/{action}"), "")
    }

    /// Waits until the bridge has these members, and returns it.
    #[track_caller]
    fn await_bridge(&self, members: &[&str]) -> Answer {
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        loop {
            let found = self.get("/v1/bridges/cloud").expect(200);
            if members.iter().all(|member| found.body.contains(member)) {
                return found;
            }
            assert!(Instant::now() < deadline, "not {members:?}: {}", found.body);
        }
    }
}

#[test]
fn a_bridge_is_shown_paused_and_resumed() {
    for threads in [1, 2] {
        let other = Broker::start();
        let mut there = other.connect(V5, "there");
        there.subscribe("out/#", AtLeastOnce);
        let world = World::new(threads, &bridge(other.address(), RULES, ""), &[]);
        let mut here = world.broker.connect(V5, "here");
        here.subscribe("in/#", AtLeastOnce);

        let found = world.await_bridge(&["\"state\":\"connected\""]);
        let address = format!("mqtt://{}", other.address());
        assert!(
            found
                .body
                .contains(&format!("\"address\":\"{address}\",\"addresses\":[\"{address}\"],\"protocol\":\"5.0\""))
        );
        assert!(
            found.body.contains(
                "\"session\":\"bridge/cloud\",\"mount_point\":null,\"error\":null,\"next_attempt_unix_s\":null"
            )
        );
        let rule = "{\"filter\":\"in/#\",\"direction\":\"in\",\"qos\":2,\"local_prefix\":\"\",\"remote_prefix\":\"site/\",\
                    \"retain\":\"keep\",\"rate\":null,\"refused\":null}";
        assert!(found.body.contains(rule), "{}", found.body);

        // Counters of the current connection are visible while it lasts.
        here.publish("out/1", AtLeastOnce, b"1");
        assert_eq!(there.receive().topic(), "out/1");
        there.publish("site/in/1", AtLeastOnce, b"2");
        assert_eq!(here.receive().topic(), "in/1");
        world.await_bridge(&[
            "\"connections\":1,\"failures\":0,\"messages_out\":1,\"messages_in\":1,",
            "\"queued_messages\":0",
        ]);
        let list = world.get("/v1/bridges").expect(200).body;
        assert_eq!(texts(&list, "name"), ["cloud"]);
        let text = ask(world.broker.admin_address(), "GET", "/metrics", &bearer(TOKEN), "").expect(200).body;
        for line in ["connected{bridge=\"cloud\"} 1\n", "messages_in_total{bridge=\"cloud\"} 1\n"] {
            assert!(text.contains(&format!("\ntautwire_bridge_{line}")), "{line} {text}");
        }

        world.command_bridge("cloud/pause").expect(204);
        world.await_bridge(&["\"state\":\"paused\"", "\"next_attempt_unix_s\":null"]);
        here.publish("out/2", AtLeastOnce, b"3");
        world.await_bridge(&["\"queued_messages\":1"]);
        world.command_bridge("cloud/resume").expect(204);
        assert_eq!(there.receive().topic(), "out/2");
        world.await_bridge(&[
            "\"state\":\"connected\"",
            "\"connections\":2,\"failures\":0,\"messages_out\":2,",
            "\"queued_messages\":0",
        ]);

        let tested = world.command_bridge("cloud/test").expect(200).body;
        assert_eq!(
            tested,
            format!("{{\"addresses\":[{{\"address\":\"{address}\",\"accepted\":true,\"error\":null}}]}}\n")
        );
        for unknown in ["other/pause", "other/resume", "other/test"] {
            world.command_bridge(unknown).expect(404);
        }
        world.get("/v1/bridges/other").expect(404);
        world.get("/v1/bridges/cloud?colour=red").expect(400);
    }
}

#[test]
fn failures_in_a_row_are_one_state() {
    // Nothing listens there any longer.
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let world = World::new(1, &bridge(closed, RULES, ""), &[]);
    let first = world.await_bridge(&["\"state\":\"connecting\"", "\"code\":\"unreachable\""]);
    let last = world.await_bridge(&["\"failures\":3,"]);
    assert_eq!(first.number("since_unix_s"), last.number("since_unix_s"), "{}", last.body);
    assert!(last.number("next_attempt_unix_s") >= last.number("since_unix_s"));
    let tested = world.command_bridge("cloud/test").expect(200).body;
    assert!(tested.contains("\"accepted\":false,\"error\":{\"code\":\"unreachable\",\"message\":\""), "{tested}");
    let why = world.get("/v1/clients/bridge%2Fcloud/why?topic=out/1").expect(200).body;
    let text = format!("the client is the bridge \\\"cloud\\\" to mqtt://{closed}, which is connecting: ");
    assert!(texts(&why, "code").contains(&"bridge".to_owned()) && why.contains(&text), "{why}");
}

#[test]
fn a_refused_rule_is_shown_by_the_api_and_by_doctor() {
    let access = "[[role]]\nname = \"some\"\nrules = [\n  { deny = \"subscribe\", topics = \"secret/#\" },\n  \
                  { allow = [\"publish\", \"subscribe\"], topics = \"#\" },\n]\n[[assign]]\neveryone = true\nroles = \"some\"\n";
    let folder = Folder::new(&[("access.toml", access)]);
    let file = format!("acl.file={}", folder.path().join("access.toml").display());
    let other = Broker::start();
    let rules =
        r##"[{ filter = "out/#", direction = "out" }, { filter = "#", direction = "out", local_prefix = "secret/" }]"##;
    let world = World::within(folder, 1, &bridge(other.address(), rules, ""), &[&file]);
    world.await_bridge(&[
        "\"state\":\"connected\"",
        "\"local_prefix\":\"secret/\",\"remote_prefix\":\"\",\"retain\":\"keep\",\"rate\":null,\
         \"refused\":{\"by\":\"local\",\"reason_code\":135,\"reason\":\"Not authorized\"}",
    ]);
    let why = world.get("/v1/clients/bridge%2Fcloud/why?topic=out/1").expect(200).body;
    let text = format!("the client is the bridge \\\"cloud\\\" to mqtt://{}, which is connected\"", other.address());
    assert_eq!(texts(&why, "outcome"), ["arrives"]);
    assert!(why.contains(&text), "{why}");
    let settings = [
        format!("admin.listen={}", world.broker.admin_address()),
        format!("admin.token_file={}", world.folder.path().join("token").display()),
    ];
    let output = Command::new(program())
        .args(["doctor", "--memory", "--set", &settings[0], "--set", &settings[1]])
        .output()
        .expect("the program starts");
    let found = String::from_utf8(output.stdout).expect("text");
    let expected = "warning  bridges      this broker refused rule 2 of bridge \"cloud\", with the filter \"secret/#\": Not authorized\n";
    assert!(found.contains(expected), "{found}");
}
