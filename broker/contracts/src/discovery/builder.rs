//! Builds a Protobuf message field by field.

use crate::protobuf::write_varint;

/// A message in the binary form. Empty values are omitted.
#[derive(Debug, Default)]
pub(super) struct Builder(Vec<u8>);

impl Builder {
    pub(super) fn text(&mut self, number: u32, text: &str) {
        self.data(number, text.as_bytes());
    }

    pub(super) fn data(&mut self, number: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.delimited(number, bytes);
        }
    }

    pub(super) fn nested(&mut self, number: u32, message: &Builder) {
        self.delimited(number, message.bytes());
    }

    fn delimited(&mut self, number: u32, bytes: &[u8]) {
        write_varint(u64::from(number) << 3 | 2, &mut self.0);
        write_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
