//! A message received.

use std::fmt;

use tautwire_protocol::{OwnedPublish, Properties, Property, QoS, TopicName};

use crate::machine::AckToken;
use crate::publication::Publication;

/// A message received. One allocation holds topic, properties and payload.
#[derive(Clone)]
pub struct Message {
    pub(crate) publish: OwnedPublish,
    pub(crate) token: Option<AckToken>,
}

impl Message {
    /// The topic.
    pub fn topic(&self) -> &str {
        self.publish.as_publish().topic.map_or("", TopicName::as_str)
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        self.publish.as_publish().payload
    }

    /// The QoS at which it arrived.
    pub fn qos(&self) -> QoS {
        self.publish.as_publish().qos()
    }

    /// Whether it is a retained message from before the subscription; with Retain As Published, the flag of its
    /// publisher.
    pub fn retain(&self) -> bool {
        self.publish.as_publish().retain
    }

    /// Whether the server marks it as a possible duplicate.
    pub fn dup(&self) -> bool {
        self.publish.as_publish().dup()
    }

    /// The packet identifier of a QoS 1 or 2 message.
    pub fn packet_id(&self) -> Option<tautwire_protocol::PacketId> {
        self.publish.as_publish().packet_id()
    }

    /// The properties: content type, user properties, subscription identifiers and so on. Empty before MQTT 5.0.
    pub fn properties(&self) -> Properties<'_> {
        self.publish.as_publish().properties
    }

    /// The token to acknowledge the message with, for QoS 1 and 2. It is small and independent of the message.
    pub fn token(&self) -> Option<AckToken> {
        self.token
    }

    /// A response to this message, if it requests one: to its response topic, with its correlation data, at its
    /// QoS.
    pub fn reply<'a, P: AsRef<[u8]> + ?Sized>(&'a self, payload: &'a P) -> Option<Publication<'a>> {
        let properties = self.properties();
        let topic = properties.response_topic()?;
        let reply = Publication::new(topic.as_str(), payload).qos(self.qos());
        Some(match properties.correlation_data() {
            Some(data) => reply.property(Property::CorrelationData(data)),
            None => reply,
        })
    }
}

impl fmt::Debug for Message {
    /// Shows the size of the payload, never the payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("topic", &self.topic())
            .field("qos", &self.qos())
            .field("retain", &self.retain())
            .field("payload_bytes", &self.payload().len())
            .finish_non_exhaustive()
    }
}
