//! The will of a session.

use tautwire_message::Message;

/// The will of a client [MQTT 5.0 section 3.1.2.5].
#[derive(Debug, Clone, PartialEq)]
pub struct StoredWill {
    /// The message to publish. Its expiry is set when it is published.
    pub message: Message,
    /// Will Delay Interval in seconds.
    pub delay_s: u32,
    /// Message Expiry Interval in seconds.
    pub message_expiry_s: Option<u32>,
}
