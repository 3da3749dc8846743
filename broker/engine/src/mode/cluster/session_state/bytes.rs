//! Reads and writes the fields of a state.

/// Reads fields from the front. Lengths are checked against the bytes that are left.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a length of 4 bytes, and that many bytes.
    pub(super) fn block(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        let (bytes, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        core::str::from_utf8(self.block()?).ok()
    }
}

/// Appends fields.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) -> &mut Writer {
        self.0.push(value);
        self
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Writer {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Writer {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Writer {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a length of 4 bytes and the bytes. Everything in MQTT is shorter than 4 GiB.
    pub(super) fn block(&mut self, bytes: &[u8]) -> &mut Writer {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self
    }
}
