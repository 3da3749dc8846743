//! Builds invalid packets, for tests and fuzzing. Nothing here is checked; do not use it for real connections.
//!
//! ```
//! use tautwire_protocol::malformed::Frame;
//! use tautwire_protocol::{decode, DecodeCause, DecodeOptions, ProtocolVersion};
//!
//! // PUBLISH with both QoS bits set.
//! let bytes = Frame::new(0x36).string("a/b").two_bytes(1).bytes(b"hi").build();
//! let error = decode(&bytes, &DecodeOptions::new(ProtocolVersion::V3_1_1)).unwrap_err();
//! assert_eq!(error.cause, DecodeCause::PublishQoSThree);
//! ```

use alloc::vec::Vec;

use crate::wire::{variable_byte_integer_len, write_variable_byte_integer};

/// Builds the bytes of one packet, valid or not: a first byte, a remaining length and a body.
#[derive(Clone, Debug)]
pub struct Frame {
    first_byte: u8,
    remaining_len: RemainingLength,
    body: Vec<u8>,
}

#[derive(Clone, Debug)]
enum RemainingLength {
    OfBody,
    Claimed(u32),
    Raw(Vec<u8>),
}

impl Frame {
    /// A packet with this first byte (type and flags) and an empty body.
    pub fn new(first_byte: u8) -> Self {
        Self { first_byte, remaining_len: RemainingLength::OfBody, body: Vec::new() }
    }

    /// Sets the remaining length, whatever the length of the body. Above 268,435,455 it is cut to four bytes.
    #[must_use]
    pub fn remaining_length(mut self, claimed: u32) -> Self {
        self.remaining_len = RemainingLength::Claimed(claimed);
        self
    }

    /// Writes these bytes instead of the remaining length.
    #[must_use]
    pub fn remaining_length_raw(mut self, bytes: &[u8]) -> Self {
        self.remaining_len = RemainingLength::Raw(bytes.to_vec());
        self
    }

    /// Appends one byte to the body.
    #[must_use]
    pub fn byte(self, value: u8) -> Self {
        self.bytes(&[value])
    }

    /// Appends two bytes, big-endian: a packet identifier (0 too) or a keep alive.
    #[must_use]
    pub fn two_bytes(self, value: u16) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends four bytes, big-endian.
    #[must_use]
    pub fn four_bytes(self, value: u32) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends a variable byte integer in its shortest form. For other forms use [`Self::bytes`].
    #[must_use]
    pub fn variable_byte_integer(mut self, value: u32) -> Self {
        push_variable_byte_integer(value, &mut self.body);
        self
    }

    /// Appends raw bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.body.extend_from_slice(bytes);
        self
    }

    /// Appends a two-byte length and the text, unchecked: a topic with wildcards, a broken filter, U+0000.
    #[must_use]
    pub fn string(self, text: &str) -> Self {
        self.binary(text.as_bytes())
    }

    /// Appends a two-byte length and the bytes: binary data, or a string that is not UTF-8.
    #[must_use]
    pub fn binary(self, bytes: &[u8]) -> Self {
        self.binary_claiming(bytes.len() as u16, bytes)
    }

    /// Appends bytes after a length that may be wrong.
    #[must_use]
    pub fn binary_claiming(self, len: u16, bytes: &[u8]) -> Self {
        self.two_bytes(len).bytes(bytes)
    }

    /// Appends a property length and the block, unchecked: unknown, repeated or broken properties.
    #[must_use]
    pub fn properties(self, block: &[u8]) -> Self {
        self.properties_claiming(block.len() as u32, block)
    }

    /// Appends a block after a property length that may be wrong.
    #[must_use]
    pub fn properties_claiming(self, len: u32, block: &[u8]) -> Self {
        self.variable_byte_integer(len).bytes(block)
    }

    /// The bytes of the packet.
    pub fn build(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(5 + self.body.len());
        bytes.push(self.first_byte);
        match &self.remaining_len {
            RemainingLength::OfBody => push_variable_byte_integer(self.body.len() as u32, &mut bytes),
            RemainingLength::Claimed(len) => push_variable_byte_integer(*len, &mut bytes),
            RemainingLength::Raw(raw) => bytes.extend_from_slice(raw),
        }
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

fn push_variable_byte_integer(value: u32, out: &mut Vec<u8>) {
    let value = value & crate::wire::MAX_VARIABLE_BYTE_INTEGER;
    let start = out.len();
    out.resize(start + variable_byte_integer_len(value), 0);
    write_variable_byte_integer(value, &mut out[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_packet_can_be_built() {
        let bytes = Frame::new(0x32).string("a").two_bytes(1).properties(&[]).bytes(b"x").build();
        assert_eq!(bytes, [0x32, 7, 0, 1, b'a', 0, 1, 0, b'x']);
    }

    #[test]
    fn lengths_can_be_wrong() {
        assert_eq!(Frame::new(0xC0).remaining_length(128).build(), [0xC0, 0x80, 0x01]);
        assert_eq!(Frame::new(0xC0).remaining_length_raw(&[0x80, 0x00]).byte(7).build(), [0xC0, 0x80, 0x00, 7]);
        assert_eq!(Frame::new(0x10).binary_claiming(9, b"M").build(), [0x10, 3, 0, 9, b'M']);
        assert_eq!(Frame::new(0x10).properties_claiming(200, &[1]).build(), [0x10, 3, 0xC8, 0x01, 1]);
    }
}
