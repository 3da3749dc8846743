use tautwire_contracts::compare::{Effect, compare, effect};

use crate::load;

/// The differences as text, and their combined effect.
fn changes(keys: [&str; 2], schema: &str, texts: [&str; 2]) -> (Vec<String>, Effect) {
    let catalogues = [0, 1].map(|at| {
        let manifest = format!("[[contract]]\nname = 'c'\nschema = '{schema}'\n{}", keys[at]);
        load(&[("contracts.toml", &manifest), (schema, texts[at])])
            .unwrap_or_else(|errors| panic!("{}", errors.join("\n")))
    });
    let found = compare(&catalogues[0], &catalogues[1]);
    (found.iter().map(ToString::to_string).collect(), effect(&found))
}

fn proto(old: &str, new: &str, formats: &str) -> (Vec<String>, Effect) {
    let keys = format!("topics = 't'\nmessage = 'M'\nformat = {formats}\n");
    let texts = [old, new].map(|body| format!("syntax = \"proto2\";\n{body}"));
    changes([&keys; 2], "s.proto", [&texts[0], &texts[1]])
}

#[test]
fn incompatible_changes_of_a_message_name_the_affected_clients() {
    let m = |fields: &str| format!("message M {{ {fields} }}");
    for (old, new, formats, expected, verdict) in [
        ("optional int32 a = 1;", "optional int32 a = 1;", "'protobuf'", "", Effect::None),
        ("", "optional int32 a = 1;", "'protobuf'", "c: a: was added [compatible]", Effect::None),
        ("optional int32 a = 1;", "", "'protobuf'", "c: a: was removed [compatible]", Effect::None),
        ("", "required int32 a = 1;", "'protobuf'", "c: a: was added and is required [forward]", Effect::OldWriters),
        (
            "required int32 a = 1;",
            "",
            "'protobuf'",
            "c: a: was removed, and old readers require it [backward]",
            Effect::OldReaders,
        ),
        (
            "required int32 a = 1;",
            "optional int32 a = 1;",
            "'protobuf'",
            "c: a: is optional now [backward]",
            Effect::OldReaders,
        ),
        (
            "optional int32 a = 1;",
            "required int32 a = 1;",
            "'protobuf'",
            "c: a: is required now [forward]",
            Effect::OldWriters,
        ),
        (
            "optional int32 a = 1;",
            "optional int64 a = 1;",
            "'protobuf'",
            "c: a: was int32, is int64 [backward]",
            Effect::OldReaders,
        ),
        (
            "optional int64 a = 1;",
            "optional int32 a = 1;",
            "'protobuf'",
            "c: a: was int64, is int32 [forward]",
            Effect::OldWriters,
        ),
        (
            "optional int32 a = 1;",
            "optional string a = 1;",
            "'protobuf'",
            "c: a: was int32, is a string [breaking]",
            Effect::Both,
        ),
        (
            "optional int32 a = 1;",
            "optional int64 a = 1;",
            "'json'",
            "c: a: was int32, is int64 [breaking]",
            Effect::Both,
        ),
        (
            "optional string a = 1;",
            "optional bytes a = 1;",
            "'protobuf'",
            "c: a: was a string, is bytes [backward]",
            Effect::OldReaders,
        ),
        (
            "optional int32 a = 1;",
            "optional int32 b = 1;",
            "'protobuf'",
            "c: a: was renamed to b [compatible]",
            Effect::None,
        ),
        ("optional int32 a = 1;", "optional int32 b = 1;", "'json'", "c: a: was renamed to b [breaking]", Effect::Both),
        (
            "optional int32 a = 1;",
            "optional int32 a = 2;",
            "'protobuf'",
            "c: a: no longer has the number 1 [breaking]",
            Effect::Both,
        ),
        (
            "optional int32 a = 1;",
            "repeated int32 a = 1;",
            "'protobuf'",
            "c: a: was a single value, is a list [compatible]",
            Effect::None,
        ),
        (
            "optional int32 a = 1;",
            "repeated int32 a = 1;",
            "'json'",
            "c: a: was a single value, is a list [breaking]",
            Effect::Both,
        ),
        (
            "optional int32 a = 1;",
            "oneof o { int32 a = 1; }",
            "'protobuf'",
            "c: a: was moved into or out of a oneof: setting one of its fields clears the others [breaking]",
            Effect::Both,
        ),
    ] {
        let (differences, effect) = proto(&m(old), &m(new), formats);
        assert_eq!((differences.join("; ").as_str(), effect), (expected, verdict), "{old} {new} {formats}");
    }
}

#[test]
fn changes_are_found_in_nested_messages_and_enumerations() {
    let text = |inner: &str, values: &str| {
        format!(
            "message M {{ optional M again = 1; optional I inner = 2; optional E e = 3; }} message I {{ {inner} }} enum E {{ {values} }}"
        )
    };
    let (differences, _) =
        proto(&text("optional int32 a = 1;", "A = 0;"), &text("optional bool a = 1;", "A = 0;"), "'protobuf'");
    assert_eq!(differences, ["c: inner.a: was int32, is bool [breaking]"]);
    // A closed enumeration rejects new values.
    let (differences, _) = proto(&text("", "A = 0;"), &text("", "A = 0; B = 1;"), "'protobuf'");
    assert_eq!(differences, ["c: e: the value B was added [backward]"]);
    let (differences, _) = proto(&text("", "A = 0; B = 1;"), &text("", "A = 0;"), "'protobuf'");
    assert_eq!(differences, ["c: e: the value B was removed [forward]"]);
    let (differences, _) = proto(&text("", "A = 0;"), &text("", "C = 0;"), "'json'");
    assert_eq!(differences, ["c: e: the value A was renamed to C [breaking]"]);
}

#[test]
fn incompatible_changes_of_a_json_schema_name_the_affected_clients() {
    let keys = ["topics = 't'\nformat = 'json'\n"; 2];
    for (old, new, expected, verdict) in [
        (r#"{"type":"string"}"#, r#"{"type":"string"}"#, "", Effect::None),
        (r#"{"type":"string"}"#, r#"{"type":["string","null"]}"#, "c: may be null now [backward]", Effect::OldReaders),
        (
            r#"{"type":["string","null"]}"#,
            r#"{"type":"string"}"#,
            "c: may no longer be null [forward]",
            Effect::OldWriters,
        ),
        (r#"{"maxLength":5}"#, r#"{"maxLength":4}"#, "c: maxLength is stricter [forward]", Effect::OldWriters),
        (r#"{"maxLength":5}"#, r#"{"maxLength":6}"#, "c: maxLength is looser [backward]", Effect::OldReaders),
        (r#"{"minimum":5}"#, "{}", "c: minimum is looser [backward]", Effect::OldReaders),
        ("{}", r#"{"minimum":5}"#, "c: minimum is stricter [forward]", Effect::OldWriters),
        (r#"{"pattern":"a"}"#, r#"{"pattern":"b"}"#, "c: pattern has changed [breaking]", Effect::Both),
        (r#"{"enum":[1,2]}"#, r#"{"enum":[1]}"#, "c: enum is stricter [forward]", Effect::OldWriters),
        (r#"{"enum":[1]}"#, r#"{"enum":[1,2]}"#, "c: enum is looser [backward]", Effect::OldReaders),
        (r#"{"enum":[1]}"#, r#"{"enum":[2]}"#, "c: enum has changed [breaking]", Effect::Both),
        (r#"{"properties":{"a":{}}}"#, r#"{"properties":{}}"#, "c: a: was removed [compatible]", Effect::None),
        (r#"{"properties":{}}"#, r#"{"properties":{"a":{}}}"#, "c: a: was added [compatible]", Effect::None),
        (
            r#"{"properties":{"a":{}}}"#,
            r#"{"properties":{"a":{}},"required":["a"]}"#,
            "c: a: is required now [forward]",
            Effect::OldWriters,
        ),
        (
            r#"{"properties":{},"additionalProperties":false}"#,
            r#"{"properties":{"a":{}},"additionalProperties":false}"#,
            "c: a: was added [backward]",
            Effect::OldReaders,
        ),
        (
            r#"{"properties":{}}"#,
            r#"{"properties":{},"additionalProperties":false}"#,
            "c: additional properties are rejected now [forward]",
            Effect::OldWriters,
        ),
        (
            r#"{"items":{"minimum":1}}"#,
            r#"{"items":{"minimum":2}}"#,
            "c: []: minimum is stricter [forward]",
            Effect::OldWriters,
        ),
    ] {
        let (differences, effect) = changes(keys, "s.json", [old, new]);
        assert_eq!((differences.join("; ").as_str(), effect), (expected, verdict), "{old} {new}");
    }
}

#[test]
fn changes_of_the_contract_are_reported() {
    let texts = ["syntax = \"proto3\";\nmessage M { string id = 1; }\n"; 2];
    let keys = "message = 'M'\ntopics = 't/{id}'\nformat = ['protobuf', 'json']\n";
    for (old, new, expected) in [
        (
            "on_violation = 'observe'\n",
            "on_violation = 'reject'\n",
            "c: on_violation: was observe, is reject [forward]",
        ),
        ("on_violation = 'observe'\n", "", "c: on_violation: was observe, is reject [forward]"),
        (
            "on_violation = 'reject'\n",
            "on_violation = 'quarantine'\n",
            "c: on_violation: was reject, is quarantine [compatible]",
        ),
        ("", "unknown_fields = 'reject'\n", "c: unknown_fields: unknown fields are rejected now [forward]"),
        ("unknown_fields = 'reject'\n", "", "c: unknown_fields: unknown fields are allowed now [backward]"),
        ("", "topic_fields = { id = 'id' }\n", "c: topic_fields: id is tied to id now [forward]"),
        ("topic_fields = { id = 'id' }\n", "", "c: topic_fields: id is no longer tied to id [backward]"),
    ] {
        let (differences, _) = changes([&(keys.to_owned() + old), &(keys.to_owned() + new)], "s.proto", texts);
        assert_eq!(differences, [expected]);
    }
    for (to, expected) in [
        (keys.replace("{id}", "{device}"), "c: topics: was t/{id}, is t/{device} [compatible]"),
        (keys.replace("t/{id}", "u"), "c: topics: was t/{id}, is u [breaking]"),
        (keys.replace(", 'json'", ""), "c: format: json was removed [forward]"),
        (keys.replace(", 'json'", ", 'json', 'messagepack'"), "c: format: messagepack was added [backward]"),
        (
            keys.replace("'protobuf', 'json'", "'json', 'protobuf'"),
            "c: format: the first format, which is the default, has changed [breaking]",
        ),
    ] {
        assert_eq!(changes([keys, &to], "s.proto", texts).0, [expected]);
    }
    let none = load(&[]).expect("nothing is right");
    let manifest = format!("[[contract]]\nname = 'c'\nschema = 's.proto'\n{keys}");
    let one = load(&[("contracts.toml", &manifest), ("s.proto", texts[0])]).expect("valid");
    assert_eq!(compare(&none, &one)[0].effect, Effect::OldWriters);
    assert_eq!(compare(&one, &none)[0].effect, Effect::OldReaders);
    assert_eq!(
        [Effect::None, Effect::OldReaders, Effect::OldWriters, Effect::Both].map(Effect::verdict),
        ["compatible", "backward", "forward", "breaking"]
    );
}
