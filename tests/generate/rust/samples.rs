//! The values that all drivers encode. The bytes are the same in every language.

use std::collections::BTreeMap;

use crate::contracts::*;

pub fn everything() -> Everything {
    type Part = EverythingPart;
    let named = |name: &str| Part { name: name.into(), ..Part::default() };
    let truth = Value { kind: Some(ValueKind::BoolValue(true)) };
    Everything {
        plant_id: "7".into(),
        a_double: 21.5,
        a_float: 0.1,
        an_int32: -5,
        an_int64: -9_007_199_254_740_993,
        a_uint32: u32::MAX,
        a_uint64: u64::MAX,
        a_sint32: -1,
        a_sint64: -1_099_511_627_776,
        a_fixed32: 1,
        a_fixed64: 2,
        a_sfixed32: -3,
        a_sfixed64: -4,
        a_bool: true,
        some_bytes: vec![0, 255, 16],
        unit: Unit::CELSIUS,
        maybe_int32: Some(0),
        maybe_text: Some(String::new()),
        maybe_unit: Some(Unit::BELOW),
        part: Some(Part {
            name: "x".repeat(200),
            parts: vec![named("bolt"), named("nut")],
            spare: Some(Box::new(named("é\"\n"))),
        }),
        texts: vec!["a".into(), String::new(), "ü".into()],
        numbers: vec![1, -1, 300],
        doubles: vec![0.5, -0.25],
        loose: vec![-1, 1],
        units: vec![Unit::KELVIN, Unit(9)],
        parts: vec![Part::default(), named("p")],
        counts: BTreeMap::from([("a".into(), 1), ("b".into(), -2)]),
        parts_by_number: BTreeMap::from([(2, named("two")), (5, Part::default())]),
        by_bool: BTreeMap::from([(false, "no".into()), (true, "yes".into())]),
        units_by_number: BTreeMap::from([(5, Unit::CELSIUS)]),
        at: Some(Timestamp { seconds: 1_700_000_000, nanos: 123_456_789 }),
        took: Some(Duration { seconds: -1, nanos: -500_000_000 }),
        wrapped: Some(StringValue { value: "w".into() }),
        extra: Some(Struct { fields: BTreeMap::from([("k".into(), truth)]) }),
        moments: vec![Timestamp::default(), Timestamp { seconds: 253_402_300_799, nanos: 999_999_999 }],
        type_: "t".into(),
        has_type: "c".into(),
        result: Some(EverythingResult::Replacement(Box::new(named("new")))),
    }
}

pub fn mapped(raw: &[u8]) -> Mapped {
    type Part = MappedPart;
    let named = |name: &str| Part { name: name.into(), ..Part::default() };
    Mapped {
        plant_id: "7".into(),
        a_double: 21.5,
        a_float: 0.1,
        an_int32: -5,
        an_int64: -9_007_199_254_740_993,
        a_uint32: u32::MAX,
        a_uint64: u64::MAX,
        a_sint32: -1,
        a_sint64: -1_099_511_627_776,
        a_fixed32: 1,
        a_fixed64: 2,
        a_sfixed32: -3,
        a_sfixed64: -4,
        a_bool: true,
        some_bytes: vec![0, 255, 16],
        unit: AcmeMappedUnit::CELSIUS,
        maybe_int32: Some(0),
        maybe_text: Some(String::new()),
        maybe_unit: Some(AcmeMappedUnit::BELOW),
        part: Some(Part {
            name: "x".repeat(200),
            parts: vec![named("bolt"), named("nut")],
            spare: Some(Box::new(named("é\"\n"))),
        }),
        texts: vec!["a".into(), String::new(), "ü".into()],
        numbers: vec![1, -1, 300],
        doubles: vec![0.5, -0.25],
        loose: vec![-1, 1],
        units: vec![AcmeMappedUnit::KELVIN, AcmeMappedUnit(9)],
        parts: vec![Part::default(), named("p")],
        counts: BTreeMap::from([("a".into(), 1), ("b".into(), -2)]),
        parts_by_number: BTreeMap::from([(2, named("two")), (5, Part::default())]),
        by_bool: BTreeMap::from([(false, "no".into()), (true, "yes".into())]),
        units_by_number: BTreeMap::from([(5, AcmeMappedUnit::CELSIUS)]),
        at: Some(Timestamp { seconds: 1_700_000_000, nanos: 123_456_789 }),
        took: Some(Duration { seconds: -1, nanos: -500_000_000 }),
        wrapped: Some("w".into()),
        extra: BTreeMap::from([("k".into(), Raw(raw.to_vec()))]),
        moments: vec![Timestamp::default(), Timestamp { seconds: 253_402_300_799, nanos: 999_999_999 }],
        type_: "t".into(),
        has_type: "c".into(),
        result: Some(MappedResult::Replacement(Box::new(named("new")))),
    }
}

pub fn old() -> Old {
    Old {
        id: String::new(),
        level: Level::HIGH,
        count: Some(0),
        levels: vec![Level::LOW, Level::HIGH],
        loose: vec![-1, 128],
        inner: Some(Inner { data: Some(vec![1]) }),
        by_name: BTreeMap::from([("l".into(), Level::LOW)]),
    }
}

/// In JSON or in MessagePack: the bytes of open values differ.
pub fn lamp(is_text: bool) -> Lamp {
    let (pair, anything) = if is_text {
        (vec![Raw(b"\"x\"".to_vec()), Raw(b"1".to_vec())], Raw(b"{\"deep\":[1,null]}".to_vec()))
    } else {
        (vec![Raw(b"\xa1x".to_vec()), Raw(vec![1])], Raw(b"\x81\xa4deep\x92\x01\xc0".to_vec()))
    };
    let night = Scene { name: "night\u{1}\\".into(), ..Scene::default() };
    Lamp {
        on: true,
        brightness: Some(80),
        warmth: Some(2700.5),
        colour: Some("#ffaa00".into()),
        mode: LampMode::ByHand,
        mood: None,
        scenes: Some(vec![Scene { name: "dusk".into(), after: Some(Box::new(night)), pair: Some(pair) }]),
        grid: Some(vec![vec![1.0, 2.5], vec![3.0]]),
        tags: Some(BTreeMap::from([("floor".into(), "1".into())])),
        anything: Some(anything),
        first_scene: Some(Scene { name: "dawn".into(), ..Scene::default() }),
        type_: LampType::Lamp,
    }
}

pub fn samples() -> Samples {
    Samples { value: vec![0.5, -7.0, 1e300] }
}
