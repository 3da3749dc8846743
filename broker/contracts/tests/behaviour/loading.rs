use crate::{errors, load};

const SCHEMA: (&str, &str) =
    ("s.proto", "syntax = \"proto3\";\nmessage A { string id = 1; }\nmessage B { int32 n = 1; }\n");

fn manifest_errors(manifest: &str) -> String {
    errors(&[("contracts.toml", manifest), SCHEMA])
}

#[test]
fn each_error_has_a_code_a_line_and_a_column() {
    let good = "[[contract]]\nname = 'a'\ntopics = 'a/{id}'\nformat = 'protobuf'\nschema = 's.proto'\nmessage = 'A'\n";
    assert_eq!(manifest_errors(good), "");
    for (from, to, wanted) in [
        ("name = 'a'", "name = ", "contracts.toml:2:8: not valid TOML: "),
        ("name = 'a'", "name = 'a'\nnmae = 1", "contracts.toml:3:1: unknown key nmae; "),
        ("name = 'a'\n", "", "contracts.toml:1:1: the contract has no name [contract_missing]"),
        ("name = 'a'", "name = 'a b'", "name must have only letters, digits, _ and -"),
        ("name = 'a'", "name = ''", "contracts.toml:2:8: name must be a non-empty string [contract_value]"),
        ("name = 'a'", "name = 7", "contracts.toml:2:8: name must be a non-empty string [contract_value]"),
        ("'a/{id}'", "'a/#/b'", "contracts.toml:3:10: topics: it is not a topic filter"),
        ("'a/{id}'", "'$SYS/a'", "contracts.toml:3:10: topics: topics below $SYS"),
        ("'protobuf'", "'xml'", "contracts.toml:4:10: format must be one of protobuf, messagepack, json"),
        ("'protobuf'", "['json', 'json']", "contracts.toml:4:10: format must be one of"),
        ("'protobuf'", "[]", "contracts.toml:4:10: format must be one of"),
        ("'s.proto'", "'t.proto'", "contracts.toml:5:10: the file t.proto is not in the folder [contract_schema]"),
        ("'s.proto'", "'contracts.toml'", "contracts.toml is neither a .proto nor a .json file [contract_schema]"),
        (
            "message = 'A'",
            "message = 'C'",
            "contracts.toml:5:10: s.proto has no message C; it has A, B [contract_schema]",
        ),
        ("message = 'A'", "", "contracts.toml:5:10: message is missing; s.proto has A, B [contract_schema]"),
        (
            "message = 'A'",
            "message = 'A'\non_violation = 'explode'",
            "contracts.toml:7:16: on_violation must be one of observe",
        ),
        (
            "message = 'A'",
            "message = 'A'\nunacknowledged = 1",
            "contracts.toml:7:18: unacknowledged must be a non-empty string",
        ),
        (
            "message = 'A'",
            "message = 'A'\nunknown_fields = 'x'",
            "contracts.toml:7:18: unknown_fields must be one of allow, reject",
        ),
        ("message = 'A'", "message = 'A'\ntopic_fields = 1", "contracts.toml:7:16: topic_fields must be a table"),
        (
            "message = 'A'",
            "message = 'A'\ntopic_fields = { x = 'id' }",
            "contracts.toml:1:1: topic_fields: topics has no level {x}",
        ),
        (
            "message = 'A'",
            "message = 'A'\ntopic_fields = { id = 'x' }",
            "contracts.toml:1:1: topic_fields: A has no field x",
        ),
        ("[[contract]]", "[contract]", "write [[contract]], with two brackets"),
        ("[[contract]]", "top = 1\n[[contract]]", "contracts.toml:1:1: unknown key top; the only key is [[contract]]"),
    ] {
        let broken = good.replace(from, to);
        assert_ne!(broken, good, "{from}");
        let said = manifest_errors(&broken);
        assert!(said.contains(wanted), "{to}\n{said}\nnot: {wanted}");
    }
}

#[test]
fn schema_errors_are_reported_with_their_position() {
    let said = errors(&[("a.proto", "syntax = \"proto3\";\nmessage A {\n  strin id = 1;\n}\n")]);
    assert!(said.starts_with("a.proto:3:3: ") && said.ends_with("[contract_schema]"), "{said}");
    let said = errors(&[("a.proto", "syntax = \"proto3\";\nmessage A {\n  string id = ;\n}\n")]);
    assert!(said.starts_with("a.proto:3:15: "), "{said}");
    let said = errors(&[("a.proto", "syntax = \"proto3\";\nimport \"nowhere.proto\";\n")]);
    assert!(said.starts_with("a.proto:2:1: ") && said.contains("nowhere.proto"), "{said}");
    let manifest = "[[contract]]\nname = 'j'\ntopics = 'j'\nformat = 'json'\nschema = 'j.json'\n";
    for (schema, wanted) in [
        ("{\n  \"type\": \"strin\"\n}", "j.json:2:11: unknown type \"strin\""),
        ("{\n  \"anyOf\": []\n}", "j.json:2:12: the keyword anyOf is not supported"),
        ("{\n  \"$ref\": \"http://example.org/x\"\n}", "j.json:2:11: $ref points outside the file"),
        ("{\"$ref\": \"#/$defs/a\"}", "j.json:1:10: $ref #/$defs/a does not exist"),
        ("{\"$ref\": \"#\"}", "j.json:1:10: $ref # is circular"),
        ("{\"pattern\": \"(?=x)\"}", "j.json:1:13: the pattern cannot be matched in linear time"),
        ("{\"format\": \"email\"}", "j.json:1:12: the format \"email\" is not supported; use a pattern"),
        ("{\"minLength\": -1}", "j.json:1:15: minLength must be a non-negative integer"),
        ("{\"multipleOf\": 0}", "j.json:1:16: multipleOf must be greater than 0"),
        ("{\"enum\": [[]]}", "j.json:1:11: a list or an object in enum or const"),
        ("{", "j.json:1:2: not valid JSON"),
        ("7", "j.json:1:1: a schema must be an object, true or false"),
    ] {
        let said = errors(&[("contracts.toml", manifest), ("j.json", schema)]);
        assert!(said.contains(wanted), "{schema}\n{said}\nnot: {wanted}");
    }
}

#[test]
fn conflicting_contracts_are_refused_by_both_names() {
    let two = |first: &str, second: &str, topics: &str| {
        let one = |name: &str, topics: &str| {
            format!(
                "[[contract]]\nname = '{name}'\ntopics = '{topics}'\nformat = 'protobuf'\nschema = 's.proto'\nmessage = 'A'\n"
            )
        };
        manifest_errors(&(one(first, "a/{id}") + &one(second, topics)))
    };
    assert_eq!(
        two("a", "b", "a/+"),
        "contracts.toml:7:1: the contracts b (a/+) and a (a/{id}) overlap in some topics; change their topics so that only one applies \
         [contract_overlap]"
    );
    assert_eq!(two("a", "a", "b"), "contracts.toml:7:1: there are two contracts with the name a [contract_duplicate]");
    assert_eq!(two("a", "b", "b/+"), "");
}

/// A contract without a policy protects its subscribers: to deliver invalid payloads must be a choice.
#[test]
fn a_contract_without_a_policy_rejects_violations() {
    let manifest = "[[contract]]\nname = 'a'\ntopics = 'a'\nformat = 'protobuf'\nschema = 's.proto'\nmessage = 'A'\n";
    let managed = "topics = 'm'\nformat = 'protobuf'\nschema = 's.proto'\nmessage = 'B'\n";
    let option = "syntax = \"proto3\";\nimport \"tautwire/contract.proto\";\nmessage O {\n\
                  option (tautwire.contract) = { topics: \"o\" };\nstring id = 1;\n}\n";
    let files = [("contracts.toml", manifest), SCHEMA, ("managed/m.toml", managed), ("o.proto", option)];
    let catalogue = load(&files).expect("valid");
    let policies: Vec<_> = catalogue.contracts().iter().map(|c| (c.name(), c.on_violation().name())).collect();
    assert_eq!(policies, [("a", "reject"), ("m", "reject"), ("o", "reject")]);
}

#[test]
fn a_schema_can_contain_its_contract() {
    let schema = |option: &str| {
        format!(
            "syntax = \"proto3\";\npackage p;\nimport \"tautwire/contract.proto\";\nmessage Reading {{\n\
             option (tautwire.contract) = {{ {option} }};\nstring device_id = 1;\n}}\n"
        )
    };
    let text = schema(
        "topics: \"s/{device_id}\" format: \"json\" format: \"protobuf\" on_violation: \"disconnect\" \
         unacknowledged: \"disconnect\" unknown_fields: \"reject\" topic_fields: { key: \"device_id\" value: \"device_id\" }",
    );
    let catalogue = load(&[("r.proto", &text)]).expect("valid");
    let contract = catalogue.named("reading").expect("the message's name in lower case");
    assert_eq!(contract.schema().message.as_ref(), "p.Reading");
    assert_eq!(contract.formats().iter().map(|format| format.name()).collect::<Vec<_>>(), ["json", "protobuf"]);
    assert_eq!(contract.on_violation().name(), "disconnect");
    assert_eq!(contract.unacknowledged(), tautwire_contracts::Unacknowledged::Disconnect);
    assert!(contract.unknown_fields_refused());
    assert_eq!(contract.topic_fields().collect::<Vec<_>>(), [("device_id", "device_id")]);
    assert_eq!(catalogue.find("s/7").map(|found| found.name()), Some("reading"));
    assert!(catalogue.find("s/7/x").is_none());

    for (option, wanted) in [
        ("name: \"x\"", "topics is missing"),
        ("topics: \"a\" on_violation: \"x\"", "on_violation must be one of"),
        ("topics: \"a\" unacknowledged: \"x\"", "unacknowledged must be one of"),
        ("topics: \"a\" unknown_fields: \"x\"", "unknown_fields must be one of"),
        ("topics: \"a\" format: \"x\"", "format must be one of"),
        ("topics: \"a\" colour: 1", "invalid value of type 'tautwire.Contract'"),
    ] {
        let said = errors(&[("r.proto", &schema(option))]);
        assert!(said.starts_with("r.proto:") && said.contains(wanted), "{option}\n{said}");
    }

    // The manifest overrides the options of a message.
    let manifest =
        "[[contract]]\nname = 'other'\ntopics = 'o'\nformat = 'json'\nschema = 'r.proto'\nmessage = 'p.Reading'\n";
    let catalogue = load(&[("r.proto", &text), ("contracts.toml", manifest)]).expect("valid");
    assert_eq!(catalogue.contracts().iter().map(|contract| contract.name()).collect::<Vec<_>>(), ["other"]);
}

#[test]
fn formats_that_a_schema_does_not_support_are_refused() {
    let any =
        "syntax = \"proto3\";\nimport \"google/protobuf/any.proto\";\nmessage A { google.protobuf.Any any = 1; }\n";
    let manifest = |format: &str, schema: &str| {
        format!("[[contract]]\nname = 'a'\ntopics = 'a'\nformat = {format}\nschema = '{schema}'\n")
    };
    assert_eq!(errors(&[("a.proto", any), ("contracts.toml", &manifest("'protobuf'", "a.proto"))]), "");
    let said = errors(&[("a.proto", any), ("contracts.toml", &manifest("['protobuf', 'json']", "a.proto"))]);
    assert!(said.contains("json cannot represent google.protobuf.Any"), "{said}");
    let said = errors(&[("a.json", "{}"), ("contracts.toml", &manifest("'protobuf'", "a.json"))]);
    assert!(said.contains("protobuf cannot represent a JSON Schema"), "{said}");
    let with_message = manifest("'json'", "a.json") + "message = 'A'\n";
    let said = errors(&[("a.json", "{}"), ("contracts.toml", &with_message)]);
    assert!(said.contains("message is for .proto files"), "{said}");
}
