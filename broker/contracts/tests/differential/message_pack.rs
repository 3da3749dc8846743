//! Compares the MessagePack reader with another one.

use rmpv::{Value, ValueRef};
use tautwire_contracts::{Catalogue, Contract, Files, Format, LoadLimits, Rule};

use crate::choices::Choices;
use crate::number;

const PAYLOADS_PER_ROUND: usize = 100;
const DEPTH_MAX: usize = 4;

/// A contract that every payload satisfies that JSON can represent.
fn anything() -> std::sync::Arc<Contract> {
    let manifest = "[[contract]]\nname = 'c'\ntopics = 't'\nformat = ['messagepack', 'json']\nschema = 's.json'\n";
    let files =
        Files::from([("contracts.toml".to_owned(), manifest.to_owned()), ("s.json".to_owned(), "true".to_owned())]);
    let catalogue = Catalogue::load(&files, &LoadLimits::default()).unwrap_or_else(|errors| panic!("{}", errors[0]));
    catalogue.named("c").expect("it was loaded").clone()
}

#[test]
fn message_pack_mutations_are_checked_the_same() {
    let contract = anything();
    let mut choices = Choices::new(number("DIFFERENTIAL_SEED", 1) ^ 0x3a6c);
    let mut verdicts = [0u64; 2];
    for _ in 0..number("DIFFERENTIAL_ROUNDS", 60) {
        for _ in 0..PAYLOADS_PER_ROUND {
            let mut payload = Vec::new();
            rmpv::encode::write_value(&mut payload, &value(&mut choices, 0)).expect("writing to memory");
            if choices.one_in(2) {
                payload = choices.mutate(&payload);
            }
            let ours = contract.check("t", Some(Format::MessagePack.content_type()), &payload);
            let theirs = read(&payload);
            let same = match (&ours, &theirs) {
                (Ok(_), Some(theirs)) => {
                    let mut json = Vec::new();
                    let made = contract.transcode(Format::MessagePack, Format::Json, &payload, &mut json, usize::MAX);
                    // Non-finite numbers are checked only with a type, and cannot be transcoded.
                    made.is_err()
                        || serde_json::from_slice::<serde_json::Value>(&json).is_ok_and(|json| is(&json, theirs))
                }
                // The other reader decodes the unused byte as nil.
                (Err(violation), Some(_)) if violation.found().starts_with("0xc1") => true,
                (Err(violation), Some(theirs)) => violation.rule == Rule::Type && !could_be_json(theirs),
                (Err(_), None) => true,
                (Ok(_), None) => false,
            };
            assert!(same, "{payload:02x?}\n{ours:?}\n{theirs:?}");
            verdicts[usize::from(ours.is_ok())] += 1;
        }
    }
    assert!(verdicts.iter().all(|count| *count > 500), "too one-sided: {verdicts:?}");
}

/// The single value of the payload. The other reader accepts invalid UTF-8 and does not check timestamps.
fn read(payload: &[u8]) -> Option<Value> {
    let mut rest = payload;
    let value = rmpv::decode::read_value_ref(&mut rest).ok()?;
    (rest.is_empty() && is_sound(&value)).then(|| value.to_owned())
}

fn is_sound(value: &ValueRef<'_>) -> bool {
    match value {
        ValueRef::String(text) => text.is_str(),
        ValueRef::Array(items) => items.iter().all(is_sound),
        ValueRef::Map(entries) => entries.iter().all(|(key, value)| is_sound(key) && is_sound(value)),
        ValueRef::Ext(-1, data) => match data.len() {
            4 => true,
            8 => u64::from_be_bytes((*data).try_into().expect("eight")) >> 34 < 1_000_000_000,
            12 => u32::from_be_bytes(data[..4].try_into().expect("four")) < 1_000_000_000,
            _ => false,
        },
        _ => true,
    }
}

/// Neither bytes nor extensions, and only string keys.
fn could_be_json(value: &Value) -> bool {
    match value {
        Value::Binary(_) | Value::Ext(..) => false,
        Value::F32(number) => number.is_finite(),
        Value::F64(number) => number.is_finite(),
        Value::Array(items) => items.iter().all(could_be_json),
        Value::Map(entries) => entries.iter().all(|(key, value)| key.is_str() && could_be_json(value)),
        _ => true,
    }
}

/// Whether the JSON equals the value. The last entry of a key wins.
fn is(json: &serde_json::Value, value: &Value) -> bool {
    match (json, value) {
        (serde_json::Value::Null, Value::Nil) => true,
        (serde_json::Value::Bool(a), Value::Boolean(b)) => a == b,
        (serde_json::Value::Number(a), Value::Integer(b)) => a.as_i64() == b.as_i64() && a.as_u64() == b.as_u64(),
        (serde_json::Value::Number(a), Value::F32(b)) => a.as_f64() == Some(f64::from(*b)),
        (serde_json::Value::Number(a), Value::F64(b)) => a.as_f64() == Some(*b),
        (serde_json::Value::String(a), Value::String(b)) => Some(a.as_str()) == b.as_str(),
        (serde_json::Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is(a, b)),
        (serde_json::Value::Object(a), Value::Map(b)) => a.iter().all(|(key, json)| {
            let last = b.iter().rev().find(|(known, _)| known.as_str() == Some(key));
            last.is_some_and(|(_, value)| is(json, value))
        }),
        _ => false,
    }
}

fn value(choices: &mut Choices, depth: usize) -> Value {
    let bits = choices.bits() >> choices.below(64);
    match choices.below(if depth < DEPTH_MAX { 14 } else { 10 }) {
        0 => Value::Nil,
        1 => Value::Boolean(choices.one_in(2)),
        2 => Value::from(bits),
        3 => Value::from(-((bits >> 1) as i64)),
        4 => Value::F64(*choices.of(&[0.0, -0.0, 1.5, 1e300, 3.0, 5e-324, f64::NAN])),
        5 => Value::F32(*choices.of(&[0.0, 1.5, 0.1, 3.4e38, f32::INFINITY])),
        6 | 7 => Value::from("aé\"🙂".repeat(choices.below(40))),
        8 if choices.one_in(4) => Value::Binary(vec![0xc1; choices.below(300)]),
        9 if choices.one_in(4) => {
            let kind = *choices.of(&[-1, 0, 5]);
            Value::Ext(kind, vec![0; *choices.of(&[1, 2, 4, 8, 12, 16, 17])])
        }
        8 | 9 => Value::from(choices.below(100)),
        10 | 11 => Value::Array((0..choices.below(20)).map(|_| value(choices, depth + 1)).collect()),
        _ => Value::Map(
            (0..choices.below(18))
                .map(|at| {
                    let key = if choices.one_in(60) { Value::from(at) } else { Value::from(format!("k{at}")) };
                    (key, value(choices, depth + 1))
                })
                .collect(),
        ),
    }
}
