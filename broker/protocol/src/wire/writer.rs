use super::write_variable_byte_integer;

/// Writes fields one after the other into a buffer of the measured size.
///
/// Fields that do not fit are dropped; `encode` checks the size beforehand.
pub(crate) struct Writer<'o> {
    rest: &'o mut [u8],
}

impl<'o> Writer<'o> {
    #[inline]
    pub(crate) fn new(out: &'o mut [u8]) -> Self {
        Self { rest: out }
    }

    #[inline(always)]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if let Some((slot, rest)) = core::mem::take(&mut self.rest).split_at_mut_checked(bytes.len()) {
            slot.copy_from_slice(bytes);
            self.rest = rest;
        }
    }

    /// First byte and remaining length of a packet.
    #[inline(always)]
    pub(crate) fn fixed_header(&mut self, first_byte: u8, remaining_len: u32) {
        if remaining_len < 0x80 {
            self.array([first_byte, remaining_len as u8]);
        } else if remaining_len < 0x4000 {
            self.array([first_byte, remaining_len as u8 | 0x80, (remaining_len >> 7) as u8]);
        } else {
            self.byte(first_byte);
            self.variable_byte_integer(remaining_len);
        }
    }

    /// The unwritten rest of the buffer, for a last field that writes itself.
    #[inline]
    pub(crate) fn remaining(&mut self) -> &mut [u8] {
        self.rest
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some((slot, rest)) = core::mem::take(&mut self.rest).split_first_chunk_mut::<N>() {
            *slot = bytes;
            self.rest = rest;
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self, value: u8) {
        self.array([value]);
    }

    #[inline]
    pub(crate) fn two_bytes(&mut self, value: u16) {
        self.array(value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn four_bytes(&mut self, value: u32) {
        self.array(value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn variable_byte_integer(&mut self, value: u32) {
        let len = write_variable_byte_integer(value, self.rest);
        self.rest = core::mem::take(&mut self.rest).get_mut(len..).unwrap_or(&mut []);
    }

    /// A two-byte length, then the bytes. `measure` has checked that the length fits.
    #[inline(always)]
    pub(crate) fn binary(&mut self, bytes: &[u8]) {
        self.two_bytes(bytes.len() as u16);
        self.bytes(bytes);
    }

    #[inline]
    pub(crate) fn text(&mut self, text: &str) {
        self.binary(text.as_bytes());
    }
}
