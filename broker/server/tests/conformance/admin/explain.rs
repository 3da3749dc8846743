//! Listing and explaining access rules, and the certificates of listeners.

use std::process::Command;

use crate::reload::World;
use crate::support::http::Answer;
use crate::support::{Folder, V5, admin, program};

const RULES: &str = r##"
[[role]]
name = "meters"
rules = [
    { allow = "publish", topics = "power/#" },
    { allow = "subscribe", topics = "power/#" },
]

[[assign]]
user = "ann"
roles = ["meters"]
"##;

#[test]
fn the_rules_are_listed_with_their_positions() {
    let folder = Folder::new(&[("access.toml", RULES)]);
    let file = format!("acl.file={}", folder.path().join("access.toml").display());
    let world = World::within(folder, 1, "", &[&file]);
    let ask = |query: &str| admin(world.broker.admin_address(), "GET", &format!("/v1/rules{query}"), "");
    let first = ask("?limit=1").expect(200);
    assert!(
        first.body.starts_with("{\"unrestricted\":false,\"total\":2,\"rules\":[{\"number\":1,\"listener\":null,"),
        "{}",
        first.body
    );
    let rule = "access.toml\",\"line\":5,\"role\":\"meters\",\"effect\":\"allow\",\"actions\":[\"publish\"],\"filter\":\"power/#\",";
    assert!(first.body.contains(rule) && first.body.ends_with("\"next\":\"1\"}\n"), "{}", first.body);
    let second = ask("?role=meters&after=1").expect(200);
    assert!(
        second.body.contains("\"rules\":[{\"number\":2,") && second.body.contains("\"next\":null"),
        "{}",
        second.body
    );
    assert!(ask("?role=other").expect(200).body.contains("\"rules\":[],"));
    for wrong in ["?after=x", "?limit=0", "?colour=red"] {
        ask(wrong).expect(400);
    }
    let open = World::new(1, "", &[]);
    let answer = admin(open.broker.admin_address(), "GET", "/v1/rules", "").expect(200);
    assert_eq!(answer.body, "{\"unrestricted\":true,\"total\":0,\"rules\":[],\"next\":null}\n");
}

/// Roles come from the rules as well as from authentication: docs/concepts/access-rules.md.
#[test]
fn a_client_is_shown_with_its_roles() {
    let rules = format!(
        "{RULES}\n[[role]]\nname = \"readers\"\nrules = []\n\n[[assign]]\neveryone = true\nroles = \"readers\"\n"
    );
    let folder = Folder::new(&[("access.toml", &rules)]);
    let file = format!("acl.file={}", folder.path().join("access.toml").display());
    let world = World::within(folder, 1, "", &[&file]);
    let _client = world.broker.connect(V5, "reader");
    let shown = admin(world.broker.admin_address(), "GET", "/v1/clients/reader", "").expect(200);
    assert!(shown.body.contains("\"roles\":[\"readers\"]"), "{}", shown.body);
}

fn explain(world: &World, body: &str) -> Answer {
    admin(world.broker.admin_address(), "POST", "/v1/explain", body)
}

#[test]
fn the_deciding_rule_is_named() {
    let folder = Folder::new(&[("access.toml", RULES)]);
    let file = format!("acl.file={}", folder.path().join("access.toml").display());
    let world = World::within(folder, 1, "", &[&file]);
    let yes = r#"{"client_id": "c", "user": "ann", "action": "publish", "topic": "power/3", "qos": 1, "retain": true}"#;
    let answer = explain(&world, yes).expect(200);
    for part in ["\"allowed\":true", "\"decision\":\"allowed\"", "access.toml\",\"line\":5,\"role\":\"meters\""] {
        assert!(answer.body.contains(part), "{part}: {}", answer.body);
    }
    let no = r##"{"client_id": "c", "user": "ann", "action": "subscribe", "filter": "#"}"##;
    let answer = explain(&world, no).expect(200);
    for part in ["\"allowed\":false", "\"decision\":\"denied_by_default\"", "\"rule\":null", "\"notes\":["] {
        assert!(answer.body.contains(part), "{part}: {}", answer.body);
    }
    let stranger = explain(&world, r#"{"client_id": "c", "action": "publish", "topic": "power/3"}"#).expect(200);
    assert!(stranger.body.contains("\"allowed\":false,\"decision\":\"denied_"), "{}", stranger.body);
    for wrong in [
        "{}",
        "[]",
        r#"{"client_id": "c"}"#,
        r#"{"client_id": "c", "action": "publish", "filter": "a"}"#,
        r##"{"client_id": "c", "action": "publish", "topic": "a/#"}"##,
        r#"{"client_id": "c", "action": "publish", "topic": "a", "qos": 3}"#,
        r#"{"client_id": "c", "action": "publish", "topic": "a", "colour": 3}"#,
        r#"{"client_id": "c", "action": "publish", "topic": "a", "listener": "nowhere"}"#,
        r#"{"client_id": "c", "action": "publish", "topic": "a", "claims": {"a": 1}}"#,
    ] {
        let answer = explain(&world, wrong).expect(422);
        assert!(answer.body.contains("\"code\":\"explain_value\""), "{wrong}: {answer:?}");
    }
    explain(&world, "{").expect(400);
}

#[test]
fn a_listener_lists_its_certificates() {
    let folder = Folder::new(&[]);
    let certificates = folder.path().join("tls");
    let make = |days: &str| {
        let mut command = Command::new(program());
        command
            .args(["cert", "--force", "--days", days, "--dir"])
            .arg(&certificates)
            .args(["broker.example", "192.0.2.7"]);
        assert!(command.output().expect("it runs").status.success());
    };
    make("10");
    let keys = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\n[[listener]]\nname = \"open\"\naddress = \"127.0.0.1:0\"\n[[listener]]\nname = \"tls\"\n\
         address = \"mqtts://127.0.0.1:0\"\n",
        certificates.join("server.pem"),
        certificates.join("server.key")
    );
    let world = World::within(folder, 1, &keys, &[]);
    let ends = || {
        let body = admin(world.broker.admin_address(), "GET", "/v1/listeners", "").expect(200).body;
        let (open, tls) = body.split_once("\"name\":\"tls\"").expect("there are both");
        assert!(open.contains("\"name\":\"open\"") && open.contains("\"tls\":null"), "{open}");
        assert!(tls.contains("{\"names\":[\"broker.example\",\"192.0.2.7\"],\"not_after_ms\":"), "{tls}");
        let (_, end) = tls.split_once("\"not_after_ms\":").expect("it has an end");
        end.split('}').next().and_then(|end| end.parse::<u64>().ok()).expect("a number")
    };
    let before = ends();
    make("20");
    assert_eq!(ends(), before, "the new certificate is not served yet");
    world.reload_again().expect(200);
    let later_days = (ends() - before) / 86_400_000;
    assert!((9..=10).contains(&later_days), "{later_days}");
}
