//! What a connection remembers of the protocol: identifiers in flight, aliases, and what is to be sent.
//! Nothing here reads or writes a socket.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use tautwire_protocol::{
    ConnAck, Delivery, DisconnectReason, Packet, PacketId, Properties, Property, ProtocolVersion, PubAck, PubAckReason,
    PubComp, PubCompReason, PubRec, PubRecReason, PubRel, PubRelReason, Publish, QoS, ReasonCode,
};

use super::{ClientError, Event, Message, OutgoingMessage};

/// The protocol state of one connection.
pub(super) struct Session {
    pub(super) version: ProtocolVersion,
    pub(super) offer: Offer,
    /// Encoded packets that are to be sent.
    pub(super) output: Vec<u8>,
    /// Set when the connection is about to end: messages that now come are left to the broker.
    pub(super) closing: bool,
    last_packet_id: u16,
    /// Messages sent and not yet acknowledged in full.
    publishing: HashMap<PacketId, Awaits>,
    /// SUBSCRIBE and UNSUBSCRIBE packets without their answer.
    requests: HashSet<PacketId>,
    /// QoS 2 messages received whose PUBREL has not come.
    received: HashSet<PacketId>,
    /// The message last given to the caller, acknowledged when the caller comes back.
    handed_over: Option<(PacketId, QoS)>,
    /// Topics behind the aliases of the broker.
    aliases: HashMap<u16, String>,
    pub(super) ping_outstanding: bool,
}

/// The packet that a message sent waits for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaits {
    /// PUBACK.
    Acknowledgement,
    /// PUBREC.
    Receipt,
    /// PUBCOMP.
    Completion,
}

/// What the broker said in CONNACK that it accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    pub(super) receive_maximum: u16,
    max_qos: QoS,
    retain: bool,
    maximum_packet_size: Option<u32>,
    topic_alias_maximum: u16,
}

impl Offer {
    pub(super) fn from_connack(connack: &ConnAck<'_>, version: ProtocolVersion) -> Self {
        let properties = connack.properties;
        Self {
            receive_maximum: properties.receive_maximum().map_or(u16::MAX, std::num::NonZeroU16::get),
            max_qos: properties.maximum_qos().unwrap_or(QoS::ExactlyOnce),
            retain: properties.retain_available().unwrap_or(true),
            maximum_packet_size: properties.maximum_packet_size().map(std::num::NonZeroU32::get),
            topic_alias_maximum: if version.is_v5() { properties.topic_alias_maximum().unwrap_or(0) } else { 0 },
        }
    }
}

impl Session {
    pub(super) fn new(version: ProtocolVersion, offer: Offer) -> Self {
        Self {
            version,
            offer,
            output: Vec::new(),
            closing: false,
            last_packet_id: 0,
            publishing: HashMap::new(),
            requests: HashSet::new(),
            received: HashSet::new(),
            handed_over: None,
            aliases: HashMap::new(),
            ping_outstanding: false,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.publishing.len()
    }

    pub(super) fn owes_pubcomp(&self) -> bool {
        !self.received.is_empty()
    }

    pub(super) fn push(&mut self, name: &'static str, packet: &Packet<'_>) -> Result<(), ClientError> {
        let start = self.output.len();
        packet
            .append_to(self.version, &mut self.output)
            .map_err(|error| ClientError::NotEncodable { packet: name, error })?;
        let bytes = self.output.len() - start;
        match self.offer.maximum_packet_size {
            Some(limit_bytes) if bytes > limit_bytes as usize => {
                self.output.truncate(start);
                Err(ClientError::TooLarge { bytes, limit_bytes })
            }
            _ => Ok(()),
        }
    }

    /// An identifier for a SUBSCRIBE or UNSUBSCRIBE.
    pub(super) fn request_id(&mut self) -> Result<PacketId, ClientError> {
        let id = self.free_packet_id()?;
        self.requests.insert(id);
        Ok(id)
    }

    pub(super) fn publish(&mut self, message: &OutgoingMessage<'_>) -> Result<Option<PacketId>, ClientError> {
        if message.qos > self.offer.max_qos {
            return Err(ClientError::NotOffered(format!(
                "QoS {}, at most QoS {}",
                message.qos.as_u8(),
                self.offer.max_qos.as_u8()
            )));
        }
        if message.retain && !self.offer.retain {
            return Err(ClientError::NotOffered("retained messages".into()));
        }
        for property in message.properties {
            if let Property::TopicAlias(alias) = property
                && alias.get() > self.offer.topic_alias_maximum
            {
                return Err(ClientError::NotOffered(format!(
                    "topic alias {alias}: its highest is {}",
                    self.offer.topic_alias_maximum
                )));
            }
        }
        let (delivery, stage) = match message.qos {
            QoS::AtMostOnce => (Delivery::AtMostOnce, None),
            QoS::AtLeastOnce => {
                let packet_id = self.free_packet_id()?;
                (Delivery::AtLeastOnce { packet_id, dup: false }, Some((packet_id, Awaits::Acknowledgement)))
            }
            QoS::ExactlyOnce => {
                let packet_id = self.free_packet_id()?;
                (Delivery::ExactlyOnce { packet_id, dup: false }, Some((packet_id, Awaits::Receipt)))
            }
        };
        self.push(
            "PUBLISH",
            &Packet::Publish(Publish {
                delivery,
                retain: message.retain,
                topic: message.topic,
                properties: Properties::from_list(message.properties),
                payload: message.payload,
            }),
        )?;
        Ok(stage.map(|(packet_id, stage)| {
            self.publishing.insert(packet_id, stage);
            packet_id
        }))
    }

    /// Acknowledges the message that the caller has dealt with.
    pub(super) fn acknowledge_handed_over(&mut self) -> Result<(), ClientError> {
        match self.handed_over.take() {
            Some((packet_id, QoS::AtLeastOnce)) => {
                let puback = PubAck { packet_id, reason: PubAckReason::Success, properties: Properties::EMPTY };
                self.push("PUBACK", &Packet::PubAck(puback))
            }
            Some((packet_id, QoS::ExactlyOnce)) => {
                self.received.insert(packet_id);
                self.push_pubrec(packet_id)
            }
            Some((_, QoS::AtMostOnce)) | None => Ok(()),
        }
    }

    /// Takes a packet of the broker: answers it, and gives the event if it is one.
    pub(super) fn take<'a>(&mut self, packet: Packet<'a>) -> Result<Option<Event<'a>>, ClientError> {
        match packet {
            Packet::Publish(publish) => self.take_publish(publish).map(|message| message.map(Event::Message)),
            Packet::PubAck(puback) => {
                self.finish(puback.packet_id, Awaits::Acknowledgement, "PUBACK")?;
                Ok(Some(published(puback.packet_id, puback.reason.into(), puback.properties)))
            }
            Packet::PubRec(pubrec) => self.take_pubrec(pubrec),
            Packet::PubComp(pubcomp) => {
                self.finish(pubcomp.packet_id, Awaits::Completion, "PUBCOMP")?;
                Ok(Some(published(pubcomp.packet_id, pubcomp.reason.into(), pubcomp.properties)))
            }
            Packet::PubRel(pubrel) => {
                let reason = if self.received.remove(&pubrel.packet_id) || !self.version.is_v5() {
                    PubCompReason::Success
                } else {
                    PubCompReason::PacketIdentifierNotFound
                };
                let pubcomp = PubComp { packet_id: pubrel.packet_id, reason, properties: Properties::EMPTY };
                self.push("PUBCOMP", &Packet::PubComp(pubcomp)).map(|()| None)
            }
            Packet::SubAck(suback) => {
                self.finish_request(suback.packet_id, "SUBACK")?;
                Ok(Some(Event::Subscribed { reasons: suback.reasons, text: suback.properties.reason_string() }))
            }
            Packet::UnsubAck(unsuback) => {
                self.finish_request(unsuback.packet_id, "UNSUBACK")?;
                Ok(Some(Event::Unsubscribed { reasons: unsuback.reasons, text: unsuback.properties.reason_string() }))
            }
            Packet::PingResp => {
                self.ping_outstanding = false;
                Ok(None)
            }
            Packet::Disconnect(disconnect) => Err(ClientError::Lost(disconnected(
                disconnect.reason,
                disconnect.properties.reason_string(),
                disconnect.properties.server_reference(),
            ))),
            Packet::Auth(_) => Err(ClientError::Lost(
                "the broker asks for an exchange of AUTH packets, which this client does not do".into(),
            )),
            Packet::Connect(_)
            | Packet::ConnAck(_)
            | Packet::Subscribe(_)
            | Packet::Unsubscribe(_)
            | Packet::PingReq => Err(unexpected("a packet that a server does not send now")),
        }
    }

    fn take_publish<'a>(&mut self, publish: Publish<'a>) -> Result<Option<Message<'a>>, ClientError> {
        let alias = publish.properties.topic_alias().map(std::num::NonZeroU16::get);
        let topic: Cow<'a, str> = match (publish.topic, alias) {
            (Some(topic), None) => Cow::Borrowed(topic.as_str()),
            (Some(topic), Some(alias)) => {
                self.aliases.insert(alias, topic.as_str().to_owned());
                Cow::Borrowed(topic.as_str())
            }
            (None, alias) => match alias.and_then(|alias| self.aliases.get(&alias)) {
                Some(topic) => Cow::Owned(topic.clone()),
                None => {
                    return Err(unexpected("a message with a topic alias that stands for nothing"));
                }
            },
        };
        let packet_id = publish.delivery.packet_id();
        let qos = publish.delivery.qos();
        if let Some(packet_id) = packet_id {
            if qos == QoS::ExactlyOnce && self.received.contains(&packet_id) {
                // Sent again because our PUBREC was lost; the caller has it already.
                self.push_pubrec(packet_id)?;
                return Ok(None);
            }
            if !self.closing {
                self.handed_over = Some((packet_id, qos));
            }
        }
        if self.closing {
            return Ok(None);
        }
        let message = Message {
            topic,
            payload: publish.payload,
            qos,
            retain: publish.retain,
            packet_id,
            properties: publish.properties,
        };
        Ok(Some(message))
    }

    fn take_pubrec<'a>(&mut self, pubrec: PubRec<'a>) -> Result<Option<Event<'a>>, ClientError> {
        let packet_id = pubrec.packet_id;
        if pubrec.reason.is_error() {
            self.finish(packet_id, Awaits::Receipt, "PUBREC")?;
            return Ok(Some(published(packet_id, pubrec.reason.into(), pubrec.properties)));
        }
        let reason = match self.publishing.get_mut(&packet_id) {
            Some(stage @ (Awaits::Receipt | Awaits::Completion)) => {
                *stage = Awaits::Completion;
                PubRelReason::Success
            }
            _ if self.version.is_v5() => PubRelReason::PacketIdentifierNotFound,
            _ => PubRelReason::Success,
        };
        let pubrel = PubRel { packet_id, reason, properties: Properties::EMPTY };
        self.push("PUBREL", &Packet::PubRel(pubrel)).map(|()| None)
    }

    fn push_pubrec(&mut self, packet_id: PacketId) -> Result<(), ClientError> {
        let pubrec = PubRec { packet_id, reason: PubRecReason::Success, properties: Properties::EMPTY };
        self.push("PUBREC", &Packet::PubRec(pubrec))
    }

    fn finish(&mut self, packet_id: PacketId, stage: Awaits, name: &str) -> Result<(), ClientError> {
        match self.publishing.get(&packet_id) {
            Some(found) if *found == stage => {
                self.publishing.remove(&packet_id);
                Ok(())
            }
            _ => Err(unexpected(&format!("a {name} for packet identifier {}, which awaits none", packet_id.get()))),
        }
    }

    fn finish_request(&mut self, packet_id: PacketId, name: &str) -> Result<(), ClientError> {
        if self.requests.remove(&packet_id) {
            Ok(())
        } else {
            Err(unexpected(&format!("a {name} for packet identifier {}, which awaits none", packet_id.get())))
        }
    }

    fn free_packet_id(&mut self) -> Result<PacketId, ClientError> {
        for _ in 0..u16::MAX {
            self.last_packet_id = self.last_packet_id.checked_add(1).unwrap_or(1);
            if let Some(id) = PacketId::new(self.last_packet_id)
                && !self.publishing.contains_key(&id)
                && !self.requests.contains(&id)
            {
                return Ok(id);
            }
        }
        Err(unexpected("no acknowledgement for any of 65,535 packet identifiers"))
    }
}

fn published<'a>(packet_id: PacketId, reason: ReasonCode, properties: Properties<'a>) -> Event<'a> {
    Event::Published { packet_id, reason, text: properties.reason_string() }
}

fn unexpected(what: &str) -> ClientError {
    ClientError::Lost(format!("the broker sent {what}"))
}

fn disconnected(reason: DisconnectReason, text: Option<&str>, server: Option<&str>) -> String {
    let mut message = format!("the broker disconnected: {}", ReasonCode::from(reason));
    if let Some(text) = text {
        message.push_str(&format!(": {text}"));
    }
    if let Some(server) = server {
        message.push_str(&format!(" (use {server})"));
    }
    message
}
