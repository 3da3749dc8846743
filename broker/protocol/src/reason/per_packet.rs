use super::ReasonCode;
use crate::QoS;

macro_rules! packet_reasons {
    ($(#[$doc:meta])* $name:ident { $($variant:ident => $code:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = concat!("See [`ReasonCode::", stringify!($code), "`].")] $variant = ReasonCode::$code as u8,)*
        }

        impl $name {
            /// Every code that this packet may carry, in the order of the numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The code of the number; `None` if this packet may not carry it.
            #[inline]
            pub const fn from_u8(value: u8) -> Option<Self> {
                match ReasonCode::from_u8(value) {
                    $(Some(ReasonCode::$code) => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The number on the wire of MQTT 5.0.
            #[inline]
            pub const fn as_u8(self) -> u8 {
                self as u8
            }

            /// Whether the code reports a failure: 0x80 and above.
            #[inline]
            pub const fn is_error(self) -> bool {
                self as u8 >= 0x80
            }
        }

        impl From<$name> for ReasonCode {
            #[inline]
            fn from(reason: $name) -> Self {
                match reason {
                    $($name::$variant => Self::$code,)*
                }
            }
        }

        impl TryFrom<ReasonCode> for $name {
            /// The code that this packet may not carry.
            type Error = ReasonCode;

            #[inline]
            fn try_from(code: ReasonCode) -> Result<Self, ReasonCode> {
                match code {
                    $(ReasonCode::$code => Ok(Self::$variant),)*
                    other => Err(other),
                }
            }
        }
    };
}

packet_reasons! {
    /// Reason codes of CONNACK (section 3.2.2.2, `[MQTT-3.2.2-8]`).
    ConnectReason {
        Success => Success,
        UnspecifiedError => UnspecifiedError,
        MalformedPacket => MalformedPacket,
        ProtocolError => ProtocolError,
        ImplementationSpecificError => ImplementationSpecificError,
        UnsupportedProtocolVersion => UnsupportedProtocolVersion,
        ClientIdentifierNotValid => ClientIdentifierNotValid,
        BadUserNameOrPassword => BadUserNameOrPassword,
        NotAuthorized => NotAuthorized,
        ServerUnavailable => ServerUnavailable,
        ServerBusy => ServerBusy,
        Banned => Banned,
        BadAuthenticationMethod => BadAuthenticationMethod,
        TopicNameInvalid => TopicNameInvalid,
        PacketTooLarge => PacketTooLarge,
        QuotaExceeded => QuotaExceeded,
        PayloadFormatInvalid => PayloadFormatInvalid,
        RetainNotSupported => RetainNotSupported,
        QoSNotSupported => QoSNotSupported,
        UseAnotherServer => UseAnotherServer,
        ServerMoved => ServerMoved,
        ConnectionRateExceeded => ConnectionRateExceeded,
    }
}

packet_reasons! {
    /// Reason codes of PUBACK (section 3.4.2.1, `[MQTT-3.4.2-1]`).
    PubAckReason {
        Success => Success,
        NoMatchingSubscribers => NoMatchingSubscribers,
        UnspecifiedError => UnspecifiedError,
        ImplementationSpecificError => ImplementationSpecificError,
        NotAuthorized => NotAuthorized,
        TopicNameInvalid => TopicNameInvalid,
        PacketIdentifierInUse => PacketIdentifierInUse,
        QuotaExceeded => QuotaExceeded,
        PayloadFormatInvalid => PayloadFormatInvalid,
    }
}

packet_reasons! {
    /// Reason codes of PUBREC (section 3.5.2.1, `[MQTT-3.5.2-1]`).
    PubRecReason {
        Success => Success,
        NoMatchingSubscribers => NoMatchingSubscribers,
        UnspecifiedError => UnspecifiedError,
        ImplementationSpecificError => ImplementationSpecificError,
        NotAuthorized => NotAuthorized,
        TopicNameInvalid => TopicNameInvalid,
        PacketIdentifierInUse => PacketIdentifierInUse,
        QuotaExceeded => QuotaExceeded,
        PayloadFormatInvalid => PayloadFormatInvalid,
    }
}

packet_reasons! {
    /// Reason codes of PUBREL (section 3.6.2.1, `[MQTT-3.6.2-1]`).
    PubRelReason {
        Success => Success,
        PacketIdentifierNotFound => PacketIdentifierNotFound,
    }
}

packet_reasons! {
    /// Reason codes of PUBCOMP (section 3.7.2.1, `[MQTT-3.7.2-1]`).
    PubCompReason {
        Success => Success,
        PacketIdentifierNotFound => PacketIdentifierNotFound,
    }
}

packet_reasons! {
    /// Reason codes of SUBACK, one for each filter (section 3.9.3, `[MQTT-3.9.3-2]`).
    SubscribeReason {
        GrantedQoS0 => Success,
        GrantedQoS1 => GrantedQoS1,
        GrantedQoS2 => GrantedQoS2,
        UnspecifiedError => UnspecifiedError,
        ImplementationSpecificError => ImplementationSpecificError,
        NotAuthorized => NotAuthorized,
        TopicFilterInvalid => TopicFilterInvalid,
        PacketIdentifierInUse => PacketIdentifierInUse,
        QuotaExceeded => QuotaExceeded,
        SharedSubscriptionsNotSupported => SharedSubscriptionsNotSupported,
        SubscriptionIdentifiersNotSupported => SubscriptionIdentifiersNotSupported,
        WildcardSubscriptionsNotSupported => WildcardSubscriptionsNotSupported,
    }
}

packet_reasons! {
    /// Reason codes of UNSUBACK, one for each filter (section 3.11.3, `[MQTT-3.11.3-2]`).
    UnsubscribeReason {
        Success => Success,
        NoSubscriptionExisted => NoSubscriptionExisted,
        UnspecifiedError => UnspecifiedError,
        ImplementationSpecificError => ImplementationSpecificError,
        NotAuthorized => NotAuthorized,
        TopicFilterInvalid => TopicFilterInvalid,
        PacketIdentifierInUse => PacketIdentifierInUse,
    }
}

packet_reasons! {
    /// Reason codes of DISCONNECT (section 3.14.2.1, `[MQTT-3.14.2-1]`).
    DisconnectReason {
        NormalDisconnection => Success,
        DisconnectWithWillMessage => DisconnectWithWillMessage,
        UnspecifiedError => UnspecifiedError,
        MalformedPacket => MalformedPacket,
        ProtocolError => ProtocolError,
        ImplementationSpecificError => ImplementationSpecificError,
        NotAuthorized => NotAuthorized,
        ServerBusy => ServerBusy,
        ServerShuttingDown => ServerShuttingDown,
        KeepAliveTimeout => KeepAliveTimeout,
        SessionTakenOver => SessionTakenOver,
        TopicFilterInvalid => TopicFilterInvalid,
        TopicNameInvalid => TopicNameInvalid,
        ReceiveMaximumExceeded => ReceiveMaximumExceeded,
        TopicAliasInvalid => TopicAliasInvalid,
        PacketTooLarge => PacketTooLarge,
        MessageRateTooHigh => MessageRateTooHigh,
        QuotaExceeded => QuotaExceeded,
        AdministrativeAction => AdministrativeAction,
        PayloadFormatInvalid => PayloadFormatInvalid,
        RetainNotSupported => RetainNotSupported,
        QoSNotSupported => QoSNotSupported,
        UseAnotherServer => UseAnotherServer,
        ServerMoved => ServerMoved,
        SharedSubscriptionsNotSupported => SharedSubscriptionsNotSupported,
        ConnectionRateExceeded => ConnectionRateExceeded,
        MaximumConnectTime => MaximumConnectTime,
        SubscriptionIdentifiersNotSupported => SubscriptionIdentifiersNotSupported,
        WildcardSubscriptionsNotSupported => WildcardSubscriptionsNotSupported,
    }
}

packet_reasons! {
    /// Reason codes of AUTH (section 3.15.2.1, `[MQTT-3.15.2-1]`).
    AuthReason {
        Success => Success,
        ContinueAuthentication => ContinueAuthentication,
        ReAuthenticate => ReAuthenticate,
    }
}

impl ConnectReason {
    /// The CONNACK return code of MQTT 3.1.1 (0 to 5) with the same meaning; `None` if 3.1.1 has none.
    #[inline]
    pub const fn v3_return_code(self) -> Option<u8> {
        match self {
            Self::Success => Some(0),
            Self::UnsupportedProtocolVersion => Some(1),
            Self::ClientIdentifierNotValid => Some(2),
            Self::ServerUnavailable => Some(3),
            Self::BadUserNameOrPassword => Some(4),
            Self::NotAuthorized => Some(5),
            _ => None,
        }
    }

    /// The reason of a CONNACK return code of MQTT 3.1.1; `None` above 5.
    #[inline]
    pub const fn from_v3_return_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Success),
            1 => Some(Self::UnsupportedProtocolVersion),
            2 => Some(Self::ClientIdentifierNotValid),
            3 => Some(Self::ServerUnavailable),
            4 => Some(Self::BadUserNameOrPassword),
            5 => Some(Self::NotAuthorized),
            _ => None,
        }
    }
}

impl SubscribeReason {
    /// The code that grants this QoS.
    #[inline]
    pub const fn granted(qos: QoS) -> Self {
        match qos {
            QoS::AtMostOnce => Self::GrantedQoS0,
            QoS::AtLeastOnce => Self::GrantedQoS1,
            QoS::ExactlyOnce => Self::GrantedQoS2,
        }
    }

    /// The QoS that this code grants; `None` for a failure.
    #[inline]
    pub const fn granted_qos(self) -> Option<QoS> {
        QoS::from_u8(self as u8)
    }

    /// Whether a SUBACK of MQTT 3.1.1 may carry this code: a granted QoS or 0x80.
    #[inline]
    pub const fn is_v3(self) -> bool {
        self as u8 <= ReasonCode::UnspecifiedError as u8
    }
}
