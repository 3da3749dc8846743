//! Values in the text format of PostgreSQL's COPY.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::field::Kind;

pub(super) fn push_null(row: &mut Vec<u8>) {
    row.extend(b"\\N");
}

/// Appends a string with the separators of COPY escaped.
pub(super) fn push_text(row: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'\\' => row.extend(b"\\\\"),
            b'\t' => row.extend(b"\\t"),
            b'\n' => row.extend(b"\\n"),
            b'\r' => row.extend(b"\\r"),
            byte => row.push(byte),
        }
    }
}

/// Appends bytes in the hexadecimal format of `bytea`, whose backslash is escaped.
pub(super) fn push_bytes(row: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    row.extend(b"\\\\x");
    for byte in bytes {
        row.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Appends a value of a column of this type. PostgreSQL reads the JSON spelling of numbers, dates, times and durations.
///
/// # Errors
/// The value cannot be represented.
pub(super) fn push_value(row: &mut Vec<u8>, kind: Kind, value: &Value) -> Result<(), String> {
    match (kind, value) {
        (_, Value::Null) => push_null(row),
        (Kind::Json, value) => push_text(row, &value.to_string()),
        (Kind::Bytes, Value::String(text)) => {
            push_bytes(row, &STANDARD.decode(text).map_err(|_| "the value is not Base64")?);
        }
        (_, Value::Bool(flag)) => row.extend(if *flag { b"t" } else { b"f" }),
        (_, Value::Number(number)) => row.extend(number.to_string().as_bytes()),
        (_, Value::String(text)) => push_text(row, text),
        (_, Value::Array(_) | Value::Object(_)) => return Err("the value is a list or a map".into()),
    }
    Ok(())
}
