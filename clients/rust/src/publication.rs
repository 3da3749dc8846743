//! A message to publish.

use std::fmt;
use std::time::Duration;

use tautwire_protocol::{PayloadFormat, Property, QoS};

use crate::duration::whole_seconds;

/// A message to publish: a topic, a payload and options. It borrows; nothing is copied before the message is sent or queued.
///
/// ```
/// # use tautwire_client::{Publication, QoS};
/// let reading = Publication::new("plant/7/temperature", "21.5").qos(QoS::AtLeastOnce).content_type("text/plain");
/// ```
#[derive(Clone)]
pub struct Publication<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    /// `None` if the application has not set one.
    qos: Option<QoS>,
    pub(crate) retain: bool,
    pub(crate) expiry_s: Option<u32>,
    pub(crate) response_topic: Option<&'a str>,
    pub(crate) properties: Vec<Property<'a>>,
}

impl<'a> Publication<'a> {
    /// A message at QoS 0 (a request: QoS 1), not retained. The topic is validated when the message is published.
    #[inline]
    pub fn new<P: AsRef<[u8]> + ?Sized>(topic: &'a str, payload: &'a P) -> Publication<'a> {
        Publication {
            topic,
            payload: payload.as_ref(),
            qos: None,
            retain: false,
            expiry_s: None,
            response_topic: None,
            properties: Vec::new(),
        }
    }

    /// Sets the quality of service.
    #[inline]
    #[must_use]
    pub fn qos(mut self, qos: QoS) -> Self {
        self.qos = Some(qos);
        self
    }

    /// Whether the server retains it; an empty payload then deletes the retained message.
    #[inline]
    #[must_use]
    pub fn retain(mut self, retain: bool) -> Self {
        self.retain = retain;
        self
    }

    /// The message expiry interval, for the queue here and for the server, in whole seconds (rounded up). Time in the queue here is
    /// subtracted [MQTT-3.3.2-6].
    #[must_use]
    pub fn expiry(mut self, expiry: Duration) -> Self {
        self.expiry_s = Some(whole_seconds(expiry));
        self
    }

    /// Sets the content type, such as a MIME type.
    #[must_use]
    pub fn content_type(self, content_type: &'a str) -> Self {
        self.property(Property::ContentType(content_type))
    }

    /// Marks the payload as UTF-8 text.
    #[must_use]
    pub fn text(self) -> Self {
        self.property(Property::PayloadFormatIndicator(PayloadFormat::Utf8))
    }

    /// Sets the response topic. A requester does this and waits for the response: `Client::requester`. The topic is validated when
    /// the message is published.
    #[must_use]
    pub fn response_topic(mut self, topic: &'a str) -> Self {
        self.response_topic = Some(topic);
        self
    }

    /// Sets the data that associates a response with its request.
    #[must_use]
    pub fn correlation_data(self, data: &'a [u8]) -> Self {
        self.property(Property::CorrelationData(data))
    }

    /// Adds a user property. May be repeated; order and duplicates are kept.
    #[must_use]
    pub fn user_property(self, name: &'a str, value: &'a str) -> Self {
        self.property(Property::UserProperty(name, value))
    }

    /// Adds any property of PUBLISH. It is validated when the message is published.
    ///
    /// A Topic Alias replaces the topic from the second message on, for each connection.
    #[must_use]
    pub fn property(mut self, property: Property<'a>) -> Self {
        match property {
            Property::MessageExpiryInterval(seconds) => self.expiry_s = Some(seconds),
            other => self.properties.push(other),
        }
        self
    }

    #[inline]
    pub(crate) fn chosen_qos(&self) -> QoS {
        self.qos.unwrap_or(QoS::AtMostOnce)
    }

    /// Sets this QoS, unless the application has set one.
    pub(crate) fn or_qos(mut self, qos: QoS) -> Self {
        self.qos.get_or_insert(qos);
        self
    }

    pub(crate) fn has_properties(&self) -> bool {
        !self.properties.is_empty() || self.expiry_s.is_some() || self.response_topic.is_some()
    }
}

impl fmt::Debug for Publication<'_> {
    /// Shows the size of the payload, never the payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publication")
            .field("topic", &self.topic)
            .field("qos", &self.chosen_qos())
            .field("retain", &self.retain)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}
