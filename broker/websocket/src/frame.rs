//! Frame headers (RFC 6455 section 5.2).

use crate::mask::Mask;
use crate::violation::Violation;

/// Length of the longest header: two bytes, eight of length, four of mask.
pub(crate) const HEADER_MAX_BYTES: usize = 14;
/// Maximum payload of a control frame (section 5.5).
pub(crate) const CONTROL_MAX_BYTES: usize = 125;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0F;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7F;
/// In place of the length: the length follows in two bytes, or in eight.
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;

/// A frame's opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn from_bits(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0x0 => Opcode::Continuation,
            0x1 => Opcode::Text,
            0x2 => Opcode::Binary,
            0x8 => Opcode::Close,
            0x9 => Opcode::Ping,
            0xA => Opcode::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0x0,
            Opcode::Text => 0x1,
            Opcode::Binary => 0x2,
            Opcode::Close => 0x8,
            Opcode::Ping => 0x9,
            Opcode::Pong => 0xA,
        }
    }

    pub(crate) fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

/// The header of a client's frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) opcode: Opcode,
    /// Whether this is the last frame of its message.
    pub(crate) fin: bool,
    pub(crate) mask: Mask,
    pub(crate) payload_bytes: u64,
    /// Length of the header itself.
    pub(crate) header_bytes: usize,
}

impl Header {
    /// Parses the header at the start of `bytes`; `None` if it is incomplete. Errors are reported as early as possible.
    ///
    /// # Errors
    /// If no client may send such a header.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Header>, Violation> {
        let [first, rest @ ..] = bytes else { return Ok(None) };
        // No extension has been negotiated that would give them a meaning.
        if first & RESERVED != 0 {
            return Err(Violation::ReservedBits);
        }
        let opcode = Opcode::from_bits(first & OPCODE).ok_or(Violation::UnknownOpcode)?;
        let fin = first & FIN != 0;
        if opcode.is_control() && !fin {
            return Err(Violation::FragmentedControl);
        }
        let [second, rest @ ..] = rest else { return Ok(None) };
        // Section 5.1: a server closes the connection on a frame that is not masked.
        if second & MASKED == 0 {
            return Err(Violation::NotMasked);
        }
        let short = second & LENGTH;
        if opcode.is_control() && usize::from(short) > CONTROL_MAX_BYTES {
            return Err(Violation::ControlTooLong);
        }
        let (payload_bytes, rest) = match short {
            TWO_BYTES => {
                let Some((length, rest)) = rest.split_first_chunk::<2>() else { return Ok(None) };
                let length = u64::from(u16::from_be_bytes(*length));
                if length < u64::from(TWO_BYTES) {
                    return Err(Violation::LengthNotMinimal);
                }
                (length, rest)
            }
            EIGHT_BYTES => {
                let Some((length, rest)) = rest.split_first_chunk::<8>() else { return Ok(None) };
                let length = u64::from_be_bytes(*length);
                if length <= u64::from(u16::MAX) {
                    return Err(Violation::LengthNotMinimal);
                }
                if length > u64::MAX / 2 {
                    return Err(Violation::LengthOutOfRange);
                }
                (length, rest)
            }
            length => (u64::from(length), rest),
        };
        let Some((key, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let header_bytes = bytes.len() - rest.len();
        Ok(Some(Header { opcode, fin, mask: Mask::new(*key), payload_bytes, header_bytes }))
    }
}

/// Appends the header of an unfragmented, unmasked frame of the server.
pub(crate) fn push_header(opcode: Opcode, payload_bytes: usize, into: &mut Vec<u8>) {
    into.push(FIN | opcode.bits());
    if payload_bytes < usize::from(TWO_BYTES) {
        into.push(payload_bytes as u8);
    } else if let Ok(length) = u16::try_from(payload_bytes) {
        into.push(TWO_BYTES);
        into.extend_from_slice(&length.to_be_bytes());
    } else {
        into.push(EIGHT_BYTES);
        into.extend_from_slice(&(payload_bytes as u64).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_use_the_fewest_bytes() {
        let header = |payload_bytes| {
            let mut bytes = Vec::new();
            push_header(Opcode::Binary, payload_bytes, &mut bytes);
            bytes
        };
        assert_eq!(header(0), [0x82, 0]);
        assert_eq!(header(125), [0x82, 125]);
        assert_eq!(header(126), [0x82, 126, 0, 126]);
        assert_eq!(header(65_535), [0x82, 126, 0xFF, 0xFF]);
        assert_eq!(header(65_536), [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn an_incomplete_header_waits_for_more_bytes() {
        let whole = [0x82, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4];
        for end in 0..whole.len() {
            assert!(matches!(Header::parse(&whole[..end]), Ok(None)), "{end}");
        }
        let header = Header::parse(&whole).expect("right").expect("whole");
        assert_eq!((header.payload_bytes, header.header_bytes, header.fin), (65_536, HEADER_MAX_BYTES, true));
    }
}
