//! The parameters of a connection, from CONNECT and CONNACK.

use std::num::NonZeroU32;

use tautwire_protocol::ProtocolVersion;

use crate::index::ServerLimitsIndex;

/// The parameters of CONNECT, within the server's limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectParameters {
    pub(crate) version: ProtocolVersion,
    /// The client accepts reason strings [MQTT-3.1.2-29].
    pub(in crate::connection) problem_information: bool,
    /// The session existed before the connection.
    pub(crate) resumed: bool,
    pub(crate) keep_alive_s: u16,
    /// The most QoS 1 and 2 messages that may be in flight towards the client.
    pub(crate) send_maximum: u16,
    /// Topic aliases that the client accepts.
    pub(in crate::connection) alias_maximum: u16,
    /// The limits in the client's CONNACK.
    pub(crate) server_limits: ServerLimitsIndex,
    /// The client's Maximum Packet Size, if set.
    pub(crate) maximum_packet_size_bytes: Option<NonZeroU32>,
}

impl ConnectParameters {
    /// The parameters until CONNECT has been read.
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
