use core::fmt;

use super::DecodeCause;
use super::table::{BUFFER_TOO_SMALL, CLIENT_ID_MISSING, FIELD_TOO_LONG, NOT_IN_VERSION};
use super::words::Words;
use crate::{PropertyContext, PropertyId, ProtocolVersion};

/// Why a packet cannot be encoded. Nothing has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The buffer is shorter than the packet.
    BufferTooSmall {
        /// The length of the packet in bytes.
        needed: usize,
    },
    /// The packet's remaining length is more than 268,435,455 bytes (section 2.1.4).
    PacketTooLarge {
        /// The remaining length it would have, in bytes.
        remaining_len: usize,
    },
    /// A string or binary field is longer than 65,535 bytes (sections 1.5.4 and 1.5.6).
    FieldTooLong {
        /// The name of the field or property, in snake case.
        field: &'static str,
        /// Its length in bytes.
        len: usize,
    },
    /// A string contains U+0000 `[MQTT-1.5.4-2]`.
    NullInString {
        /// The name of the field or property, in snake case.
        field: &'static str,
    },
    /// The property is not allowed in this packet (section 2.2.2.2).
    PropertyNotAllowed {
        /// Which property.
        property: PropertyId,
        /// Where the property is.
        context: PropertyContext,
    },
    /// The property may appear at most once.
    PropertyRepeated {
        /// Which property.
        property: PropertyId,
    },
    /// A Maximum QoS of 2, which CONNACK expresses by omitting the property.
    MaximumQoSOutOfRange,
    /// Authentication Data without an Authentication Method.
    AuthenticationDataAlone,
    /// AUTH without an Authentication Method, unless it is a success without properties.
    AuthenticationMethodMissing,
    /// AUTH before MQTT 5.0.
    AuthBeforeV5,
    /// A PUBLISH with neither a topic name nor, in MQTT 5.0, a topic alias.
    TopicMissing,
    /// The packet has a field that this version of the protocol cannot express.
    NotInVersion {
        /// The name of the field, in snake case, such as `properties`.
        field: &'static str,
        /// The version.
        version: ProtocolVersion,
    },
    /// A SUBSCRIBE or UNSUBSCRIBE without a topic filter `[MQTT-3.8.3-2]` `[MQTT-3.10.3-2]`.
    NoTopicFilters,
    /// A SUBACK or UNSUBACK without a reason code.
    NoReasonCodes,
    /// No Local on a shared subscription `[MQTT-3.8.3-4]`.
    NoLocalOnShared,
    /// Session Present in a CONNACK that refuses the connection `[MQTT-3.2.2-6]`.
    SessionPresentOnFailure,
    /// A password without a user name before MQTT 5.0.
    PasswordWithoutUserName,
    /// Before MQTT 5.0, a session that is kept but has no client identifier `[MQTT-3.1.3-7]`.
    ClientIdMissing,
}

impl EncodeError {
    /// A stable name for programs and logs.
    pub const fn code(&self) -> &'static str {
        self.words().code
    }

    /// What is wrong and, after a colon, what to do about it.
    pub const fn text(&self) -> &'static str {
        self.words().text
    }

    /// The statement of MQTT 5.0 that is violated; `None` if the standard has no numbered statement.
    pub const fn statement(&self) -> Option<&'static str> {
        self.words().statement
    }

    /// The name of the field or property at fault, in snake case; `None` if it is the whole packet.
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::FieldTooLong { field, .. } | Self::NullInString { field } | Self::NotInVersion { field, .. } => {
                Some(*field)
            }
            Self::PropertyNotAllowed { property, .. } | Self::PropertyRepeated { property } => Some(property.name()),
            Self::MaximumQoSOutOfRange => Some(PropertyId::MaximumQoS.name()),
            Self::AuthenticationDataAlone => Some(PropertyId::AuthenticationData.name()),
            Self::AuthenticationMethodMissing => Some(PropertyId::AuthenticationMethod.name()),
            Self::TopicMissing => Some("topic"),
            Self::NoTopicFilters => Some("topic_filters"),
            Self::NoReasonCodes => Some("reasons"),
            Self::NoLocalOnShared => Some("no_local"),
            Self::SessionPresentOnFailure => Some("session_present"),
            Self::PasswordWithoutUserName => Some("password"),
            Self::ClientIdMissing => Some("client_id"),
            Self::BufferTooSmall { .. } | Self::PacketTooLarge { .. } | Self::AuthBeforeV5 => None,
        }
    }

    const fn words(&self) -> Words {
        match self {
            Self::BufferTooSmall { .. } => BUFFER_TOO_SMALL,
            Self::PacketTooLarge { .. } => DecodeCause::PacketTooLarge.words(),
            Self::FieldTooLong { .. } => FIELD_TOO_LONG,
            Self::NullInString { .. } => DecodeCause::Utf8Null.words(),
            Self::PropertyNotAllowed { .. } => DecodeCause::PropertyNotAllowed.words(),
            Self::PropertyRepeated { .. } => DecodeCause::PropertyRepeated.words(),
            Self::MaximumQoSOutOfRange => DecodeCause::MaximumQoSOutOfRange.words(),
            Self::AuthenticationDataAlone => DecodeCause::AuthenticationDataAlone.words(),
            Self::AuthenticationMethodMissing => DecodeCause::AuthenticationMethodMissing.words(),
            Self::AuthBeforeV5 => DecodeCause::AuthBeforeV5.words(),
            Self::TopicMissing => DecodeCause::TopicMissing.words(),
            Self::NotInVersion { .. } => NOT_IN_VERSION,
            Self::NoTopicFilters => DecodeCause::NoTopicFilters.words(),
            Self::NoReasonCodes => DecodeCause::NoReasonCodes.words(),
            Self::NoLocalOnShared => DecodeCause::NoLocalOnShared.words(),
            Self::SessionPresentOnFailure => DecodeCause::SessionPresentOnFailure.words(),
            Self::PasswordWithoutUserName => DecodeCause::PasswordWithoutUserName.words(),
            Self::ClientIdMissing => CLIENT_ID_MISSING,
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = self.field() {
            write!(f, "{field}: ")?;
        }
        let words = self.words();
        f.write_str(words.text)?;
        match self {
            Self::BufferTooSmall { needed: bytes }
            | Self::PacketTooLarge { remaining_len: bytes }
            | Self::FieldTooLong { len: bytes, .. } => write!(f, " ({bytes} bytes)")?,
            Self::PropertyNotAllowed { context, .. } => write!(f, " ({})", context.name())?,
            Self::NotInVersion { version, .. } => write!(f, " (MQTT {version})")?,
            _ => {}
        }
        words.write_code(f)?;
        words.write_statement(f)
    }
}

impl core::error::Error for EncodeError {}
