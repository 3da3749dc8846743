//! CONNECT and CONNACK of both sides.

use std::num::{NonZeroU16, NonZeroU32};

use tautwire_protocol::{ConnAck, Connect, Packet, Properties, Property, ProtocolVersion, QoS, TopicName, Will};

use crate::half::Half;
use crate::hops::HOPS_PROPERTY;
use crate::settings::LinkSettings;

/// The bit of the protocol level by which brokers recognise a bridge before MQTT 5.0.
const BRIDGE_BIT: u8 = 0x80;
/// The protocol level follows a fixed header, two bytes of length, and the name "MQTT".
const NAME_BYTES: usize = 6;
/// What hops and lengths can add to a packet, besides names and prefixes.
const GROWTH_SPARE_BYTES: usize = 16;
/// The smallest limit on packets that is passed on.
const PACKET_MIN_BYTES: u32 = 128;

/// The status of a bridge that is connected, and of one that is not.
pub(crate) const CONNECTED: &[u8] = b"1";
pub(crate) const DISCONNECTED: &[u8] = b"0";

/// What the remote broker accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemoteLimits {
    pub(crate) receive_maximum: NonZeroU16,
    pub(crate) packet_max_bytes: u32,
    pub(crate) maximum_qos: QoS,
    pub(crate) is_retain_available: bool,
    pub(crate) keep_alive_s: u16,
    pub(crate) session_present: bool,
}

impl RemoteLimits {
    /// The limits in a CONNACK. Before MQTT 5.0 there are none.
    pub(crate) fn new(connack: &ConnAck<'_>, settings: &LinkSettings) -> RemoteLimits {
        let properties = &connack.properties;
        RemoteLimits {
            receive_maximum: properties.receive_maximum().unwrap_or(NonZeroU16::MAX),
            packet_max_bytes: properties
                .maximum_packet_size()
                .map_or(u32::MAX, NonZeroU32::get)
                .min(settings.packet_max_bytes),
            maximum_qos: properties.maximum_qos().unwrap_or(QoS::ExactlyOnce),
            is_retain_available: properties.retain_available().unwrap_or(true),
            // A broker that needs no keep alive does not prevent the link from testing the connection.
            keep_alive_s: properties
                .server_keep_alive()
                .filter(|seconds| *seconds > 0)
                .unwrap_or(settings.keep_alive_s),
            session_present: connack.session_present,
        }
    }

    /// The largest packet of the local session: what remains of the remote limit when the topic and the hops have grown.
    fn local_packet_max_bytes(&self, settings: &LinkSettings) -> u32 {
        let growth =
            settings.rules.growth_bytes() + HOPS_PROPERTY.len() + settings.broker_id.len() + GROWTH_SPARE_BYTES;
        self.packet_max_bytes.saturating_sub(u32::try_from(growth).unwrap_or(u32::MAX)).max(PACKET_MIN_BYTES)
    }
}

/// Writes the CONNECT for the remote broker.
pub(crate) fn connect_remote(settings: &LinkSettings, clean_start: bool, remote: &mut Half) {
    let session_expiry_s = if settings.clean_start { 0 } else { settings.session_expiry_s };
    let properties = [
        Property::SessionExpiryInterval(session_expiry_s),
        Property::ReceiveMaximum(settings.local.receive_maximum),
        Property::MaximumPacketSize(NonZeroU32::new(settings.local.packet_max_bytes).unwrap_or(NonZeroU32::MAX)),
    ];
    let is_v5 = settings.version.is_v5();
    let at = remote.output.len();
    remote.send(&Packet::Connect(Connect {
        version: settings.version,
        clean_start: clean_start || settings.clean_start,
        keep_alive_s: settings.keep_alive_s,
        client_id: &settings.client_id,
        will: status_will(settings.status.remote.as_deref()),
        user_name: settings.user_name.as_deref(),
        password: settings.password.as_deref(),
        properties: if is_v5 { Properties::from_list(&properties) } else { Properties::EMPTY },
    }));
    if settings.version == ProtocolVersion::V3_1_1 && settings.bridge_bit {
        let length_bytes = remote.output[at + 1..].iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
        if let Some(level) = remote.output.get_mut(at + 1 + length_bytes + NAME_BYTES) {
            *level |= BRIDGE_BIT;
        }
    }
}

/// Writes the CONNECT for the local session, with the limits of the remote broker.
pub(crate) fn connect_local(settings: &LinkSettings, limits: &RemoteLimits, local: &mut Half) {
    let packet_max_bytes = NonZeroU32::new(limits.local_packet_max_bytes(settings)).unwrap_or(NonZeroU32::MIN);
    let properties = [
        Property::SessionExpiryInterval(u32::MAX),
        Property::ReceiveMaximum(limits.receive_maximum),
        Property::MaximumPacketSize(packet_max_bytes),
    ];
    local.send(&Packet::Connect(Connect {
        version: ProtocolVersion::V5,
        clean_start: false,
        keep_alive_s: 0,
        client_id: &settings.local_client_id,
        will: status_will(settings.status.local.as_deref()),
        user_name: None,
        password: None,
        properties: Properties::from_list(&properties),
    }));
}

fn status_will(topic: Option<&str>) -> Option<Will<'_>> {
    let topic = TopicName::new(topic?).ok()?;
    Some(Will { topic, payload: DISCONNECTED, qos: QoS::AtLeastOnce, retain: true, properties: Properties::EMPTY })
}

#[cfg(test)]
mod tests {
    use tautwire_protocol::{DecodeOptions, decode};

    use super::*;

    #[test]
    fn the_bridge_bit_is_in_the_protocol_level() {
        for client_id in ["short", &"long".repeat(100)] {
            let settings = LinkSettings {
                version: ProtocolVersion::V3_1_1,
                client_id: client_id.into(),
                ..LinkSettings::new("b", "me")
            };
            let mut half = Half::new(ProtocolVersion::V3_1_1, u32::MAX, 0);
            connect_remote(&settings, false, &mut half);
            let at = half.output.iter().position(|byte| *byte == 0x84).expect("level 4 with the bit");
            assert_eq!(half.output[at - 6..at], *b"\0\x04MQTT");
            half.output[at] = 4;
            let (packet, length) =
                decode(&half.output, &DecodeOptions::new(ProtocolVersion::V3_1_1)).expect("a packet");
            assert_eq!(length, half.output.len());
            let Packet::Connect(connect) = packet else { panic!("CONNECT: {packet:?}") };
            assert!(!connect.clean_start && connect.client_id == client_id);
        }
    }

    #[test]
    fn packets_of_the_local_session_leave_room_for_what_the_link_adds() {
        let settings = LinkSettings::new("b", "me");
        let limit = [Property::MaximumPacketSize(NonZeroU32::new(1000).expect("not zero"))];
        let connack = ConnAck {
            session_present: false,
            reason: tautwire_protocol::ConnectReason::Success,
            properties: Properties::from_list(&limit),
        };
        let limits = RemoteLimits::new(&connack, &settings);
        assert_eq!(limits.packet_max_bytes, 1000);
        assert_eq!(limits.local_packet_max_bytes(&settings), 1000 - 13 - 2 - 16);
    }
}
