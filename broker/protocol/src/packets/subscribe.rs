use super::filter_list::{check_filter, reread_filter};
use crate::encode::{EncodeParts, Measured, encode_methods, only_in_v5};
use crate::error::{DecodeCause, EncodeError, Flaw};
use crate::list::{List, sealed};
use crate::properties::{Properties, PropertyContext, len_with_prefix};
use crate::topic::filter::is_shared;
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;
use crate::{PacketId, PacketType, ProtocolVersion, QoS, TopicFilter};

const QOS: u8 = 0b0000_0011;
const NO_LOCAL: u8 = 0b0000_0100;
const RETAIN_AS_PUBLISHED: u8 = 0b0000_1000;
const RETAIN_HANDLING_SHIFT: u8 = 4;
const RESERVED: u8 = 0b1100_0000;

/// SUBSCRIBE: creates subscriptions (section 3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Identifies the exchange until its SUBACK.
    pub packet_id: PacketId,
    /// None before MQTT 5.0.
    pub properties: Properties<'a>,
    /// The requested subscriptions; at least one `[MQTT-3.8.3-2]`.
    pub requests: List<'a, SubscriptionRequest<'a>>,
}

/// One topic filter of a SUBSCRIBE with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionRequest<'a> {
    /// The topic filter.
    pub filter: TopicFilter<'a>,
    /// The options of the subscription.
    pub options: SubscriptionOptions,
}

/// Subscription options (section 3.8.3.1). Before MQTT 5.0 there is only the QoS; the rest has its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubscriptionOptions {
    /// The maximum QoS of delivered messages.
    pub qos: QoS,
    /// Whether messages that this client published are not sent to it. Not allowed on a shared subscription `[MQTT-3.8.3-4]`.
    pub no_local: bool,
    /// Whether forwarded messages keep their retain flag.
    pub retain_as_published: bool,
    /// When retained messages are sent.
    pub retain_handling: RetainHandling,
}

/// When retained messages are sent for a subscription (section 3.8.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RetainHandling {
    /// 0: at every SUBSCRIBE.
    #[default]
    SendAtSubscribe = 0,
    /// 1: if the subscription did not exist.
    SendIfNew = 1,
    /// 2: never.
    DoNotSend = 2,
}

impl RetainHandling {
    /// The value of the two bits on the wire; `None` for 3 and above.
    #[inline]
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::SendAtSubscribe),
            1 => Some(Self::SendIfNew),
            2 => Some(Self::DoNotSend),
            _ => None,
        }
    }

    /// The value on the wire: 0, 1 or 2.
    #[inline]
    pub const fn as_u8(self) -> u8 {
        self as u8
    }
}

impl SubscriptionOptions {
    /// Options with this QoS and the defaults for the rest, as before MQTT 5.0.
    #[inline]
    pub const fn with_qos(qos: QoS) -> Self {
        Self { qos, no_local: false, retain_as_published: false, retain_handling: RetainHandling::SendAtSubscribe }
    }

    /// The options byte on the wire.
    #[inline]
    pub const fn as_u8(self) -> u8 {
        self.qos.as_u8()
            | (self.no_local as u8) << 2
            | (self.retain_as_published as u8) << 3
            | self.retain_handling.as_u8() << RETAIN_HANDLING_SHIFT
    }

    #[inline]
    fn from_u8(byte: u8, version: ProtocolVersion) -> Result<Self, DecodeCause> {
        // Before MQTT 5.0 all bits but the QoS are reserved, and a QoS of 3 is malformed.
        let reserved = if version.is_v5() { RESERVED } else { !QOS };
        if byte & reserved != 0 {
            return Err(DecodeCause::SubscriptionOptionsReserved);
        }
        let Some(qos) = QoS::from_u8(byte & QOS) else {
            return Err(if version.is_v5() {
                DecodeCause::SubscriptionQoSThree
            } else {
                DecodeCause::SubscriptionOptionsReserved
            });
        };
        let Some(retain_handling) = RetainHandling::from_u8(byte >> RETAIN_HANDLING_SHIFT) else {
            return Err(DecodeCause::RetainHandlingThree);
        };
        Ok(Self {
            qos,
            no_local: byte & NO_LOCAL != 0,
            retain_as_published: byte & RETAIN_AS_PUBLISHED != 0,
            retain_handling,
        })
    }
}

impl<'a> Subscribe<'a> {
    pub(crate) fn decode(mut r: Reader<'a>, version: ProtocolVersion) -> Result<Self, Flaw> {
        let packet_id = r.packet_id()?;
        let properties =
            if version.is_v5() { Properties::decode(&mut r, PropertyContext::Subscribe)? } else { Properties::EMPTY };
        let bytes = r.rest();
        let mut len = 0;
        while !r.is_empty() {
            let filter = check_filter(&mut r)?;
            let at = r.at();
            let options = SubscriptionOptions::from_u8(r.byte()?, version).map_err(|cause| Flaw::new(cause, at))?;
            if options.no_local && is_shared(filter) {
                return Err(Flaw::new(DecodeCause::NoLocalOnShared, at));
            }
            len += 1;
        }
        if len == 0 {
            return Err(r.flaw(DecodeCause::NoTopicFilters));
        }
        Ok(Self { packet_id, properties, requests: List::trusted(bytes, len) })
    }
}

impl<'a> sealed::Item<'a> for SubscriptionRequest<'a> {
    #[inline]
    fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let (filter, filter_len) = reread_filter(bytes)?;
        let options = SubscriptionOptions::from_u8(*bytes.get(filter_len)?, ProtocolVersion::V5).ok()?;
        Some((Self { filter, options }, filter_len + 1))
    }

    #[inline]
    fn encoded_len(&self) -> usize {
        2 + self.filter.as_str().len() + 1
    }

    #[inline]
    fn write(&self, out: &mut [u8]) {
        let mut w = Writer::new(out);
        w.text(self.filter.as_str());
        w.byte(self.options.as_u8());
    }
}

impl EncodeParts for Subscribe<'_> {
    fn measure(&self, version: ProtocolVersion) -> Result<Measured, EncodeError> {
        only_in_v5(!self.properties.is_empty(), "properties", version)?;
        if self.requests.is_empty() {
            return Err(EncodeError::NoTopicFilters);
        }
        for SubscriptionRequest { filter, options } in &self.requests {
            let has_v5_options = options != SubscriptionOptions::with_qos(options.qos);
            only_in_v5(has_v5_options, "subscription_options", version)?;
            if options.no_local && filter.share().is_some() {
                return Err(EncodeError::NoLocalOnShared);
            }
        }
        let properties_len = self.properties.block_len(PropertyContext::Subscribe)?;
        let properties_space = if version.is_v5() { len_with_prefix(properties_len) } else { 0 };
        Measured::new(PacketType::Subscribe, 2 + properties_space + self.requests.encoded_len(), properties_len)
    }

    fn write_body(&self, version: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>) {
        w.two_bytes(self.packet_id.get());
        if version.is_v5() {
            self.properties.write(measured.properties_len, w);
        }
        self.requests.write(w.remaining());
    }
}

encode_methods!(Subscribe<'_>);
