use std::fmt;

use tautwire_protocol::{Property, PropertyContext, QoS, TopicName};

use crate::Error;
use crate::properties::PropertyBlock;

/// The message that the server publishes if the client disconnects ungracefully (section 3.1.2.5).
#[derive(Clone)]
pub struct Will {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) properties: PropertyBlock,
}

impl Will {
    /// A will at QoS 0, not retained. The payload may have at most 65,535 bytes.
    ///
    /// # Errors
    /// The topic is not a valid topic name.
    pub fn new(topic: &str, payload: impl Into<Vec<u8>>) -> Result<Will, Error> {
        TopicName::new(topic)?;
        Ok(Will {
            topic: topic.to_owned(),
            payload: payload.into(),
            qos: QoS::AtMostOnce,
            retain: false,
            properties: PropertyBlock::new(PropertyContext::Will),
        })
    }

    /// The QoS at which it is published.
    #[must_use]
    pub fn qos(mut self, qos: QoS) -> Will {
        self.qos = qos;
        self
    }

    /// Whether the server retains it.
    #[must_use]
    pub fn retain(mut self, retain: bool) -> Will {
        self.retain = retain;
        self
    }

    /// Adds a property: the delay, an expiry, a content type and so on. MQTT 5.0 only.
    ///
    /// # Errors
    /// The property is not allowed in a will, or not twice.
    pub fn property(mut self, property: Property<'_>) -> Result<Will, Error> {
        self.properties.push(property).map_err(|error| Error::Encode { packet: "CONNECT", error })?;
        Ok(self)
    }
}

impl fmt::Debug for Will {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Will")
            .field("topic", &self.topic)
            .field("payload_bytes", &self.payload.len())
            .field("qos", &self.qos)
            .field("retain", &self.retain)
            .finish_non_exhaustive()
    }
}
