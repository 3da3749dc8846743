use alloc::vec::Vec;
use core::fmt;
use core::num::{NonZeroU16, NonZeroU32};

use super::PropertyId;
use crate::error::EncodeError;
use crate::wire::writer::Writer;
use crate::wire::{read_variable_byte_integer, scan, variable_byte_integer_len};
use crate::{QoS, SubscriptionId, TopicName};

/// Payload Format Indicator (section 3.3.2.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PayloadFormat {
    /// 0: bytes of any kind.
    Unspecified = 0,
    /// 1: UTF-8 text.
    Utf8 = 1,
}

/// One property with its value. Times are in seconds, sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Property<'a> {
    /// Whether the payload is UTF-8 text.
    PayloadFormatIndicator(PayloadFormat),
    /// Lifetime of the message in seconds.
    MessageExpiryInterval(u32),
    /// The type of the payload, such as a MIME type.
    ContentType(&'a str),
    /// The topic for a response.
    ResponseTopic(TopicName<'a>),
    /// Identifies the request of a response.
    CorrelationData(&'a [u8]),
    /// Identifies the subscription.
    SubscriptionIdentifier(SubscriptionId),
    /// How long the session outlives its connection, in seconds; `u32::MAX` means it does not expire.
    SessionExpiryInterval(u32),
    /// The client identifier that the server chose.
    AssignedClientIdentifier(&'a str),
    /// The keep alive that the server requires, in seconds.
    ServerKeepAlive(u16),
    /// The name of the authentication method.
    AuthenticationMethod(&'a str),
    /// Data of the authentication method.
    AuthenticationData(&'a [u8]),
    /// Whether failures may carry reason strings and user properties.
    RequestProblemInformation(bool),
    /// The delay of the will after the connection is lost, in seconds.
    WillDelayInterval(u32),
    /// Whether the client asks for response information.
    RequestResponseInformation(bool),
    /// The basis for response topics.
    ResponseInformation(&'a str),
    /// Another server to use.
    ServerReference(&'a str),
    /// A human-readable reason.
    ReasonString(&'a str),
    /// How many QoS 1 and 2 messages the sender of this packet accepts at once.
    ReceiveMaximum(NonZeroU16),
    /// The highest topic alias that the sender of this packet accepts; 0 for none.
    TopicAliasMaximum(u16),
    /// A number that replaces the topic.
    TopicAlias(NonZeroU16),
    /// The highest QoS that the server supports: QoS 0 or 1. Omitted for QoS 2.
    MaximumQoS(QoS),
    /// Whether the server supports retained messages.
    RetainAvailable(bool),
    /// A name and a value defined by the application.
    UserProperty(&'a str, &'a str),
    /// The largest packet that the sender of this packet accepts, in bytes.
    MaximumPacketSize(NonZeroU32),
    /// Whether the server supports wildcard subscriptions.
    WildcardSubscriptionAvailable(bool),
    /// Whether the server supports subscription identifiers.
    SubscriptionIdentifierAvailable(bool),
    /// Whether the server supports shared subscriptions.
    SharedSubscriptionAvailable(bool),
}

impl<'a> Property<'a> {
    /// The identifier of the property.
    pub const fn id(&self) -> PropertyId {
        match self {
            Self::PayloadFormatIndicator(_) => PropertyId::PayloadFormatIndicator,
            Self::MessageExpiryInterval(_) => PropertyId::MessageExpiryInterval,
            Self::ContentType(_) => PropertyId::ContentType,
            Self::ResponseTopic(_) => PropertyId::ResponseTopic,
            Self::CorrelationData(_) => PropertyId::CorrelationData,
            Self::SubscriptionIdentifier(_) => PropertyId::SubscriptionIdentifier,
            Self::SessionExpiryInterval(_) => PropertyId::SessionExpiryInterval,
            Self::AssignedClientIdentifier(_) => PropertyId::AssignedClientIdentifier,
            Self::ServerKeepAlive(_) => PropertyId::ServerKeepAlive,
            Self::AuthenticationMethod(_) => PropertyId::AuthenticationMethod,
            Self::AuthenticationData(_) => PropertyId::AuthenticationData,
            Self::RequestProblemInformation(_) => PropertyId::RequestProblemInformation,
            Self::WillDelayInterval(_) => PropertyId::WillDelayInterval,
            Self::RequestResponseInformation(_) => PropertyId::RequestResponseInformation,
            Self::ResponseInformation(_) => PropertyId::ResponseInformation,
            Self::ServerReference(_) => PropertyId::ServerReference,
            Self::ReasonString(_) => PropertyId::ReasonString,
            Self::ReceiveMaximum(_) => PropertyId::ReceiveMaximum,
            Self::TopicAliasMaximum(_) => PropertyId::TopicAliasMaximum,
            Self::TopicAlias(_) => PropertyId::TopicAlias,
            Self::MaximumQoS(_) => PropertyId::MaximumQoS,
            Self::RetainAvailable(_) => PropertyId::RetainAvailable,
            Self::UserProperty(..) => PropertyId::UserProperty,
            Self::MaximumPacketSize(_) => PropertyId::MaximumPacketSize,
            Self::WildcardSubscriptionAvailable(_) => PropertyId::WildcardSubscriptionAvailable,
            Self::SubscriptionIdentifierAvailable(_) => PropertyId::SubscriptionIdentifierAvailable,
            Self::SharedSubscriptionAvailable(_) => PropertyId::SharedSubscriptionAvailable,
        }
    }

    /// The length on the wire in bytes, identifier included.
    pub fn encoded_len(&self) -> usize {
        1 + match self {
            Self::PayloadFormatIndicator(_)
            | Self::RequestProblemInformation(_)
            | Self::RequestResponseInformation(_)
            | Self::MaximumQoS(_)
            | Self::RetainAvailable(_)
            | Self::WildcardSubscriptionAvailable(_)
            | Self::SubscriptionIdentifierAvailable(_)
            | Self::SharedSubscriptionAvailable(_) => 1,
            Self::ServerKeepAlive(_) | Self::ReceiveMaximum(_) | Self::TopicAliasMaximum(_) | Self::TopicAlias(_) => 2,
            Self::MessageExpiryInterval(_)
            | Self::SessionExpiryInterval(_)
            | Self::WillDelayInterval(_)
            | Self::MaximumPacketSize(_) => 4,
            Self::SubscriptionIdentifier(id) => variable_byte_integer_len(id.get()),
            Self::ContentType(text)
            | Self::AssignedClientIdentifier(text)
            | Self::AuthenticationMethod(text)
            | Self::ResponseInformation(text)
            | Self::ServerReference(text)
            | Self::ReasonString(text) => 2 + text.len(),
            Self::ResponseTopic(topic) => 2 + topic.as_str().len(),
            Self::CorrelationData(bytes) | Self::AuthenticationData(bytes) => 2 + bytes.len(),
            Self::UserProperty(name, value) => 4 + name.len() + value.len(),
        }
    }

    /// Appends the property in wire form, to build a block for [`super::Properties::from_wire`].
    ///
    /// # Errors
    /// A value out of range, a string with U+0000 or a field of more than 65,535 bytes.
    pub fn append_to(&self, out: &mut Vec<u8>) -> Result<usize, EncodeError> {
        self.check()?;
        let (start, len) = (out.len(), self.encoded_len());
        out.resize(start + len, 0);
        self.write(&mut Writer::new(&mut out[start..]));
        Ok(len)
    }

    /// Checks what the types do not rule out: lengths, U+0000 and the maximum QoS.
    pub(super) fn check(&self) -> Result<(), EncodeError> {
        match self {
            Self::MaximumQoS(QoS::ExactlyOnce) => Err(EncodeError::MaximumQoSOutOfRange),
            Self::ContentType(text)
            | Self::AssignedClientIdentifier(text)
            | Self::AuthenticationMethod(text)
            | Self::ResponseInformation(text)
            | Self::ServerReference(text)
            | Self::ReasonString(text) => check_text(text, self.id().name()),
            Self::UserProperty(name, value) => {
                check_text(name, self.id().name())?;
                check_text(value, self.id().name())
            }
            Self::CorrelationData(bytes) | Self::AuthenticationData(bytes) => check_len(bytes, self.id().name()),
            _ => Ok(()),
        }
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.byte(self.id().as_u8());
        match *self {
            Self::PayloadFormatIndicator(format) => w.byte(format as u8),
            Self::MaximumQoS(qos) => w.byte(qos.as_u8()),
            Self::RequestProblemInformation(flag)
            | Self::RequestResponseInformation(flag)
            | Self::RetainAvailable(flag)
            | Self::WildcardSubscriptionAvailable(flag)
            | Self::SubscriptionIdentifierAvailable(flag)
            | Self::SharedSubscriptionAvailable(flag) => w.byte(u8::from(flag)),
            Self::ServerKeepAlive(value) | Self::TopicAliasMaximum(value) => w.two_bytes(value),
            Self::ReceiveMaximum(value) | Self::TopicAlias(value) => w.two_bytes(value.get()),
            Self::MessageExpiryInterval(value)
            | Self::SessionExpiryInterval(value)
            | Self::WillDelayInterval(value) => w.four_bytes(value),
            Self::MaximumPacketSize(value) => w.four_bytes(value.get()),
            Self::SubscriptionIdentifier(id) => w.variable_byte_integer(id.get()),
            Self::ContentType(text)
            | Self::AssignedClientIdentifier(text)
            | Self::AuthenticationMethod(text)
            | Self::ResponseInformation(text)
            | Self::ServerReference(text)
            | Self::ReasonString(text) => w.text(text),
            Self::ResponseTopic(topic) => w.text(topic.as_str()),
            Self::CorrelationData(bytes) | Self::AuthenticationData(bytes) => w.binary(bytes),
            Self::UserProperty(name, value) => {
                w.text(name);
                w.text(value);
            }
        }
    }

    /// Reads the value of property `id` from bytes that passed [`PropertyId::check_value`]; may be `None` for other bytes.
    #[inline]
    pub(super) fn read(id: PropertyId, value: &'a [u8]) -> Option<Self> {
        Some(match id {
            PropertyId::PayloadFormatIndicator => Self::PayloadFormatIndicator(match flag(value)? {
                false => PayloadFormat::Unspecified,
                true => PayloadFormat::Utf8,
            }),
            PropertyId::MessageExpiryInterval => Self::MessageExpiryInterval(four_bytes(value)?),
            PropertyId::ContentType => Self::ContentType(text(value)?),
            PropertyId::ResponseTopic => Self::ResponseTopic(TopicName::trusted(text(value)?)),
            PropertyId::CorrelationData => Self::CorrelationData(binary(value)?),
            PropertyId::SubscriptionIdentifier => {
                Self::SubscriptionIdentifier(SubscriptionId::new(read_variable_byte_integer(value).ok()?.0)?)
            }
            PropertyId::SessionExpiryInterval => Self::SessionExpiryInterval(four_bytes(value)?),
            PropertyId::AssignedClientIdentifier => Self::AssignedClientIdentifier(text(value)?),
            PropertyId::ServerKeepAlive => Self::ServerKeepAlive(two_bytes(value)?),
            PropertyId::AuthenticationMethod => Self::AuthenticationMethod(text(value)?),
            PropertyId::AuthenticationData => Self::AuthenticationData(binary(value)?),
            PropertyId::RequestProblemInformation => Self::RequestProblemInformation(flag(value)?),
            PropertyId::WillDelayInterval => Self::WillDelayInterval(four_bytes(value)?),
            PropertyId::RequestResponseInformation => Self::RequestResponseInformation(flag(value)?),
            PropertyId::ResponseInformation => Self::ResponseInformation(text(value)?),
            PropertyId::ServerReference => Self::ServerReference(text(value)?),
            PropertyId::ReasonString => Self::ReasonString(text(value)?),
            PropertyId::ReceiveMaximum => Self::ReceiveMaximum(NonZeroU16::new(two_bytes(value)?)?),
            PropertyId::TopicAliasMaximum => Self::TopicAliasMaximum(two_bytes(value)?),
            PropertyId::TopicAlias => Self::TopicAlias(NonZeroU16::new(two_bytes(value)?)?),
            PropertyId::MaximumQoS => Self::MaximumQoS(match flag(value)? {
                false => QoS::AtMostOnce,
                true => QoS::AtLeastOnce,
            }),
            PropertyId::RetainAvailable => Self::RetainAvailable(flag(value)?),
            PropertyId::UserProperty => {
                let name = binary(value)?;
                let value = text(value.get(2 + name.len()..)?)?;
                Self::UserProperty(core::str::from_utf8(name).ok()?, value)
            }
            PropertyId::MaximumPacketSize => Self::MaximumPacketSize(NonZeroU32::new(four_bytes(value)?)?),
            PropertyId::WildcardSubscriptionAvailable => Self::WildcardSubscriptionAvailable(flag(value)?),
            PropertyId::SubscriptionIdentifierAvailable => Self::SubscriptionIdentifierAvailable(flag(value)?),
            PropertyId::SharedSubscriptionAvailable => Self::SharedSubscriptionAvailable(flag(value)?),
        })
    }
}

/// Binary data may be a secret, so only its length is shown.
impl fmt::Debug for Property<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.id().name();
        match self {
            Self::PayloadFormatIndicator(format) => write!(f, "{name}: {format:?}"),
            Self::MaximumQoS(qos) => write!(f, "{name}: {qos:?}"),
            Self::RequestProblemInformation(flag)
            | Self::RequestResponseInformation(flag)
            | Self::RetainAvailable(flag)
            | Self::WildcardSubscriptionAvailable(flag)
            | Self::SubscriptionIdentifierAvailable(flag)
            | Self::SharedSubscriptionAvailable(flag) => write!(f, "{name}: {flag}"),
            Self::ServerKeepAlive(value) | Self::TopicAliasMaximum(value) => write!(f, "{name}: {value}"),
            Self::ReceiveMaximum(value) | Self::TopicAlias(value) => write!(f, "{name}: {value}"),
            Self::MessageExpiryInterval(value)
            | Self::SessionExpiryInterval(value)
            | Self::WillDelayInterval(value) => write!(f, "{name}: {value}"),
            Self::MaximumPacketSize(value) => write!(f, "{name}: {value}"),
            Self::SubscriptionIdentifier(id) => write!(f, "{name}: {}", id.get()),
            Self::ContentType(text)
            | Self::AssignedClientIdentifier(text)
            | Self::AuthenticationMethod(text)
            | Self::ResponseInformation(text)
            | Self::ServerReference(text)
            | Self::ReasonString(text) => write!(f, "{name}: {text:?}"),
            Self::ResponseTopic(topic) => write!(f, "{name}: {:?}", topic.as_str()),
            Self::CorrelationData(bytes) | Self::AuthenticationData(bytes) => {
                write!(f, "{name}: <{} bytes>", bytes.len())
            }
            Self::UserProperty(key, value) => write!(f, "{name}: {key:?} = {value:?}"),
        }
    }
}

#[inline]
fn flag(value: &[u8]) -> Option<bool> {
    Some(*value.first()? != 0)
}

#[inline]
fn two_bytes(value: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(*value.first_chunk()?))
}

#[inline]
fn four_bytes(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*value.first_chunk()?))
}

#[inline]
fn binary(value: &[u8]) -> Option<&[u8]> {
    let (len, rest) = value.split_first_chunk()?;
    rest.get(..usize::from(u16::from_be_bytes(*len)))
}

#[inline]
fn text(value: &[u8]) -> Option<&str> {
    core::str::from_utf8(binary(value)?).ok()
}

/// Checks that a string fits and has no U+0000.
pub(crate) fn check_text(text: &str, field: &'static str) -> Result<(), EncodeError> {
    check_len(text.as_bytes(), field)?;
    if scan::has_null(text.as_bytes()) {
        return Err(EncodeError::NullInString { field });
    }
    Ok(())
}

/// Checks that a string or binary field fits a two-byte length.
pub(crate) fn check_len(bytes: &[u8], field: &'static str) -> Result<(), EncodeError> {
    if bytes.len() > usize::from(u16::MAX) {
        return Err(EncodeError::FieldTooLong { field, len: bytes.len() });
    }
    Ok(())
}
