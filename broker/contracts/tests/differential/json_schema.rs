//! Compares JSON Schema checks with another validator, on generated schemas and mutated payloads.

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use tautwire_contracts::{Catalogue, Contract, Files, Format, LoadLimits, Rule};

use crate::choices::Choices;
use crate::number;

const PAYLOADS_PER_SCHEMA: usize = 60;
const DEPTH_MAX: usize = 4;
const NAMES: [&str; 5] = ["a", "b", "longer name", "é\"", ""];

#[test]
fn json_mutations_are_checked_against_their_schema() {
    let mut choices = Choices::new(number("DIFFERENTIAL_SEED", 1) ^ 0x5c4e);
    let mut verdicts = [0u64; 2];
    for _ in 0..number("DIFFERENTIAL_ROUNDS", 60) {
        let schema = root(&mut choices);
        let (contract, validator) = both(&schema);
        for _ in 0..PAYLOADS_PER_SCHEMA {
            let mut payload = serde_json::to_vec(&fitting(&schema, &schema, &mut choices, 0)).expect("it is JSON");
            if choices.one_in(2) {
                payload = choices.mutate_json(&payload);
            }
            let text = String::from_utf8_lossy(&payload).into_owned();
            let ours = contract.check("t", Some(Format::Json.content_type()), &payload);
            let theirs = serde_json::from_slice(&payload).is_ok_and(|value: Value| validator.is_valid(&value));
            let is_known = match &ours {
                // The other validator takes the last of several values of one name.
                Err(violation) if violation.rule == Rule::Duplicate => true,
                // The other validator accepts commas for digits in hours and minutes.
                Err(violation) if violation.rule == Rule::TextFormat => has_comma_for_digit(&text),
                // The other validator rounds integers of more than 64 bits.
                _ if has_long_number(&text) => true,
                Err(_) => false,
                // The other parser rejects numbers beyond a double.
                Ok(_) => serde_json::from_slice::<Value>(&payload)
                    .is_err_and(|error| error.to_string().starts_with("number out of range")),
            };
            assert!(ours.is_ok() == theirs || is_known, "{schema}\n{text}\n{ours:?}");
            verdicts[usize::from(ours.is_ok())] += 1;
            if ours.is_ok() && !has_long_number(&text) {
                through_message_pack(&contract, &payload);
            }
        }
    }
    assert!(verdicts.iter().all(|count| *count > 500), "too one-sided: {verdicts:?}");
}

#[test]
fn string_formats_are_checked_the_same() {
    let candidates = [
        ("date-time", "2026-01-02T03:04:05Z"),
        ("date-time", "2026-01-02t03:04:05z"),
        ("date-time", "2026-01-02T03:04:05.123456789012Z"),
        ("date-time", "2026-01-02T03:04:05+01:30"),
        ("date-time", "2026-01-02T03:04:05-00:00"),
        ("date-time", "2026-01-02T03:04:05+24:00"),
        ("date-time", "2026-01-02T03:04:05+0130"),
        ("date-time", "2026-01-02T03:04:05.Z"),
        ("date-time", "2026-01-02 03:04:05Z"),
        ("date-time", "2026-01-02T03:04:05"),
        ("date-time", "2026-1-02T03:04:05Z"),
        ("date-time", "2026-02-29T03:04:05Z"),
        ("date-time", "2024-02-29T03:04:05Z"),
        ("date-time", "0000-01-01T00:00:00Z"),
        ("date-time", "9999-12-31T23:59:59-01:00"),
        ("date-time", "1998-12-31T23:59:60Z"),
        ("date-time", "1998-12-31T15:59:60.123-08:00"),
        ("date-time", "1998-12-31T23:58:60Z"),
        ("date-time", "1998-12-31T22:59:60Z"),
        ("date-time", "1998-12-31T23:59:61Z"),
        ("date-time", "1998-12-31T24:00:00Z"),
        ("date-time", "1963-06-1\u{9ea}T00:00:00Z"),
        ("date", "2026-01-02"),
        ("date", "0000-01-01"),
        ("date", "2026-13-01"),
        ("date", "2026-00-01"),
        ("date", "2026-01-00"),
        ("date", "2026-04-31"),
        ("date", "20260102"),
        ("date", "2026-01-02T"),
        ("time", "03:04:05Z"),
        ("time", "03:04:05z"),
        ("time", "23:59:60Z"),
        ("time", "23:59:60+00:00"),
        ("time", "01:29:60+01:30"),
        ("time", "22:59:60Z"),
        ("time", "03:04:05"),
        ("time", "03:04:05.5-02:00"),
        ("time", "24:00:00Z"),
        ("time", "3:04:05Z"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
        ("uuid", "123E4567-E89B-12D3-A456-426614174000"),
        ("uuid", "123e4567e89b12d3a456426614174000"),
        ("uuid", "{123e4567-e89b-12d3-a456-426614174000}"),
        ("uuid", "123e4567-e89b-12d3-a456-42661417400g"),
        ("ipv4", "10.0.0.1"),
        ("ipv4", "10.0.0.256"),
        ("ipv4", "10.0.1"),
        ("ipv4", "010.0.0.1"),
        ("ipv4", "0x10.0.0.1"),
        ("ipv6", "::1"),
        ("ipv6", "::ffff:10.0.0.1"),
        ("ipv6", "1::2::3"),
        ("ipv6", "fe80::1%eth0"),
        ("ipv6", "12345::"),
        ("ipv6", "1:2:3:4:5:6:7:8"),
    ];
    for (format, text) in candidates {
        let (contract, validator) = both(&json!({ "type": "string", "format": format }));
        let payload = Value::from(text);
        let ours = contract.check("t", Some(Format::Json.content_type()), payload.to_string().as_bytes());
        assert_eq!(ours.is_ok(), validator.is_valid(&payload), "{format} {text}");
    }
}

/// The payload satisfies its schema in MessagePack too, and survives the round trip.
fn through_message_pack(contract: &Contract, json: &[u8]) {
    let made = |from, to, payload: &[u8]| {
        let mut out = Vec::new();
        contract.transcode(from, to, payload, &mut out, usize::MAX).map(|()| out)
    };
    // Numbers beyond a double cannot be transcoded.
    let Ok(pack) = made(Format::Json, Format::MessagePack, json) else { return };
    let checked = contract.check("t", Some(Format::MessagePack.content_type()), &pack);
    assert!(checked.is_ok(), "{}\n{checked:?}", String::from_utf8_lossy(json));
    let back = made(Format::MessagePack, Format::Json, &pack).expect("it was made");
    let read = |json: &[u8]| serde_json::from_slice::<Value>(json).expect("it is JSON");
    assert!(same(&read(&back), &read(json)), "{}\n{}", String::from_utf8_lossy(json), String::from_utf8_lossy(&back));
}

fn has_comma_for_digit(text: &str) -> bool {
    ["T0,", "T,", ":0,", ":,", "+0,", "-0,"].iter().any(|odd| text.contains(odd))
}

fn has_long_number(text: &str) -> bool {
    text.split(|character: char| !character.is_ascii_digit()).any(|digits| digits.len() >= 20)
}

/// 1 and 1.0 are equal.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}

fn both(schema: &Value) -> (std::sync::Arc<Contract>, Validator) {
    let manifest = "[[contract]]\nname = 'c'\ntopics = 't'\nformat = ['json', 'messagepack']\nschema = 's.json'\n";
    let files =
        Files::from([("contracts.toml".to_owned(), manifest.to_owned()), ("s.json".to_owned(), schema.to_string())]);
    let catalogue =
        Catalogue::load(&files, &LoadLimits::default()).unwrap_or_else(|errors| panic!("{schema}\n{}", errors[0]));
    let validator = jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .build(schema)
        .unwrap_or_else(|error| panic!("{schema}\n{error}"));
    (catalogue.named("c").expect("it was loaded").clone(), validator)
}

fn root(choices: &mut Choices) -> Value {
    let mut root = map_schema(choices, 0);
    // Definitions contain no references, which could be circular.
    let mut definition =
        || std::iter::repeat_with(|| schema(choices, DEPTH_MAX - 1)).find(|made| made["$ref"].is_null());
    let definitions: Map<String, Value> = (0..3).map(|at| (format!("d{at}"), definition().expect("endless"))).collect();
    root.insert("$defs".to_owned(), definitions.into());
    root.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    root.into()
}

fn schema(choices: &mut Choices, depth: usize) -> Value {
    let kinds = if depth >= DEPTH_MAX { 7 } else { 10 };
    let mut made = match choices.below(kinds) {
        0 => return (!choices.one_in(6)).into(),
        1 => return json!({ "$ref": format!("#/$defs/d{}", choices.below(3)) }),
        2 => json!({ "enum": [null, 1, 2.5, "x", true, "", -7] }),
        3 => json!({ "const": *choices.of(&["x", "1", ""]) }),
        4 => text_schema(choices),
        5 => number_schema(choices),
        6 => json!({ "type": *choices.of(&["null", "boolean", "integer", "number", "string", "array", "object"]) }),
        7 => list_schema(choices, depth),
        _ => map_schema(choices, depth).into(),
    };
    if choices.one_in(8) {
        let more = *choices.of(&["null", "integer", "string"]);
        if let Some(only) = made["type"].as_str().filter(|only| *only != more && *only != "number") {
            made["type"] = json!([only, more]);
        }
    }
    made
}

fn text_schema(choices: &mut Choices) -> Value {
    let mut made = json!({ "type": "string" });
    match choices.below(4) {
        0 => made["minLength"] = choices.below(3).into(),
        1 => made["maxLength"] = choices.below(4).into(),
        2 => made["pattern"] = (*choices.of(&["^[a-z]*$", "x", "^$", "[0-9]{2}", "a|b", "^\\S+$", "é"])).into(),
        _ => made["format"] = (*choices.of(&["date-time", "date", "time", "uuid", "ipv4", "ipv6"])).into(),
    }
    made
}

fn number_schema(choices: &mut Choices) -> Value {
    let mut made = json!({ "type": *choices.of(&["number", "integer"]) });
    let limit = choices.of(&[json!(0), json!(1), json!(-1.5), json!(100), json!(u64::MAX), json!(i64::MIN)]).clone();
    let keyword = *choices.of(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]);
    made[keyword] = match keyword {
        "multipleOf" => choices.of(&[json!(1), json!(2), json!(0.5), json!(3)]).clone(),
        _ => limit,
    };
    made
}

fn list_schema(choices: &mut Choices, depth: usize) -> Value {
    let mut made = json!({ "type": "array" });
    if choices.one_in(3) {
        made["prefixItems"] = (0..=choices.below(2)).map(|_| schema(choices, depth + 1)).collect();
    }
    if choices.one_in(2) {
        made["items"] = schema(choices, depth + 1);
    }
    if choices.one_in(4) {
        made["minItems"] = choices.below(3).into();
    }
    if choices.one_in(4) {
        made["maxItems"] = choices.below(4).into();
    }
    made
}

fn map_schema(choices: &mut Choices, depth: usize) -> Map<String, Value> {
    let mut made = Map::from_iter([("type".to_owned(), "object".into())]);
    let mut properties = Map::new();
    for name in NAMES {
        if choices.one_in(2) {
            properties.insert(name.to_owned(), schema(choices, depth + 1));
        }
    }
    let required: Vec<&str> = NAMES.into_iter().filter(|_| choices.one_in(5)).collect();
    let additional = if choices.one_in(2) { schema(choices, depth + 1) } else { false.into() };
    // A property that is required and also rejected is not a valid schema here.
    let is_possible = additional != false || required.iter().all(|name| properties.contains_key(*name));
    if is_possible && !choices.one_in(3) {
        made.insert("additionalProperties".to_owned(), additional);
    }
    made.insert("properties".to_owned(), properties.into());
    made.insert("required".to_owned(), required.into());
    if choices.one_in(6) {
        made.insert("minProperties".to_owned(), choices.below(3).into());
    }
    if choices.one_in(6) {
        made.insert("maxProperties".to_owned(), (2 + choices.below(4)).into());
    }
    made
}

/// A value that probably satisfies the schema.
fn fitting(schema: &Value, root: &Value, choices: &mut Choices, depth: usize) -> Value {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(&reference[1..]).expect("it leads somewhere");
        return if depth > 12 { Value::Null } else { fitting(target, root, choices, depth + 1) };
    }
    if let Some(allowed) = schema["enum"].as_array() {
        return choices.of(allowed).clone();
    }
    if let Some(only) = schema.get("const") {
        return only.clone();
    }
    let kind = match &schema["type"] {
        Value::String(kind) => kind.as_str(),
        Value::Array(kinds) => choices.of(kinds).as_str().expect("a name"),
        _ => *choices.of(&["null", "boolean", "integer", "string"]),
    };
    match kind {
        "null" => Value::Null,
        "boolean" => choices.one_in(2).into(),
        "integer" => {
            choices.of(&[json!(0), json!(1), json!(-7), json!(100), json!(6), json!(u64::MAX), json!(3.0)]).clone()
        }
        "number" => choices.of(&[json!(0.5), json!(-2), json!(1e30), json!(99), json!(2.25)]).clone(),
        "string" => (*choices.of(&[
            "",
            "x",
            "abc",
            "A b",
            "é",
            "12",
            "2026-01-02T03:04:05Z",
            "2026-01-02",
            "03:04:05.5+01:00",
            "123e4567-e89b-12d3-a456-426614174000",
            "10.0.0.1",
            "2001:db8::1",
            "🙂🙂🙂",
        ]))
        .into(),
        "array" => (0..choices.below(4))
            .map(|at| match schema["prefixItems"].get(at).or(schema.get("items")) {
                Some(item) if depth < 12 => fitting(item, root, choices, depth + 1),
                _ => json!(at),
            })
            .collect(),
        _ => {
            let mut made = Map::new();
            for name in NAMES {
                let property = schema["properties"].get(name).or(schema.get("additionalProperties"));
                let is_required =
                    schema["required"].as_array().is_some_and(|names| names.iter().any(|known| known == name));
                match property {
                    Some(property) if depth < 12 && (is_required || choices.one_in(2)) => {
                        drop(made.insert(name.to_owned(), fitting(property, root, choices, depth + 1)));
                    }
                    None if is_required || choices.one_in(6) => drop(made.insert(name.to_owned(), json!(1))),
                    _ => {}
                }
            }
            made.into()
        }
    }
}
