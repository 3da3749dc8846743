//! The shared matching vectors, checked against both trees.

use std::ops::ControlFlow;
use std::path::Path;

use serde_json::Value;
use tautwire_topics::{FilterTree, RetainedTree};

#[test]
fn shared_matching_vectors_pass_in_both_trees() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors/topics/matching.json");
    let text = std::fs::read_to_string(&path).expect("the shared vectors are part of the repository");
    let file: Value = serde_json::from_str(&text).expect("the shared vectors are JSON");
    let vectors = file["vectors"].as_array().expect("a list of vectors");
    assert!(!vectors.is_empty());
    for vector in vectors {
        let id = &vector["id"];
        let filter = &text_of(vector, "filter");
        let topic = &text_of(vector, "topic");
        let matches = vector["matches"].as_bool().expect("whether they match");

        let mut filters = FilterTree::new();
        filters.insert(filter, ());
        let mut found = 0;
        filters.matches(topic, &mut |_, _| found += 1);
        assert_eq!(found, usize::from(matches), "{id}: {filter} against {topic} in the filter tree");

        let mut topics = RetainedTree::new();
        topics.insert(topic, ());
        let mut found = 0;
        let _: ControlFlow<()> = topics.for_each_match(filter, |name, ()| {
            assert_eq!(name, topic.as_str());
            found += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(found, usize::from(matches), "{id}: {filter} against {topic} in the retained tree");
    }
}

/// The text under `key`, or concatenated from the parts under `{key}_parts`, which describe long runs.
fn text_of(vector: &Value, key: &str) -> String {
    if let Some(text) = vector[key].as_str() {
        return text.to_string();
    }
    let parts = vector[format!("{key}_parts")].as_array().expect("a text or its parts");
    let bytes: Vec<u8> = parts.iter().flat_map(bytes_of_part).collect();
    String::from_utf8(bytes).expect("parts of a text are UTF-8")
}

fn bytes_of_part(part: &Value) -> Vec<u8> {
    if let Some(hex) = part["hex"].as_str() {
        return bytes_of_hex(hex);
    }
    let repeated = bytes_of_hex(part["repeat"].as_str().expect("hex or repeat"));
    let count = part["count"].as_u64().expect("a count with repeat");
    repeated.repeat(count as usize)
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("pairs of hex digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}
