//! Fast paths that skip values in their usual form without decoding them. Each returns the end of the value, or `None` if it needs the slow
//! path.

use super::string;

/// An integer of at most `digits_max` digits, with or without quotation marks.
#[inline]
pub(super) fn integer(bytes: &[u8], start: usize, digits_max: usize, signed: bool) -> Option<usize> {
    let quoted = bytes.get(start) == Some(&b'"');
    let mut at = start + usize::from(quoted);
    if signed && bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    let end = digits(bytes, at)?;
    if end - at > digits_max {
        return None;
    }
    match (bytes.get(end), quoted) {
        (Some(b'"'), true) => Some(end + 1),
        (Some(b'.' | b'e' | b'E'), false) => None,
        (_, quoted) => (!quoted).then_some(end),
    }
}

/// A number without an exponent, with so few digits that it fits a `float`.
#[inline]
pub(super) fn decimal(bytes: &[u8], start: usize) -> Option<usize> {
    const LENGTH_MAX: usize = 38;
    let at = start + usize::from(bytes.get(start) == Some(&b'-'));
    let mut end = digits(bytes, at)?;
    if bytes.get(end) == Some(&b'.') {
        let fraction = end + 1;
        end = run(bytes, fraction);
        if end == fraction {
            return None;
        }
    }
    let is_plain = end - start <= LENGTH_MAX && !matches!(bytes.get(end), Some(b'e' | b'E'));
    is_plain.then_some(end)
}

#[inline]
pub(super) fn boolean(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at..)? {
        [b't', b'r', b'u', b'e', ..] => Some(at + 4),
        [b'f', b'a', b'l', b's', b'e', ..] => Some(at + 5),
        _ => None,
    }
}

/// A string without escapes.
#[inline]
pub(super) fn text(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let end = string::plain_end(bytes, at + 1);
    (bytes.get(end) == Some(&b'"')).then_some(end + 1)
}

/// The end of at least one digit without leading zeros.
#[inline]
fn digits(bytes: &[u8], at: usize) -> Option<usize> {
    let end = run(bytes, at);
    let is_number = end > at && (end == at + 1 || bytes[at] != b'0');
    is_number.then_some(end)
}

#[inline]
fn run(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b'0'..=b'9')) {
        at += 1;
    }
    at
}
