use crate::error::{DecodeCause, DecodeError, Flaw};
use crate::packets::check_flags;
use crate::wire::reader::Reader;
use crate::wire::{MAX_VARIABLE_BYTE_INTEGER, VariableByteIntegerError, read_variable_byte_integer};
use crate::{
    Auth, ConnAck, Connect, Disconnect, Packet, PacketId, PacketType, ProtocolVersion, PubAck, PubComp, PubRec, PubRel,
    Publish, SubAck, Subscribe, UnsubAck, Unsubscribe,
};

/// The largest packet that the wire format can express: 268,435,460 bytes with its fixed header.
pub const MAX_PACKET_SIZE_BYTES: u32 = MAX_VARIABLE_BYTE_INTEGER + 5;

/// Connection state that [`decode`] needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// The protocol version of the connection. Ignored for CONNECT, which names its own.
    pub version: ProtocolVersion,
    /// The largest whole packet in bytes, fixed header included. [`MAX_PACKET_SIZE_BYTES`] and above mean no limit.
    pub max_packet_size: u32,
}

impl DecodeOptions {
    /// Options without a limit on the packet size.
    pub const fn new(version: ProtocolVersion) -> Self {
        Self { version, max_packet_size: MAX_PACKET_SIZE_BYTES }
    }
}

/// Decodes the packet at the start of `input` and returns its length in bytes. Ignores the rest of `input`.
///
/// # Errors
/// [`Incomplete`](crate::Fault::Incomplete) until the packet is complete, unless it can be rejected earlier. Otherwise the kind of fault,
/// the reason code to answer with and the offset.
#[inline]
pub fn decode<'a>(input: &'a [u8], options: &DecodeOptions) -> Result<(Packet<'a>, usize), DecodeError> {
    let header = FixedHeader::decode(input, options)?;
    let total_len = header.total_len();
    let Some(body) = input.get(header.header_len..total_len) else {
        return Err(DecodeError::incomplete(total_len, input.len()));
    };
    decode_and_keep(header, body, options.version, |packet| (packet, total_len))
}

/// The first two to five bytes of every packet (section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedHeader {
    /// The packet's type.
    pub packet_type: PacketType,
    /// The lower four bits of the first byte, checked for the type and the version.
    pub flags: u8,
    /// Bytes of the fixed header itself, 2 to 5.
    pub header_len: usize,
    /// Bytes that follow the fixed header, at most 268,435,455.
    pub remaining_len: usize,
}

impl FixedHeader {
    /// Decodes the fixed header at the start of `input`. The body is not needed.
    ///
    /// # Errors
    /// [`Incomplete`](crate::Fault::Incomplete) until the fixed header is complete; a reserved type, wrong flags, a remaining length that
    /// is too long or not minimal; [`OverLimit`](crate::Fault::OverLimit) as soon as the length is known.
    #[inline(always)]
    pub fn decode(input: &[u8], options: &DecodeOptions) -> Result<Self, DecodeError> {
        let Some((&first, lengths)) = input.split_first() else { return Err(DecodeError::incomplete(2, 0)) };
        let flags = first & 0x0F;
        let Some(packet_type) = PacketType::from_u8(first >> 4) else {
            return Err(header_error(DecodeCause::PacketTypeReserved, 0));
        };
        if let Err(cause) = check_flags(packet_type, flags, options.version) {
            return Err(header_error(cause, 0));
        }
        let (remaining_len, length_len) = match read_variable_byte_integer(lengths) {
            Ok(length) => length,
            Err(error) => return Err(remaining_length_error(error, input.len())),
        };
        let header = Self { packet_type, flags, header_len: 1 + length_len, remaining_len: remaining_len as usize };
        if header.total_len() > options.max_packet_size as usize {
            return Err(header_error(DecodeCause::PacketTooLarge, 1));
        }
        Ok(header)
    }

    /// Bytes of the whole packet.
    #[inline]
    pub const fn total_len(&self) -> usize {
        self.header_len + self.remaining_len
    }
}

#[cold]
fn header_error(cause: DecodeCause, offset: usize) -> DecodeError {
    Flaw::new(cause, 0).into_error(offset)
}

#[cold]
fn remaining_length_error(error: VariableByteIntegerError, have: usize) -> DecodeError {
    match error {
        VariableByteIntegerError::Incomplete => DecodeError::incomplete(have + 1, have),
        VariableByteIntegerError::TooLong => header_error(DecodeCause::VariableByteIntegerTooLong, 1),
        VariableByteIntegerError::NotMinimal => header_error(DecodeCause::VariableByteIntegerNotMinimal, 1),
    }
}

/// Decodes the body that follows a fixed header. Ignores bytes of `body` beyond the remaining length.
///
/// # Errors
/// As [`decode`]; [`Incomplete`](crate::Fault::Incomplete) if `body` is shorter than the header says.
#[inline]
pub fn decode_body<'a>(
    header: &FixedHeader,
    body: &'a [u8],
    version: ProtocolVersion,
) -> Result<Packet<'a>, DecodeError> {
    decode_and_keep(*header, body_of(header, body)?, version, |packet| packet)
}

/// Decodes the body of a PUBLISH: the hot path of a broker.
///
/// # Errors
/// As [`decode_body`].
// Forced inline: with one copy per kind of shard, the compiler would make it a call for each message.
#[inline(always)]
pub fn decode_publish<'a>(
    header: &FixedHeader,
    body: &'a [u8],
    version: ProtocolVersion,
) -> Result<Publish<'a>, DecodeError> {
    let r = Reader::new(body_of(header, body)?);
    Publish::decode(header.flags, r, version).map_err(|flaw| flaw.into_error(header.header_len))
}

/// An acknowledgement in its shortest form: success without properties, which all versions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortAcknowledgement {
    /// PUBACK.
    PubAck(PacketId),
    /// PUBREC.
    PubRec(PacketId),
    /// PUBREL.
    PubRel(PacketId),
    /// PUBCOMP.
    PubComp(PacketId),
}

impl ShortAcknowledgement {
    /// Decodes a body in the shortest form, and returns `None` for any other packet. [`decode_body`] decodes both. Nearly all
    /// acknowledgements have this form, and a broker receives one or two for each message.
    #[inline(always)]
    pub fn decode(header: &FixedHeader, body: &[u8]) -> Option<ShortAcknowledgement> {
        let (2, &[high, low, ..]) = (header.remaining_len, body) else { return None };
        let packet_id = PacketId::new(u16::from_be_bytes([high, low]))?;
        match header.packet_type {
            PacketType::PubAck => Some(ShortAcknowledgement::PubAck(packet_id)),
            PacketType::PubRec => Some(ShortAcknowledgement::PubRec(packet_id)),
            PacketType::PubRel => Some(ShortAcknowledgement::PubRel(packet_id)),
            PacketType::PubComp => Some(ShortAcknowledgement::PubComp(packet_id)),
            _ => None,
        }
    }
}

#[inline]
fn body_of<'a>(header: &FixedHeader, body: &'a [u8]) -> Result<&'a [u8], DecodeError> {
    body.get(..header.remaining_len)
        .ok_or_else(|| DecodeError::incomplete(header.total_len(), header.header_len + body.len()))
}

/// Decodes a whole body and passes the packet to `keep`, which stores it where the caller needs it: a packet is large to move, so it is
/// built in place.
#[inline(always)]
fn decode_and_keep<'a, T>(
    header: FixedHeader,
    body: &'a [u8],
    version: ProtocolVersion,
    keep: impl FnOnce(Packet<'a>) -> T,
) -> Result<T, DecodeError> {
    if header.packet_type == PacketType::Publish {
        return map_packet(Publish::decode(header.flags, Reader::new(body), version), header.header_len, keep);
    }
    decode_other_and_keep(header.packet_type, header.header_len, body, version, keep)
}

/// Decodes all packets but PUBLISH, in its own function so that the message path stays small.
#[inline(never)]
fn decode_other_and_keep<'a, T>(
    packet_type: PacketType,
    header_len: usize,
    body: &'a [u8],
    version: ProtocolVersion,
    keep: impl FnOnce(Packet<'a>) -> T,
) -> Result<T, DecodeError> {
    let r = Reader::new(body);
    match packet_type {
        PacketType::PubAck => map_packet(PubAck::decode(r, version), header_len, keep),
        PacketType::PubRec => map_packet(PubRec::decode(r, version), header_len, keep),
        PacketType::PubRel => map_packet(PubRel::decode(r, version), header_len, keep),
        PacketType::PubComp => map_packet(PubComp::decode(r, version), header_len, keep),
        PacketType::Connect => decode_connect_and_keep(header_len, r, keep),
        PacketType::ConnAck => map_packet(ConnAck::decode(r, version), header_len, keep),
        PacketType::Subscribe => map_packet(Subscribe::decode(r, version), header_len, keep),
        PacketType::SubAck => map_packet(SubAck::decode(r, version), header_len, keep),
        PacketType::Unsubscribe => map_packet(Unsubscribe::decode(r, version), header_len, keep),
        PacketType::UnsubAck => map_packet(UnsubAck::decode(r, version), header_len, keep),
        PacketType::PingResp => map_packet(r.finish().map(|()| Packet::PingResp), header_len, keep),
        PacketType::Disconnect => map_packet(Disconnect::decode(r, version), header_len, keep),
        PacketType::Auth => map_packet(Auth::decode(r, version), header_len, keep),
        // The caller has handled PUBLISH.
        PacketType::PingReq | PacketType::Publish => map_packet(r.finish().map(|()| Packet::PingReq), header_len, keep),
    }
}

/// Decodes CONNECT, the largest packet, in place. A function of its own, so that the other packets do not pay for its stack frame.
#[inline(never)]
fn decode_connect_and_keep<'a, T>(
    header_len: usize,
    r: Reader<'a>,
    keep: impl FnOnce(Packet<'a>) -> T,
) -> Result<T, DecodeError> {
    map_packet(Connect::decode(r), header_len, keep)
}

#[inline(always)]
fn map_packet<'a, T>(
    decoded: Result<impl Into<Packet<'a>>, Flaw>,
    header_len: usize,
    keep: impl FnOnce(Packet<'a>) -> T,
) -> Result<T, DecodeError> {
    match decoded {
        Ok(packet) => Ok(keep(packet.into())),
        Err(flaw) => Err(flaw.into_error(header_len)),
    }
}
