//! PUBLISH packets of the messages of a session, for the server and for the store.

use tautwire_message::{Message, MessageId, MessageRef};
use tautwire_protocol::{
    DecodeOptions, Delivery, EncodeError, Packet, PacketId, Properties, Property, PropertyContext, ProtocolVersion,
    Publish, QoS, TopicName, decode,
};
use tautwire_session::{PendingMessage, SubscriptionIds};

use super::link::Link;
use crate::{Error, Options};

/// Appends a PUBLISH. On error nothing has changed.
#[inline]
pub(super) fn write_publish(
    output: &mut Vec<u8>,
    link: &mut Link,
    options: &Options,
    version: ProtocolVersion,
    message: &MessageRef<'_>,
    delivery: Delivery,
    now_ms: u64,
) -> Result<(), Error> {
    let plain = message.properties.is_empty() && message.expires_at_ms.is_none() && options.topic_aliases == 0;
    if !plain {
        return write_publish_with_properties(output, link, options, version, message, delivery, now_ms);
    }
    let publish = Publish {
        delivery,
        retain: message.retain,
        topic: TopicName::new(message.topic).ok(),
        properties: Properties::EMPTY,
        payload: message.payload,
    };
    append(output, link, version, &publish)
}

fn write_publish_with_properties(
    output: &mut Vec<u8>,
    link: &mut Link,
    options: &Options,
    version: ProtocolVersion,
    message: &MessageRef<'_>,
    delivery: Delivery,
    now_ms: u64,
) -> Result<(), Error> {
    let mut block = message.properties.to_vec();
    append_expiry(&mut block, message, now_ms).map_err(|error| Error::Encode { packet: "PUBLISH", error })?;
    let properties = Properties::from_wire(&block, PropertyContext::Publish).map_err(Error::BadPacket)?;
    let chosen = properties.topic_alias().map(std::num::NonZeroU16::get);
    let known = link.aliases_out.get(message.topic).copied();
    let maximum = options.topic_aliases.min(link.offer.topic_alias_maximum);
    let next = u16::try_from(link.aliases_out.len() + 1).unwrap_or(u16::MAX);
    let (alias, is_new) = match (chosen, known) {
        (Some(chosen), Some(known)) if chosen == known => (Some(chosen), false),
        (Some(chosen), _) => (Some(chosen), true),
        (None, Some(known)) => (Some(known), false),
        (None, None) if version.is_v5() && next <= maximum => (Some(next), true),
        (None, None) => (None, false),
    };
    if let (None, Some(alias)) = (chosen, alias.and_then(std::num::NonZeroU16::new)) {
        Property::TopicAlias(alias)
            .append_to(&mut block)
            .map_err(|error| Error::Encode { packet: "PUBLISH", error })?;
    }
    let publish = Publish {
        delivery,
        retain: message.retain,
        topic: if alias.is_some() && !is_new { None } else { TopicName::new(message.topic).ok() },
        properties: Properties::from_wire(&block, PropertyContext::Publish).map_err(Error::BadPacket)?,
        payload: message.payload,
    };
    append(output, link, version, &publish)?;
    if let (Some(alias), true) = (alias, is_new) {
        link.aliases_out.retain(|_, taken| *taken != alias);
        link.aliases_out.insert(message.topic.into(), alias);
    }
    Ok(())
}

#[inline]
fn append(output: &mut Vec<u8>, link: &Link, version: ProtocolVersion, publish: &Publish<'_>) -> Result<(), Error> {
    let start = output.len();
    let bytes = publish.append_to(version, output).map_err(|error| Error::Encode { packet: "PUBLISH", error })?;
    match link.offer.maximum_packet_size_bytes {
        Some(limit_bytes) if bytes > limit_bytes as usize => {
            output.truncate(start);
            Err(Error::TooLarge { bytes, limit_bytes })
        }
        _ => Ok(()),
    }
}

/// The time that is left of the message's expiry [MQTT-3.3.2-6].
fn append_expiry(block: &mut Vec<u8>, message: &MessageRef<'_>, now_ms: u64) -> Result<(), EncodeError> {
    let Some(at_ms) = message.expires_at_ms else { return Ok(()) };
    let left_s = at_ms.saturating_sub(now_ms).div_ceil(1000).min(u64::from(u32::MAX));
    Property::MessageExpiryInterval(left_s as u32).append_to(block).map(drop)
}

/// The PUBLISH packet of a message, with a placeholder packet identifier.
pub(super) fn packet_of(message: &MessageRef<'_>, version: ProtocolVersion, now_ms: u64) -> Option<Vec<u8>> {
    let mut block = message.properties.to_vec();
    append_expiry(&mut block, message, now_ms).ok()?;
    let publish = Publish {
        delivery: delivery_of(message.qos, PacketId::new(1)?, false),
        retain: message.retain,
        topic: TopicName::new(message.topic).ok(),
        properties: Properties::from_wire(&block, PropertyContext::Publish).ok()?,
        payload: message.payload,
    };
    let mut packet = Vec::new();
    publish.append_to(version, &mut packet).ok()?;
    Some(packet)
}

/// The message of a PUBLISH packet. Its expiry interval starts again: the downtime of the process is unknown.
pub(super) fn read_packet(version: ProtocolVersion, packet: &[u8]) -> Option<PendingMessage> {
    let Ok((Packet::Publish(publish), _)) = decode(packet, &DecodeOptions::new(version)) else { return None };
    let mut properties = Vec::new();
    for property in &publish.properties {
        // An alias is valid only on its own connection.
        if !matches!(property, Property::MessageExpiryInterval(_) | Property::TopicAlias(_)) {
            property.append_to(&mut properties).ok()?;
        }
    }
    Some(pending_message(&MessageRef {
        id: MessageId::NONE,
        topic: publish.topic?.as_str(),
        properties: &properties,
        payload: publish.payload,
        qos: publish.qos(),
        retain: publish.retain,
        expires_at_ms: publish.properties.message_expiry_interval().map(|seconds| u64::from(seconds) * 1000),
    }))
}

#[inline]
pub(super) fn delivery_of(qos: QoS, packet_id: PacketId, dup: bool) -> Delivery {
    match qos {
        QoS::AtMostOnce => Delivery::AtMostOnce,
        QoS::AtLeastOnce => Delivery::AtLeastOnce { packet_id, dup },
        QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id, dup },
    }
}

pub(super) fn pending_message(message: &MessageRef<'_>) -> PendingMessage {
    let kept: Message = message.to_message();
    PendingMessage {
        message: kept.into(),
        qos: message.qos,
        retain: message.retain,
        subscription_ids: SubscriptionIds::None,
        share: None,
    }
}
