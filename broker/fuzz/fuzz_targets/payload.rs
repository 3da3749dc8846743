//! Payloads of arbitrary bytes, checked by a contract: no panic, and a valid payload can be transcoded to each supported format, is valid
//! there, and survives the round trip.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use tautwire_contracts::{Catalogue, Contract, Files, Format, LoadLimits};

/// The message types of the shared vectors.
const MESSAGES: [(&str, &str); 8] = [
    ("Scalars", "types.proto"),
    ("Lists", "types.proto"),
    ("Maps", "types.proto"),
    ("Choice", "types.proto"),
    ("WellKnown", "types.proto"),
    ("Names", "types.proto"),
    ("Tree", "types.proto"),
    ("Needed", "legacy.proto"),
];

const JSON_SCHEMA: &str = r##"{
  "type": "object",
  "properties": {
    "a": { "type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]*$" },
    "b": { "type": "integer", "minimum": -5, "exclusiveMaximum": 1e30, "multipleOf": 3 },
    "c": { "type": ["number", "null"], "multipleOf": 0.5 },
    "d": { "type": "array", "prefixItems": [{ "const": 1 }], "items": { "$ref": "#" }, "maxItems": 4 },
    "e": { "enum": ["x", 1, null, 2.5] },
    "f": { "type": "string", "format": "date-time" },
    "g": { "additionalProperties": { "type": "boolean" }, "maxProperties": 3 }
  },
  "required": ["a"]
}"##;

static CONTRACTS: LazyLock<Vec<Arc<Contract>>> = LazyLock::new(|| {
    let mut manifest = String::new();
    for (message, schema) in MESSAGES {
        for rule in ["allow", "reject"] {
            manifest.push_str(&format!(
                "[[contract]]\nname = '{message}-{rule}'\ntopics = '{message}/{rule}/{{level}}'\nschema = '{schema}'\n\
                 message = '{message}'\nformat = ['protobuf', 'json', 'messagepack']\nunknown_fields = '{rule}'\n"
            ));
        }
    }
    manifest.push_str(
        "[[contract]]\nname = 'schema'\ntopics = 'schema'\nschema = 's.json'\nformat = ['json', 'messagepack']\n",
    );
    let files = Files::from([
        ("contracts.toml".to_owned(), manifest),
        ("s.json".to_owned(), JSON_SCHEMA.to_owned()),
        ("types.proto".to_owned(), include_str!("../../../spec/vectors/contracts/types.proto").to_owned()),
        ("legacy.proto".to_owned(), include_str!("../../../spec/vectors/contracts/legacy.proto").to_owned()),
    ]);
    let catalogue = Catalogue::load(&files, &LoadLimits::default()).expect("valid files");
    catalogue.contracts().to_vec()
});

fuzz_target!(|input: &[u8]| {
    let [contract, format, payload @ ..] = input else { return };
    let contract = &CONTRACTS[usize::from(*contract) % CONTRACTS.len()];
    let from = Format::ALL[usize::from(*format) % Format::ALL.len()];
    let check = |format: Format, payload: &[u8]| contract.check("t", Some(format.content_type()), payload).is_ok();
    // Without a content type all of them are tried.
    let _ = contract.check("t", None, payload);
    if !check(from, payload) {
        return;
    }
    for to in Format::ALL.into_iter().filter(|to| contract.can_transcode_to(*to)) {
        let Some(made) = transcoded(contract, from, to, payload) else { continue };
        // Unknown fields have been dropped, or passed on by a JSON Schema.
        assert!(check(to, &made), "{} {from:?} to {to:?}", contract.name());
        // Another round trip sorts fields and resolves duplicate keys; further ones change nothing.
        let settled = transcoded(contract, to, to, &made).expect("it was made");
        assert_eq!(
            transcoded(contract, to, to, &settled).as_ref(),
            Some(&settled),
            "{} {from:?} to {to:?}",
            contract.name()
        );
    }
});

/// `None` if the other format cannot represent it, such as a timestamp after the year 9999.
fn transcoded(contract: &Contract, from: Format, to: Format, payload: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    contract.transcode(from, to, payload, &mut out, usize::MAX).ok()?;
    Some(out)
}
