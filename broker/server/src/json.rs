//! The little JSON that the log and `tautwire sub` write, and a check that text is JSON.

use std::fmt::Write as _;

/// Deepest nesting accepted by [`is_json`].
const DEPTH_MAX: usize = 128;

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // C1 controls may stand in JSON, but a terminal might obey them.
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Whether the bytes are one JSON value (RFC 8259) nested at most [`DEPTH_MAX`] deep.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else {
        return false;
    };
    let mut reader = Reader { rest: text.as_bytes() };
    reader.skip_space();
    let whole = reader.value(0).is_some();
    reader.skip_space();
    whole && reader.rest.is_empty()
}

/// What is left to read; each method takes its part from the front, or gives `None` where it does not stand.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.rest.first()? {
            b'{' => self.list(b'}', |reader| {
                reader.string()?;
                reader.skip_space();
                reader.byte(b':')?;
                reader.skip_space();
                reader.value(depth + 1)
            }),
            b'[' => self.list(b']', |reader| reader.value(depth + 1)),
            b'"' => self.string(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    /// The opening bracket, items between commas, and the closing bracket.
    fn list(&mut self, close: u8, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.rest = self.rest.get(1..)?;
        self.skip_space();
        if self.byte(close).is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            self.skip_space();
            if self.byte(close).is_some() {
                return Some(());
            }
            self.byte(b',')?;
            self.skip_space();
        }
    }

    fn string(&mut self) -> Option<()> {
        self.byte(b'"')?;
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return Some(()),
                b'\\' => {
                    let (&escape, rest) = self.rest.split_first()?;
                    self.rest = rest;
                    match escape {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        b'u' => {
                            let digits = self.rest.get(..4)?;
                            if !digits.iter().all(u8::is_ascii_hexdigit) {
                                return None;
                            }
                            self.rest = &self.rest[4..];
                        }
                        _ => return None,
                    }
                }
                0..=0x1f => return None,
                _ => {}
            }
        }
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.byte(b'-');
        if self.byte(b'0').is_none() {
            self.digits()?;
        }
        if self.byte(b'.').is_some() {
            self.digits()?;
        }
        if self.byte(b'e').or_else(|| self.byte(b'E')).is_some() {
            let _ = self.byte(b'+').or_else(|| self.byte(b'-'));
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.rest = &self.rest[count..];
        (count > 0).then_some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    fn byte(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        (*first == byte).then(|| self.rest = rest)
    }

    fn skip_space(&mut self) {
        let count = self.rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.rest = &self.rest[count..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        let mut out = String::new();
        push_string(&mut out, "a\"b\\c\nd\u{1}e\u{9b}é");
        assert_eq!(out, "\"a\\\"b\\\\c\\nd\\u0001e\\u009bé\"");
    }

    #[test]
    fn json_is_told_from_other_text() {
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
    fn deep_nesting_is_refused_and_not_followed() {
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
