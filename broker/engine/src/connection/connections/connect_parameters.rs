//! What a client and the server have agreed on by CONNECT and CONNACK.

use std::num::NonZeroU32;

use tautwire_protocol::ProtocolVersion;

use crate::index::ServerLimitsIndex;

/// What the client has said of itself in CONNECT, as far as the server goes along with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectParameters {
    pub(crate) version: ProtocolVersion,
    /// The client wants reason strings [MQTT-3.1.2-29].
    pub(crate) problem_information: bool,
    /// The session was there before the connection.
    pub(crate) resumed: bool,
    pub(crate) keep_alive_s: u16,
    /// The most QoS 1 and 2 messages that may be in flight towards the client.
    pub(crate) send_maximum: u16,
    /// Topic aliases that the client accepts.
    pub(crate) alias_maximum: u16,
    /// What the client has been told of the server.
    pub(crate) server_limits: ServerLimitsIndex,
    /// The client's Maximum Packet Size, where it set one.
    pub(crate) maximum_packet_size_bytes: Option<NonZeroU32>,
}

impl ConnectParameters {
    /// What holds until CONNECT has been read.
    pub(super) const UNKNOWN: ConnectParameters = ConnectParameters {
        version: ProtocolVersion::V3_1_1,
        problem_information: true,
        resumed: false,
        keep_alive_s: 0,
        send_maximum: 0,
        alias_maximum: 0,
        server_limits: ServerLimitsIndex::NONE,
        maximum_packet_size_bytes: None,
    };
}
