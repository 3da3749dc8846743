use alloc::vec::Vec;
use core::fmt;

use super::hidden::Hidden;
use crate::encode::{self, EncodeParts, Measured, only_in_v5};
use crate::error::{DecodeCause, EncodeError, Flaw};
use crate::properties::{PayloadFormat, Properties, PropertyContext, PropertyId, len_with_prefix};
use crate::wire::reader::Reader;
use crate::wire::utf8;
use crate::wire::writer::Writer;
use crate::{PacketId, PacketType, ProtocolVersion, QoS, TopicName};

const RETAIN: u8 = 0b0001;
const DUP: u8 = 0b1000;

/// PUBLISH: a message (section 3.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Publish<'a> {
    /// The QoS, with its packet identifier and DUP flag.
    pub delivery: Delivery,
    /// To a server: store as the retained message of the topic. To a client: see Retain As Published.
    pub retain: bool,
    /// The topic; `None` if a Topic Alias replaces it (MQTT 5.0 only).
    pub topic: Option<TopicName<'a>>,
    /// None before MQTT 5.0.
    pub properties: Properties<'a>,
    /// The message itself.
    pub payload: &'a [u8],
}

/// The QoS of a PUBLISH with its fields: QoS 0 has neither identifier `[MQTT-2.2.1-2]` nor DUP `[MQTT-3.3.1-2]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// QoS 0.
    AtMostOnce,
    /// QoS 1.
    AtLeastOnce {
        /// Identifies the exchange until its acknowledgement.
        packet_id: PacketId,
        /// Whether this is a retransmission.
        dup: bool,
    },
    /// QoS 2.
    ExactlyOnce {
        /// Identifies the exchange until it is complete.
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

    /// DUP and QoS at their place in the first byte.
    #[inline]
    const fn flags(self) -> u8 {
        self.qos().as_u8() << 1 | (self.dup() as u8) << 3
    }
}

/// A bit for each value of the flags that section 3.3.1 allows.
pub(super) const ALLOWED_FLAGS: u16 = {
    let mut allowed = 0;
    let mut flags = 0;
    while flags < 16 {
        let qos = flags >> 1 & 0b11;
        if qos != 3 && (qos != 0 || flags & DUP == 0) {
            allowed |= 1 << flags;
        }
        flags += 1;
    }
    allowed
};

/// The cause for flags that are not allowed.
pub(super) fn flags_fault(flags: u8) -> DecodeCause {
    if flags & 0b0110 == 0b0110 { DecodeCause::PublishQoSThree } else { DecodeCause::DupWithQoSZero }
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

    /// Whether the payload is UTF-8 if the Payload Format Indicator says so. A receiver may check it and answer 0x99 (section 3.3.2.3.2);
    /// decoding does not.
    pub fn payload_is_as_indicated(&self) -> bool {
        self.properties.payload_format_indicator() != Some(PayloadFormat::Utf8)
            || core::str::from_utf8(self.payload).is_ok()
    }

    /// Writes everything before the payload at the start of `out` and returns its length in bytes, so that the payload can be sent without
    /// a copy.
    ///
    /// # Errors
    /// As [`Self::encode`]; `needed` of [`EncodeError::BufferTooSmall`] excludes the payload here.
    pub fn encode_header(&self, version: ProtocolVersion, out: &mut [u8]) -> Result<usize, EncodeError> {
        let measured = self.measure(version)?;
        let needed = measured.total_len() - self.payload.len();
        let Some(out) = out.get_mut(..needed) else { return Err(EncodeError::BufferTooSmall { needed }) };
        let mut w = Writer::new(out);
        measured.write_header(&mut w);
        self.write_before_payload(version, &measured, &mut w);
        Ok(needed)
    }

    #[inline(always)]
    pub(crate) fn decode(flags: u8, mut r: Reader<'a>, version: ProtocolVersion) -> Result<Self, Flaw> {
        let topic = r.binary()?;
        let delivery = match flags & 0b0110 {
            0 => Delivery::AtMostOnce,
            0b0010 => Delivery::AtLeastOnce { packet_id: r.packet_id()?, dup: flags & DUP != 0 },
            _ => Delivery::ExactlyOnce { packet_id: r.packet_id()?, dup: flags & DUP != 0 },
        };
        let properties =
            if version.is_v5() { Properties::decode(&mut r, PropertyContext::Publish)? } else { Properties::EMPTY };
        let Some(text) = utf8::topic_text(topic) else { return Err(topic_fault(topic)) };
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
    fn first_byte(&self) -> u8 {
        PacketType::Publish.as_u8() << 4 | self.delivery.flags() | u8::from(self.retain)
    }

    #[inline]
    fn topic_bytes(&self) -> &'a [u8] {
        self.topic.map_or(&[], |topic| topic.as_str().as_bytes())
    }

    #[inline(always)]
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

/// Writes `bytes` at the start of `out` and returns the rest of it.
#[inline(always)]
fn put<const N: usize>(out: &mut [u8], bytes: [u8; N]) -> Option<&mut [u8]> {
    let (slot, rest) = out.split_first_chunk_mut::<N>()?;
    *slot = bytes;
    Some(rest)
}

/// The fault in bytes that are not a topic name.
#[cold]
fn topic_fault(topic: &[u8]) -> Flaw {
    const TOPIC_AT: usize = 2;
    match utf8::text(topic, TOPIC_AT) {
        Err(flaw) => flaw,
        Ok(text) => {
            let wildcard = text.bytes().position(|byte| matches!(byte, b'+' | b'#'));
            Flaw::new(DecodeCause::TopicWildcard, TOPIC_AT + wildcard.unwrap_or(0))
        }
    }
}

impl EncodeParts for Publish<'_> {
    #[inline(always)]
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
            first_byte: self.first_byte(),
            remaining_len: 2 + self.topic_bytes().len() + packet_id_space + properties_space + self.payload.len(),
            properties_len,
            will_properties_len: 0,
        }
        .within_limit()
    }

    #[inline(always)]
    fn write_body(&self, version: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>) {
        self.write_before_payload(version, measured, w);
        w.bytes(self.payload);
    }
}

impl Publish<'_> {
    /// The number of bytes that [`Self::encode`] writes.
    ///
    /// # Errors
    /// Everything that makes the packet impossible to write in this version.
    #[inline]
    pub fn encoded_len(&self, version: ProtocolVersion) -> Result<usize, EncodeError> {
        encode::encoded_len(self, version)
    }

    /// Writes the packet at the start of `out` and returns its length in bytes.
    ///
    /// # Errors
    /// As [`Self::encoded_len`], and [`EncodeError::BufferTooSmall`]. Nothing is written on an error.
    #[inline]
    pub fn encode(&self, version: ProtocolVersion, out: &mut [u8]) -> Result<usize, EncodeError> {
        match self.encode_plain(version, out) {
            Some(len) => Ok(len),
            None => encode::encode(self, version, out),
        }
    }

    /// Appends the packet to `out` and returns its length in bytes.
    ///
    /// # Errors
    /// As [`Self::encoded_len`]. `out` is unchanged on an error.
    pub fn append_to(&self, version: ProtocolVersion, out: &mut Vec<u8>) -> Result<usize, EncodeError> {
        let (start, header_len) = (out.len(), self.encoded_len(version)? - self.payload.len());
        out.reserve(header_len + self.payload.len());
        out.resize(start + header_len, 0);
        self.encode_header(version, &mut out[start..])?;
        // Appended separately, because resizing `out` for it would first fill it with zeros.
        out.extend_from_slice(self.payload);
        Ok(header_len + self.payload.len())
    }

    /// The fast path of [`Self::encode`] for most messages: a topic, no properties, less than 16 KiB. Returns `None` for all others and if
    /// `out` is too short; nothing is written then.
    #[inline(always)]
    fn encode_plain(&self, version: ProtocolVersion, out: &mut [u8]) -> Option<usize> {
        if !self.properties.is_empty() {
            return None;
        }
        let topic = self.topic?.as_str().as_bytes();
        let packet_id_len = if self.delivery == Delivery::AtMostOnce { 0 } else { 2 };
        let remaining_len = 2 + topic.len() + packet_id_len + usize::from(version.is_v5()) + self.payload.len();
        if remaining_len >= 0x4000 {
            return None;
        }
        let total_len = remaining_len + if remaining_len < 0x80 { 2 } else { 3 };
        // From here on everything fits. The two copies come last because a call makes the compiler spill registers.
        let out = out.get_mut(..total_len)?;
        let (first_byte, [topic_high, topic_low]) = (self.first_byte(), (topic.len() as u16).to_be_bytes());
        let out = if remaining_len < 0x80 {
            put(out, [first_byte, remaining_len as u8, topic_high, topic_low])?
        } else {
            let [low, high] = [remaining_len as u8 | 0x80, (remaining_len >> 7) as u8];
            put(out, [first_byte, low, high, topic_high, topic_low])?
        };
        let (topic_slot, out) = out.split_at_mut_checked(topic.len())?;
        let out = match (self.delivery.packet_id().map(|id| id.get().to_be_bytes()), version.is_v5()) {
            (Some([high, low]), true) => put(out, [high, low, 0])?,
            (Some(packet_id), false) => put(out, packet_id)?,
            (None, true) => put(out, [0])?,
            (None, false) => out,
        };
        let payload_slot = out.get_mut(..self.payload.len())?;
        topic_slot.copy_from_slice(topic);
        payload_slot.copy_from_slice(self.payload);
        Some(total_len)
    }
}

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
