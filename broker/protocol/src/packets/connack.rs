use crate::encode::{EncodeParts, Measured, encode_methods, only_in_v5};
use crate::error::{DecodeCause, EncodeError, Flaw};
use crate::properties::{Properties, PropertyContext, len_with_prefix};
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;
use crate::{ConnectReason, PacketType, ProtocolVersion};

/// CONNACK: the answer to CONNECT (section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// Whether the server resumes an existing session. Never set in a refusal `[MQTT-3.2.2-6]`.
    pub session_present: bool,
    /// The outcome. MQTT 3.1.1 expresses those of [`ConnectReason::v3_return_code`].
    pub reason: ConnectReason,
    /// The server's capabilities. None before MQTT 5.0.
    pub properties: Properties<'a>,
}

impl<'a> ConnAck<'a> {
    /// A refusal without properties.
    pub const fn refusal(reason: ConnectReason) -> Self {
        Self { session_present: false, reason, properties: Properties::EMPTY }
    }

    pub(crate) fn decode(mut r: Reader<'a>, version: ProtocolVersion) -> Result<Self, Flaw> {
        let session_present = match r.byte()? {
            0 => false,
            1 => true,
            _ => return Err(Flaw::new(DecodeCause::ConnAckFlagsReserved, 0)),
        };
        let code = r.byte()?;
        let reason =
            if version.is_v5() { ConnectReason::from_u8(code) } else { ConnectReason::from_v3_return_code(code) };
        let Some(reason) = reason else { return Err(Flaw::new(DecodeCause::ReasonCodeUnknown, 1)) };
        if session_present && reason != ConnectReason::Success {
            return Err(Flaw::new(DecodeCause::SessionPresentOnFailure, 0));
        }
        let properties =
            if version.is_v5() { Properties::decode(&mut r, PropertyContext::ConnAck)? } else { Properties::EMPTY };
        r.finish()?;
        Ok(Self { session_present, reason, properties })
    }

    fn code(&self, version: ProtocolVersion) -> Result<u8, EncodeError> {
        if version.is_v5() {
            return Ok(self.reason.as_u8());
        }
        self.reason.v3_return_code().ok_or(EncodeError::NotInVersion { field: "reason", version })
    }
}

impl EncodeParts for ConnAck<'_> {
    fn measure(&self, version: ProtocolVersion) -> Result<Measured, EncodeError> {
        only_in_v5(!self.properties.is_empty(), "properties", version)?;
        self.code(version)?;
        if self.session_present && self.reason != ConnectReason::Success {
            return Err(EncodeError::SessionPresentOnFailure);
        }
        let properties_len = self.properties.block_len(PropertyContext::ConnAck)?;
        let tail_len = if version.is_v5() { len_with_prefix(properties_len) } else { 0 };
        Measured::new(PacketType::ConnAck, 2 + tail_len, properties_len)
    }

    fn write_body(&self, version: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>) {
        w.byte(u8::from(self.session_present));
        // `measure` has rejected a reason without a code.
        w.byte(self.code(version).unwrap_or(self.reason.as_u8()));
        if version.is_v5() {
            self.properties.write(measured.properties_len, w);
        }
    }
}

encode_methods!(ConnAck<'_>);
