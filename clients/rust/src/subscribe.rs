//! The description of a subscription.

use tautwire_protocol::{
    Property, PropertyContext, QoS, RetainHandling, SubscriptionId, SubscriptionOptions, TopicFilter,
};

use crate::Error;
use crate::properties::PropertyBlock;

/// The default capacity of a stream.
const STREAM_MESSAGES: usize = 10_000;

/// The filters and options of a subscription. One stream may have several filters.
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

/// What happens to QoS 0 messages when a stream is full. QoS 1 and 2 messages are never dropped:
/// [`crate::Options::receive_maximum`] limits how many the server sends before they are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Pauses reading from the server until the application has caught up, which pauses all streams of this client. Reading
    /// continues while the client waits for an answer of the server, so that a handler may publish and wait; messages are
    /// dropped, and counted, when the stream holds eight times its capacity.
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

    /// Adds another filter to the same stream.
    #[must_use]
    pub fn and(mut self, filter: impl Into<String>) -> Subscribe {
        self.filters.push(filter.into());
        self
    }

    /// Sets the maximum QoS of the messages.
    #[must_use]
    pub fn qos(mut self, qos: QoS) -> Subscribe {
        self.options.qos = qos;
        self
    }

    /// Excludes messages that this client publishes itself. MQTT 5.0 only, and not for a shared subscription.
    #[must_use]
    pub fn no_local(mut self) -> Subscribe {
        self.options.no_local = true;
        self
    }

    /// Messages keep the retain flag of their publisher. MQTT 5.0 only.
    #[must_use]
    pub fn retain_as_published(mut self) -> Subscribe {
        self.options.retain_as_published = true;
        self
    }

    /// Sets when retained messages are sent. MQTT 5.0 only.
    #[must_use]
    pub fn retain_handling(mut self, handling: RetainHandling) -> Subscribe {
        self.options.retain_handling = handling;
        self
    }

    /// Sets a number that the server sends with each message of this subscription. MQTT 5.0 only.
    #[must_use]
    pub fn identifier(mut self, identifier: SubscriptionId) -> Subscribe {
        self.identifier = Some(identifier);
        self
    }

    /// Adds a property to SUBSCRIBE. It applies only to the first SUBSCRIBE, not to one that renews the subscription.
    ///
    /// # Errors
    /// The property is not allowed in SUBSCRIBE.
    pub fn property(mut self, property: Property<'_>) -> Result<Subscribe, Error> {
        match property {
            Property::SubscriptionIdentifier(identifier) => self.identifier = Some(identifier),
            other => {
                self.properties.push(other).map_err(|error| Error::Encode { packet: "SUBSCRIBE", error })?;
            }
        }
        Ok(self)
    }

    /// The application acknowledges each message itself. Otherwise a message is acknowledged when the next one is requested.
    ///
    /// PUBACKs are sent in the order of the QoS 1 messages [MQTT-4.6.0-2], PUBRECs in that of the QoS 2 messages [MQTT-4.6.0-3]:
    /// a missing acknowledgement holds back later ones of its QoS.
    #[must_use]
    pub fn manual_acknowledgement(mut self) -> Subscribe {
        self.manual = true;
        self
    }

    /// Sets how many messages the stream may hold. Default: 10,000.
    #[must_use]
    pub fn capacity(mut self, messages: usize) -> Subscribe {
        self.capacity = messages.max(1);
        self
    }

    /// Sets what happens to QoS 0 messages when the stream is full.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Subscribe {
        self.overflow = overflow;
        self
    }

    /// The stream also gets messages that match no other stream, such as those of subscriptions left over from earlier in the
    /// session.
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
