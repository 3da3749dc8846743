use core::fmt;

use crate::{PropertyContext, PropertyId, ProtocolVersion};

/// Why a packet cannot be written. Nothing has been written then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The buffer is shorter than the packet.
    BufferTooSmall {
        /// Bytes that the packet takes.
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
    /// The property may not stand in this packet (section 2.2.2.2).
    PropertyNotAllowed {
        /// Which property.
        property: PropertyId,
        /// Where it stands.
        context: PropertyContext,
    },
    /// The property may stand once alone.
    PropertyRepeated {
        /// Which property.
        property: PropertyId,
    },
    /// The value of the property is not one that the standard allows.
    PropertyOutOfRange {
        /// Which property.
        property: PropertyId,
    },
    /// Authentication Data needs an Authentication Method, and so does AUTH unless it is a bare success.
    AuthenticationMethodMissing,
    /// A PUBLISH with neither a topic name nor, in MQTT 5.0, a topic alias.
    TopicMissing,
    /// The packet says what this version of the protocol cannot.
    NotInVersion {
        /// What cannot be said, such as `properties`.
        what: &'static str,
        /// The version.
        version: ProtocolVersion,
    },
    /// A SUBSCRIBE or UNSUBSCRIBE without a topic filter `[MQTT-3.8.3-2]` `[MQTT-3.10.3-2]`.
    NoTopicFilters,
    /// A SUBACK or UNSUBACK without a reason code.
    NoReasonCodes,
    /// No Local on a shared subscription `[MQTT-3.8.3-4]`.
    NoLocalOnShared,
    /// Session Present in a CONNACK that refuses `[MQTT-3.2.2-6]`.
    SessionPresentOnFailure,
    /// A password without a user name before MQTT 5.0.
    PasswordWithoutUserName,
    /// Before MQTT 5.0, a session that is kept without a client identifier to find it by `[MQTT-3.1.3-7]`.
    ClientIdMissing,
}

impl EncodeError {
    /// A stable name for programs and logs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BufferTooSmall { .. } => "buffer_too_small",
            Self::PacketTooLarge { .. } => "packet_too_large",
            Self::FieldTooLong { .. } => "field_too_long",
            Self::NullInString { .. } => "utf8_null",
            Self::PropertyNotAllowed { .. } => "property_not_allowed",
            Self::PropertyRepeated { .. } => "property_repeated",
            Self::PropertyOutOfRange { .. } => "property_out_of_range",
            Self::AuthenticationMethodMissing => "authentication_method_missing",
            Self::TopicMissing => "topic_missing",
            Self::NotInVersion { .. } => "not_in_version",
            Self::NoTopicFilters => "no_topic_filters",
            Self::NoReasonCodes => "no_reason_codes",
            Self::NoLocalOnShared => "no_local_on_shared",
            Self::SessionPresentOnFailure => "session_present_on_failure",
            Self::PasswordWithoutUserName => "password_without_user_name",
            Self::ClientIdMissing => "client_id_missing",
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooSmall { needed } => write!(f, "the buffer is too small: give {needed} bytes"),
            Self::PacketTooLarge { remaining_len } => {
                write!(f, "the packet's remaining length would be {remaining_len} bytes: at most 268435455 fit")
            }
            Self::FieldTooLong { field, len } => write!(f, "{field} has {len} bytes: at most 65535 fit"),
            Self::NullInString { field } => write!(f, "{field} contains U+0000: remove it"),
            Self::PropertyNotAllowed { property, context } => {
                write!(f, "{} may not stand in {}: remove it", property.name(), context.name())
            }
            Self::PropertyRepeated { property } => {
                write!(f, "{} may stand once alone: give it once", property.name())
            }
            Self::PropertyOutOfRange { property } => {
                write!(f, "the value of {} is not allowed: see its range", property.name())
            }
            Self::AuthenticationMethodMissing => f.write_str("authentication_method is missing: add it"),
            Self::TopicMissing => f.write_str("the message has neither a topic nor a topic alias: give one of them"),
            Self::NotInVersion { what, version } => {
                write!(f, "MQTT {version} cannot express {what}: leave it out or speak MQTT 5.0")
            }
            Self::NoTopicFilters => f.write_str("the packet holds no topic filter: give at least one"),
            Self::NoReasonCodes => f.write_str("the packet holds no reason code: give one for each topic filter"),
            Self::NoLocalOnShared => f.write_str("no_local is set on a shared subscription: clear it"),
            Self::SessionPresentOnFailure => {
                f.write_str("session_present is set although the connection is refused: clear it")
            }
            Self::PasswordWithoutUserName => f.write_str("before MQTT 5.0 a password needs a user name: give both"),
            Self::ClientIdMissing => f.write_str(
                "before MQTT 5.0 a session is kept only for a client identifier: give one, or set clean_start",
            ),
        }
    }
}

impl core::error::Error for EncodeError {}
