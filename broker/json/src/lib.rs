//! A small JSON (RFC 8259) reader and writer for the log, the tools, the admin API and authentication. Message payloads have their own
//! readers, which build no values.
#![forbid(unsafe_code)]

mod string;
mod value;

pub use string::push_string;
pub use value::{DEPTH_MAX, SyntaxError, Value, parse};

/// Whether the bytes are one JSON value (RFC 8259) nested no deeper than [`DEPTH_MAX`].
#[must_use]
pub fn is_json(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_ok_and(|text| parse(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::value::DEPTH_MAX;
    use super::*;

    #[test]
    fn strings_are_escaped() {
        let mut out = String::new();
        push_string(&mut out, "a\"b\\c\nd\u{1}e\u{9b}é");
        assert_eq!(out, "\"a\\\"b\\\\c\\nd\\u0001e\\u009bé\"");
    }

    #[test]
    fn json_is_distinguished_from_other_text() {
        for good in ["null", " {} ", "[1,-2.5e+3,\"\\u00e9\\n\",{\"a\":[true,false]}]", "0", "\"\"", "[ ]", "1E9"] {
            assert!(is_json(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "{\"a\":1,}",
            "01",
            "+1",
            "1.",
            "\"\u{1}\"",
            "\"\\x\"",
            "nul",
            "1 2",
            "'a'",
            "\"\\u12g4\"",
        ] {
            assert!(!is_json(bad.as_bytes()), "{bad}");
        }
        assert!(!is_json(b"\"\xff\""));
    }

    #[test]
    fn deep_nesting_is_refused_without_recursion() {
        assert!(is_json(
            "[".repeat(DEPTH_MAX)
                .as_bytes()
                .iter()
                .copied()
                .chain(vec![b']'; DEPTH_MAX])
                .collect::<Vec<_>>()
                .as_slice()
        ));
        assert!(!is_json(&vec![b'['; 1_000_000]));
    }
}
