//! Violations of the standard, or of the limits.

use std::fmt;

use crate::close::CloseCode;

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
    /// A frame over [`FrameLimits::frame_bytes`](crate::FrameLimits::frame_bytes).
    FrameTooLarge,
    /// A message over [`FrameLimits::message_bytes`](crate::FrameLimits::message_bytes).
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
