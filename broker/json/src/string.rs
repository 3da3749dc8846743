//! JSON strings.

use std::fmt::Write as _;

/// Appends `text` as a JSON string, quotes included.
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // C1 controls are allowed in JSON, but a terminal might interpret them.
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}
