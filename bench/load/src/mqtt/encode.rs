//! Control packets, encoded with the shared codec.

use tautwire_protocol::{
    Connect, Disconnect, DisconnectReason, Packet, PacketId, Properties, Property, ProtocolVersion, QoS,
    RetainHandling, Subscribe, SubscriptionOptions, SubscriptionRequest, TopicFilter,
};

use crate::failure::{ErrorContext, Failure, Result};

/// Longer than any idle time of a run. Not 0, because rumqttd closes a connection without keep alive.
pub(crate) const KEEP_ALIVE_S: u16 = 3600;

/// A client whose session ends with its connection.
pub(crate) fn connect(version: ProtocolVersion, client_id: &str, keep_alive_s: u16) -> Result<Vec<u8>> {
    connect_as(version, client_id, keep_alive_s, true, Properties::EMPTY)
}

/// A client that has a session already, or whose session outlives its connection.
pub(crate) fn connect_persistent(version: ProtocolVersion, client_id: &str, keep_alive_s: u16) -> Result<Vec<u8>> {
    let for_ever = [Property::SessionExpiryInterval(u32::MAX)];
    let properties = if version.is_v5() { Properties::from_list(&for_ever) } else { Properties::EMPTY };
    connect_as(version, client_id, keep_alive_s, false, properties)
}

fn connect_as(
    version: ProtocolVersion,
    client_id: &str,
    keep_alive_s: u16,
    clean_start: bool,
    properties: Properties<'_>,
) -> Result<Vec<u8>> {
    let packet = Packet::Connect(Connect {
        version,
        clean_start,
        keep_alive_s,
        client_id,
        will: None,
        user_name: None,
        password: None,
        properties,
    });
    encode(&packet, version)
}

/// One SUBSCRIBE for all `filters`, each at `qos`.
pub(crate) fn subscribe<'a>(
    version: ProtocolVersion,
    packet_id: PacketId,
    filters: impl IntoIterator<Item = &'a str>,
    qos: QoS,
) -> Result<Vec<u8>> {
    let options = SubscriptionOptions {
        qos,
        no_local: false,
        retain_as_published: false,
        retain_handling: RetainHandling::SendAtSubscribe,
    };
    let requests: Vec<SubscriptionRequest<'_>> = filters
        .into_iter()
        .map(|filter| {
            let filter =
                TopicFilter::new(filter).map_err(|error| Failure::new(format!("filter {filter:?}: {error}")))?;
            Ok(SubscriptionRequest { filter, options })
        })
        .collect::<Result<_>>()?;
    let packet =
        Packet::Subscribe(Subscribe { packet_id, properties: Properties::EMPTY, requests: requests.as_slice().into() });
    encode(&packet, version)
}

pub(crate) fn disconnect(version: ProtocolVersion) -> Result<Vec<u8>> {
    let packet =
        Packet::Disconnect(Disconnect { reason: DisconnectReason::NormalDisconnection, properties: Properties::EMPTY });
    encode(&packet, version)
}

fn encode(packet: &Packet<'_>, version: ProtocolVersion) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    packet.append_to(version, &mut bytes).during(|| "encoding a control packet".to_owned())?;
    Ok(bytes)
}
