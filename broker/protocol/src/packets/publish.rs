use core::fmt;

use super::Hidden;
use crate::encode::{EncodeParts, Measured, encode_methods, only_in_v5};
use crate::error::{DecodeCause, EncodeError, Flaw};
use crate::properties::{PayloadFormat, Properties, PropertyContext, PropertyId, len_with_prefix};
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;
use crate::wire::{scan, utf8};
use crate::{PacketId, PacketType, ProtocolVersion, QoS, TopicName};

const RETAIN: u8 = 0b0001;
const DUP: u8 = 0b1000;

/// PUBLISH: a message (section 3.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Publish<'a> {
    /// The QoS and what belongs to it.
    pub delivery: Delivery,
    /// To a server: keep as the retained message of the topic. To a client: see Retain As Published.
    pub retain: bool,
    /// The topic; `None` where a Topic Alias stands for it (MQTT 5.0 alone).
    pub topic: Option<TopicName<'a>>,
    /// None before MQTT 5.0.
    pub properties: Properties<'a>,
    /// The message itself.
    pub payload: &'a [u8],
}

/// The QoS of a PUBLISH with what belongs to it: QoS 0 has neither identifier `[MQTT-2.2.1-2]` nor DUP `[MQTT-3.3.1-2]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// QoS 0.
    AtMostOnce,
    /// QoS 1.
    AtLeastOnce {
        /// Names the exchange until its acknowledgement.
        packet_id: PacketId,
        /// Whether this is a retransmission.
        dup: bool,
    },
    /// QoS 2.
    ExactlyOnce {
        /// Names the exchange until it is complete.
        packet_id: PacketId,
        /// Whether this is a retransmission.
        dup: bool,
    },
}

impl Delivery {
    /// The quality of service.
    #[inline]
    pub const fn qos(self) -> QoS {
        match self {
            Self::AtMostOnce => QoS::AtMostOnce,
            Self::AtLeastOnce { .. } => QoS::AtLeastOnce,
            Self::ExactlyOnce { .. } => QoS::ExactlyOnce,
        }
    }

    /// The packet identifier; `None` for QoS 0.
    #[inline]
    pub const fn packet_id(self) -> Option<PacketId> {
        match self {
            Self::AtMostOnce => None,
            Self::AtLeastOnce { packet_id, .. } | Self::ExactlyOnce { packet_id, .. } => Some(packet_id),
        }
    }

    /// Whether this is a retransmission.
    #[inline]
    pub const fn dup(self) -> bool {
        match self {
            Self::AtMostOnce => false,
            Self::AtLeastOnce { dup, .. } | Self::ExactlyOnce { dup, .. } => dup,
        }
    }

    /// DUP and QoS where the first byte has them.
    #[inline]
    const fn flags(self) -> u8 {
        match self {
            Self::AtMostOnce => 0,
            Self::AtLeastOnce { dup, .. } => 0b0010 | (dup as u8) << 3,
            Self::ExactlyOnce { dup, .. } => 0b0100 | (dup as u8) << 3,
        }
    }
}

/// The rules of section 3.3.1.
#[inline]
pub(super) fn flags_are_allowed(flags: u8) -> Result<(), DecodeCause> {
    match flags & (DUP | 0b0110) {
        0b0110 | 0b1110 => Err(DecodeCause::PublishQoSThree),
        DUP => Err(DecodeCause::DupWithQoSZero),
        _ => Ok(()),
    }
}

impl<'a> Publish<'a> {
    /// The quality of service.
    #[inline]
    pub const fn qos(&self) -> QoS {
        self.delivery.qos()
    }

    /// The packet identifier; `None` for QoS 0.
    #[inline]
    pub const fn packet_id(&self) -> Option<PacketId> {
        self.delivery.packet_id()
    }

    /// Whether this is a retransmission.
    #[inline]
    pub const fn dup(&self) -> bool {
        self.delivery.dup()
    }

    /// Whether the payload is UTF-8 if the Payload Format Indicator says so. A receiver may check it and answer 0x99
    /// (section 3.3.2.3.2); decoding does not.
    pub fn payload_is_as_indicated(&self) -> bool {
        self.properties.payload_format_indicator() != Some(PayloadFormat::Utf8)
            || core::str::from_utf8(self.payload).is_ok()
    }

    /// Writes everything before the payload at the start of `out` and answers how many bytes that is, so that the payload
    /// can be sent from where it is.
    ///
    /// # Errors
    /// As [`Self::encode`]; `needed` of [`EncodeError::BufferTooSmall`] is then without the payload.
    pub fn encode_header(&self, version: ProtocolVersion, out: &mut [u8]) -> Result<usize, EncodeError> {
        let measured = self.measure(version)?;
        let needed = measured.total_len() - self.payload.len();
        let Some(out) = out.get_mut(..needed) else { return Err(EncodeError::BufferTooSmall { needed }) };
        let mut w = Writer::new(out);
        measured.write_header(&mut w);
        self.write_before_payload(version, &measured, &mut w);
        Ok(needed)
    }

    #[inline]
    pub(crate) fn decode(flags: u8, mut r: Reader<'a>, version: ProtocolVersion) -> Result<Self, Flaw> {
        let bytes = r.binary()?;
        let text = utf8::well_formed(bytes, 2)?;
        if scan::has_null_or_wildcard(bytes) {
            return Err(topic_fault(bytes));
        }
        let delivery = match flags & 0b0110 {
            0 => Delivery::AtMostOnce,
            0b0010 => Delivery::AtLeastOnce { packet_id: r.packet_id()?, dup: flags & DUP != 0 },
            _ => Delivery::ExactlyOnce { packet_id: r.packet_id()?, dup: flags & DUP != 0 },
        };
        let properties =
            if version.is_v5() { Properties::decode(&mut r, PropertyContext::Publish)? } else { Properties::EMPTY };
        let topic = if text.is_empty() {
            if !properties.contains(PropertyId::TopicAlias) {
                return Err(Flaw::new(DecodeCause::TopicMissing, 0));
            }
            None
        } else {
            Some(TopicName::trusted(text))
        };
        Ok(Self { delivery, retain: flags & RETAIN != 0, topic, properties, payload: r.rest() })
    }

    #[inline]
    fn topic_bytes(&self) -> &'a [u8] {
        self.topic.map_or(&[], |topic| topic.as_str().as_bytes())
    }

    #[inline]
    fn write_before_payload(&self, version: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>) {
        w.binary(self.topic_bytes());
        if let Some(packet_id) = self.delivery.packet_id() {
            w.two_bytes(packet_id.get());
        }
        if version.is_v5() {
            self.properties.write(measured.properties_len, w);
        }
    }
}

#[cold]
fn topic_fault(topic: &[u8]) -> Flaw {
    let at = topic.iter().position(|byte| matches!(byte, 0 | b'+' | b'#')).unwrap_or(0);
    let cause = if topic.get(at) == Some(&0) { DecodeCause::Utf8Null } else { DecodeCause::TopicWildcard };
    Flaw::new(cause, 2 + at)
}

impl EncodeParts for Publish<'_> {
    #[inline]
    fn measure(&self, version: ProtocolVersion) -> Result<Measured, EncodeError> {
        let (properties_len, properties_space) = if version.is_v5() {
            let len = self.properties.block_len(PropertyContext::Publish)?;
            (len, len_with_prefix(len))
        } else {
            only_in_v5(!self.properties.is_empty(), "properties", version)?;
            (0, 0)
        };
        if self.topic.is_none() && !(version.is_v5() && self.properties.contains(PropertyId::TopicAlias)) {
            return Err(EncodeError::TopicMissing);
        }
        let packet_id_space = if self.delivery == Delivery::AtMostOnce { 0 } else { 2 };
        Measured {
            first_byte: PacketType::Publish.as_u8() << 4 | self.delivery.flags() | u8::from(self.retain),
            remaining_len: 2 + self.topic_bytes().len() + packet_id_space + properties_space + self.payload.len(),
            properties_len,
            will_properties_len: 0,
        }
        .within_limit()
    }

    #[inline]
    fn write_body(&self, version: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>) {
        self.write_before_payload(version, measured, w);
        w.bytes(self.payload);
    }
}

encode_methods!(Publish<'_>);

impl fmt::Debug for Publish<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publish")
            .field("delivery", &self.delivery)
            .field("retain", &self.retain)
            .field("topic", &self.topic)
            .field("properties", &self.properties)
            .field("payload", &Hidden(self.payload.len()))
            .finish()
    }
}
