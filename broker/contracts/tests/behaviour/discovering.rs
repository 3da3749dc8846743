use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Value, json};
use tautwire_contracts::discovery::{Document, Documents, PAGE_MAX, PAGE_MAX_BYTES, answer, service_discovery};
use tautwire_contracts::{Catalogue, Format};

use crate::load;

const PROTO: &str = "syntax = \"proto3\";\npackage p;\nmessage M { string id = 1; }\n";

fn catalogue(contracts: usize) -> Catalogue {
    let mut manifest = String::new();
    for at in 0..contracts {
        let _ = write!(
            manifest,
            "[[contract]]\nname = 'c{at:03}'\ntopics = 't{at}/{{id}}'\nformat = ['protobuf', 'json']\nschema = 's.proto'\n\
             on_violation = 'reject'\ntopic_fields = {{ id = 'id' }}\n"
        );
    }
    load(&[("contracts.toml", &manifest), ("s.proto", PROTO)]).expect("valid")
}

fn ask(catalogue: &Catalogue, request: &Value) -> Value {
    serde_json::from_slice(&answer(catalogue, Format::Json, request.to_string().as_bytes())).expect("JSON")
}

fn names(answer: &Value) -> Vec<&str> {
    answer["contracts"]
        .as_array()
        .map_or_else(Vec::new, |contracts| contracts.iter().filter_map(|contract| contract["name"].as_str()).collect())
}

#[test]
fn documents_are_equal_in_both_encodings() {
    let catalogue = Arc::new(catalogue(2));
    let hash = &catalogue.contracts()[0].schema().sha256;
    let in_order: Vec<Document> = Documents::of(catalogue.clone()).collect();
    let topics: Vec<&str> = in_order.iter().map(|document| document.name.as_str()).collect();
    let schema = format!("schemas/{hash}");
    let schema_json = format!("{schema}.json");
    assert_eq!(
        topics,
        [
            &schema,
            &schema_json,
            "bindings/c000",
            "bindings/c000.json",
            "bindings/c001",
            "bindings/c001.json",
            "index",
            "index.json"
        ],
        "referenced documents come first"
    );
    let documents: BTreeMap<&str, &Document> =
        in_order.iter().map(|document| (document.name.as_str(), document)).collect();
    let read = |topic: &str| serde_json::from_slice::<Value>(&documents[topic].payload).expect("JSON");
    let binding = read("bindings/c000.json");
    assert_eq!(
        binding,
        json!({
            "name": "c000", "topics": "t0/{id}", "filter": "t0/+", "formats": ["protobuf", "json"], "schemaSha256": hash,
            "message": "p.M", "onViolation": "reject", "unacknowledged": "drop", "unknownFields": "allow",
            "topicFields": { "id": "id" }
        })
    );
    assert_eq!(read("index.json")["contracts"][0], binding);
    let schema = read(&schema_json);
    assert_eq!((&schema["source"], &schema["language"]), (&json!(PROTO), &json!("protobuf")));
    assert_eq!(documents["index"].format, Format::Protobuf);
}

#[test]
fn pages_are_linked_until_the_last() {
    let catalogue = catalogue(PAGE_MAX + 5);
    let first = ask(&catalogue, &json!({}));
    assert_eq!(names(&first).len(), PAGE_MAX);
    assert_eq!(first["next"], "c099");
    let last = ask(&catalogue, &json!({ "after": first["next"] }));
    assert_eq!(names(&last), ["c100", "c101", "c102", "c103", "c104"]);
    assert!(last["next"].is_null());
    let two = ask(&catalogue, &json!({ "limit": 2, "after": "c001" }));
    assert_eq!((names(&two), &two["next"]), (vec!["c002", "c003"], &json!("c003")));
    assert_eq!(names(&ask(&catalogue, &json!({ "limit": 1_000_000 }))).len(), PAGE_MAX);
    assert_eq!(names(&ask(&catalogue, &json!({ "topic": "t7/x" }))), ["c007"]);
    assert!(names(&ask(&catalogue, &json!({ "topic": "t7" }))).is_empty());
    // They share one schema, which is sent once.
    let with = ask(&catalogue, &json!({ "schemas": true, "limit": 3 }));
    assert_eq!(with["schemas"].as_array().map(Vec::len), Some(1));
}

#[test]
fn requests_accept_both_encodings_and_can_be_empty() {
    let catalogue = catalogue(1);
    let all = answer(&catalogue, Format::Json, b"");
    assert_eq!(all, answer(&catalogue, Format::Json, b"{}"));
    let wire = answer(&catalogue, Format::Protobuf, b"");
    assert_eq!(wire, answer(&catalogue, Format::Protobuf, b"\x0a\x04t0/x\x18\x05"));
    assert!(wire.len() < all.len());
    for (format, request) in [(Format::Json, &b"{\"limit\":-1}"[..]), (Format::Json, b"{"), (Format::Protobuf, b"\x0a")]
    {
        let said = answer(&catalogue, format, request);
        assert!(String::from_utf8_lossy(&said).contains("expected"), "{request:?}");
    }
}

#[test]
fn a_client_of_the_old_protocol_understands_the_response() {
    // The schema of the other protocol, as its clients have it.
    let schema = "syntax = \"proto3\";\nmessage ServiceDiscoveryResponse { repeated SchemaInfo schemas = 1; }\n\
                  message SchemaInfo { string topic = 1; string message_type = 2; string schema_source = 3; }\n";
    let manifest = "[[contract]]\nname = 'c'\ntopics = 't'\nformat = 'protobuf'\nschema = 'd.proto'\nmessage = 'ServiceDiscoveryResponse'\n";
    let theirs = load(&[("contracts.toml", manifest), ("d.proto", schema)]).expect("valid");
    let set = &theirs.contracts()[0].schema().descriptor_set;
    let pool = DescriptorPool::decode(&**set).expect("a descriptor set");
    let root = pool.get_message_by_name("ServiceDiscoveryResponse").expect("it has it");
    let bytes = service_discovery(&catalogue(2), b"");
    let read = serde_json::to_value(DynamicMessage::decode(root, &*bytes).expect("its schema")).expect("JSON");
    let info = |at: usize| json!({ "topic": format!("t{at}/+"), "messageType": "p.M", "schemaSource": PROTO });
    assert_eq!(read, json!({ "schemas": [info(0), info(1)] }));
}

/// Schemas of 100 KB each: no response has many of them, and paging returns them all.
#[test]
fn a_page_has_a_size_limit() {
    const CONTRACTS: usize = 12;
    let mut manifest = String::new();
    let mut files = Vec::new();
    for at in 0..CONTRACTS {
        let _ = write!(
            manifest,
            "[[contract]]\nname = 'c{at:03}'\ntopics = 't{at}'\nformat = 'json'\nschema = 's{at}.json'\n"
        );
        let bytes = if at == 5 { 2 * PAGE_MAX_BYTES } else { 100_000 };
        files.push((
            format!("s{at}.json"),
            format!("{{\"title\": \"{at}\", \"description\": \"{}\"}}", "x".repeat(bytes)),
        ));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let catalogue = load(&[&[("contracts.toml", manifest.as_str())][..], &files].concat()).expect("valid");
    let expected: Vec<String> = (0..CONTRACTS).map(|at| format!("c{at:03}")).collect();

    let (mut after, mut seen, mut alone) = (String::new(), Vec::new(), 0);
    loop {
        let page = ask(&catalogue, &json!({ "schemas": true, "after": after }));
        let names: Vec<String> = names(&page).into_iter().map(str::to_owned).collect();
        assert!(names.len() == 1 || page.to_string().len() < PAGE_MAX_BYTES + 10_000, "{names:?}");
        alone += usize::from(names == ["c005"]);
        seen.extend(names);
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!((&seen, alone), (&expected, 1), "a contract that is larger than a page has its own page");
    assert_eq!(names(&ask(&catalogue, &json!({}))).len(), CONTRACTS, "without schemas they are small");

    let schema = "syntax = \"proto3\";\nmessage R { repeated I schemas = 1; string next = 15; }\nmessage I { string topic = 1; }\n\
                  message Q { string after = 2; uint32 limit = 3; }\n";
    let manifest = "[[contract]]\nname = 'c'\ntopics = 't'\nformat = 'protobuf'\nschema = 'd.proto'\nmessage = 'R'\n";
    let theirs = load(&[("contracts.toml", manifest), ("d.proto", schema)]).expect("valid");
    let pool = DescriptorPool::decode(&*theirs.contracts()[0].schema().descriptor_set).expect("a descriptor set");
    let root = pool.get_message_by_name("R").expect("it has it");
    let (mut request, mut topics) = (Vec::new(), 0);
    loop {
        let bytes = service_discovery(&catalogue, &request);
        let page =
            serde_json::to_value(DynamicMessage::decode(root.clone(), &*bytes).expect("its schema")).expect("JSON");
        let listed = page["schemas"].as_array().map_or(0, Vec::len);
        assert!(listed == 1 || bytes.len() < PAGE_MAX_BYTES + 10_000);
        topics += listed;
        let Some(next) = page["next"].as_str() else { break };
        request = [&[0x12, next.len() as u8], next.as_bytes()].concat();
    }
    assert_eq!(topics, CONTRACTS);
    assert!(!service_discovery(&catalogue, b"\xff\xff").is_empty(), "any request gets a response");
}
