use crate::encode::{EncodeParts, Measured, encode_methods, only_in_v5};
use crate::error::{DecodeCause, EncodeError, Flaw};
use crate::properties::{Properties, PropertyContext, len_with_prefix};
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;
use crate::{PacketId, PacketType, ProtocolVersion, PubAckReason, PubCompReason, PubRecReason, PubRelReason};

/// PUBACK, PUBREC, PUBREL and PUBCOMP (sections 3.4 to 3.7) differ only in type, first byte and legal reason codes.
macro_rules! acknowledgement {
    ($(#[$doc:meta])* $name:ident, $reason:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<'a> {
            /// The identifier of the PUBLISH.
            pub packet_id: PacketId,
            /// The outcome. MQTT 3.1.1 has only success.
            pub reason: $reason,
            /// Reason string and user properties. None before MQTT 5.0.
            pub properties: Properties<'a>,
        }

        impl<'a> $name<'a> {
            /// The packet with that reason and no properties.
            #[inline]
            pub const fn new(packet_id: PacketId, reason: $reason) -> Self {
                Self { packet_id, reason, properties: Properties::EMPTY }
            }

            /// The packet that reports success.
            #[inline]
            pub const fn success(packet_id: PacketId) -> Self {
                Self::new(packet_id, $reason::Success)
            }

            #[inline]
            pub(crate) fn decode(mut r: Reader<'a>, version: ProtocolVersion) -> Result<Self, Flaw> {
                let packet_id = r.packet_id()?;
                if r.is_empty() {
                    return Ok(Self::success(packet_id));
                }
                if !version.is_v5() {
                    return Err(r.flaw(DecodeCause::TrailingBytes));
                }
                let at = r.at();
                let Some(reason) = $reason::from_u8(r.byte()?) else {
                    return Err(Flaw::new(DecodeCause::ReasonCodeUnknown, at));
                };
                if r.is_empty() {
                    return Ok(Self::new(packet_id, reason));
                }
                let properties = Properties::decode(&mut r, PropertyContext::$name)?;
                r.finish()?;
                Ok(Self { packet_id, reason, properties })
            }
        }

        impl EncodeParts for $name<'_> {
            #[inline]
            fn measure(&self, version: ProtocolVersion) -> Result<Measured, EncodeError> {
                only_in_v5(!self.properties.is_empty(), "properties", version)?;
                only_in_v5(self.reason != $reason::Success, "reason", version)?;
                let properties_len = self.properties.block_len(PropertyContext::$name)?;
                let tail_len = Tail::of(self.reason.as_u8(), properties_len).len();
                Measured::new(PacketType::$name, 2 + tail_len, properties_len)
            }

            #[inline(always)]
            fn shortest(&self) -> Option<[u8; 4]> {
                let first_byte = const { PacketType::$name.as_u8() << 4 | PacketType::$name.required_flags() };
                let [high, low] = self.packet_id.get().to_be_bytes();
                let is_short = self.reason == $reason::Success && self.properties.is_empty();
                is_short.then_some([first_byte, 2, high, low])
            }

            #[inline]
            fn write_body(&self, _: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>) {
                w.two_bytes(self.packet_id.get());
                Tail::of(self.reason.as_u8(), measured.properties_len).write(&self.properties, w);
            }
        }

        encode_methods!($name<'_>);
    };
}

acknowledgement! {
    /// PUBACK: the receiver has accepted ownership of a QoS 1 message (section 3.4).
    PubAck, PubAckReason
}

acknowledgement! {
    /// PUBREC: a QoS 2 message has been received (section 3.5).
    PubRec, PubRecReason
}

acknowledgement! {
    /// PUBREL: the sender of a QoS 2 message releases its identifier (section 3.6).
    PubRel, PubRelReason
}

acknowledgement! {
    /// PUBCOMP: the exchange of a QoS 2 message is complete (section 3.7).
    PubComp, PubCompReason
}

/// Reason code and properties at the end of a packet that may omit them, in the shortest legal form.
#[derive(Clone, Copy)]
pub(super) enum Tail {
    /// Success without properties.
    Nothing,
    /// A reason code without properties.
    Reason(u8),
    /// A reason code and a property block of that length.
    ReasonAndProperties(u8, usize),
}

impl Tail {
    #[inline]
    pub(super) fn of(reason: u8, properties_len: usize) -> Self {
        match (reason, properties_len) {
            (0, 0) => Self::Nothing,
            (reason, 0) => Self::Reason(reason),
            (reason, len) => Self::ReasonAndProperties(reason, len),
        }
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Reason(_) => 1,
            Self::ReasonAndProperties(_, len) => 1 + len_with_prefix(len),
        }
    }

    #[inline]
    pub(super) fn write(self, properties: &Properties<'_>, w: &mut Writer<'_>) {
        match self {
            Self::Nothing => {}
            Self::Reason(reason) => w.byte(reason),
            Self::ReasonAndProperties(reason, len) => {
                w.byte(reason);
                properties.write(len, w);
            }
        }
    }
}
