//! Conversion of Mosquitto files.

use std::sync::Arc;

use tautwire_access::import::mosquitto_acl;
use tautwire_access::{Policy, Subject};
use tautwire_protocol::QoS;

#[test]
fn an_acl_file_becomes_a_rule_file() {
    let acl = "\
# This affects access control for clients with no username.
topic read $SYS/#

# This only affects clients with username \"roger\".
user roger
topic foo/bar
topic   read  with space/#
topic deny foo/secret/#
topic readwrite foo/#

# This affects all clients.
pattern write $SYS/broker/connection/%c/state
pattern read users/%u/#
";
    let imported = mosquitto_acl(acl);
    assert_eq!(imported.notes, []);
    let rules: Vec<&str> = imported.text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert_eq!(
        rules.join("\n"),
        r##"[[role]]
name = "anonymous"
rules = [
    { allow = "subscribe", topics = "$SYS/#" },
]
[[role]]
name = "user roger"
rules = [
    { deny = ["publish", "subscribe"], topics = "foo/secret/#" },
    { allow = ["publish", "subscribe"], topics = "foo/bar" },
    { allow = "subscribe", topics = "with space/#" },
    { allow = ["publish", "subscribe"], topics = "foo/#" },
]
[[role]]
name = "patterns"
rules = [
    { allow = "publish", topics = "$SYS/broker/connection/{client_id}/state" },
    { allow = "subscribe", topics = "users/{user}/#" },
]
[[assign]]
anonymous = true
roles = "anonymous"
[[assign]]
everyone = true
roles = "patterns"
[users]
"roger" = "user roger""##
    );
    assert!(Policy::parse("access.toml", &imported.text).is_ok());
}

#[test]
fn rules_without_a_counterpart_are_reported_and_grant_nothing_more() {
    let acl = "\
topic publish a
topic read {braces}/a
topic deny {braces}/b
pattern read dev-%c/#
pattern deny x/dev-%c/#
pattern write x/#
topic read $share/g/a
topic write a/#/b
acl a
user
topic read ok
";
    let imported = mosquitto_acl(acl);
    let lines: Vec<usize> = imported.notes.iter().map(|note| note.line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5, 7, 8, 9, 10], "{:?}", imported.notes);
    for note in &imported.notes {
        assert!(
            imported.text.contains(&format!("# line {}: {}", note.line, note.message)),
            "{note:?}\n{}",
            imported.text
        );
    }
    let policy = Arc::new(Policy::parse("access.toml", &imported.text).expect("a valid file"));
    let permissions = policy.resolve(&Subject { client_id: "1", user: None, listener: "", claims: &[], roles: &[] });
    let publishes = |topic| permissions.may_publish(topic, QoS::AtMostOnce, false).is_allowed();
    let receives = |topic| permissions.may_receive(topic, QoS::AtMostOnce, false).is_allowed();
    assert!(publishes("x") && receives("ok"));
    assert!(!publishes("x/dev-1/a") && !publishes("x/other/a"), "denied by a wider rule");
    assert!(!receives("dev-1/a") && !receives("{braces}/a") && !receives("a"));
}

#[test]
fn no_text_of_an_imported_file_escapes_its_string() {
    let acl = "user a\" = 1\n[x]\\\ntopic read b\"\\/c\nuser roger\u{7}\ntopic read a\nnonsense\u{b} \"]\n";
    let imported = mosquitto_acl(acl);
    let policy = Arc::new(Policy::parse("access.toml", &imported.text).expect("a valid file"));
    assert_eq!((policy.role_count(), policy.user_count()), (2, 2));
    let subject = Subject { client_id: "c", user: Some("a\" = 1"), listener: "", claims: &[], roles: &[] };
    assert!(policy.resolve(&subject).may_receive("b\"\\/c", QoS::AtMostOnce, false).is_allowed());
}
