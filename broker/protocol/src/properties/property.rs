use alloc::vec::Vec;
use core::fmt;
use core::num::{NonZeroU16, NonZeroU32};

use super::PropertyId;
use crate::error::{DecodeCause, EncodeError, Flaw};
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;
use crate::wire::{scan, utf8, variable_byte_integer_len};
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
    /// What the payload is, such as a MIME type.
    ContentType(&'a str),
    /// The topic for a response.
    ResponseTopic(TopicName<'a>),
    /// Which request a response belongs to.
    CorrelationData(&'a [u8]),
    /// Identifies the subscription.
    SubscriptionIdentifier(SubscriptionId),
    /// How long the session outlives its connection, in seconds; `u32::MAX` is for ever.
    SessionExpiryInterval(u32),
    /// The client identifier that the server chose.
    AssignedClientIdentifier(&'a str),
    /// The keep alive that the server wants, in seconds.
    ServerKeepAlive(u16),
    /// The name of the authentication method.
    AuthenticationMethod(&'a str),
    /// Data of the authentication method.
    AuthenticationData(&'a [u8]),
    /// Whether reason strings and user properties may come with failures.
    RequestProblemInformation(bool),
    /// How long the will waits after the connection is lost, in seconds.
    WillDelayInterval(u32),
    /// Whether the client asks for response information.
    RequestResponseInformation(bool),
    /// The basis for response topics.
    ResponseInformation(&'a str),
    /// Another server to use.
    ServerReference(&'a str),
    /// A reason for people to read.
    ReasonString(&'a str),
    /// How many QoS 1 and 2 messages the sender of this takes at once.
    ReceiveMaximum(NonZeroU16),
    /// The highest topic alias that the sender of this takes; 0 for none.
    TopicAliasMaximum(u16),
    /// A number that stands for the topic.
    TopicAlias(NonZeroU16),
    /// The highest QoS that the server supports: QoS 0 or 1. QoS 2 is said by leaving it out.
    MaximumQoS(QoS),
    /// Whether the server supports retained messages.
    RetainAvailable(bool),
    /// A name and a value of the application's own.
    UserProperty(&'a str, &'a str),
    /// The largest packet that the sender of this takes, in bytes.
    MaximumPacketSize(NonZeroU32),
    /// Whether the server supports wildcard subscriptions.
    WildcardSubscriptionAvailable(bool),
    /// Whether the server supports subscription identifiers.
    SubscriptionIdentifierAvailable(bool),
    /// Whether the server supports shared subscriptions.
    SharedSubscriptionAvailable(bool),
}

impl<'a> Property<'a> {
    /// Which property it is.
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

    /// Bytes on the wire, the identifier included.
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

    /// Appends the property as it stands on the wire, to build a block for [`super::Properties::from_wire`].
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

    /// What the type cannot hold off: lengths, U+0000 and the maximum QoS.
    pub(super) fn check(&self) -> Result<(), EncodeError> {
        match self {
            Self::MaximumQoS(QoS::ExactlyOnce) => {
                Err(EncodeError::PropertyOutOfRange { property: PropertyId::MaximumQoS })
            }
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

    /// Reads and checks the value of property `id`.
    #[inline]
    pub(super) fn read(id: PropertyId, r: &mut Reader<'a>) -> Result<Self, Flaw> {
        Ok(match id {
            PropertyId::PayloadFormatIndicator => {
                Self::PayloadFormatIndicator(match flag(r, DecodeCause::PayloadFormatUnknown)? {
                    false => PayloadFormat::Unspecified,
                    true => PayloadFormat::Utf8,
                })
            }
            PropertyId::MessageExpiryInterval => Self::MessageExpiryInterval(r.four_bytes()?),
            PropertyId::ContentType => Self::ContentType(r.text()?),
            PropertyId::ResponseTopic => Self::ResponseTopic(response_topic(r)?),
            PropertyId::CorrelationData => Self::CorrelationData(r.binary()?),
            PropertyId::SubscriptionIdentifier => {
                let at = r.at();
                match SubscriptionId::new(r.variable_byte_integer()?) {
                    Some(id) => Self::SubscriptionIdentifier(id),
                    None => return Err(Flaw::new(DecodeCause::SubscriptionIdZero, at)),
                }
            }
            PropertyId::SessionExpiryInterval => Self::SessionExpiryInterval(r.four_bytes()?),
            PropertyId::AssignedClientIdentifier => Self::AssignedClientIdentifier(r.text()?),
            PropertyId::ServerKeepAlive => Self::ServerKeepAlive(r.two_bytes()?),
            PropertyId::AuthenticationMethod => Self::AuthenticationMethod(r.text()?),
            PropertyId::AuthenticationData => Self::AuthenticationData(r.binary()?),
            PropertyId::RequestProblemInformation => Self::RequestProblemInformation(boolean(r)?),
            PropertyId::WillDelayInterval => Self::WillDelayInterval(r.four_bytes()?),
            PropertyId::RequestResponseInformation => Self::RequestResponseInformation(boolean(r)?),
            PropertyId::ResponseInformation => Self::ResponseInformation(r.text()?),
            PropertyId::ServerReference => Self::ServerReference(r.text()?),
            PropertyId::ReasonString => Self::ReasonString(r.text()?),
            PropertyId::ReceiveMaximum => Self::ReceiveMaximum(non_zero_two_bytes(r, DecodeCause::ReceiveMaximumZero)?),
            PropertyId::TopicAliasMaximum => Self::TopicAliasMaximum(r.two_bytes()?),
            PropertyId::TopicAlias => Self::TopicAlias(non_zero_two_bytes(r, DecodeCause::TopicAliasZero)?),
            PropertyId::MaximumQoS => Self::MaximumQoS(match flag(r, DecodeCause::MaximumQoSOutOfRange)? {
                false => QoS::AtMostOnce,
                true => QoS::AtLeastOnce,
            }),
            PropertyId::RetainAvailable => Self::RetainAvailable(boolean(r)?),
            PropertyId::UserProperty => Self::UserProperty(r.text()?, r.text()?),
            PropertyId::MaximumPacketSize => {
                let at = r.at();
                match NonZeroU32::new(r.four_bytes()?) {
                    Some(size) => Self::MaximumPacketSize(size),
                    None => return Err(Flaw::new(DecodeCause::MaximumPacketSizeZero, at)),
                }
            }
            PropertyId::WildcardSubscriptionAvailable => Self::WildcardSubscriptionAvailable(boolean(r)?),
            PropertyId::SubscriptionIdentifierAvailable => Self::SubscriptionIdentifierAvailable(boolean(r)?),
            PropertyId::SharedSubscriptionAvailable => Self::SharedSubscriptionAvailable(boolean(r)?),
        })
    }
}

/// Binary data, which may be a secret, is shown by its length alone.
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
fn flag(r: &mut Reader<'_>, otherwise: DecodeCause) -> Result<bool, Flaw> {
    let at = r.at();
    match r.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Flaw::new(otherwise, at)),
    }
}

#[inline]
fn boolean(r: &mut Reader<'_>) -> Result<bool, Flaw> {
    flag(r, DecodeCause::PropertyNotBoolean)
}

#[inline]
fn non_zero_two_bytes(r: &mut Reader<'_>, zero: DecodeCause) -> Result<NonZeroU16, Flaw> {
    let at = r.at();
    NonZeroU16::new(r.two_bytes()?).ok_or_else(|| Flaw::new(zero, at))
}

fn response_topic<'a>(r: &mut Reader<'a>) -> Result<TopicName<'a>, Flaw> {
    let bytes = r.binary()?;
    let at = r.at() - bytes.len();
    let text = utf8::text(bytes, at)?;
    TopicName::new(text).map_err(|error| Flaw::new(DecodeCause::ResponseTopicInvalid, at + error.offset))
}

/// A string that fits and has no U+0000.
pub(crate) fn check_text(text: &str, field: &'static str) -> Result<(), EncodeError> {
    check_len(text.as_bytes(), field)?;
    if scan::has_null(text.as_bytes()) {
        return Err(EncodeError::NullInString { field });
    }
    Ok(())
}

/// A string or binary field that fits behind two bytes of length.
pub(crate) fn check_len(bytes: &[u8], field: &'static str) -> Result<(), EncodeError> {
    if bytes.len() > usize::from(u16::MAX) {
        return Err(EncodeError::FieldTooLong { field, len: bytes.len() });
    }
    Ok(())
}
