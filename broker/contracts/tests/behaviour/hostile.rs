use std::fmt::Write as _;

use tautwire_contracts::{Catalogue, LoadLimits, PlanLimits};

use crate::{errors, files};

const MANIFEST: &str =
    "[[contract]]\nname = 'c'\ntopics = 'c'\nformat = 'protobuf'\nschema = 's.proto'\nmessage = 'M0'\n";
const JSON_MANIFEST: &str = "[[contract]]\nname = 'c'\ntopics = 'c'\nformat = 'json'\nschema = 's.json'\n";

fn proto(body: &str) -> String {
    errors(&[("contracts.toml", MANIFEST), ("s.proto", &format!("syntax = \"proto3\";\n{body}"))])
}

fn json(schema: &str) -> String {
    errors(&[("contracts.toml", JSON_MANIFEST), ("s.json", schema)])
}

#[test]
fn a_message_of_ten_thousand_fields_is_refused() {
    let fields = |count: usize| {
        (1..=count).fold(String::new(), |mut text, number| {
            let _ = writeln!(text, "int32 f{number} = {};", number + usize::from(number >= 19_000) * 1_000);
            text
        })
    };
    let message = proto(&format!("message M0 {{ {} }}", fields(10_000)));
    assert!(message.contains("M0: the message has more than 1000 fields [contract_schema]"), "{message}");
    assert_eq!(proto(&format!("message M0 {{ {} }}", fields(1_000))), "");
}

#[test]
fn limits_hold_for_messages_enumerations_and_required_fields() {
    let chain = |count: usize| {
        (0..count).fold(String::new(), |mut text, at| {
            let _ = writeln!(text, "message M{at} {{ M{} next = 1; }}", (at + 1) % count);
            text
        })
    };
    assert_eq!(proto(&chain(1_000)), "");
    assert!(proto(&chain(1_001)).contains("the schema has more than 1000 message types"));
    let values = (0..10_001).fold(String::new(), |mut text, at| {
        let _ = writeln!(text, "V{at} = {at};");
        text
    });
    let message = proto(&format!("enum E {{ {values} }} message M0 {{ E e = 1; }}"));
    assert!(message.contains("the enumeration has 10001 values; the maximum is 10000"), "{message}");
    let required = |count: usize| {
        let fields = (1..=count).fold(String::new(), |text, at| text + &format!("required int32 f{at} = {at};\n"));
        errors(&[
            ("contracts.toml", MANIFEST),
            ("s.proto", &format!("syntax = \"proto2\";\nmessage M0 {{ {fields} }}")),
        ])
    };
    assert_eq!(required(64), "");
    assert!(required(65).contains("M0: more than 64 fields are required"));
    // Limits may be wider than what the walks support.
    let wide = LoadLimits { plan: PlanLimits { fields: 100_000, ..PlanLimits::default() }, ..LoadLimits::default() };
    let fields = (1..=1_025).fold(String::new(), |text, at| text + &format!("int32 f{at} = {at};\n"));
    let list =
        [("contracts.toml", MANIFEST), ("s.proto", &*format!("syntax = \"proto3\";\nmessage M0 {{ {fields} }}"))];
    let message = Catalogue::load(&files(&list), &wide).expect_err("too many")[0].to_string();
    assert!(message.contains("more than 1024 fields"), "{message}");
}

#[test]
fn deeply_nested_text_is_refused_without_a_crash() {
    let nested = |depth: usize| "message M0 {".repeat(depth) + &"}".repeat(depth);
    assert_eq!(proto(&nested(30)), "");
    for bomb in [nested(65), nested(20_000), "{".repeat(500_000), format!("message M0 {{ {}", "map<".repeat(100_000))] {
        let message = proto(&bomb);
        assert!(message.contains("nested deeper than 64"), "{}", &message[..message.len().min(200)]);
    }
    for bomb in ["[".repeat(500_000), "{\"items\":".repeat(60_000) + "1"] {
        let message = json(&bomb);
        assert!(
            message.contains("not valid JSON") && message.contains("[depth]"),
            "{}",
            &message[..message.len().min(200)]
        );
    }
}

#[test]
fn deep_imports_are_loaded_or_refused_without_a_crash() {
    let chain = |count: usize| {
        let mut list = vec![("contracts.toml".to_owned(), MANIFEST.replace("'s.proto'", "'f0.proto'"))];
        for at in 0..count {
            let import = if at + 1 < count { format!("import public \"f{}.proto\";", at + 1) } else { String::new() };
            list.push((format!("f{at}.proto"), format!("syntax = \"proto3\";\n{import}\nmessage M{at} {{}}\n")));
        }
        let files = list.into_iter().collect();
        Catalogue::load(&files, &LoadLimits::default()).map_err(|errors| errors[0].to_string()).map(|_| ())
    };
    assert_eq!(chain(60), Ok(()));
    assert!(
        chain(200)
            .is_err_and(|message| message.contains("the folder has 201 files; the maximum is 200 [contract_limit]"))
    );
    let message = errors(&[
        ("a.proto", "syntax = \"proto3\";\nimport \"b.proto\";\n"),
        ("b.proto", "syntax = \"proto3\";\nimport \"a.proto\";\n"),
    ]);
    assert!(message.contains("[contract_schema]"), "{message}");
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let message = proto(&" ".repeat(1024 * 1024));
    assert!(message.contains("bytes; the maximum is 1048576 [contract_limit]"), "{message}");
}

#[test]
fn large_json_schemas_are_refused_early() {
    let many = |count: usize, of: &dyn Fn(usize) -> String| (0..count).map(of).collect::<Vec<_>>().join(",");
    let properties = format!("{{\"properties\":{{{}}}}}", many(30_000, &|at| format!("\"p{at}\":{{\"$ref\":\"#\"}}")));
    assert!(json(&properties).contains("there are more than 1000 properties"));
    let required = format!("{{\"required\":[{}]}}", many(100_000, &|at| format!("\"r{at}\"")));
    assert!(json(&required).contains("there are more than 1000 properties"));
    let schemas = format!("{{\"prefixItems\":[{}]}}", many(50_000, &|_| "{}".to_owned()));
    assert!(json(&schemas).contains("there are more than 1000 schemas"));
    let long = format!("{{\"pattern\":\"{}\"}}", "a".repeat(1_001));
    assert!(json(&long).contains("the pattern is longer than 1000 bytes"));
}

#[test]
fn long_reference_chains_are_followed_or_refused_without_a_crash() {
    let chain = |count: usize, of: &dyn Fn(usize) -> String| {
        let definitions = (0..count).map(|at| format!("\"d{at}\":{}", of(at + 1))).collect::<Vec<_>>().join(",");
        json(&format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{definitions},\"d{count}\":{{}}}}}}"))
    };
    let straight = |next: usize| format!("{{\"$ref\":\"#/$defs/d{next}\"}}");
    let through_items = |next: usize| format!("{{\"items\":{{\"$ref\":\"#/$defs/d{next}\"}}}}");
    assert_eq!(chain(20, &straight), "");
    assert_eq!(chain(20, &through_items), "");
    assert!(!chain(20_000, &straight).is_empty());
    assert!(!chain(20_000, &through_items).is_empty());
}
