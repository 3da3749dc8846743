//! What to subscribe to, and how.

use tautwire_protocol::{
    Property, PropertyContext, QoS, RetainHandling, SubscriptionId, SubscriptionOptions, TopicFilter,
};

use crate::Error;
use crate::properties::PropertyBlock;

/// Messages that a stream holds unless it says otherwise.
const STREAM_MESSAGES: usize = 10_000;

/// What to subscribe to, and how its messages are to be handed over. One stream may have several filters.
///
/// ```
/// # use tautwire_client::{QoS, Subscribe};
/// let commands = Subscribe::to("plant/7/command/+").qos(QoS::AtLeastOnce).manual_acknowledgement();
/// ```
#[derive(Debug, Clone)]
pub struct Subscribe {
    pub(crate) filters: Vec<String>,
    pub(crate) options: SubscriptionOptions,
    pub(crate) identifier: Option<SubscriptionId>,
    pub(crate) properties: PropertyBlock,
    pub(crate) manual: bool,
    pub(crate) capacity: usize,
    pub(crate) overflow: Overflow,
    pub(crate) takes_rest: bool,
}

/// What happens to QoS 0 messages for which a stream has no room. QoS 1 and 2 messages are never dropped: the server may
/// send no more of them than [`crate::Options::receive_maximum`] before they are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Nothing more is read from the server until the application has caught up, which holds up all streams of this client.
    /// Reading goes on where the client waits for an answer of the server, so that a handler may publish and wait;
    /// messages are dropped, and counted, when the stream holds eight times what it should.
    #[default]
    Wait,
    /// The new message is dropped and counted.
    DropNewest,
    /// The oldest QoS 0 message of the stream is dropped and counted.
    DropOldest,
}

impl Subscribe {
    /// A subscription at QoS 0 with automatic acknowledgement.
    pub fn to(filter: impl Into<String>) -> Subscribe {
        Subscribe {
            filters: vec![filter.into()],
            options: SubscriptionOptions::with_qos(QoS::AtMostOnce),
            identifier: None,
            properties: PropertyBlock::new(PropertyContext::Subscribe),
            manual: false,
            capacity: STREAM_MESSAGES,
            overflow: Overflow::default(),
            takes_rest: false,
        }
    }

    /// Another filter for the same stream.
    #[must_use]
    pub fn and(mut self, filter: impl Into<String>) -> Subscribe {
        self.filters.push(filter.into());
        self
    }

    /// The highest QoS that messages may come with.
    #[must_use]
    pub fn qos(mut self, qos: QoS) -> Subscribe {
        self.options.qos = qos;
        self
    }

    /// Leaves out what this client publishes itself. MQTT 5.0 alone, and not on a shared subscription.
    #[must_use]
    pub fn no_local(mut self) -> Subscribe {
        self.options.no_local = true;
        self
    }

    /// Messages keep the retain flag of their publisher. MQTT 5.0 alone.
    #[must_use]
    pub fn retain_as_published(mut self) -> Subscribe {
        self.options.retain_as_published = true;
        self
    }

    /// When retained messages are sent. MQTT 5.0 alone.
    #[must_use]
    pub fn retain_handling(mut self, handling: RetainHandling) -> Subscribe {
        self.options.retain_handling = handling;
        self
    }

    /// A number that the server sends with each message of this subscription. MQTT 5.0 alone.
    #[must_use]
    pub fn identifier(mut self, identifier: SubscriptionId) -> Subscribe {
        self.identifier = Some(identifier);
        self
    }

    /// Adds a property to SUBSCRIBE. Only the first SUBSCRIBE has it, not one that renews the subscription.
    ///
    /// # Errors
    /// A property that may not stand there.
    pub fn property(mut self, property: Property<'_>) -> Result<Subscribe, Error> {
        match property {
            Property::SubscriptionIdentifier(identifier) => self.identifier = Some(identifier),
            other => {
                self.properties.push(other).map_err(|error| Error::Encode { packet: "SUBSCRIBE", error })?;
            }
        }
        Ok(self)
    }

    /// The application acknowledges each message itself. Otherwise a message is acknowledged when the next one is asked for.
    ///
    /// PUBACK leaves in the order of the QoS 1 messages [MQTT-4.6.0-2], PUBREC in that of the QoS 2 messages [MQTT-4.6.0-3]: one
    /// that is withheld holds back those of its QoS after it.
    #[must_use]
    pub fn manual_acknowledgement(mut self) -> Subscribe {
        self.manual = true;
        self
    }

    /// Messages that the stream should hold at most. Default: 10,000.
    #[must_use]
    pub fn capacity(mut self, messages: usize) -> Subscribe {
        self.capacity = messages.max(1);
        self
    }

    /// What happens to QoS 0 messages for which there is no room.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Subscribe {
        self.overflow = overflow;
        self
    }

    /// The stream also gets messages that no stream has asked for: those of subscriptions that an earlier life of the session
    /// has left.
    #[must_use]
    pub fn and_the_rest(mut self) -> Subscribe {
        self.takes_rest = true;
        self
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        for filter in &self.filters {
            TopicFilter::new(filter)?;
        }
        Ok(())
    }
}

impl From<&str> for Subscribe {
    fn from(filter: &str) -> Self {
        Subscribe::to(filter)
    }
}
