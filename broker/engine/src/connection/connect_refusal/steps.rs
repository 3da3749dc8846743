//! The steps of [`super`] that need several parts of a shard.

use tautwire_protocol::{
    ConnAck, ConnectReason, DecodeError, Packet, Properties, Property, ProtocolVersion, ReasonCode,
};

use super::RefusedClient;
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::shard::Shard;

impl<M: Mode> Shard<M> {
    pub(crate) fn refuse_connect(
        &mut self,
        index: ConnectionIndex,
        client: RefusedClient<'_>,
        reason: ConnectReason,
        why: &str,
    ) {
        self.refuse_connect_with(index, client, reason, (why, why), None);
    }

    /// Refuses a CONNECT and refers its client to another server [MQTT 5.0 section 3.2.2.3.16].
    pub(crate) fn redirect_connect(
        &mut self,
        index: ConnectionIndex,
        client: RefusedClient<'_>,
        reason: ConnectReason,
        why: &str,
        reference: &str,
    ) {
        let reference = Some(reference).filter(|reference| !reference.is_empty());
        self.refuse_connect_with(index, client, reason, (why, why), reference);
    }

    /// Refuses a CONNECT. The client gets the first reason; the log gets the second, which may be more detailed.
    pub(crate) fn refuse_connect_with(
        &mut self,
        index: ConnectionIndex,
        client: RefusedClient<'_>,
        reason: ConnectReason,
        (why, detail): (&str, &str),
        reference: Option<&str>,
    ) {
        let version = client.version;
        self.state.counters().connects_refused.add(1);
        self.state.audit_connect_refused(index, &client, reason.into(), detail);
        self.state.connections[index].set_version(version);
        if version != ProtocolVersion::V5 {
            if let Some(reason) = reason_for_v3(reason) {
                self.state.write_packet(index, &Packet::ConnAck(ConnAck::refusal(reason)));
            }
        } else {
            // [MQTT-3.2.2-19]: the reason string is omitted if the packet would be too large.
            let mut properties: Vec<_> = reference.map(Property::ServerReference).into_iter().collect();
            properties.push(Property::ReasonString(why));
            loop {
                let properties_left = Properties::from_list(&properties);
                let connack = ConnAck { session_present: false, reason, properties: properties_left };
                let is_written = self.state.write_packet(index, &Packet::ConnAck(connack));
                if is_written || properties.pop().is_none() {
                    break;
                }
            }
        }
        // [MQTT-3.2.2-7]
        self.close(index);
    }

    /// Refuses an incomplete CONNECT, if its version is known.
    pub(crate) fn refuse_partial_connect(
        &mut self,
        index: ConnectionIndex,
        bytes: &[u8],
        reason: ConnectReason,
        why: &str,
    ) {
        match protocol_name_and_level(bytes) {
            Some((ProtocolName::Mqtt, 5)) => {
                self.refuse_connect(index, RefusedClient::unread(ProtocolVersion::V5), reason, why)
            }
            Some((ProtocolName::Mqtt, 4)) => {
                self.refuse_connect(index, RefusedClient::unread(ProtocolVersion::V3_1_1), reason, why)
            }
            Some((ProtocolName::MqIsdp, 3)) => {
                self.refuse_connect(index, RefusedClient::unread(ProtocolVersion::V3_1), reason, why)
            }
            _ => self.close(index),
        }
    }

    /// Refuses a CONNECT that cannot be decoded, if its version is known [MQTT-3.1.2-2].
    pub(crate) fn refuse_connect_bytes(&mut self, index: ConnectionIndex, bytes: &[u8], error: &DecodeError) {
        self.state.counters().connects_refused.add(1);
        let unsupported = error.reason == ReasonCode::UnsupportedProtocolVersion;
        let version = match protocol_name_and_level(bytes) {
            Some((ProtocolName::Mqtt, 5..)) => ProtocolVersion::V5,
            Some(_) if unsupported => ProtocolVersion::V3_1_1,
            // MQTT 3.1.1 has no return code for a malformed CONNECT [MQTT-3.1.4-1].
            _ => {
                self.close(index);
                return;
            }
        };
        let reason = ConnectReason::try_from(error.reason).unwrap_or(ConnectReason::MalformedPacket);
        let why = [Property::ReasonString(error.cause.code())];
        let properties = if version == ProtocolVersion::V5 { Properties::from_list(&why) } else { Properties::EMPTY };
        self.state.connections[index].set_version(version);
        self.state.write_packet(index, &Packet::ConnAck(ConnAck { session_present: false, reason, properties }));
        self.close(index);
    }
}

/// The protocol names of MQTT.
enum ProtocolName {
    /// From 3.1.1 on.
    Mqtt,
    /// Of 3.1.
    MqIsdp,
}

/// Reads the protocol name and level of a CONNECT.
fn protocol_name_and_level(bytes: &[u8]) -> Option<(ProtocolName, u8)> {
    let body_at = 1 + bytes.iter().skip(1).take(4).position(|byte| byte & 0x80 == 0)? + 1;
    let body = bytes.get(body_at..)?;
    let (name, rest) = match body.strip_prefix(b"\x00\x04MQTT") {
        Some(rest) => (ProtocolName::Mqtt, rest),
        None => (ProtocolName::MqIsdp, body.strip_prefix(b"\x00\x06MQIsdp")?),
    };
    Some((name, *rest.first()?))
}

/// The MQTT 3.1.1 return code for a reason code. If none fits, the connection is closed without CONNACK (3.1.1: [MQTT-3.2.2-6]).
fn reason_for_v3(reason: ConnectReason) -> Option<ConnectReason> {
    match reason {
        ConnectReason::QuotaExceeded | ConnectReason::ServerBusy | ConnectReason::ConnectionRateExceeded => {
            Some(ConnectReason::ServerUnavailable)
        }
        ConnectReason::Banned => Some(ConnectReason::NotAuthorized),
        reason => reason.v3_return_code().map(|_| reason),
    }
}
