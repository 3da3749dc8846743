//! Tautwire, and libraries that parse the same bytes, used as their documentation shows.

use std::hint::black_box;

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use tautwire_contracts::Format;

use crate::workload::{Reading, SCHEMA};
use tautwire_bench_timing::Contender;

pub const TAUTWIRE: &str = "tautwire";

/// Operations in one call.
const BATCH: usize = 200;

pub fn contenders(reading: &Reading) -> Vec<Contender> {
    let mut contenders = Vec::new();
    for (case, contract, format) in [
        ("check_protobuf", "plain", Format::Protobuf),
        ("check_protobuf_tied", "tied", Format::Protobuf),
        ("check_messagepack", "plain", Format::MessagePack),
        ("check_messagepack_tied", "tied", Format::MessagePack),
        ("check_json", "plain", Format::Json),
        ("check_json_tied", "tied", Format::Json),
        ("check_json_schema", "schema", Format::Json),
        ("check_messagepack_schema", "schema", Format::MessagePack),
    ] {
        contenders.push(check(reading, case, contract, format));
    }
    for (case, from, to) in [
        ("protobuf_to_json", Format::Protobuf, Format::Json),
        ("protobuf_to_messagepack", Format::Protobuf, Format::MessagePack),
        ("json_to_protobuf", Format::Json, Format::Protobuf),
        ("messagepack_to_json", Format::MessagePack, Format::Json),
    ] {
        contenders.push(transcode(reading, case, from, to));
    }
    contenders.extend(references(reading));
    contenders.sort_by_key(|contender| contender.case);
    contenders
}

fn contender(case: &'static str, library: &'static str, mut call: impl FnMut() + 'static) -> Contender {
    let call = Box::new(move || (0..BATCH).for_each(|_| call()));
    Contender { case, library, operations: BATCH, call }
}

fn check(reading: &Reading, case: &'static str, contract: &str, format: Format) -> Contender {
    let topic = format!("{contract}/dev-17");
    let (contract, payload) = (reading.contract(contract), reading.payload(format));
    contender(case, TAUTWIRE, move || {
        let checked = contract.check(&topic, Some(format.content_type()), black_box(&payload));
        black_box(checked).expect("the reading is right");
    })
}

fn transcode(reading: &Reading, case: &'static str, from: Format, to: Format) -> Contender {
    let (contract, payload) = (reading.contract("plain"), reading.payload(from));
    let mut out = Vec::new();
    contender(case, TAUTWIRE, move || {
        out.clear();
        contract.transcode(from, to, black_box(&payload), &mut out, usize::MAX).expect("the reading is right");
        black_box(&out);
    })
}

fn references(reading: &Reading) -> Vec<Contender> {
    let contract = reading.contract("plain");
    let pool = DescriptorPool::decode(&*contract.schema().descriptor_set).expect("it was made by a compiler");
    let descriptor = pool.get_message_by_name("acme.Reading").expect("the schema has it");
    let decoded = |descriptor: &MessageDescriptor, payload: &[u8]| {
        DynamicMessage::decode(descriptor.clone(), payload).expect("the reading is right")
    };

    let (protobuf, json, message_pack) = (reading.protobuf.clone(), reading.json.clone(), reading.message_pack.clone());
    let mut contenders = Vec::new();
    let (of, payload) = (descriptor.clone(), protobuf.clone());
    contenders.push(contender("check_protobuf", "prost-reflect", move || {
        black_box(decoded(&of, black_box(&payload)));
    }));
    let mut out = Vec::new();
    contenders.push(contender("protobuf_to_json", "prost-reflect", move || {
        out.clear();
        let message = decoded(&descriptor, black_box(&protobuf));
        serde_json::to_writer(&mut out, &message).expect("it has a form in JSON");
        black_box(&out);
    }));
    contenders.push(contender("check_messagepack", "rmpv", move || {
        let mut rest = black_box(&*message_pack);
        black_box(rmpv::decode::read_value_ref(&mut rest).expect("the reading is right"));
    }));
    let payload = json.clone();
    contenders.push(contender("check_json", "serde_json", move || {
        let value: serde_json::Value = serde_json::from_slice(black_box(&payload)).expect("the reading is right");
        black_box(value);
    }));
    let schema = serde_json::from_str(SCHEMA).expect("it is JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("it is a schema");
    contenders.push(contender("check_json_schema", "jsonschema", move || {
        let value: serde_json::Value = serde_json::from_slice(black_box(&json)).expect("the reading is right");
        assert!(validator.is_valid(&value));
    }));
    contenders
}
