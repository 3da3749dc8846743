use tautwire_contracts::{Format, Rule};

use crate::contract;

const SCHEMA: (&str, &str) = (
    "s.proto",
    "syntax = \"proto3\";\nmessage M { string id = 1; Inner inner = 2; uint64 number = 3; sint32 zigzag = 4; bool on = 5; Kind kind = 6;\n\
     fixed32 fixed = 7; oneof o { string either = 8; string or = 9; } sfixed64 wide = 10; int32 small = 11; }\n\
     message Inner { string id = 1; int64 n = 2; string note = 3; }\n\
     enum Kind { NONE = 0; LAMP = 1; DOOR = 2; PORTAL = -3; }\n",
);

/// Whether a payload given as JSON matches the level, in all three formats.
fn fits(field: &str, level: &str, json: &str) -> bool {
    let keys = format!(
        "topics = 't/{{level}}/x'\nformat = ['json', 'protobuf', 'messagepack']\nmessage = 'M'\ntopic_fields = {{ level = '{field}' }}"
    );
    let contract = contract(&keys, SCHEMA);
    let topic = format!("t/{level}/x");
    let verdicts = [Format::Json, Format::Protobuf, Format::MessagePack].map(|format| {
        let mut payload = json.as_bytes().to_vec();
        if format != Format::Json {
            payload.clear();
            contract.transcode(Format::Json, format, json.as_bytes(), &mut payload, usize::MAX).expect("valid");
        }
        match contract.check(&topic, Some(format.content_type()), &payload) {
            Ok(_) => true,
            Err(violation) => {
                assert_eq!((violation.rule, violation.path().as_str()), (Rule::TopicFieldMismatch, field), "{json}");
                false
            }
        }
    });
    assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]), "{field} {level} {json}: {verdicts:?}");
    verdicts[0]
}

#[test]
fn a_bound_level_and_field_must_match_in_every_format() {
    for (field, level, json, same) in [
        ("id", "a", r#"{"id":"a"}"#, true),
        ("id", "a", r#"{"id":"b"}"#, false),
        ("id", "é\"", r#"{"id":"\u00e9\""}"#, true),
        ("id", "a", "{}", false),
        ("id", "", "{}", true),
        ("id", "a", r#"{"small":1,"inner":{"id":"x"},"id":"a"}"#, true),
        ("number", "7", r#"{"number":"7"}"#, true),
        ("number", "7", r#"{"number":7}"#, true),
        ("number", "18446744073709551615", r#"{"number":"18446744073709551615"}"#, true),
        ("number", "0", "{}", true),
        ("number", "8", r#"{"number":7}"#, false),
        ("zigzag", "-7", r#"{"zigzag":-7}"#, true),
        ("fixed", "4294967295", r#"{"fixed":4294967295}"#, true),
        ("wide", "-9223372036854775808", r#"{"wide":"-9223372036854775808"}"#, true),
        ("small", "-1", r#"{"small":-1}"#, true),
        ("small", "100", r#"{"small":1e2}"#, true),
        ("on", "true", r#"{"on":true}"#, true),
        ("on", "false", "{}", true),
        ("on", "1", r#"{"on":true}"#, false),
        ("kind", "LAMP", r#"{"kind":"LAMP"}"#, true),
        ("kind", "1", r#"{"kind":"LAMP"}"#, true),
        ("kind", "DOOR", r#"{"kind":2}"#, true),
        ("kind", "-3", r#"{"kind":"PORTAL"}"#, true),
        ("kind", "NONE", "{}", true),
        ("kind", "DOOR", r#"{"kind":"LAMP"}"#, false),
        ("kind", "9", r#"{"kind":9}"#, true),
        ("inner.id", "a", r#"{"inner":{"id":"a"}}"#, true),
        ("inner.id", "a", r#"{"inner":{"note":"x","id":"b"}}"#, false),
        ("inner.n", "5", r#"{"inner":{"id":"x","n":5}}"#, true),
        ("inner.n", "0", r#"{"inner":{}}"#, true),
        ("inner.n", "0", "{}", false),
        ("either", "a", r#"{"either":"a"}"#, true),
        ("either", "a", r#"{"or":"a"}"#, false),
    ] {
        assert_eq!(fits(field, level, json), same, "{field} {level} {json}");
    }
}

#[test]
fn duplicate_fields_count_as_readers_count_them() {
    let check = |field: &str, level: &str, payload: &[u8]| {
        let keys = format!(
            "topics = 't/{{level}}'\nformat = 'protobuf'\nmessage = 'M'\ntopic_fields = {{ level = '{field}' }}"
        );
        contract(&keys, SCHEMA).check(&format!("t/{level}"), None, payload).is_ok()
    };
    // The last value wins.
    assert!(check("id", "b", b"\x0a\x01a\x0a\x01b"));
    assert!(!check("id", "a", b"\x0a\x01a\x0a\x01b"));
    // The parts of a message are merged.
    assert!(check("inner.id", "a", b"\x12\x03\x0a\x01a\x12\x03\x1a\x01x"));
    assert!(!check("inner.id", "", b"\x12\x03\x0a\x01a\x12\x03\x1a\x01x"));
    assert!(check("inner.id", "b", b"\x12\x03\x0a\x01a\x12\x03\x0a\x01b"));
    // A later field of a oneof clears the earlier ones.
    assert!(!check("either", "a", b"\x42\x01a\x4a\x01b"));
    assert!(check("either", "a", b"\x4a\x01b\x42\x01a"));
}

#[test]
fn json_schema_properties_can_be_bound() {
    let contract = contract(
        "topics = 't/{level}'\nformat = ['json', 'messagepack']\ntopic_fields = { level = 'a.b' }",
        ("s.json", r#"{"type":"object"}"#),
    );
    for (level, json, same) in [
        ("x", r#"{"a":{"b":"x"}}"#, true),
        ("7", r#"{"q":[1,{}],"a":{"c":{},"b":7}}"#, true),
        ("7", r#"{"a":{"b":7.0}}"#, true),
        ("true", r#"{"a":{"b":true}}"#, true),
        ("x", r#"{"a":{"b":"y"}}"#, false),
        ("x", r#"{"a":"x"}"#, false),
        ("x", "{}", false),
        ("", r#"{"a":{"b":null}}"#, false),
    ] {
        let topic = format!("t/{level}");
        let ours = contract.check(&topic, Some("application/json"), json.as_bytes());
        assert_eq!(ours.is_ok(), same, "{level} {json}");
        let mut pack = Vec::new();
        contract
            .transcode(Format::Json, Format::MessagePack, json.as_bytes(), &mut pack, usize::MAX)
            .expect("it is JSON");
        assert_eq!(contract.check(&topic, Some("application/msgpack"), &pack).is_ok(), same, "{level} {json}");
    }
}

#[test]
fn fields_that_cannot_be_compared_are_refused() {
    for (field, wanted) in [
        ("inner", "only strings, integers, booleans and enumerations"),
        ("id.x", "x is not inside a message"),
        ("inner.x", "Inner has no field x"),
        ("d", "only strings, integers, booleans and enumerations"),
        ("list", "list has more than one value"),
        ("map", "map has more than one value"),
    ] {
        let manifest = format!(
            "[[contract]]\nname = 'c'\ntopics = 't/{{level}}'\nformat = 'json'\nschema = 's.proto'\nmessage = 'M'\ntopic_fields = {{ level = '{field}' }}\n"
        );
        let schema = "syntax = \"proto3\";\nmessage M { string id = 1; Inner inner = 2; double d = 3; repeated string list = 4; map<string, string> map = 5; }\n\
                      message Inner { string id = 1; }\n";
        let said = crate::errors(&[("contracts.toml", &manifest), ("s.proto", schema)]);
        assert!(said.contains(wanted), "{field}\n{said}");
    }
}
