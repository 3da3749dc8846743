//! An `acl_file` and its converted rules.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tautwire_access::import::mosquitto_acl;
use tautwire_access::{Policy, Subject};
use tautwire_protocol::{QoS, topic_matches};

#[derive(Debug, Clone)]
enum Line {
    User(&'static str),
    Topic(&'static str, String),
    Pattern(&'static str, String),
}

fn topic(levels: &'static [&'static str]) -> impl Strategy<Value = String> {
    (vec(select(levels), 1..=3), any::<bool>()).prop_map(|(mut levels, below)| {
        if below {
            levels.push("#");
        }
        levels.join("/")
    })
}

fn line() -> impl Strategy<Value = Line> {
    let access = || select(&["", "read ", "write ", "readwrite ", "deny "][..]);
    prop_oneof![
        1 => select(&["ann", "bob"][..]).prop_map(Line::User),
        3 => (access(), topic(&["a", "b", "$a", "+"])).prop_map(|(access, topic)| Line::Topic(access, topic)),
        2 => (access(), topic(&["a", "b", "$a", "+", "%c", "%u"])).prop_map(|(access, topic)| Line::Pattern(access, topic)),
    ]
}

/// As Mosquitto does it: the user's lines, then the patterns; in both, deny lines first.
fn is_allowed(lines: &[Line], user: Option<&str>, client_id: &str, topic: &str, writes: bool) -> bool {
    let mut current = None;
    let mut own = Vec::new();
    let mut patterns = Vec::new();
    for line in lines {
        match line {
            Line::User(name) => current = Some(*name),
            Line::Topic(access, filter) if current == user => own.push((*access, filter.clone())),
            Line::Topic(..) => {}
            Line::Pattern(access, filter) => {
                let value = |level: &str| match level {
                    "%c" => Some(client_id.to_owned()),
                    "%u" => user.map(str::to_owned),
                    other => Some(other.to_owned()),
                };
                let levels: Option<Vec<String>> = filter.split('/').map(value).collect();
                patterns.extend(levels.map(|levels| (*access, levels.join("/"))));
            }
        }
    }
    for entries in [own, patterns] {
        let matching = || entries.iter().filter(|(_, filter)| topic_matches(filter, topic));
        if matching().any(|(access, _)| *access == "deny ") {
            return false;
        }
        let wanted = if writes { "write " } else { "read " };
        if matching().any(|(access, _)| matches!(*access, "" | "readwrite ") || *access == wanted) {
            return true;
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn an_imported_file_has_the_same_meaning(
        lines in vec(line(), 1..12),
        user in option::of(select(&["ann", "bob", "eve"][..])),
        client_id in select(&["a", "c"][..]),
    ) {
        let text: String = lines.iter().map(|line| match line {
            Line::User(name) => format!("user {name}\n"),
            Line::Topic(access, topic) => format!("topic {access}{topic}\n"),
            Line::Pattern(access, topic) => format!("pattern {access}{topic}\n"),
        }).collect();
        let imported = mosquitto_acl(&text);
        prop_assert!(imported.notes.is_empty());
        if lines.iter().all(|line| matches!(line, Line::User(_))) {
            return Ok(());
        }
        let policy = Arc::new(Policy::parse("access.toml", &imported.text).expect("a valid file"));
        let subject = Subject { client_id, user, listener: "tls", claims: &[], roles: &[] };
        let permissions = policy.resolve(&subject);
        // Without a user name, Mosquitto skips deny patterns with %u; the converted rule denies every level there.
        let may_deny_more = user.is_none()
            && lines.iter().any(|line| matches!(line, Line::Pattern("deny ", topic) if topic.contains("%u")));
        for topic in ["a", "b", "$a", "a/a", "a/c", "c/a", "a/ann", "ann", "$a/b", "a/b/c", "b/ann/c", "a/b/c/a"] {
            for (found, writes) in [
                (permissions.may_publish(topic, QoS::AtLeastOnce, false), true),
                (permissions.may_receive(topic, QoS::AtLeastOnce, false), false),
            ] {
                let expected = is_allowed(&lines, user, client_id, topic, writes);
                let is_right = found.is_allowed() == expected || expected && may_deny_more;
                prop_assert!(is_right, "{} writes {} {:?}\n{}", topic, writes, found, imported.text);
            }
        }
    }
}
