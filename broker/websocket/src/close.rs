//! Why a WebSocket is closed (RFC 6455 section 7.4).

/// The code of a Close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The conversation is over; what there was to say about it has been said in MQTT.
    pub const NORMAL: CloseCode = CloseCode(1000);
    /// The server is going down.
    pub const GOING_AWAY: CloseCode = CloseCode(1001);
    /// Frames that are none, or not in order.
    pub const PROTOCOL_ERROR: CloseCode = CloseCode(1002);
    /// A frame of a kind that is not taken: text [MQTT-6.0.0-1].
    pub const UNSUPPORTED_DATA: CloseCode = CloseCode(1003);
    /// Text that is no UTF-8: the reason in a Close frame.
    pub const INVALID_TEXT: CloseCode = CloseCode(1007);
    /// A frame or message over its limit.
    pub const TOO_BIG: CloseCode = CloseCode(1009);

    /// A code that a peer may send (section 7.4.1 and the registry it has set up).
    pub(crate) fn from_peer(code: u16) -> Option<CloseCode> {
        matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999).then_some(CloseCode(code))
    }

    /// The number.
    pub fn as_u16(self) -> u16 {
        self.0
    }
}
