use super::acknowledgements::Tail;
use crate::encode::{EncodeParts, Measured, encode_methods, only_in_v5};
use crate::error::{DecodeCause, EncodeError, Flaw};
use crate::properties::{Properties, PropertyContext};
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;
use crate::{DisconnectReason, PacketType, ProtocolVersion};

/// DISCONNECT: the last packet of a connection (section 3.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// The reason. MQTT 3.1.1 has only the normal disconnection.
    pub reason: DisconnectReason,
    /// Session expiry, reason string, server reference, user properties. None before MQTT 5.0.
    pub properties: Properties<'a>,
}

impl<'a> Disconnect<'a> {
    /// The packet with that reason and no properties.
    #[inline]
    pub const fn new(reason: DisconnectReason) -> Self {
        Self { reason, properties: Properties::EMPTY }
    }

    pub(crate) fn decode(mut r: Reader<'a>, version: ProtocolVersion) -> Result<Self, Flaw> {
        if r.is_empty() {
            return Ok(Self::new(DisconnectReason::NormalDisconnection));
        }
        if !version.is_v5() {
            return Err(r.flaw(DecodeCause::TrailingBytes));
        }
        let at = r.at();
        let Some(reason) = DisconnectReason::from_u8(r.byte()?) else {
            return Err(Flaw::new(DecodeCause::ReasonCodeUnknown, at));
        };
        if r.is_empty() {
            return Ok(Self::new(reason));
        }
        let properties = Properties::decode(&mut r, PropertyContext::Disconnect)?;
        r.finish()?;
        Ok(Self { reason, properties })
    }
}

impl EncodeParts for Disconnect<'_> {
    fn measure(&self, version: ProtocolVersion) -> Result<Measured, EncodeError> {
        only_in_v5(!self.properties.is_empty(), "properties", version)?;
        only_in_v5(self.reason != DisconnectReason::NormalDisconnection, "reason", version)?;
        let properties_len = self.properties.block_len(PropertyContext::Disconnect)?;
        let tail_len = Tail::of(self.reason.as_u8(), properties_len).len();
        Measured::new(PacketType::Disconnect, tail_len, properties_len)
    }

    fn write_body(&self, _: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>) {
        Tail::of(self.reason.as_u8(), measured.properties_len).write(&self.properties, w);
    }
}

encode_methods!(Disconnect<'_>);
