//! Encoders for packets of clients.

use std::num::{NonZeroU16, NonZeroU32};

use tautwire_protocol::{
    Connect, DecodeOptions, Packet, PacketId, Properties, Property, ProtocolVersion, Subscribe, SubscriptionId,
    SubscriptionOptions, SubscriptionRequest, TopicFilter, TopicName, Will, decode,
};

use crate::ledger::{Publication, Request};

/// The options of a CONNECT packet.
#[derive(Debug, Clone)]
pub(crate) struct ConnectOptions {
    pub(crate) clean_start: bool,
    /// `u32::MAX` for 3.1.1 without Clean Session.
    pub(crate) expiry_interval_s: u32,
    pub(crate) receive_maximum: Option<u16>,
    pub(crate) maximum_packet_bytes: Option<u32>,
    pub(crate) topic_alias_maximum: u16,
    pub(crate) will: Option<usize>,
    pub(crate) will_delay_s: u32,
    pub(crate) room_bytes: usize,
}

pub(crate) fn connect_bytes(
    id: &str,
    version: ProtocolVersion,
    options: &ConnectOptions,
    will: Option<&Publication>,
) -> Vec<u8> {
    let will_delay = [Property::WillDelayInterval(options.will_delay_s)];
    let mut properties = Vec::new();
    if version.is_v5() {
        if options.expiry_interval_s > 0 {
            properties.push(Property::SessionExpiryInterval(options.expiry_interval_s));
        }
        properties.extend(options.receive_maximum.and_then(NonZeroU16::new).map(Property::ReceiveMaximum));
        properties.extend(options.maximum_packet_bytes.and_then(NonZeroU32::new).map(Property::MaximumPacketSize));
        if options.topic_alias_maximum > 0 {
            properties.push(Property::TopicAliasMaximum(options.topic_alias_maximum));
        }
    }
    let connect = Connect {
        version,
        clean_start: options.clean_start,
        keep_alive_s: 0,
        client_id: id,
        will: will.map(|message| Will {
            topic: TopicName::new(&message.topic).expect("our topics are valid"),
            payload: &message.payload,
            qos: message.qos,
            retain: message.retain,
            properties: if options.will_delay_s > 0 { Properties::from_list(&will_delay) } else { Properties::EMPTY },
        }),
        user_name: None,
        password: None,
        properties: Properties::from_list(&properties),
    };
    let mut bytes = Vec::new();
    connect.append_to(version, &mut bytes).expect("our CONNECT is valid");
    bytes
}

/// Encodes SUBSCRIBE with the Subscription Identifier of the first request.
pub(crate) fn subscribe_bytes(version: ProtocolVersion, packet_id: PacketId, requests: &[Request]) -> Vec<u8> {
    let v5 = version.is_v5();
    let items: Vec<SubscriptionRequest<'_>> = requests
        .iter()
        .map(|request| SubscriptionRequest {
            filter: TopicFilter::new(&request.filter).expect("our filters are valid"),
            options: if v5 {
                SubscriptionOptions {
                    qos: request.qos,
                    no_local: request.no_local,
                    retain_as_published: request.retain_as_published,
                    retain_handling: request.retain_handling,
                }
            } else {
                SubscriptionOptions::with_qos(request.qos)
            },
        })
        .collect();
    let identifier = requests.first().and_then(|request| request.identifier);
    let property = identifier.and_then(SubscriptionId::new).map(Property::SubscriptionIdentifier);
    let subscribe =
        Subscribe { packet_id, properties: Properties::from_list(property.as_slice()), requests: (&items[..]).into() };
    let mut bytes = Vec::new();
    subscribe.append_to(version, &mut bytes).expect("our SUBSCRIBE is valid");
    bytes
}

/// Collects what `map` returns for each packet of 5.0.
pub(crate) fn each_packet<T>(bytes: &[u8], mut map: impl FnMut(&Packet<'_>) -> Option<T>) -> Vec<T> {
    let (mut rest, mut found) = (bytes, Vec::new());
    while let Ok((packet, length)) = decode(rest, &DecodeOptions::new(ProtocolVersion::V5)) {
        found.extend(map(&packet));
        rest = &rest[length..];
    }
    found
}

pub(crate) fn id(n: u16) -> PacketId {
    PacketId::new(n).expect("not zero")
}
