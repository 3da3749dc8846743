//! In-place decoding of a client's frames.

use std::fmt;

use crate::close::CloseCode;
use crate::frame::{CONTROL_MAX_BYTES, HEADER_MAX_BYTES, Header, Opcode};
use crate::mask::Mask;
use crate::outgoing::Outgoing;

/// Limits on a client's frames. No memory is reserved for them: memory depends on MQTT packets and their own limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Maximum payload of one frame.
    pub frame_bytes: u64,
    /// Maximum payload of all frames of one message together.
    pub message_bytes: u64,
}

/// A violation of the standard or of the limits by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A reserved bit is set, although no extension has been negotiated.
    ReservedBits,
    /// An unknown opcode.
    UnknownOpcode,
    /// A frame that is not masked.
    NotMasked,
    /// A length that is not in its shortest form.
    LengthNotMinimal,
    /// A length of 2^63 or more.
    LengthOutOfRange,
    /// A fragmented control frame.
    FragmentedControl,
    /// A control frame of more than 125 bytes.
    ControlTooLong,
    /// A continuation frame without a message.
    NothingToContinue,
    /// A new message within a fragmented one.
    MessageUnfinished,
    /// A text frame [MQTT-6.0.0-1].
    Text,
    /// A Close frame with an incomplete or forbidden code.
    CloseCode,
    /// A Close frame with a reason that is not UTF-8.
    CloseReason,
    /// A frame over [`FrameLimits::frame_bytes`].
    FrameTooLarge,
    /// A message over [`FrameLimits::message_bytes`].
    MessageTooLarge,
}

impl Violation {
    /// The code the connection is closed with.
    pub fn close_code(self) -> CloseCode {
        match self {
            Violation::Text => CloseCode::UNSUPPORTED_DATA,
            Violation::CloseReason => CloseCode::INVALID_TEXT,
            Violation::FrameTooLarge | Violation::MessageTooLarge => CloseCode::TOO_BIG,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }

    /// Whether a limit was exceeded, rather than the standard violated.
    pub fn is_over_limit(self) -> bool {
        matches!(self, Violation::FrameTooLarge | Violation::MessageTooLarge)
    }

    /// A short description.
    pub fn as_str(self) -> &'static str {
        match self {
            Violation::ReservedBits => "a WebSocket frame has reserved bits set",
            Violation::UnknownOpcode => "a WebSocket frame has an unknown opcode",
            Violation::NotMasked => "a WebSocket frame is not masked",
            Violation::LengthNotMinimal => "the length of a WebSocket frame is not in its shortest form",
            Violation::LengthOutOfRange => "the length of a WebSocket frame is out of range",
            Violation::FragmentedControl => "a WebSocket control frame is fragmented",
            Violation::ControlTooLong => "a WebSocket control frame has more than 125 bytes",
            Violation::NothingToContinue => "a WebSocket continuation frame without a message",
            Violation::MessageUnfinished => "a WebSocket message begins within another one",
            Violation::Text => "a WebSocket text frame; MQTT is sent in binary frames",
            Violation::CloseCode => "a WebSocket Close frame has an invalid code",
            Violation::CloseReason => "the reason of a WebSocket Close frame is not UTF-8",
            Violation::FrameTooLarge => "a WebSocket frame exceeds limits.websocket_frame_bytes",
            Violation::MessageTooLarge => "a WebSocket message exceeds limits.websocket_message_bytes",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for Violation {}

/// The end of a client's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// A Close frame, with its code if it had one.
    Closed(Option<CloseCode>),
    Violation(Violation),
}

/// The state of decoding a client's stream.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of an incomplete header.
    header: [u8; HEADER_MAX_BYTES],
    header_bytes: u8,
    /// Within a fragmented message.
    in_message: bool,
    /// The current frame, if it is a control frame.
    control: Option<Opcode>,
    mask: Mask,
    /// Remaining bytes of the current frame.
    left: u64,
    /// Bytes of the current message so far, the current frame included.
    message_bytes: u64,
    /// Payload of the current control frame so far.
    control_payload: Vec<u8>,
}

impl Decoder {
    /// Decodes `bytes[from..]`: moves the payload of all data frames to the front of `bytes` and returns its length. Pings are answered
    /// through `outgoing`. Bytes after an end are ignored.
    pub(crate) fn decode(
        &mut self,
        bytes: &mut [u8],
        from: usize,
        limits: &FrameLimits,
        outgoing: &mut Outgoing,
    ) -> (usize, Option<End>) {
        let mut at = from;
        let mut payload_bytes = 0;
        while at < bytes.len() {
            if self.left == 0 {
                match self.next_header(&bytes[at..]) {
                    Ok((consumed, header)) => {
                        at += consumed;
                        let Some(header) = header else { break };
                        if let Err(violation) = self.begin(&header, limits) {
                            return (payload_bytes, Some(End::Violation(violation)));
                        }
                    }
                    Err(violation) => return (payload_bytes, Some(End::Violation(violation))),
                }
            }
            let here = (bytes.len() - at).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            match self.control {
                None => {
                    self.mask.unmask_within(bytes, at, payload_bytes, here);
                    payload_bytes += here;
                }
                Some(_) => self.mask.unmask_into(&bytes[at..at + here], &mut self.control_payload),
            }
            at += here;
            self.left -= here as u64;
            if self.left == 0
                && let Some(opcode) = self.control.take()
                && let Some(end) = self.finish_control(opcode, outgoing)
            {
                return (payload_bytes, Some(end));
            }
        }
        (payload_bytes, None)
    }

    /// The next header, with its length within `bytes`; `None` if it is incomplete.
    fn next_header(&mut self, bytes: &[u8]) -> Result<(usize, Option<Header>), Violation> {
        if self.header_bytes == 0 {
            if let Some(header) = Header::parse(bytes)? {
                return Ok((header.header_bytes, Some(header)));
            }
            // Shorter than the longest header, or it would be complete.
            self.header[..bytes.len()].copy_from_slice(bytes);
            self.header_bytes = bytes.len() as u8;
            return Ok((bytes.len(), None));
        }
        for (at, byte) in bytes.iter().enumerate() {
            let end = usize::from(self.header_bytes) + 1;
            self.header[end - 1] = *byte;
            self.header_bytes = end as u8;
            if let Some(header) = Header::parse(&self.header[..end])? {
                self.header_bytes = 0;
                return Ok((at + 1, Some(header)));
            }
        }
        Ok((bytes.len(), None))
    }

    /// Checks whether the frame is allowed here (section 5.4), and begins it.
    fn begin(&mut self, header: &Header, limits: &FrameLimits) -> Result<(), Violation> {
        self.mask = header.mask;
        self.left = header.payload_bytes;
        if header.opcode.is_control() {
            self.control = Some(header.opcode);
            self.control_payload.clear();
            return Ok(());
        }
        match (header.opcode, self.in_message) {
            (Opcode::Text, _) => return Err(Violation::Text),
            (Opcode::Continuation, false) => return Err(Violation::NothingToContinue),
            (Opcode::Binary, true) => return Err(Violation::MessageUnfinished),
            (Opcode::Binary, false) => self.message_bytes = 0,
            _ => {}
        }
        if header.payload_bytes > limits.frame_bytes {
            return Err(Violation::FrameTooLarge);
        }
        self.message_bytes = self.message_bytes.saturating_add(header.payload_bytes);
        if self.message_bytes > limits.message_bytes {
            return Err(Violation::MessageTooLarge);
        }
        self.in_message = !header.fin;
        Ok(())
    }

    /// Handles a complete control frame.
    fn finish_control(&mut self, opcode: Opcode, outgoing: &mut Outgoing) -> Option<End> {
        let payload = &self.control_payload[..self.control_payload.len().min(CONTROL_MAX_BYTES)];
        match opcode {
            Opcode::Ping => outgoing.pong(payload),
            Opcode::Close => return Some(closed(payload)),
            // A Pong may be unsolicited (section 5.5.3).
            _ => {}
        }
        None
    }
}

/// Decodes a Close frame (section 5.5.1).
fn closed(payload: &[u8]) -> End {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return if payload.is_empty() { End::Closed(None) } else { End::Violation(Violation::CloseCode) };
    };
    match CloseCode::from_peer(u16::from_be_bytes(*code)) {
        None => End::Violation(Violation::CloseCode),
        Some(_) if std::str::from_utf8(reason).is_err() => End::Violation(Violation::CloseReason),
        Some(code) => End::Closed(Some(code)),
    }
}
