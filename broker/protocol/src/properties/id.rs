use core::fmt;

use crate::PacketType;
use crate::error::{DecodeCause, Flaw};
use crate::wire::reader::Reader;

/// The data type of a property's value (section 1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PropertyType {
    /// One byte.
    Byte,
    /// Two bytes, big-endian.
    TwoByteInteger,
    /// Four bytes, big-endian.
    FourByteInteger,
    /// One to four bytes, seven bits each.
    VariableByteInteger,
    /// A two-byte length, then UTF-8.
    Utf8String,
    /// Two UTF-8 strings.
    Utf8StringPair,
    /// A two-byte length, then bytes.
    BinaryData,
}

/// The place of a property block: a packet, or the will of a CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PropertyContext {
    /// Will properties, in the payload of CONNECT.
    Will = 0,
    /// CONNECT.
    Connect = 1,
    /// CONNACK.
    ConnAck = 2,
    /// PUBLISH.
    Publish = 3,
    /// PUBACK.
    PubAck = 4,
    /// PUBREC.
    PubRec = 5,
    /// PUBREL.
    PubRel = 6,
    /// PUBCOMP.
    PubComp = 7,
    /// SUBSCRIBE.
    Subscribe = 8,
    /// SUBACK.
    SubAck = 9,
    /// UNSUBSCRIBE.
    Unsubscribe = 10,
    /// UNSUBACK.
    UnsubAck = 11,
    /// DISCONNECT.
    Disconnect = 14,
    /// AUTH.
    Auth = 15,
}

impl PropertyContext {
    /// Every context.
    pub const ALL: [Self; 14] = [
        Self::Will,
        Self::Connect,
        Self::ConnAck,
        Self::Publish,
        Self::PubAck,
        Self::PubRec,
        Self::PubRel,
        Self::PubComp,
        Self::Subscribe,
        Self::SubAck,
        Self::Unsubscribe,
        Self::UnsubAck,
        Self::Disconnect,
        Self::Auth,
    ];

    /// The packet that contains the block. A will is part of CONNECT.
    pub const fn packet_type(self) -> PacketType {
        match PacketType::from_u8(self as u8) {
            Some(packet_type) => packet_type,
            None => PacketType::Connect,
        }
    }

    /// `will properties` or the packet's name as the standard writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Will => "will properties",
            _ => self.packet_type().name(),
        }
    }

    #[inline]
    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// The standard's rules for a property. `index` counts properties without gaps.
#[derive(Clone, Copy)]
struct Row {
    id: PropertyId,
    index: u8,
    data_type: PropertyType,
    contexts: u16,
    repeatable: u16,
    /// The cause for a byte above 1 or an integer of 0, if the standard does not allow them.
    fault: Option<DecodeCause>,
}

macro_rules! properties {
    ($($(#[$doc:meta])* $variant:ident = $value:literal, $name:literal, $data_type:ident,
        [$($context:ident)*] $(repeats in [$($repeats:ident)*])? $(else $fault:ident)?;)*) => {
        /// The identifier of a property (table 2-4).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum PropertyId {
            $($(#[$doc])* $variant = $value,)*
        }

        impl PropertyId {
            /// Every property, in the order of the identifiers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name of the standard in snake case.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        const ROWS: &[Row] = &[$(Row {
            id: PropertyId::$variant,
            index: 0,
            data_type: PropertyType::$data_type,
            contexts: 0 $(| PropertyContext::$context.bit())*,
            repeatable: 0 $($(| PropertyContext::$repeats.bit())*)?,
            fault: properties!(@fault $($fault)?),
        }),*];
    };
    (@fault) => { None };
    (@fault $fault:ident) => { Some(DecodeCause::$fault) };
}

properties! {
    /// `0x01`: whether the payload is UTF-8 text.
    PayloadFormatIndicator = 0x01, "payload_format_indicator", Byte, [Publish Will] else PayloadFormatUnknown;
    /// `0x02`: lifetime of the message in seconds.
    MessageExpiryInterval = 0x02, "message_expiry_interval", FourByteInteger, [Publish Will];
    /// `0x03`: the type of the payload, such as a MIME type.
    ContentType = 0x03, "content_type", Utf8String, [Publish Will];
    /// `0x08`: the topic for a response.
    ResponseTopic = 0x08, "response_topic", Utf8String, [Publish Will];
    /// `0x09`: identifies the request of a response.
    CorrelationData = 0x09, "correlation_data", BinaryData, [Publish Will];
    /// `0x0B`: identifies the subscription; repeated in PUBLISH when several match.
    SubscriptionIdentifier = 0x0B, "subscription_identifier", VariableByteInteger, [Publish Subscribe] repeats in [Publish] else SubscriptionIdZero;
    /// `0x11`: how long the session outlives its connection, in seconds.
    SessionExpiryInterval = 0x11, "session_expiry_interval", FourByteInteger, [Connect ConnAck Disconnect];
    /// `0x12`: the client identifier that the server chose.
    AssignedClientIdentifier = 0x12, "assigned_client_identifier", Utf8String, [ConnAck];
    /// `0x13`: the keep alive that the server requires, in seconds.
    ServerKeepAlive = 0x13, "server_keep_alive", TwoByteInteger, [ConnAck];
    /// `0x15`: the name of the authentication method.
    AuthenticationMethod = 0x15, "authentication_method", Utf8String, [Connect ConnAck Auth];
    /// `0x16`: data of the authentication method.
    AuthenticationData = 0x16, "authentication_data", BinaryData, [Connect ConnAck Auth];
    /// `0x17`: whether failures may carry reason strings and user properties.
    RequestProblemInformation = 0x17, "request_problem_information", Byte, [Connect] else PropertyNotBoolean;
    /// `0x18`: the delay of the will after the connection is lost, in seconds.
    WillDelayInterval = 0x18, "will_delay_interval", FourByteInteger, [Will];
    /// `0x19`: whether the client asks for response information.
    RequestResponseInformation = 0x19, "request_response_information", Byte, [Connect] else PropertyNotBoolean;
    /// `0x1A`: the basis for response topics.
    ResponseInformation = 0x1A, "response_information", Utf8String, [ConnAck];
    /// `0x1C`: another server to use.
    ServerReference = 0x1C, "server_reference", Utf8String, [ConnAck Disconnect];
    /// `0x1F`: a human-readable reason.
    ReasonString = 0x1F, "reason_string", Utf8String,
        [ConnAck PubAck PubRec PubRel PubComp SubAck UnsubAck Disconnect Auth];
    /// `0x21`: how many QoS 1 and 2 messages the sender of this packet accepts at once.
    ReceiveMaximum = 0x21, "receive_maximum", TwoByteInteger, [Connect ConnAck] else ReceiveMaximumZero;
    /// `0x22`: the highest topic alias that the sender of this packet accepts.
    TopicAliasMaximum = 0x22, "topic_alias_maximum", TwoByteInteger, [Connect ConnAck];
    /// `0x23`: a number that replaces the topic.
    TopicAlias = 0x23, "topic_alias", TwoByteInteger, [Publish] else TopicAliasZero;
    /// `0x24`: the highest QoS that the server supports, if not 2.
    MaximumQoS = 0x24, "maximum_qos", Byte, [ConnAck] else MaximumQoSOutOfRange;
    /// `0x25`: whether the server supports retained messages.
    RetainAvailable = 0x25, "retain_available", Byte, [ConnAck] else PropertyNotBoolean;
    /// `0x26`: a name and a value defined by the application.
    UserProperty = 0x26, "user_property", Utf8StringPair,
        [Connect ConnAck Publish Will PubAck PubRec PubRel PubComp Subscribe SubAck Unsubscribe UnsubAck Disconnect Auth]
        repeats in
        [Connect ConnAck Publish Will PubAck PubRec PubRel PubComp Subscribe SubAck Unsubscribe UnsubAck Disconnect Auth];
    /// `0x27`: the largest packet that the sender of this packet accepts, in bytes.
    MaximumPacketSize = 0x27, "maximum_packet_size", FourByteInteger, [Connect ConnAck] else MaximumPacketSizeZero;
    /// `0x28`: whether the server supports wildcard subscriptions.
    WildcardSubscriptionAvailable = 0x28, "wildcard_subscription_available", Byte, [ConnAck] else PropertyNotBoolean;
    /// `0x29`: whether the server supports subscription identifiers.
    SubscriptionIdentifierAvailable = 0x29, "subscription_identifier_available", Byte, [ConnAck] else PropertyNotBoolean;
    /// `0x2A`: whether the server supports shared subscriptions.
    SharedSubscriptionAvailable = 0x2A, "shared_subscription_available", Byte, [ConnAck] else PropertyNotBoolean;
}

const TABLE_LEN: usize = 0x2B;

/// [`ROWS`] by identifier.
static TABLE: [Option<Row>; TABLE_LEN] = {
    let mut table = [None; TABLE_LEN];
    let mut at = 0;
    while at < ROWS.len() {
        let mut row = ROWS[at];
        row.index = at as u8;
        table[row.id as usize] = Some(row);
        at += 1;
    }
    table
};

/// Whether a property is allowed where it was found; returned by [`PropertyId::admit`].
pub(super) enum Admission {
    /// Allowed; this is the set of properties seen, with it added.
    Yes(u32),
    /// Not allowed in this context.
    NotAllowed,
    /// Already present, and must not be repeated.
    Repeated,
}

impl PropertyId {
    /// The property of the identifier; `None` if the standard defines none.
    #[inline]
    pub const fn from_u8(value: u8) -> Option<Self> {
        if (value as usize) < TABLE_LEN
            && let Some(row) = TABLE[value as usize]
        {
            return Some(row.id);
        }
        None
    }

    /// The identifier on the wire.
    #[inline]
    pub const fn as_u8(self) -> u8 {
        self as u8
    }

    /// The data type of the value.
    #[inline]
    pub fn data_type(self) -> PropertyType {
        self.row().data_type
    }

    /// Whether it is allowed there (table 2-4).
    #[inline]
    pub fn is_allowed_in(self, context: PropertyContext) -> bool {
        self.row().contexts & context.bit() != 0
    }

    /// Whether it may be repeated there.
    #[inline]
    pub fn is_repeatable_in(self, context: PropertyContext) -> bool {
        self.row().repeatable & context.bit() != 0
    }

    /// A bit for each property, for sets of them.
    #[inline]
    pub(super) fn bit(self) -> u32 {
        1 << self.row().index
    }

    /// Whether it is allowed in `context` after the properties `seen`.
    #[inline]
    pub(super) fn admit(self, context: PropertyContext, seen: u32) -> Admission {
        let row = self.row();
        let (bit, place) = (1 << row.index, context.bit());
        if row.contexts & place == 0 {
            Admission::NotAllowed
        } else if seen & bit != 0 && row.repeatable & place == 0 {
            Admission::Repeated
        } else {
            Admission::Yes(seen | bit)
        }
    }

    /// Checks the value at the front of `r` and consumes it.
    #[inline]
    pub(super) fn check_value(self, r: &mut Reader<'_>) -> Result<(), Flaw> {
        let row = self.row();
        let at = r.at();
        let is_faulty = match row.data_type {
            PropertyType::Byte => r.byte()? > 1,
            PropertyType::TwoByteInteger => r.two_bytes()? == 0,
            PropertyType::FourByteInteger => r.four_bytes()? == 0,
            PropertyType::VariableByteInteger => r.variable_byte_integer()? == 0,
            PropertyType::BinaryData => {
                r.binary()?;
                return Ok(());
            }
            PropertyType::Utf8String => {
                let text = r.check_text()?;
                return if self == Self::ResponseTopic { check_response_topic(text, r) } else { Ok(()) };
            }
            PropertyType::Utf8StringPair => {
                r.check_text()?;
                r.check_text()?;
                return Ok(());
            }
        };
        match row.fault {
            Some(fault) if is_faulty => Err(Flaw::new(fault, at)),
            _ => Ok(()),
        }
    }

    #[inline]
    fn row(self) -> &'static Row {
        match TABLE.get(self as usize) {
            Some(Some(row)) => row,
            // Every identifier has its row: the table is generated from the same list as the enum.
            _ => &ROWS[0],
        }
    }
}

/// A response topic is a topic name `[MQTT-3.3.2-14]`. `r` is positioned after it.
fn check_response_topic(topic: &[u8], r: &Reader<'_>) -> Result<(), Flaw> {
    let start = r.at() - topic.len();
    match topic.iter().position(|byte| matches!(byte, b'+' | b'#')) {
        None if !topic.is_empty() => Ok(()),
        wildcard => Err(Flaw::new(DecodeCause::ResponseTopicInvalid, start + wildcard.unwrap_or(0))),
    }
}

impl fmt::Display for PropertyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identifier_finds_its_own_row() {
        assert_eq!(PropertyId::ALL.len(), 27);
        for (index, &id) in PropertyId::ALL.iter().enumerate() {
            assert_eq!(id.row().id, id);
            assert_eq!(id.bit(), 1 << index);
            assert_eq!(PropertyId::from_u8(id.as_u8()), Some(id));
        }
        assert_eq!((0..=255).filter(|&value| PropertyId::from_u8(value).is_some()).count(), 27);
    }

    #[test]
    fn only_user_properties_and_publish_subscription_identifiers_repeat() {
        for context in PropertyContext::ALL {
            assert!(PropertyId::UserProperty.is_repeatable_in(context));
            for &id in PropertyId::ALL {
                if id != PropertyId::UserProperty && id.is_repeatable_in(context) {
                    assert_eq!((id, context), (PropertyId::SubscriptionIdentifier, PropertyContext::Publish));
                }
            }
        }
    }
}
