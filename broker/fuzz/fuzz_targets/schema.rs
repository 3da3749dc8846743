//! Schemas and manifests of arbitrary text: no panic, no stack overflow, and a loaded schema can be compared, described and used for
//! checks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautwire_contracts::{Catalogue, Files, LoadLimits, compare, discovery};

const JSON_MANIFEST: &str = "[[contract]]\nname = 'a'\ntopics = 'a'\nformat = 'json'\nschema = 'a.json'\n";
const PROTO_MANIFEST: &str = "[[contract]]\nname = 'a'\ntopics = 'a/{id}'\nformat = 'protobuf'\nschema = 'a.proto'\n";
const PROTO: &str = "syntax = \"proto3\";\nmessage A { string id = 1; repeated A items = 2; }\n";

fuzz_target!(|input: &[u8]| {
    let [kind, text @ ..] = input else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (manifest, name, schema) = match kind % 3 {
        0 => (JSON_MANIFEST, "a.json", text),
        1 => (PROTO_MANIFEST, "a.proto", text),
        _ => (text, "a.proto", PROTO),
    };
    let files = Files::from(
        [("contracts.toml", manifest), (name, schema)].map(|(name, text)| (name.to_owned(), text.to_owned())),
    );
    let catalogue = match Catalogue::load(&files, &LoadLimits::default()) {
        Ok(catalogue) => catalogue,
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                let (line, column) = error.position.unwrap_or((1, 1));
                let lines = files.get(&error.file).map_or(usize::MAX, |text| text.split('\n').count());
                assert!(line >= 1 && column >= 1 && line <= lines, "{error}");
            }
            return;
        }
    };
    assert!(compare::compare(&catalogue, &catalogue).is_empty());
    let catalogue = std::sync::Arc::new(catalogue);
    assert!(discovery::Documents::of(catalogue.clone()).count() > 1);
    for contract in catalogue.contracts() {
        for payload in [&b""[..], b"{}", b"[1,\"x\",null]", b"\x0a\x01a\x12\x00", b"\x81\xa1a\x01"] {
            let _ = contract.check("a/b", None, payload);
        }
    }
});
