//! Payloads in a form for operators.

use tautwire_contracts::Catalogue;
use tautwire_message::{Format, MessageRef};
use tautwire_protocol::{Properties, PropertyContext};

use crate::fields::{Fields, Value};

/// Limit for decoded JSON as a multiple of the payload size: member names can make JSON many times longer.
const DECODED_FACTOR: usize = 16;
const DECODED_LEAST_BYTES: usize = 64 * 1024;

/// The Content Type in the encoded properties of a message.
pub(super) fn content_type(properties: &[u8]) -> Option<&str> {
    Properties::from_wire(properties, PropertyContext::Publish).ok()?.content_type()
}

/// A readable form of a payload: JSON if its contract can decode it, else text if it is UTF-8.
pub(super) enum Readable {
    Decoded(String),
    Text(String),
    Bytes,
}

impl Readable {
    pub(super) fn of(contracts: &Catalogue, message: &MessageRef<'_>) -> Readable {
        let MessageRef { topic, properties, payload, .. } = *message;
        let decoded = contracts.find(topic).and_then(|contract| {
            let format = contract.check(topic, content_type(properties), payload).ok()?;
            let mut json = Vec::new();
            let limit_bytes = (payload.len() * DECODED_FACTOR).max(DECODED_LEAST_BYTES);
            contract.transcode(format, Format::Json, payload, &mut json, limit_bytes).ok()?;
            String::from_utf8(json).ok()
        });
        match (decoded, str::from_utf8(payload)) {
            (Some(json), _) => Readable::Decoded(json),
            (None, Ok(text)) => Readable::Text(text.to_owned()),
            (None, Err(_)) => Readable::Bytes,
        }
    }

    /// Adds the readable form, if there is one.
    pub(super) fn add_to(self, fields: Fields) -> Fields {
        match self {
            Readable::Decoded(json) => fields.with("decoded", Value::Json(json)),
            Readable::Text(text) => fields.with("text", text),
            Readable::Bytes => fields,
        }
    }
}

/// Base64 with padding [RFC 4648 section 4].
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let number =
            group.iter().enumerate().fold(0u32, |number, (at, byte)| number | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_base64_with_padding() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfe", "//4="),
        ] {
            assert_eq!(base64(bytes), text);
        }
    }
}
