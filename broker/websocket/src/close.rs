//! Close codes of a WebSocket (RFC 6455 section 7.4).

/// The code of a Close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The connection has served its purpose; MQTT has carried the reason, if any.
    pub const NORMAL: CloseCode = CloseCode(1000);
    /// The server is shutting down.
    pub const GOING_AWAY: CloseCode = CloseCode(1001);
    /// Invalid frames, or frames in the wrong order.
    pub const PROTOCOL_ERROR: CloseCode = CloseCode(1002);
    /// A frame of an unsupported type: text [MQTT-6.0.0-1].
    pub const UNSUPPORTED_DATA: CloseCode = CloseCode(1003);
    /// The reason of a Close frame is not UTF-8.
    pub const INVALID_TEXT: CloseCode = CloseCode(1007);
    /// A frame or message exceeds its limit.
    pub const TOO_BIG: CloseCode = CloseCode(1009);

    /// A code that a peer may send (section 7.4.1 and its registry).
    pub(crate) fn from_peer(code: u16) -> Option<CloseCode> {
        matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999).then_some(CloseCode(code))
    }

    /// The number.
    pub fn as_u16(self) -> u16 {
        self.0
    }
}
