//! Packets of a connected client.

mod steps;

use tautwire_protocol::DisconnectReason;

/// Why a message with too large a payload is refused.
pub(crate) const PAYLOAD_TOO_LARGE: &str = "the payload is larger than limits.payload_bytes";

/// Why a connection must end, and what to say of it.
pub(crate) struct Disconnection(pub(crate) DisconnectReason, pub(crate) &'static str);
