//! The settings of a link.

use std::num::NonZeroU16;

use tautwire_protocol::ProtocolVersion;

use crate::rules::Rules;

/// The settings of a link, from the configuration of the broker.
#[derive(Debug, Clone)]
pub struct LinkSettings {
    /// The client identifier of the local session.
    pub local_client_id: String,
    /// The client identifier at the remote broker.
    pub client_id: String,
    /// The protocol version at the remote broker: 5.0 or 3.1.1.
    pub version: ProtocolVersion,
    /// With 3.1.1: sets the bit 0x80 of the protocol level, by which Mosquitto, FlashMQ and EMQX recognise a bridge. They then do not
    /// send its own messages back, and keep the RETAIN flag.
    pub bridge_bit: bool,
    /// The user name at the remote broker.
    pub user_name: Option<String>,
    /// The password at the remote broker.
    pub password: Option<Vec<u8>>,
    /// Discards the session at the remote broker at each connection. Messages may then be lost.
    pub clean_start: bool,
    /// How long the remote broker keeps the session while the link is down, in seconds; `u32::MAX` for no limit.
    pub session_expiry_s: u32,
    /// The keep alive at the remote broker, in seconds; 0 for none.
    pub keep_alive_s: u16,
    /// The time for the remote broker to accept the connection, and to answer a PINGREQ.
    pub response_timeout_ms: u64,
    /// The largest packet that is sent to the remote broker, if that broker does not set a lower limit.
    pub packet_max_bytes: u32,
    /// What this broker accepts from a client.
    pub local: LocalOffer,
    /// Which messages are forwarded.
    pub rules: Rules,
    /// The topics of the status messages.
    pub status: StatusTopics,
    /// Identifies this broker in the hops of a message.
    pub broker_id: String,
    /// The highest number of bridges that a message passes, this one included.
    pub hops_max: usize,
}

/// The limits of this broker for the packets of one client, which the link passes on to the remote broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalOffer {
    /// The messages of QoS 1 and 2 that this broker accepts at once.
    pub receive_maximum: NonZeroU16,
    /// The largest packet that this broker accepts.
    pub packet_max_bytes: u32,
}

/// The topics of a retained message that says whether the bridge is connected: `1` or `0`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusTopics {
    /// At this broker.
    pub local: Option<String>,
    /// At the remote broker.
    pub remote: Option<String>,
}

/// A link with the defaults of the configuration, to `client_id` at the remote broker.
impl LinkSettings {
    /// Creates settings for a bridge called `name`, without rules.
    #[must_use]
    pub fn new(name: &str, broker_id: &str) -> LinkSettings {
        LinkSettings {
            local_client_id: format!("bridge/{name}"),
            client_id: format!("tautwire-{broker_id}-{name}"),
            version: ProtocolVersion::V5,
            bridge_bit: true,
            user_name: None,
            password: None,
            clean_start: false,
            session_expiry_s: u32::MAX,
            keep_alive_s: 60,
            response_timeout_ms: 10_000,
            packet_max_bytes: tautwire_protocol::MAX_PACKET_SIZE_BYTES,
            local: LocalOffer {
                receive_maximum: NonZeroU16::MAX,
                packet_max_bytes: tautwire_protocol::MAX_PACKET_SIZE_BYTES,
            },
            rules: Rules::default(),
            status: StatusTopics::default(),
            broker_id: broker_id.to_owned(),
            hops_max: 16,
        }
    }
}
