//! Application Messages: one to publish, and one that arrived.

use super::property::topic_alias;
use tautwire_protocol::{Delivery, OwnedPublish, PacketId, Properties, Property, Publish, QoS, TopicName};

/// A PUBLISH to send.
#[derive(Clone)]
pub(crate) struct OutgoingPublish<'a> {
    pub(crate) topic: Option<&'a str>,
    pub(crate) qos: QoS,
    pub(crate) payload: &'a [u8],
    retain: bool,
    dup: bool,
    properties: Vec<Property<'a>>,
}

impl<'a> OutgoingPublish<'a> {
    pub(crate) fn new(topic: &'a str, qos: QoS, payload: &'a [u8]) -> OutgoingPublish<'a> {
        OutgoingPublish { topic: Some(topic), qos, payload, retain: false, dup: false, properties: Vec::new() }
    }

    /// A PUBLISH with an empty Topic Name, which its Topic Alias replaces.
    pub(crate) fn by_alias(alias: u16, qos: QoS, payload: &'a [u8]) -> OutgoingPublish<'a> {
        OutgoingPublish { topic: None, qos, payload, retain: false, dup: false, properties: Vec::new() }
            .property(topic_alias(alias))
    }

    pub(crate) fn retained(mut self) -> OutgoingPublish<'a> {
        self.retain = true;
        self
    }

    pub(crate) fn dup(mut self) -> OutgoingPublish<'a> {
        self.dup = true;
        self
    }

    pub(crate) fn property(mut self, property: Property<'a>) -> OutgoingPublish<'a> {
        self.properties.push(property);
        self
    }

    /// The packet, with `packet_id` if the QoS requires one.
    pub(crate) fn publish(&self, packet_id: PacketId) -> Publish<'_> {
        Publish {
            delivery: match self.qos {
                QoS::AtMostOnce => Delivery::AtMostOnce,
                QoS::AtLeastOnce => Delivery::AtLeastOnce { packet_id, dup: self.dup },
                QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id, dup: self.dup },
            },
            retain: self.retain,
            topic: self.topic.map(|topic| TopicName::new(topic).expect("the test names a valid topic")),
            properties: Properties::from(self.properties.as_slice()),
            payload: self.payload,
        }
    }
}

/// A PUBLISH that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Message(OwnedPublish);

impl From<Publish<'_>> for Message {
    fn from(publish: Publish<'_>) -> Message {
        Message(publish.to_owned_publish().expect("a decoded packet can be owned"))
    }
}

impl Message {
    pub(crate) fn publish(&self) -> Publish<'_> {
        self.0.as_publish()
    }

    /// The Topic Name as sent: empty if a Topic Alias replaces it.
    pub(crate) fn topic(&self) -> &str {
        self.publish().topic.map_or("", |topic| topic.as_str())
    }

    pub(crate) fn payload(&self) -> &[u8] {
        self.publish().payload
    }

    /// The payload as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.payload()).expect("the tests that ask for text publish text")
    }

    pub(crate) fn qos(&self) -> QoS {
        self.publish().delivery.qos()
    }

    pub(crate) fn retain(&self) -> bool {
        self.publish().retain
    }

    pub(crate) fn dup(&self) -> bool {
        self.publish().delivery.dup()
    }

    pub(crate) fn properties(&self) -> Properties<'_> {
        self.publish().properties
    }

    /// The Packet Identifier, which the message must have.
    pub(crate) fn id(&self) -> u16 {
        self.publish().delivery.packet_id().expect("QoS 1 and 2 carry a Packet Identifier").get()
    }

    /// The Subscription Identifiers, sorted: their order has no meaning [MQTT-3.3.4-4].
    pub(crate) fn subscription_identifiers(&self) -> Vec<u32> {
        let mut identifiers: Vec<u32> =
            self.properties().subscription_identifiers().map(|identifier| identifier.get()).collect();
        identifiers.sort_unstable();
        identifiers
    }

    /// The User Properties in wire order.
    pub(crate) fn user_properties(&self) -> Vec<(String, String)> {
        self.properties().user_properties().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}
