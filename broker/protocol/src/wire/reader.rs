use super::utf8;
use super::variable_byte_integer::{VariableByteIntegerError, read_variable_byte_integer};
use crate::PacketId;
use crate::error::{DecodeCause, Flaw};

/// Reads fields from the front of a byte slice and tracks the offset in the packet.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// Offset of the byte after `rest` within the packet's body.
    end: usize,
    /// The cause if a field does not fit.
    short: DecodeCause,
}

impl<'a> Reader<'a> {
    /// Reads a packet's body.
    #[inline]
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self { rest: body, end: body.len(), short: DecodeCause::FieldPastEnd }
    }

    /// Reads a property block that begins at `at` within the body.
    #[inline]
    pub(crate) fn of_properties(block: &'a [u8], at: usize) -> Self {
        Self { rest: block, end: at + block.len(), short: DecodeCause::PropertyPastBlock }
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Sets `rest`, which is a suffix of what [`Self::rest`] returned.
    #[inline]
    pub(crate) fn set_rest(&mut self, rest: &'a [u8]) {
        self.rest = rest;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Offset of the next byte within the packet's body.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.end - self.rest.len()
    }

    /// Checks that the packet ends here `[MQTT-2.1.3-1]`: bytes after its last field are an error.
    #[inline]
    pub(crate) fn finish(self) -> Result<(), Flaw> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.flaw(DecodeCause::TrailingBytes)) }
    }

    /// Inline, so that no pointer to the reader is taken and it can stay in registers.
    #[inline(always)]
    pub(crate) fn flaw(&self, cause: DecodeCause) -> Flaw {
        Flaw::new(cause, self.at())
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Flaw> {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<N>() else { return Err(self.flaw(self.short)) };
        self.rest = rest;
        Ok(*bytes)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Flaw> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn two_bytes(&mut self) -> Result<u16, Flaw> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn four_bytes(&mut self) -> Result<u32, Flaw> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn variable_byte_integer(&mut self) -> Result<u32, Flaw> {
        match read_variable_byte_integer(self.rest) {
            Ok((value, len)) => {
                self.rest = self.rest.get(len..).unwrap_or(&[]);
                Ok(value)
            }
            Err(error) => Err(self.flaw(match error {
                VariableByteIntegerError::Incomplete => self.short,
                VariableByteIntegerError::TooLong => DecodeCause::VariableByteIntegerTooLong,
                VariableByteIntegerError::NotMinimal => DecodeCause::VariableByteIntegerNotMinimal,
            })),
        }
    }

    /// Skips these bytes if they are next.
    #[inline]
    pub(crate) fn skip<const N: usize>(&mut self, expected: &[u8; N]) -> bool {
        let rest = self.rest.split_first_chunk::<N>().filter(|(next, _)| *next == expected).map(|(_, rest)| rest);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A two-byte length, then that many bytes (section 1.5.6).
    #[inline]
    pub(crate) fn binary(&mut self) -> Result<&'a [u8], Flaw> {
        let Some((len, rest)) = self.rest.split_first_chunk::<2>() else { return Err(self.flaw(self.short)) };
        let Some((bytes, rest)) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len))) else {
            return Err(self.flaw(self.short));
        };
        self.rest = rest;
        Ok(bytes)
    }

    /// A UTF-8 encoded string (section 1.5.4).
    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a str, Flaw> {
        let bytes = self.binary()?;
        utf8::text(bytes, self.at() - bytes.len())
    }

    /// As [`Self::text`], for a string that is checked now and read later.
    #[inline]
    pub(crate) fn check_text(&mut self) -> Result<&'a [u8], Flaw> {
        let bytes = self.binary()?;
        utf8::check(bytes, self.at() - bytes.len())?;
        Ok(bytes)
    }

    /// A packet identifier, which is never zero `[MQTT-2.2.1-3]`.
    #[inline]
    pub(crate) fn packet_id(&mut self) -> Result<PacketId, Flaw> {
        let at = self.at();
        match PacketId::new(self.two_bytes()?) {
            Some(packet_id) => Ok(packet_id),
            None => Err(Flaw::new(DecodeCause::PacketIdZero, at)),
        }
    }

    /// Reads the property length and its block, with the block's offset in the body.
    #[inline]
    pub(crate) fn property_block(&mut self) -> Result<(&'a [u8], usize), Flaw> {
        let start = self.at();
        let len = self.variable_byte_integer()? as usize;
        let at = self.at();
        let Some((block, rest)) = self.rest.split_at_checked(len) else {
            return Err(Flaw::new(DecodeCause::PropertyBlockPastEnd, start));
        };
        self.rest = rest;
        Ok((block, at))
    }
}
