use crate::encode::{EncodeParts, Measured, encode_methods, only_in_v5};
use crate::error::{DecodeCause, EncodeError, Flaw};
use crate::list::{List, sealed};
use crate::properties::{Properties, PropertyContext, len_with_prefix};
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;
use crate::{PacketId, PacketType, ProtocolVersion, SubscribeReason};

/// SUBACK: the answer to SUBSCRIBE (section 3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// The identifier of the SUBSCRIBE.
    pub packet_id: PacketId,
    /// Reason string and user properties. None before MQTT 5.0.
    pub properties: Properties<'a>,
    /// One for each filter, in the order of the filters `[MQTT-3.9.3-1]`.
    pub reasons: List<'a, SubscribeReason>,
}

impl<'a> SubAck<'a> {
    pub(crate) fn decode(mut r: Reader<'a>, version: ProtocolVersion) -> Result<Self, Flaw> {
        let packet_id = r.packet_id()?;
        let properties =
            if version.is_v5() { Properties::decode(&mut r, PropertyContext::SubAck)? } else { Properties::EMPTY };
        let codes = r.rest();
        let is_known =
            |&code: &u8| SubscribeReason::from_u8(code).is_some_and(|reason| version.is_v5() || reason.is_v3());
        if let Some(at) = codes.iter().position(|code| !is_known(code)) {
            return Err(Flaw::new(DecodeCause::ReasonCodeUnknown, r.at() + at));
        }
        if codes.is_empty() {
            return Err(r.flaw(DecodeCause::NoReasonCodes));
        }
        Ok(Self { packet_id, properties, reasons: List::trusted(codes, codes.len() as u32) })
    }
}

impl<'a> sealed::Item<'a> for SubscribeReason {
    #[inline]
    fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        Some((Self::from_u8(*bytes.first()?)?, 1))
    }

    #[inline]
    fn encoded_len(&self) -> usize {
        1
    }

    #[inline]
    fn write(&self, out: &mut [u8]) {
        Writer::new(out).byte(self.as_u8());
    }
}

impl EncodeParts for SubAck<'_> {
    fn measure(&self, version: ProtocolVersion) -> Result<Measured, EncodeError> {
        only_in_v5(!self.properties.is_empty(), "properties", version)?;
        if self.reasons.is_empty() {
            return Err(EncodeError::NoReasonCodes);
        }
        only_in_v5(self.reasons.iter().any(|reason| !reason.is_v3()), "reasons", version)?;
        let properties_len = self.properties.block_len(PropertyContext::SubAck)?;
        let properties_space = if version.is_v5() { len_with_prefix(properties_len) } else { 0 };
        Measured::new(PacketType::SubAck, 2 + properties_space + self.reasons.encoded_len(), properties_len)
    }

    fn write_body(&self, version: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>) {
        w.two_bytes(self.packet_id.get());
        if version.is_v5() {
            self.properties.write(measured.properties_len, w);
        }
        self.reasons.write(w.remaining());
    }
}

encode_methods!(SubAck<'_>);
