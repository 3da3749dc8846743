//! The wire format: tags, numbers, lengths.

use crate::violation::{Checked, Rule, Violation};

/// A tag: the field's number, and how its value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) number: u32,
    pub(crate) wire_type: u8,
}

const TAG_MAX_BYTES: usize = 5;
const VARINT_MAX_BYTES: usize = 10;

/// The number at `at`, and its end.
#[inline]
pub(crate) fn varint(bytes: &[u8], at: usize) -> Checked<(u64, usize)> {
    match bytes.get(at) {
        Some(first) if *first < 0x80 => Ok((u64::from(*first), at + 1)),
        _ => long_varint(bytes, at),
    }
}

fn long_varint(bytes: &[u8], at: usize) -> Checked<(u64, usize)> {
    let mut value = 0u64;
    for (place, byte) in bytes.get(at..).unwrap_or_default().iter().take(VARINT_MAX_BYTES).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if *byte < 0x80 {
            // The tenth byte has only one significant bit.
            if place == VARINT_MAX_BYTES - 1 && *byte > 1 {
                break;
            }
            return Ok((value, at + place + 1));
        }
    }
    Err(bad_varint(bytes, at))
}

/// The end of the number at `at`.
#[inline]
pub(crate) fn skip_varint(bytes: &[u8], at: usize) -> Checked<usize> {
    match bytes.get(at) {
        Some(first) if *first < 0x80 => Ok(at + 1),
        _ => long_varint(bytes, at).map(|(_, end)| end),
    }
}

#[cold]
fn bad_varint(bytes: &[u8], at: usize) -> Box<Violation> {
    let left = bytes.len().saturating_sub(at);
    let found = if left < VARINT_MAX_BYTES { "the end of the payload" } else { "a number of more than 64 bits" };
    Violation::new(Rule::Malformed, at, "a number of at most 10 bytes", found)
}

/// The tag at `at`, and its end.
pub(crate) fn tag(bytes: &[u8], at: usize) -> Checked<(Tag, usize)> {
    let (value, end) = varint(bytes, at)?;
    let number = value >> 3;
    if value > u64::from(u32::MAX) || number == 0 || end - at > TAG_MAX_BYTES {
        return Err(Violation::new(Rule::Malformed, at, "a tag with a field number", "another number"));
    }
    Ok((Tag { number: number as u32, wire_type: (value & 7) as u8 }, end))
}

/// The start and end of the bytes of the length-delimited value at `at`.
#[inline]
pub(crate) fn delimited(bytes: &[u8], at: usize) -> Checked<(usize, usize)> {
    let (length, start) = varint(bytes, at)?;
    match usize::try_from(length).ok().and_then(|length| start.checked_add(length)) {
        Some(end) if end <= bytes.len() => Ok((start, end)),
        _ => Err(past_the_end(at)),
    }
}

/// The end of the value of `size` bytes at `at`.
#[inline]
pub(crate) fn fixed(bytes: &[u8], at: usize, size: usize) -> Checked<usize> {
    let end = at + size;
    if end <= bytes.len() { Ok(end) } else { Err(past_the_end(at)) }
}

#[cold]
fn past_the_end(at: usize) -> Box<Violation> {
    Violation::new(Rule::Malformed, at, "a value within the payload", "one that ends after it")
}

/// The end of a value of an unknown field.
pub(crate) fn skip(bytes: &[u8], at: usize, wire_type: u8) -> Checked<usize> {
    match wire_type {
        0 => skip_varint(bytes, at),
        1 => fixed(bytes, at, 8),
        2 => Ok(delimited(bytes, at)?.1),
        5 => fixed(bytes, at, 4),
        3 | 4 => Err(Violation::new(Rule::Group, at, "a field", "a group")),
        _ => Err(Violation::new(Rule::Malformed, at, "a wire type from 0 to 5", "6 or 7")),
    }
}

/// Decodes the zigzag form of `sint32` and `sint64`.
pub(crate) fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The eight bytes at `at`.
pub(crate) fn eight(bytes: &[u8], at: usize) -> Checked<u64> {
    let end = fixed(bytes, at, 8)?;
    Ok(bytes[at..end].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// The four bytes at `at`.
pub(crate) fn four(bytes: &[u8], at: usize) -> Checked<u32> {
    let end = fixed(bytes, at, 4)?;
    Ok(bytes[at..end].iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

/// The value of a field, without its type.
pub(crate) enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Calls `visit` with the number and value of each field of a checked message; skips fixed-length values.
pub(crate) fn each_field<'a>(bytes: &'a [u8], mut visit: impl FnMut(u32, FieldValue<'a>)) {
    let mut at = 0;
    while let Ok((tag, value_at)) = tag(bytes, at) {
        match tag.wire_type {
            0 => {
                let Ok((value, _)) = varint(bytes, value_at) else { return };
                visit(tag.number, FieldValue::Number(value));
            }
            2 => {
                let Ok((start, end)) = delimited(bytes, value_at) else { return };
                visit(tag.number, FieldValue::Bytes(&bytes[start..end]));
            }
            _ => {}
        }
        let Ok(end) = skip(bytes, value_at, tag.wire_type) else { return };
        at = end;
    }
}
