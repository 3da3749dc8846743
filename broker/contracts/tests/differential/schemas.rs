//! Pseudorandom schemas, from a seed.

use std::fmt::Write as _;

use crate::choices::Choices;

const SCALARS: [&str; 15] = [
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "string", "bytes",
];
const KEYS: [&str; 6] = ["string", "int32", "uint64", "sint64", "bool", "fixed32"];
const WELL_KNOWN: [(&str, &str); 7] = [
    ("google.protobuf.Timestamp", "timestamp"),
    ("google.protobuf.Duration", "duration"),
    ("google.protobuf.Struct", "struct"),
    ("google.protobuf.Value", "struct"),
    ("google.protobuf.ListValue", "struct"),
    ("google.protobuf.Int64Value", "wrappers"),
    ("google.protobuf.StringValue", "wrappers"),
];

/// A schema with the message `p.M0` and others that it may use.
pub(crate) fn generate(choices: &mut Choices) -> String {
    let messages = 1 + choices.below(4);
    let mut text = String::from("syntax = \"proto3\";\npackage p;\n");
    for file in ["timestamp", "duration", "struct", "wrappers"] {
        let _ = writeln!(text, "import \"google/protobuf/{file}.proto\";");
    }
    text.push_str("enum E { E_NONE = 0; E_ONE = 1; E_MINUS = -7; E_BIG = 70000; }\n");
    for index in 0..messages {
        let _ = writeln!(text, "message M{index} {{");
        let mut number = 0;
        for field in 0..choices.below(9) {
            number += 1 + if choices.one_in(4) { choices.below(300) } else { 0 };
            if choices.one_in(7) {
                let _ = writeln!(text, "  oneof o{field} {{");
                for part in 0..2 {
                    let kind = kind(choices, messages);
                    let _ = writeln!(text, "    {kind} f_{field}_{part} = {number};");
                    number += 1;
                }
                text.push_str("  }\n");
                continue;
            }
            let kind = kind(choices, messages);
            let (label, options) = match choices.below(6) {
                0 => ("repeated ", if choices.one_in(3) && is_packable(&kind) { " [packed = false]" } else { "" }),
                1 => ("optional ", ""),
                2 => {
                    let key = choices.of(&KEYS);
                    let _ = writeln!(text, "  map<{key}, {kind}> f_{field} = {number};");
                    continue;
                }
                _ => ("", ""),
            };
            let _ = writeln!(text, "  {label}{kind} f_{field} = {number}{options};");
        }
        text.push_str("}\n");
    }
    text
}

fn kind(choices: &mut Choices, messages: usize) -> String {
    match choices.below(10) {
        0 => "E".to_owned(),
        1 => format!("M{}", choices.below(messages)),
        2 => choices.of(&WELL_KNOWN).0.to_owned(),
        _ => (*choices.of(&SCALARS)).to_owned(),
    }
}

fn is_packable(kind: &str) -> bool {
    kind == "E" || (SCALARS.contains(&kind) && kind != "string" && kind != "bytes")
}
