use crate::encode::{EncodeParts, Measured, encode_methods};
use crate::error::{DecodeCause, EncodeError, Flaw};
use crate::properties::{Properties, PropertyContext, PropertyId, len_with_prefix};
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;
use crate::{AuthReason, PacketType, ProtocolVersion};

/// AUTH: a step of an extended authentication (section 3.15). MQTT 5.0 only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// The step.
    pub reason: AuthReason,
    /// Authentication method and data, reason string, user properties. The method is required, except in a success without properties.
    pub properties: Properties<'a>,
}

impl<'a> Auth<'a> {
    pub(crate) fn decode(mut r: Reader<'a>, version: ProtocolVersion) -> Result<Self, Flaw> {
        if !version.is_v5() {
            return Err(r.flaw(DecodeCause::AuthBeforeV5));
        }
        if r.is_empty() {
            return Ok(Self { reason: AuthReason::Success, properties: Properties::EMPTY });
        }
        let at = r.at();
        let Some(reason) = AuthReason::from_u8(r.byte()?) else {
            return Err(Flaw::new(DecodeCause::ReasonCodeUnknown, at));
        };
        let at = r.at();
        let packet = Self { reason, properties: Properties::decode(&mut r, PropertyContext::Auth)? };
        r.finish()?;
        if packet.lacks_method() {
            return Err(Flaw::new(DecodeCause::AuthenticationMethodMissing, at));
        }
        Ok(packet)
    }

    /// Section 3.15.2.2.2 always requires the method; section 3.15.2.1 allows a success without properties to omit it.
    fn lacks_method(&self) -> bool {
        !self.is_bare_success() && !self.properties.contains(PropertyId::AuthenticationMethod)
    }

    fn is_bare_success(&self) -> bool {
        self.reason == AuthReason::Success && self.properties.is_empty()
    }
}

impl EncodeParts for Auth<'_> {
    fn measure(&self, version: ProtocolVersion) -> Result<Measured, EncodeError> {
        if !version.is_v5() {
            return Err(EncodeError::AuthBeforeV5);
        }
        let properties_len = self.properties.block_len(PropertyContext::Auth)?;
        if self.lacks_method() {
            return Err(EncodeError::AuthenticationMethodMissing);
        }
        let remaining_len = if self.is_bare_success() { 0 } else { 1 + len_with_prefix(properties_len) };
        Measured::new(PacketType::Auth, remaining_len, properties_len)
    }

    fn write_body(&self, _: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>) {
        if !self.is_bare_success() {
            w.byte(self.reason.as_u8());
            self.properties.write(measured.properties_len, w);
        }
    }
}

encode_methods!(Auth<'_>);
