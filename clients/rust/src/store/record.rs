//! Records of a session file. The format is that of the Go client: `clients/go/client/store/FORMAT.md` describes it.

use tautwire_protocol::{PacketId, ProtocolVersion};

/// The bytes before the first record.
pub(super) const HEADER_BYTES: usize = 16;
const FRAME_BYTES: usize = 8;
const BODY_MIN_BYTES: usize = 12;
/// The largest body: its fields and a PUBLISH of the maximum size.
const BODY_MAX_BYTES: usize = BODY_MIN_BYTES + 5 + 268_435_455;
const FORMAT_VERSION: u32 = 1;

/// One step of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// The server has a new session for this client identifier. Received identifiers are void; outgoing messages remain.
    Began { client_id: &'a str },
    /// A message is queued, as a PUBLISH of this version with a placeholder packet identifier.
    Queued { sequence: u64, version: ProtocolVersion, packet: &'a [u8] },
    /// The message has a packet identifier, and may have been sent with it.
    Sent { sequence: u64, packet_id: PacketId },
    /// The message is queued again, without a packet identifier: its session was lost.
    Unsent { sequence: u64 },
    /// PUBREC has arrived: only PUBREL and PUBCOMP remain.
    Released { sequence: u64 },
    /// The message is complete.
    Done { sequence: u64 },
    /// The application has acknowledged an incoming QoS 2 message.
    Received { packet_id: PacketId },
    /// The server has released it: the identifier may be used for another message.
    Completed { packet_id: PacketId },
}

impl<'a> Record<'a> {
    /// Whether packets wait for the record to be on disk. If `Done` is lost, the exchange is repeated. `Completed` must not be lost once
    /// PUBCOMP is sent: the server may use the identifier for another message, which would be mistaken for the earlier one.
    pub(super) fn is_urgent(&self) -> bool {
        !matches!(self, Self::Done { .. })
    }

    /// Appends the record; returns its length.
    pub(super) fn append_to(&self, out: &mut Vec<u8>) -> usize {
        let (kind, level, packet_id, sequence, rest): (u8, u8, u16, u64, &[u8]) = match *self {
            Self::Began { client_id } => (1, 0, 0, 0, client_id.as_bytes()),
            // MQTT 3.1 encodes PUBLISH as 3.1.1 does.
            Self::Queued { sequence, version, packet } => (2, version.level().max(4), 0, sequence, packet),
            Self::Sent { sequence, packet_id } => (3, 0, packet_id.get(), sequence, &[]),
            Self::Unsent { sequence } => (4, 0, 0, sequence, &[]),
            Self::Released { sequence } => (5, 0, 0, sequence, &[]),
            Self::Done { sequence } => (6, 0, 0, sequence, &[]),
            Self::Received { packet_id } => (7, 0, packet_id.get(), 0, &[]),
            Self::Completed { packet_id } => (8, 0, packet_id.get(), 0, &[]),
        };
        let start = out.len();
        out.extend_from_slice(&((BODY_MIN_BYTES + rest.len()) as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[kind, level]);
        out.extend_from_slice(&packet_id.to_le_bytes());
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(rest);
        let sum = checksum(&out[start..]);
        out[start + 4..start + FRAME_BYTES].copy_from_slice(&sum.to_le_bytes());
        out.len() - start
    }

    /// The first record of `bytes` and its length; `None` if it is incomplete or invalid.
    pub(super) fn read(bytes: &'a [u8]) -> Option<(Record<'a>, usize)> {
        let body_bytes = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
        if !(BODY_MIN_BYTES..=BODY_MAX_BYTES).contains(&body_bytes) {
            return None;
        }
        let record = bytes.get(..FRAME_BYTES + body_bytes)?;
        if record[4..FRAME_BYTES] != checksum(record).to_le_bytes() {
            return None;
        }
        let body = &record[FRAME_BYTES..];
        let packet_id = PacketId::new(u16::from_le_bytes([body[2], body[3]]));
        let sequence = u64::from_le_bytes(*body[4..].first_chunk()?);
        let rest = &body[BODY_MIN_BYTES..];
        let read = match body[0] {
            1 => Self::Began { client_id: std::str::from_utf8(rest).ok()? },
            2 => {
                let version = if body[1] == 5 { ProtocolVersion::V5 } else { ProtocolVersion::V3_1_1 };
                Self::Queued { sequence, version, packet: rest }
            }
            3 => Self::Sent { sequence, packet_id: packet_id? },
            4 => Self::Unsent { sequence },
            5 => Self::Released { sequence },
            6 => Self::Done { sequence },
            7 => Self::Received { packet_id: packet_id? },
            8 => Self::Completed { packet_id: packet_id? },
            _ => return None,
        };
        Some((read, record.len()))
    }
}

/// The header of a session file.
pub(super) fn header() -> [u8; HEADER_BYTES] {
    let mut header = *b"TWSTORE\n\0\0\0\0\0\0\0\0";
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    let sum = crc32c(crc32c(0, &header[..12]), &[]);
    header[12..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// The checksum of the length and the body.
fn checksum(record: &[u8]) -> u32 {
    crc32c(crc32c(0, &record[..4]), &record[FRAME_BYTES..])
}

/// CRC-32C (Castagnoli), continued from `sum`.
fn crc32c(sum: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !bytes.iter().fold(!sum, |sum, byte| TABLE[usize::from(sum as u8 ^ byte)] ^ sum >> 8)
}

const fn table() -> [u32; 256] {
    const REVERSED_POLYNOMIAL: u32 = 0x82F6_3B78;
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut sum = at as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ REVERSED_POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        table[at] = sum;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_matches_the_rfc() {
        // RFC 3720, appendix B.4, and the usual check value.
        assert_eq!(crc32c(0, b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(0, &[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(crc32c(0, b"12345"), b"6789"), 0xE306_9283);
    }

    #[test]
    fn records_round_trip_and_damaged_ones_are_refused() {
        let packet_id = PacketId::new(0x1234).expect("not zero");
        let sequence = 0x0102_0304_0506_0708;
        for record in [
            Record::Began { client_id: "ä" },
            Record::Queued { sequence, version: ProtocolVersion::V5, packet: b"\x32\0" },
            Record::Sent { sequence, packet_id },
            Record::Unsent { sequence },
            Record::Released { sequence },
            Record::Done { sequence },
            Record::Received { packet_id },
            Record::Completed { packet_id },
        ] {
            let mut bytes = Vec::new();
            let len = record.append_to(&mut bytes);
            assert_eq!(Record::read(&bytes), Some((record, len)));
            for cut in 0..len {
                assert_eq!(Record::read(&bytes[..cut]), None);
                let mut changed = bytes.clone();
                changed[cut] ^= 0x40;
                assert_eq!(Record::read(&changed), None, "{record:?} at {cut}");
            }
        }
    }
}
