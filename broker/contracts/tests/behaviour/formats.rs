use tautwire_contracts::{Format, Rule};

use crate::contract;

const SCHEMA: (&str, &str) =
    ("s.proto", "syntax = \"proto3\";\nmessage M { string id = 1; repeated M items = 2; int32 n = 3; }\n");

#[test]
fn a_content_type_that_names_a_format_selects_it() {
    let both = contract("topics = 't'\nformat = ['protobuf', 'json']\nmessage = 'M'", SCHEMA);
    let json = br#"{"id":"a"}"#;
    for name in ["application/json", "Application/JSON", "application/json; charset=utf-8", "text/json"] {
        assert_eq!(both.check("t", Some(name), json), Ok(Format::Json), "{name}");
    }
    let violation = both.check("t", Some("application/msgpack"), b"\x80").expect_err("invalid");
    assert_eq!(violation.rule, Rule::Format);
    assert_eq!(violation.expected(), "application/x-protobuf or application/json");
    assert_eq!(violation.found(), "application/msgpack");
    assert!(both.check("t", Some("application/x-protobuf"), json).is_err());
    assert!(both.check("t", Some("application/json"), b"\x0a\x01a").is_err());
}

#[test]
fn without_a_content_type_the_first_matching_format_is_used() {
    let both = contract("topics = 't'\nformat = ['protobuf', 'json']\nmessage = 'M'", SCHEMA);
    for content_type in [None, Some("application/octet-stream"), Some("")] {
        assert_eq!(both.check("t", content_type, b"\x0a\x01a"), Ok(Format::Protobuf));
        assert_eq!(both.check("t", content_type, br#"{"id":"a"}"#), Ok(Format::Json));
        assert_eq!(both.check("t", content_type, b""), Ok(Format::Protobuf));
        // The violation is that of the first format, unless the payload is understood further in another.
        let violation = both.check("t", content_type, br#"{"id":1}"#).expect_err("a number");
        assert_eq!((violation.rule, violation.path().as_str()), (Rule::Type, "id"));
        let violation = both.check("t", content_type, b"\x0a\x09a").expect_err("truncated");
        assert_eq!((violation.rule, violation.path().as_str()), (Rule::Malformed, "id"));
    }
}

#[test]
fn a_violation_has_a_location_and_the_expected_and_actual_values() {
    let json = contract("topics = 't'\nformat = ['json', 'protobuf', 'messagepack']\nmessage = 'M'", SCHEMA);
    let violation = json.check("t", None, br#"{"items":[{},{"items":[{"n":"secret"}]}]}"#).expect_err("invalid");
    let message = violation.to_string();
    assert_eq!(message, "items[1].items[0].n: expected int32, found a string that is not a number at byte 36 [type]");
    let violation = json.check("t", Some("application/x-protobuf"), b"\x12\x00\x12\x02\x1d\x00").expect_err("invalid");
    assert_eq!(violation.path(), "items[1].n");
    let violation = json.check("t", Some("application/msgpack"), b"\x81\xa1n\xa1x").expect_err("invalid");
    assert_eq!(violation.to_string(), "n: expected int32, found a string at byte 5 [type]");
}

#[test]
fn a_strict_contract_refuses_unknown_fields_and_values() {
    const SCHEMA: (&str, &str) =
        ("s.proto", "syntax = \"proto3\";\nmessage M { E e = 1; repeated E es = 2; }\nenum E { A = 0; B = 1; }\n");
    let formats = "topics = 't'\nformat = ['json', 'protobuf', 'messagepack']\nmessage = 'M'";
    let open = contract(formats, SCHEMA);
    let closed = contract(&format!("{formats}\nunknown_fields = 'reject'"), SCHEMA);
    for (content_type, payload, path, rule) in [
        ("application/x-protobuf", &b"\x08\x05"[..], "e", Rule::Enumeration),
        ("application/x-protobuf", b"\x12\x02\x01\x05", "es[0]", Rule::Enumeration),
        ("application/x-protobuf", b"\x18\x05", "#3", Rule::UnknownField),
        ("application/json", br#"{"e":5}"#, "e", Rule::Enumeration),
        ("application/json", br#"{"x":[{}]}"#, "", Rule::UnknownField),
        ("application/msgpack", b"\x81\xa1e\x05", "e", Rule::Enumeration),
        ("application/msgpack", b"\x81\xa1x\x91\x80", "", Rule::UnknownField),
    ] {
        assert!(open.check("t", Some(content_type), payload).is_ok(), "{content_type} {payload:02x?}");
        let violation = closed.check("t", Some(content_type), payload).expect_err("it is unknown");
        assert_eq!((violation.path().as_str(), violation.rule), (path, rule), "{violation}");
    }
}

#[test]
fn payloads_nested_too_deep_are_refused_in_every_format() {
    let any = contract("topics = 't'\nformat = ['json', 'protobuf', 'messagepack']\nmessage = 'M'", SCHEMA);
    let json = |depth: usize| "{\"items\":[".repeat(depth) + &"]}".repeat(depth);
    let pack = |depth: usize| {
        let mut payload = b"\x81\xa5items\x91".repeat(depth);
        payload.push(0x80);
        payload
    };
    let check = |content_type, payload: &[u8]| any.check("t", Some(content_type), payload).map_err(|error| error.rule);
    assert_eq!(check("application/json", json(99).as_bytes()), Ok(Format::Json));
    assert_eq!(check("application/msgpack", &pack(99)), Ok(Format::MessagePack));
    for depth in [101, 50_000] {
        assert_eq!(check("application/json", json(depth).as_bytes()), Err(Rule::Depth));
        assert_eq!(check("application/msgpack", &pack(depth)), Err(Rule::Depth));
    }
    // Also for skipped values.
    assert_eq!(check("application/json", ("{\"x\":".to_owned() + &"[".repeat(100_000)).as_bytes()), Err(Rule::Depth));
    let mut unknown = b"\x81\xa1x".to_vec();
    unknown.extend([0x91; 100_000]);
    assert_eq!(check("application/msgpack", &unknown), Err(Rule::Depth));
    // Impossible lengths do not allocate.
    assert_eq!(check("application/msgpack", b"\x81\xa5items\xdd\xff\xff\xff\xff"), Err(Rule::Malformed));
    assert_eq!(check("application/msgpack", b"\xdf\xff\xff\xff\xff"), Err(Rule::Malformed));
    assert_eq!(check("application/msgpack", b"\x81\xa2id\xdb\xff\xff\xff\xff"), Err(Rule::Malformed));
    assert_eq!(check("application/x-protobuf", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Err(Rule::Malformed));
}

#[test]
fn a_failed_transcoding_produces_no_output() {
    const SCHEMA: (&str, &str) = (
        "s.proto",
        "syntax = \"proto3\";\nimport \"google/protobuf/timestamp.proto\";\nimport \"google/protobuf/struct.proto\";\n\
         message M { string id = 1; google.protobuf.Timestamp at = 2; google.protobuf.Value any = 3; }\n",
    );
    let contract = contract("topics = 't'\nformat = ['protobuf', 'json']\nmessage = 'M'", SCHEMA);
    let mut out = b"before".to_vec();
    for (payload, path) in [
        (&b"\x0a\x01a\x12\x0a\x10\x80\x94\xeb\xdc\x03"[..], "at"),
        (b"\x0a\x01a\x1a\x00", "any"),
        (b"\x0a\x01a\x1a\x09\x11\x00\x00\x00\x00\x00\x00\xf8\x7f", "any"),
    ] {
        let payload = if path == "at" { &b"\x0a\x01a\x12\x06\x10\x80\x94\xeb\xdc\x03"[..] } else { payload };
        assert_eq!(contract.check("t", None, payload), Ok(Format::Protobuf), "{path}");
        for to in [Format::Json, Format::MessagePack] {
            let violation =
                contract.transcode(Format::Protobuf, to, payload, &mut out, usize::MAX).expect_err("it has none");
            assert_eq!(violation.path(), path);
            assert_eq!(out, b"before");
        }
    }
    assert!(contract.can_transcode_to(Format::MessagePack));
    let schema = crate::contract("topics = 't'\nformat = 'json'", ("s.json", "true"));
    assert!(!schema.can_transcode_to(Format::Protobuf));
    assert!(schema.transcode(Format::Json, Format::Protobuf, b"1", &mut out, usize::MAX).is_err());
    assert_eq!(out, b"before");
}

/// Each item is a byte in the binary form and a string of 34 characters in the others.
const WIDE: (&str, &str) = (
    "s.proto",
    "syntax = \"proto3\";\n\
     enum State { A_NAME_OF_THIRTY_FOUR_CHARACTERS_A = 0; A_NAME_OF_THIRTY_FOUR_CHARACTERS_B = 1; }\n\
     message Empty {}\n\
     message M { repeated State states = 1; repeated Empty nothings = 2; map<string, string> texts = 3; bytes raw = 4; }\n",
);

#[test]
fn a_transcoding_respects_the_size_limit() {
    const ITEMS: usize = 1 << 20;
    const LIMIT_BYTES: usize = 64 << 10;
    let contract = contract("topics = 't'\nformat = ['protobuf', 'json', 'messagepack']\nmessage = 'M'", WIDE);
    let packed = [&b"\x0a\x80\x80\x40"[..], &vec![1; ITEMS]].concat();
    let nothings = b"\x12\x00".repeat(ITEMS);
    let escaped = [&b"\x1a\x89\x80\x40\x0a\x01k\x12\x82\x80\x40"[..], &vec![7; ITEMS + 2]].concat();
    for payload in [packed, nothings, escaped] {
        assert_eq!(contract.check("t", None, &payload), Ok(Format::Protobuf));
        for to in [Format::Json, Format::MessagePack] {
            let mut out = Vec::new();
            let outcome = contract.transcode(Format::Protobuf, to, &payload, &mut out, LIMIT_BYTES);
            assert_eq!(outcome.map_err(|violation| violation.rule), Err(Rule::TooLarge), "{}", to.name());
            assert!(out.is_empty());
            // The length of text without escapes is not computed in advance, and not longer than the payload.
            let most = if to == Format::Json { 4 * LIMIT_BYTES } else { 4 * payload.len() };
            assert!(out.capacity() < most, "{} bytes were taken for {}", out.capacity(), to.name());
        }
    }
}

#[test]
fn a_transcoding_of_exactly_the_size_limit_succeeds() {
    let both = contract("topics = 't'\nformat = ['protobuf', 'json', 'messagepack']\nmessage = 'M'", WIDE);
    let schema = crate::contract("topics = 't'\nformat = ['json', 'messagepack']", ("s.json", "true"));
    let long = format!("\"{}\"", "\\u0001".repeat(5_000));
    let json =
        r#"{"states":["A_NAME_OF_THIRTY_FOUR_CHARACTERS_B",1,1],"nothings":[{}],"texts":{"a":"b"},"raw":"AAAA"}"#;
    let cases = [(&both, json), (&schema, json), (&schema, "[1,[],[[{}]],null]"), (&schema, &long), (&schema, "1")];
    for (contract, json) in cases {
        for from in [Format::Json, Format::MessagePack, Format::Protobuf] {
            let mut payload = Vec::new();
            if contract.transcode(Format::Json, from, json.as_bytes(), &mut payload, usize::MAX).is_err() {
                continue;
            }
            for to in [Format::Json, Format::MessagePack, Format::Protobuf] {
                let mut form = Vec::new();
                if contract.transcode(from, to, &payload, &mut form, usize::MAX).is_err() {
                    continue;
                }
                let mut out = b"before".to_vec();
                contract.transcode(from, to, &payload, &mut out, form.len()).expect("it fits");
                assert_eq!(out[6..], form);
                let outcome = contract.transcode(from, to, &payload, &mut out, form.len() - 1);
                assert_eq!(outcome.map_err(|violation| violation.rule), Err(Rule::TooLarge));
                assert_eq!(out[6..], form, "the output is truncated");
            }
        }
    }
}
