//! The shared vectors of contracts, created with another implementation of Protocol Buffers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use tautwire_contracts::{Catalogue, Files, Format, LoadLimits};

const SCHEMAS: [&str; 2] = ["types.proto", "legacy.proto"];

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/vectors/contracts"))
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn vectors() -> Vec<Value> {
    let file: Value = serde_json::from_str(&read("vectors.json")).expect("it is JSON");
    file["vectors"].as_array().expect("a list").clone()
}

/// A contract for each message that has vectors, by the message's name.
fn catalogue(messages: &BTreeMap<String, String>) -> Catalogue {
    let mut manifest = String::new();
    for (message, schema) in messages {
        manifest.push_str(&format!(
            "[[contract]]\nname = '{message}'\ntopics = '{message}'\nformat = ['protobuf', 'json', 'messagepack']\n\
             schema = '{schema}'\nmessage = '{message}'\n"
        ));
    }
    let mut files = Files::from([("contracts.toml".to_owned(), manifest)]);
    files.extend(SCHEMAS.map(|name| (name.to_owned(), read(name))));
    Catalogue::load(&files, &LoadLimits::default()).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn text<'v>(vector: &'v Value, key: &str) -> &'v str {
    vector[key].as_str().unwrap_or_else(|| panic!("{vector}: no {key}"))
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// MessagePack with map entries sorted by key.
fn sorted(pack: &[u8]) -> Vec<u8> {
    fn sort(value: &mut rmpv::Value) {
        match value {
            rmpv::Value::Array(items) => items.iter_mut().for_each(sort),
            rmpv::Value::Map(entries) => {
                entries.iter_mut().for_each(|(_, value)| sort(value));
                entries.sort_by_key(|(key, _)| key.to_string());
            }
            _ => {}
        }
    }
    let mut value = rmpv::decode::read_value(&mut &*pack).expect("MessagePack");
    sort(&mut value);
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, &value).expect("writing to memory");
    out
}

/// Normalises numbers, so that different texts of one number are equal.
fn settled(value: &Value) -> Value {
    match value {
        // Rounded to a float, of which texts may have more or fewer digits; MessagePack verifies doubles.
        Value::Number(number) => Value::from(f64::from(number.as_f64().expect("a number") as f32)),
        Value::Array(items) => items.iter().map(settled).collect(),
        Value::Object(entries) => entries.iter().map(|(key, value)| (key.clone(), settled(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn every_vector_has_its_result_and_transcodings() {
    let vectors = vectors();
    let messages = vectors.iter().map(|vector| (text(vector, "message").to_owned(), text(vector, "schema").to_owned()));
    let catalogue = catalogue(&messages.collect());
    let mut wrong = Vec::new();
    for vector in &vectors {
        let (id, message) = (text(vector, "id"), text(vector, "message"));
        let contract = catalogue.named(message).expect("each has one");
        let format = Format::named(text(vector, "format")).expect("a format");
        let payload = match format {
            Format::Json => text(vector, "text").as_bytes().to_vec(),
            _ => bytes(text(vector, "hex")),
        };
        let checked = contract.check(message, Some(format.content_type()), &payload);
        if text(vector, "result") == "refused" {
            match checked {
                Ok(_) => wrong.push(format!("{id}: taken")),
                Err(violation) => {
                    let (rule, path) = (violation.rule.code(), violation.path());
                    if rule != text(vector, "rule") || vector["path"].as_str().is_some_and(|known| known != path) {
                        wrong.push(format!("{id}: {violation}"));
                    }
                }
            }
            continue;
        }
        if let Err(violation) = checked {
            wrong.push(format!("{id}: {violation}"));
            continue;
        }
        let json = serde_json::to_vec(&vector["json"]).expect("it is JSON");
        let all = [
            (format, payload),
            (Format::Protobuf, bytes(text(vector, "protobuf_hex"))),
            (Format::Json, json),
            (Format::MessagePack, bytes(text(vector, "messagepack_hex"))),
        ];
        for (from, payload) in &all {
            if let Err(violation) = contract.check(message, Some(from.content_type()), payload) {
                wrong.push(format!("{id}: {from:?}: {violation}"));
                continue;
            }
            let made = |to| {
                let mut out = Vec::new();
                contract
                    .transcode(*from, to, payload, &mut out, usize::MAX)
                    .map(|()| out)
                    .map_err(|error| error.to_string())
            };
            let (protobuf_wanted, pack_wanted) = (text(vector, "protobuf_hex"), text(vector, "messagepack_hex"));
            let pack = made(Format::MessagePack);
            if !pack.as_ref().is_ok_and(|pack| sorted(pack) == sorted(&bytes(pack_wanted))) {
                wrong
                    .push(format!("{id}: {from:?} to MessagePack: {:?}, not {pack_wanted}", pack.map(|out| hex(&out))));
            }
            let protobuf = made(Format::Protobuf);
            let same = protobuf.as_ref().is_ok_and(|out| {
                // JSON and maps may have their fields and entries in any order.
                let mut pack = Vec::new();
                let again = contract.transcode(Format::Protobuf, Format::MessagePack, out, &mut pack, usize::MAX);
                2 * out.len() == protobuf_wanted.len() && again.is_ok() && sorted(&pack) == sorted(&bytes(pack_wanted))
            });
            if !same {
                wrong.push(format!(
                    "{id}: {from:?} to Protobuf: {:?}, not {protobuf_wanted}",
                    protobuf.map(|out| hex(&out))
                ));
            }
            let json = made(Format::Json).map(|out| String::from_utf8_lossy(&out).into_owned());
            let same = json.as_ref().is_ok_and(|text| {
                serde_json::from_str(text).is_ok_and(|ours| settled(&ours) == settled(&vector["json"]))
            });
            if !same {
                wrong.push(format!("{id}: {from:?} to JSON: {json:?}, not {}", vector["json"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), vectors.len(), wrong.join("\n"));
    assert!(vectors.len() > 200, "only {} vectors", vectors.len());
}

/// Set `VECTORS_WRITE_SCHEMAS=1` to write them; then generate the vectors again.
#[test]
fn the_descriptor_sets_of_the_oracle_match_the_schemas() {
    let messages = [("Scalars", SCHEMAS[0]), ("Needed", SCHEMAS[1])];
    let catalogue = catalogue(&messages.map(|(message, schema)| (message.to_owned(), schema.to_owned())).into());
    let sets: BTreeMap<_, _> = messages
        .iter()
        .map(|(message, schema)| {
            (*schema, hex(&catalogue.named(message).expect("it was loaded").schema().descriptor_set))
        })
        .collect();
    let made = serde_json::to_string_pretty(&sets).expect("text") + "\n";
    if std::env::var_os("VECTORS_WRITE_SCHEMAS").is_some() {
        std::fs::write(folder().join("schemas.json"), &made).expect("the folder can be written");
    }
    assert!(made == read("schemas.json"), "schemas.json is older than the schemas");
}
