//! JSON strings.

use crate::violation::{Checked, Rule, Violation};

/// The end of a string that starts at `start`, after its quotation mark, and whether it has escapes.
#[inline]
pub(crate) fn scan(bytes: &[u8], start: usize) -> Checked<(usize, bool)> {
    let at = plain_end(bytes, start);
    match bytes.get(at) {
        Some(b'"') => Ok((at, false)),
        Some(b'\\') => scan_escaped(bytes, at),
        Some(_) => Err(control_character(at)),
        None => Err(no_end(at)),
    }
}

fn scan_escaped(bytes: &[u8], start: usize) -> Checked<(usize, bool)> {
    let mut at = start;
    loop {
        at = plain_end(bytes, at);
        match bytes.get(at) {
            Some(b'"') => return Ok((at, true)),
            Some(b'\\') => at = escape_end(bytes, at)?,
            Some(_) => return Err(control_character(at)),
            None => return Err(no_end(at)),
        }
    }
}

/// The first quotation mark, backslash or control character from `at` on; tests eight bytes at a time.
#[inline]
pub(super) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * b'"' as u64);
        let backslash = word ^ (ONES * b'\\' as u64);
        // The lowest set high bit is exact; borrows reach only bytes above it.
        let found = (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        if found & HIGHS != 0 {
            return at + (found & HIGHS).trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| *byte >= 0x20 && *byte != b'"' && *byte != b'\\') {
        at += 1;
    }
    at
}

/// The end of the escape at `at`. A surrogate must be part of a pair.
fn escape_end(bytes: &[u8], at: usize) -> Checked<usize> {
    let bad = || Violation::new(Rule::Malformed, at, "a JSON escape", "an unknown escape");
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => {
            let unit = code_unit(bytes, at).ok_or_else(bad)?;
            match unit {
                0xD800..=0xDBFF => match code_unit(bytes, at + 6) {
                    Some(0xDC00..=0xDFFF) => Ok(at + 12),
                    _ => Err(Violation::new(Rule::Utf8, at, "both halves of a surrogate pair", "one")),
                },
                0xDC00..=0xDFFF => Err(Violation::new(Rule::Utf8, at, "both halves of a surrogate pair", "one")),
                _ => Ok(at + 6),
            }
        }
        _ => Err(bad()),
    }
}

/// The code unit of a `\u` escape at `at`.
fn code_unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

/// A scanned string with its escapes decoded.
pub(crate) fn unescaped(raw: &str) -> String {
    let bytes = raw.as_bytes();
    let mut text = String::with_capacity(raw.len());
    let mut rest = 0;
    while let Some(found) = raw[rest..].find('\\') {
        let at = rest + found;
        text.push_str(&raw[rest..at]);
        rest = at + 2;
        match bytes.get(at + 1) {
            Some(b'b') => text.push('\u{8}'),
            Some(b'f') => text.push('\u{c}'),
            Some(b'n') => text.push('\n'),
            Some(b'r') => text.push('\r'),
            Some(b't') => text.push('\t'),
            Some(b'u') => {
                let unit = code_unit(bytes, at).unwrap_or(0xFFFD);
                let pair = (0xD800..0xDC00).contains(&unit).then(|| code_unit(bytes, at + 6)).flatten();
                let scalar = pair.map_or(unit, |low| 0x10000 + ((unit - 0xD800) << 10) + low.wrapping_sub(0xDC00));
                text.push(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
                rest = at + if pair.is_some() { 12 } else { 6 };
            }
            Some(other) => text.push(char::from(*other)),
            None => rest = raw.len(),
        }
    }
    text.push_str(&raw[rest..]);
    text
}

/// Appends `text` in quotation marks.
pub(crate) fn write(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut rest = 0;
    loop {
        let at = plain_end(bytes, rest);
        out.extend_from_slice(&bytes[rest..at]);
        let Some(byte) = bytes.get(at) else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', DIGITS[high], DIGITS[low]]);
            }
        }
        rest = at + 1;
    }
    out.push(b'"');
}

/// The number of bytes that [`write`] appends.
#[cold]
pub(crate) fn written_len(text: &str) -> usize {
    let escaped = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    2 + text.len() + text.as_bytes().iter().map(escaped).sum::<usize>()
}

#[cold]
fn control_character(at: usize) -> Box<Violation> {
    Violation::new(Rule::Malformed, at, "a character of a string", "an unescaped control character")
}

#[cold]
fn no_end(at: usize) -> Box<Violation> {
    Violation::new(Rule::Malformed, at, "the end of the string", "the end of the payload")
}
