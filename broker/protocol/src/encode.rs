use alloc::vec::Vec;

use crate::error::EncodeError;
use crate::wire::writer::Writer;
use crate::wire::{MAX_VARIABLE_BYTE_INTEGER, variable_byte_integer_len};
use crate::{PacketType, ProtocolVersion};

/// Lengths found by measuring that writing needs again.
pub(crate) struct Measured {
    pub(crate) first_byte: u8,
    pub(crate) remaining_len: usize,
    /// Length of the packet's property block, without its prefix.
    pub(crate) properties_len: usize,
    /// Length of the will's property block, without its prefix.
    pub(crate) will_properties_len: usize,
}

impl Measured {
    /// A packet without a will, with the flags that its type requires in the first byte.
    #[inline]
    pub(crate) fn new(
        packet_type: PacketType,
        remaining_len: usize,
        properties_len: usize,
    ) -> Result<Self, EncodeError> {
        let first_byte = packet_type.as_u8() << 4 | packet_type.required_flags();
        Self { first_byte, remaining_len, properties_len, will_properties_len: 0 }.within_limit()
    }

    #[inline]
    pub(crate) fn within_limit(self) -> Result<Self, EncodeError> {
        if self.remaining_len > MAX_VARIABLE_BYTE_INTEGER as usize {
            return Err(EncodeError::PacketTooLarge { remaining_len: self.remaining_len });
        }
        Ok(self)
    }

    #[inline]
    pub(crate) fn total_len(&self) -> usize {
        1 + variable_byte_integer_len(self.remaining_len as u32) + self.remaining_len
    }

    #[inline]
    pub(crate) fn write_header(&self, w: &mut Writer<'_>) {
        w.fixed_header(self.first_byte, self.remaining_len as u32);
    }
}

/// Encoding in two passes: measure, then write.
pub(crate) trait EncodeParts {
    /// Checks everything that can make the packet impossible to encode.
    fn measure(&self, version: ProtocolVersion) -> Result<Measured, EncodeError>;

    /// The whole packet if it is in the shortest form: an acknowledgement of success without properties.
    #[inline(always)]
    fn shortest(&self) -> Option<[u8; 4]> {
        None
    }

    /// Writes everything after the fixed header.
    fn write_body(&self, version: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>);
}

#[inline]
pub(crate) fn encoded_len<P: EncodeParts>(packet: &P, version: ProtocolVersion) -> Result<usize, EncodeError> {
    Ok(packet.measure(version)?.total_len())
}

#[inline]
pub(crate) fn encode<P: EncodeParts>(
    packet: &P,
    version: ProtocolVersion,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let measured = packet.measure(version)?;
    let needed = measured.total_len();
    let Some(out) = out.get_mut(..needed) else { return Err(EncodeError::BufferTooSmall { needed }) };
    let mut w = Writer::new(out);
    measured.write_header(&mut w);
    packet.write_body(version, &measured, &mut w);
    Ok(needed)
}

#[inline]
pub(crate) fn append_to<P: EncodeParts>(
    packet: &P,
    version: ProtocolVersion,
    out: &mut Vec<u8>,
) -> Result<usize, EncodeError> {
    if let Some(bytes) = packet.shortest() {
        out.extend_from_slice(&bytes);
        return Ok(bytes.len());
    }
    let measured = packet.measure(version)?;
    let (start, len) = (out.len(), measured.total_len());
    out.resize(start + len, 0);
    let mut w = Writer::new(&mut out[start..]);
    measured.write_header(&mut w);
    packet.write_body(version, &measured, &mut w);
    Ok(len)
}

/// The three public methods of every packet that implements [`EncodeParts`].
macro_rules! encode_methods {
    ($packet:ty) => {
        impl $packet {
            /// The number of bytes that [`Self::encode`] writes.
            ///
            /// # Errors
            /// Everything that makes the packet impossible to write in this version.
            #[inline]
            pub fn encoded_len(&self, version: $crate::ProtocolVersion) -> Result<usize, $crate::EncodeError> {
                $crate::encode::encoded_len(self, version)
            }

            /// Writes the packet at the start of `out` and returns its length in bytes.
            ///
            /// # Errors
            /// As [`Self::encoded_len`], and [`BufferTooSmall`](crate::EncodeError::BufferTooSmall). Nothing is written on an error.
            #[inline]
            pub fn encode(
                &self,
                version: $crate::ProtocolVersion,
                out: &mut [u8],
            ) -> Result<usize, $crate::EncodeError> {
                $crate::encode::encode(self, version, out)
            }

            /// Appends the packet to `out` and returns its length in bytes.
            ///
            /// # Errors
            /// As [`Self::encoded_len`]. `out` is unchanged on an error.
            #[inline]
            pub fn append_to(
                &self,
                version: $crate::ProtocolVersion,
                out: &mut alloc::vec::Vec<u8>,
            ) -> Result<usize, $crate::EncodeError> {
                $crate::encode::append_to(self, version, out)
            }
        }
    };
}
pub(crate) use encode_methods;

/// Rejects a field that only MQTT 5.0 can express.
#[inline]
pub(crate) fn only_in_v5(is_present: bool, field: &'static str, version: ProtocolVersion) -> Result<(), EncodeError> {
    if is_present && !version.is_v5() { Err(EncodeError::NotInVersion { field, version }) } else { Ok(()) }
}
