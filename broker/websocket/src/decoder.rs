//! Frames of a client, taken apart where they lie.

use std::fmt;

use crate::close::CloseCode;
use crate::frame::{CONTROL_MAX_BYTES, HEADER_MAX_BYTES, Header, Opcode};
use crate::mask::Mask;
use crate::outgoing::Outgoing;

/// How large what a client sends may be. Nothing is reserved for it: memory follows MQTT packets and their own limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Payload of one frame.
    pub frame_bytes: u64,
    /// Payload of all frames of one message together.
    pub message_bytes: u64,
}

/// What a client did that the standard does not allow or the limits do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A bit that only an extension could give a meaning.
    ReservedBits,
    /// A kind of frame that does not exist.
    UnknownOpcode,
    /// A frame that is not masked.
    NotMasked,
    /// A length that fits a shorter form.
    LengthNotMinimal,
    /// A length of 2^63 or more.
    LengthOutOfRange,
    /// A control frame in pieces.
    FragmentedControl,
    /// A control frame of more than 125 bytes.
    ControlTooLong,
    /// A piece of a message that has not been begun.
    NothingToContinue,
    /// A message begun in the midst of another.
    MessageUnfinished,
    /// A text frame [MQTT-6.0.0-1].
    Text,
    /// A Close frame with half a code, or with one that may not be sent.
    CloseCode,
    /// A Close frame with a reason that is no UTF-8.
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

    /// Whether a limit was hit, rather than the standard broken.
    pub fn is_over_limit(self) -> bool {
        matches!(self, Violation::FrameTooLarge | Violation::MessageTooLarge)
    }

    /// What was wrong, in a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Violation::ReservedBits => "a WebSocket frame has reserved bits set",
            Violation::UnknownOpcode => "a WebSocket frame is of no known kind",
            Violation::NotMasked => "a WebSocket frame is not masked",
            Violation::LengthNotMinimal => "the length of a WebSocket frame is not in its shortest form",
            Violation::LengthOutOfRange => "the length of a WebSocket frame is out of range",
            Violation::FragmentedControl => "a WebSocket control frame is in pieces",
            Violation::ControlTooLong => "a WebSocket control frame has more than 125 bytes",
            Violation::NothingToContinue => "a WebSocket frame continues no message",
            Violation::MessageUnfinished => "a WebSocket message begins in the midst of another",
            Violation::Text => "a WebSocket text frame; MQTT is sent in binary frames",
            Violation::CloseCode => "a WebSocket Close frame has no valid code",
            Violation::CloseReason => "the reason of a WebSocket Close frame is not UTF-8",
            Violation::FrameTooLarge => "a WebSocket frame is over limits.websocket_frame_bytes",
            Violation::MessageTooLarge => "a WebSocket message is over limits.websocket_message_bytes",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for Violation {}

/// What ends a client's half of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// A Close frame, with its code if it had one.
    Closed(Option<CloseCode>),
    Violation(Violation),
}

/// Where in the row of frames a client is.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Beginning of a header that is not whole.
    header: [u8; HEADER_MAX_BYTES],
    header_bytes: u8,
    /// In the midst of a message's frames.
    in_message: bool,
    /// The frame under way is a control frame.
    control: Option<Opcode>,
    mask: Mask,
    /// Bytes of the frame under way that are still to come.
    left: u64,
    /// Bytes of the message under way so far, the frame under way included.
    message_bytes: u64,
    /// Payload so far of the control frame under way.
    control_payload: Vec<u8>,
}

impl Decoder {
    /// Takes `bytes[from..]` apart: moves all payload of data frames to the front of `bytes` and says how long it is. Pings
    /// are answered through `outgoing`. What comes behind an end is not looked at.
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

    /// The next header, with how many of `bytes` belong to it; `None` where it is not whole yet.
    fn next_header(&mut self, bytes: &[u8]) -> Result<(usize, Option<Header>), Violation> {
        if self.header_bytes == 0 {
            if let Some(header) = Header::parse(bytes)? {
                return Ok((header.header_bytes, Some(header)));
            }
            // Shorter than the longest header, or it would have been whole.
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

    /// Whether the frame may come here (section 5.4), and what follows from it.
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

    /// A control frame is there in full.
    fn finish_control(&mut self, opcode: Opcode, outgoing: &mut Outgoing) -> Option<End> {
        let payload = &self.control_payload[..self.control_payload.len().min(CONTROL_MAX_BYTES)];
        match opcode {
            Opcode::Ping => outgoing.pong(payload),
            Opcode::Close => return Some(closed(payload)),
            // A Pong need not be the answer to anything (section 5.5.3).
            _ => {}
        }
        None
    }
}

/// What a Close frame says (section 5.5.1).
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
