//! Messages and acknowledgements in the form that the other side needs.

use tautwire_protocol::{
    Delivery, Packet, Properties, Property, PropertyId, ProtocolVersion, PubAck, PubAckReason, PubComp, PubRec,
    PubRecReason, PubRel, Publish, QoS, TopicName,
};

use crate::half::Half;
use crate::hops::HOPS_PROPERTY;

/// What a link changes in a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) topic: TopicName<'a>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) hops: &'a str,
    /// The largest packet that the receiver accepts.
    pub(crate) packet_max_bytes: u32,
}

/// Sends a message with its Packet Identifier. Returns false if it has become too large.
pub(crate) fn publish(message: &Publish<'_>, change: Change<'_>, to: &mut Half) -> bool {
    let properties = if to.version.is_v5() { forwarded(message, change.hops) } else { Vec::new() };
    let forwarded = Publish {
        delivery: with_qos(message.delivery, change.qos),
        retain: change.retain,
        topic: Some(change.topic),
        properties: Properties::from_list(&properties),
        payload: message.payload,
    };
    let before = to.output.len();
    let encoded = forwarded.append_to(to.version, &mut to.output);
    let is_accepted = encoded.is_ok() && to.output.len() - before <= change.packet_max_bytes as usize;
    if !is_accepted {
        to.output.truncate(before);
    }
    is_accepted
}

/// The properties of a message that are not of one connection.
fn forwarded<'a>(message: &Publish<'a>, hops: &'a str) -> Vec<Property<'a>> {
    let is_forwarded = |property: &Property<'a>| match property {
        Property::UserProperty(HOPS_PROPERTY, _) => false,
        property => !matches!(property.id(), PropertyId::SubscriptionIdentifier | PropertyId::TopicAlias),
    };
    let mut properties: Vec<Property<'a>> = Vec::with_capacity(4);
    properties.extend(message.properties.iter().filter(is_forwarded));
    properties.push(Property::UserProperty(HOPS_PROPERTY, hops));
    properties
}

fn with_qos(delivery: Delivery, qos: QoS) -> Delivery {
    match (delivery, qos) {
        (_, QoS::AtMostOnce) => Delivery::AtMostOnce,
        (Delivery::ExactlyOnce { packet_id, dup }, QoS::AtLeastOnce) => Delivery::AtLeastOnce { packet_id, dup },
        (delivery, _) => delivery,
    }
}

/// An acknowledgement as the version can express it: before MQTT 5.0 there is only success.
pub(crate) fn acknowledgement<'a>(packet: Packet<'a>, version: ProtocolVersion) -> Packet<'a> {
    if version.is_v5() {
        return packet;
    }
    match packet {
        Packet::PubAck(packet) => PubAck::success(packet.packet_id).into(),
        Packet::PubRec(packet) => PubRec::success(packet.packet_id).into(),
        Packet::PubRel(packet) => PubRel::success(packet.packet_id).into(),
        Packet::PubComp(packet) => PubComp::success(packet.packet_id).into(),
        packet => packet,
    }
}

/// The PUBREC that corresponds to a PUBACK, for a message that was forwarded with a lower QoS.
pub(crate) fn pubrec_of(puback: &PubAck<'_>) -> PubRec<'static> {
    let reason = match puback.reason {
        PubAckReason::Success | PubAckReason::NoMatchingSubscribers => PubRecReason::Success,
        reason => PubRecReason::from_u8(reason.as_u8()).unwrap_or(PubRecReason::UnspecifiedError),
    };
    PubRec::new(puback.packet_id, reason)
}
