use super::filter_list::{check_filter, reread_filter};
use crate::encode::{EncodeParts, Measured, encode_methods, only_in_v5};
use crate::error::{DecodeCause, EncodeError, Flaw};
use crate::list::{List, sealed};
use crate::properties::{Properties, PropertyContext, len_with_prefix};
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;
use crate::{PacketId, PacketType, ProtocolVersion, TopicFilter};

/// UNSUBSCRIBE: ends subscriptions (section 3.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Identifies the exchange until its UNSUBACK.
    pub packet_id: PacketId,
    /// User properties. None before MQTT 5.0.
    pub properties: Properties<'a>,
    /// The filters as they were subscribed; at least one `[MQTT-3.10.3-2]`.
    pub filters: List<'a, TopicFilter<'a>>,
}

impl<'a> Unsubscribe<'a> {
    pub(crate) fn decode(mut r: Reader<'a>, version: ProtocolVersion) -> Result<Self, Flaw> {
        let packet_id = r.packet_id()?;
        let properties =
            if version.is_v5() { Properties::decode(&mut r, PropertyContext::Unsubscribe)? } else { Properties::EMPTY };
        let bytes = r.rest();
        let mut len = 0;
        while !r.is_empty() {
            check_filter(&mut r)?;
            len += 1;
        }
        if len == 0 {
            return Err(r.flaw(DecodeCause::NoTopicFilters));
        }
        Ok(Self { packet_id, properties, filters: List::trusted(bytes, len) })
    }
}

impl<'a> sealed::Item<'a> for TopicFilter<'a> {
    #[inline]
    fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        reread_filter(bytes)
    }

    #[inline]
    fn encoded_len(&self) -> usize {
        2 + self.as_str().len()
    }

    #[inline]
    fn write(&self, out: &mut [u8]) {
        Writer::new(out).text(self.as_str());
    }
}

impl EncodeParts for Unsubscribe<'_> {
    fn measure(&self, version: ProtocolVersion) -> Result<Measured, EncodeError> {
        only_in_v5(!self.properties.is_empty(), "properties", version)?;
        if self.filters.is_empty() {
            return Err(EncodeError::NoTopicFilters);
        }
        let properties_len = self.properties.block_len(PropertyContext::Unsubscribe)?;
        let properties_space = if version.is_v5() { len_with_prefix(properties_len) } else { 0 };
        Measured::new(PacketType::Unsubscribe, 2 + properties_space + self.filters.encoded_len(), properties_len)
    }

    fn write_body(&self, version: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>) {
        w.two_bytes(self.packet_id.get());
        if version.is_v5() {
            self.properties.write(measured.properties_len, w);
        }
        self.filters.write(w.remaining());
    }
}

encode_methods!(Unsubscribe<'_>);
