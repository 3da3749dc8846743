use core::fmt;

use super::hidden::Hidden;
use crate::encode::{EncodeParts, Measured, encode_methods, only_in_v5};
use crate::error::{DecodeCause, EncodeError, Flaw};
use crate::properties::{Properties, PropertyContext, check_len, check_text, len_with_prefix};
use crate::topic::TopicErrorKind;
use crate::wire::reader::Reader;
use crate::wire::utf8;
use crate::wire::writer::Writer;
use crate::{PacketType, ProtocolVersion, QoS, TopicName};

const RESERVED: u8 = 0b0000_0001;
const CLEAN_START: u8 = 0b0000_0010;
const WILL: u8 = 0b0000_0100;
const WILL_QOS_SHIFT: u8 = 3;
const WILL_RETAIN: u8 = 0b0010_0000;
const PASSWORD: u8 = 0b0100_0000;
const USER_NAME: u8 = 0b1000_0000;

/// CONNECT: the first packet of a connection (section 3.1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The version of the connection. CONNECT is always encoded in this version.
    pub version: ProtocolVersion,
    /// Whether the server discards an existing session first. Clean Session before MQTT 5.0.
    pub clean_start: bool,
    /// The keep alive in seconds: the longest time without a packet from the client; 0 for no limit.
    pub keep_alive_s: u16,
    /// Identifies the session. May be empty: the server then assigns one or refuses the connection. Before MQTT 5.0 empty only with
    /// `clean_start`.
    pub client_id: &'a str,
    /// The message to publish when the connection is lost.
    pub will: Option<Will<'a>>,
    /// The user name for authentication.
    pub user_name: Option<&'a str>,
    /// The password for authentication. Before MQTT 5.0 it requires a user name.
    pub password: Option<&'a [u8]>,
    /// None before MQTT 5.0.
    pub properties: Properties<'a>,
}

/// The message that the server publishes when the connection is lost (section 3.1.2.5).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Will<'a> {
    /// The topic.
    pub topic: TopicName<'a>,
    /// The message itself, at most 65,535 bytes.
    pub payload: &'a [u8],
    /// The quality of service.
    pub qos: QoS,
    /// Whether it is published as a retained message.
    pub retain: bool,
    /// None before MQTT 5.0.
    pub properties: Properties<'a>,
}

impl<'a> Connect<'a> {
    #[inline(always)]
    pub(crate) fn decode(mut r: Reader<'a>) -> Result<Self, Flaw> {
        let version = read_version(&mut r)?;
        let flags_at = r.at();
        let flags = r.byte()?;
        check_flags(flags, version).map_err(|cause| Flaw::new(cause, flags_at))?;
        let keep_alive_s = r.two_bytes()?;
        let properties =
            if version.is_v5() { Properties::decode(&mut r, PropertyContext::Connect)? } else { Properties::EMPTY };
        let client_id = r.text()?;
        let will = if flags & WILL != 0 { Some(Will::decode(flags, &mut r, version)?) } else { None };
        let user_name = if flags & USER_NAME != 0 { Some(r.text()?) } else { None };
        let password = if flags & PASSWORD != 0 { Some(r.binary()?) } else { None };
        r.finish()?;
        Ok(Self {
            version,
            clean_start: flags & CLEAN_START != 0,
            keep_alive_s,
            client_id,
            will,
            user_name,
            password,
            properties,
        })
    }

    fn flags(&self) -> u8 {
        let mut flags = 0;
        if self.clean_start {
            flags |= CLEAN_START;
        }
        if let Some(will) = &self.will {
            flags |= WILL | will.qos.as_u8() << WILL_QOS_SHIFT;
            if will.retain {
                flags |= WILL_RETAIN;
            }
        }
        if self.password.is_some() {
            flags |= PASSWORD;
        }
        if self.user_name.is_some() {
            flags |= USER_NAME;
        }
        flags
    }
}

fn read_version(r: &mut Reader<'_>) -> Result<ProtocolVersion, Flaw> {
    // Nearly all clients send this name, which then needs no UTF-8 check.
    let is_3_1 = !r.skip(b"\0\x04MQTT") && read_name_of_3_1(r)?;
    let at = r.at();
    match (is_3_1, r.byte()?) {
        (true, 3) => Ok(ProtocolVersion::V3_1),
        (false, 4) => Ok(ProtocolVersion::V3_1_1),
        (false, 5) => Ok(ProtocolVersion::V5),
        _ => Err(Flaw::new(DecodeCause::ProtocolLevelUnsupported, at)),
    }
}

/// Reads a protocol name other than `MQTT`, and checks all of it.
#[cold]
fn read_name_of_3_1(r: &mut Reader<'_>) -> Result<bool, Flaw> {
    if r.check_text()? == ProtocolVersion::V3_1.protocol_name().as_bytes() {
        Ok(true)
    } else {
        Err(Flaw::new(DecodeCause::ProtocolNameUnknown, 0))
    }
}

fn check_flags(flags: u8, version: ProtocolVersion) -> Result<(), DecodeCause> {
    let will_qos = flags >> WILL_QOS_SHIFT & 0b11;
    if flags & RESERVED != 0 {
        Err(DecodeCause::ConnectFlagReserved)
    } else if flags & WILL == 0 && (will_qos != 0 || flags & WILL_RETAIN != 0) {
        Err(DecodeCause::WillFlagsWithoutWill)
    } else if will_qos == 3 {
        Err(DecodeCause::WillQoSThree)
    } else if !version.is_v5() && flags & (USER_NAME | PASSWORD) == PASSWORD {
        Err(DecodeCause::PasswordWithoutUserName)
    } else {
        Ok(())
    }
}

impl<'a> Will<'a> {
    fn decode(flags: u8, r: &mut Reader<'a>, version: ProtocolVersion) -> Result<Self, Flaw> {
        let properties =
            if version.is_v5() { Properties::decode(r, PropertyContext::Will)? } else { Properties::EMPTY };
        let topic = {
            let bytes = r.binary()?;
            let at = r.at() - bytes.len();
            let text = utf8::well_formed(bytes, at)?;
            TopicName::new(text).map_err(|error| {
                let is_null = error.kind == TopicErrorKind::Null;
                let cause = if is_null { DecodeCause::Utf8Null } else { DecodeCause::WillTopicInvalid };
                Flaw::new(cause, at + error.offset)
            })?
        };
        let payload = r.binary()?;
        // The flags have been checked: the value is not 3.
        let qos = QoS::from_u8(flags >> WILL_QOS_SHIFT & 0b11).unwrap_or_default();
        Ok(Self { topic, payload, qos, retain: flags & WILL_RETAIN != 0, properties })
    }
}

impl EncodeParts for Connect<'_> {
    fn measure(&self, _: ProtocolVersion) -> Result<Measured, EncodeError> {
        let version = self.version;
        only_in_v5(!self.properties.is_empty(), "properties", version)?;
        if self.password.is_some() && self.user_name.is_none() && !version.is_v5() {
            return Err(EncodeError::PasswordWithoutUserName);
        }
        if self.client_id.is_empty() && !self.clean_start && !version.is_v5() {
            return Err(EncodeError::ClientIdMissing);
        }
        check_text(self.client_id, "client_id")?;
        let properties_len = self.properties.block_len(PropertyContext::Connect)?;
        let mut remaining_len = 2 + version.protocol_name().len() + 4 + 2 + self.client_id.len();
        let mut will_properties_len = 0;
        if let Some(will) = &self.will {
            only_in_v5(!will.properties.is_empty(), "will.properties", version)?;
            check_len(will.payload, "will.payload")?;
            will_properties_len = will.properties.block_len(PropertyContext::Will)?;
            remaining_len += 2 + will.topic.as_str().len() + 2 + will.payload.len();
            if version.is_v5() {
                remaining_len += len_with_prefix(will_properties_len);
            }
        }
        if let Some(user_name) = self.user_name {
            check_text(user_name, "user_name")?;
            remaining_len += 2 + user_name.len();
        }
        if let Some(password) = self.password {
            check_len(password, "password")?;
            remaining_len += 2 + password.len();
        }
        if version.is_v5() {
            remaining_len += len_with_prefix(properties_len);
        }
        let measured = Measured::new(PacketType::Connect, remaining_len, properties_len)?;
        Ok(Measured { will_properties_len, ..measured })
    }

    fn write_body(&self, _: ProtocolVersion, measured: &Measured, w: &mut Writer<'_>) {
        let version = self.version;
        w.text(version.protocol_name());
        w.byte(version.level());
        w.byte(self.flags());
        w.two_bytes(self.keep_alive_s);
        if version.is_v5() {
            self.properties.write(measured.properties_len, w);
        }
        w.text(self.client_id);
        if let Some(will) = &self.will {
            if version.is_v5() {
                will.properties.write(measured.will_properties_len, w);
            }
            w.text(will.topic.as_str());
            w.binary(will.payload);
        }
        if let Some(user_name) = self.user_name {
            w.text(user_name);
        }
        if let Some(password) = self.password {
            w.binary(password);
        }
    }
}

encode_methods!(Connect<'_>);

impl fmt::Debug for Connect<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect")
            .field("version", &self.version)
            .field("clean_start", &self.clean_start)
            .field("keep_alive_s", &self.keep_alive_s)
            .field("client_id", &self.client_id)
            .field("will", &self.will)
            .field("user_name", &self.user_name)
            .field("password", &self.password.map(|password| Hidden(password.len())))
            .field("properties", &self.properties)
            .finish()
    }
}

impl fmt::Debug for Will<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Will")
            .field("topic", &self.topic)
            .field("payload", &Hidden(self.payload.len()))
            .field("qos", &self.qos)
            .field("retain", &self.retain)
            .field("properties", &self.properties)
            .finish()
    }
}
