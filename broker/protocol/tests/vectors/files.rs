//! Reads the files of `spec/vectors`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tautwire_protocol::{DecodeOptions, MAX_PACKET_SIZE_BYTES, ProtocolVersion};

use crate::json_packet::{bytes_of, hex};

/// A packet vector.
pub(crate) struct Vector {
    pub(crate) id: String,
    pub(crate) version: ProtocolVersion,
    pub(crate) bytes: Vec<u8>,
    rest: Vec<u8>,
    max_packet_size: u32,
    pub(crate) result: String,
    pub(crate) reason: Option<u8>,
    pub(crate) packet: Value,
    pub(crate) encode: bool,
}

impl Vector {
    pub(crate) fn is_valid(&self) -> bool {
        self.result == "valid"
    }

    /// The packet and the bytes after it.
    pub(crate) fn input(&self) -> Vec<u8> {
        [self.bytes.as_slice(), &self.rest].concat()
    }

    pub(crate) fn options(&self) -> DecodeOptions {
        DecodeOptions { version: self.version, max_packet_size: self.max_packet_size }
    }

    fn read(json: &Value) -> Self {
        Self {
            id: json["id"].as_str().unwrap().to_owned(),
            version: match json["version"].as_str().unwrap() {
                "3.1" => ProtocolVersion::V3_1,
                "3.1.1" => ProtocolVersion::V3_1_1,
                "5.0" => ProtocolVersion::V5,
                other => panic!("version {other}"),
            },
            bytes: bytes_of(json, "hex", "hex_parts"),
            rest: json["rest_hex"].as_str().map(hex).unwrap_or_default(),
            max_packet_size: json["max_packet_size"]
                .as_u64()
                .map_or(MAX_PACKET_SIZE_BYTES, |size| u32::try_from(size).unwrap()),
            result: json["result"].as_str().unwrap().to_owned(),
            reason: json["reason"].as_u64().map(|reason| u8::try_from(reason).unwrap()),
            packet: json["packet"].clone(),
            encode: json["encode"].as_bool().unwrap_or(false),
        }
    }
}

/// Every packet vector of every file.
pub(crate) fn mqtt_vectors() -> Vec<Vector> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory().join("mqtt")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let vectors: Vec<Vector> = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .flat_map(|path| read(path).iter().map(Vector::read).collect::<Vec<_>>())
        .collect();
    assert!(vectors.len() >= 400, "only {} vectors", vectors.len());
    vectors
}

/// The vectors of a file of topics, with their ids.
pub(crate) fn topic_vectors(file: &str) -> Vec<(String, Value)> {
    let vectors = read(&directory().join("topics").join(file));
    assert!(!vectors.is_empty());
    vectors.into_iter().map(|vector| (vector["id"].as_str().unwrap().to_owned(), vector)).collect()
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors")
}

fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut file: Value = serde_json::from_str(&text).unwrap();
    match file["vectors"].take() {
        Value::Array(vectors) => vectors,
        other => panic!("{}: vectors are {other}", path.display()),
    }
}
