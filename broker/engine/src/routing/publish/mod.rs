//! The packets of a connected client, PUBLISH above all.

mod steps;

use tautwire_protocol::DisconnectReason;

/// The reason for refusing a message with too large a payload.
pub(crate) const PAYLOAD_TOO_LARGE: &str = "the payload is larger than limits.payload_bytes";

/// The reason for closing a connection, with a text for the log and the client.
pub(crate) struct Disconnection(pub(crate) DisconnectReason, pub(crate) &'static str);
