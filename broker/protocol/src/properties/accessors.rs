use core::num::{NonZeroU16, NonZeroU32};

use super::{PayloadFormat, Properties, PropertiesIter, Property, PropertyId};
use crate::{QoS, SubscriptionId, TopicName};

macro_rules! accessors {
    ($($name:ident -> $variant:ident($value:ty);)*) => {
        impl<'a> Properties<'a> {
            $(
                #[doc = concat!("The value of [`Property::", stringify!($variant), "`], if present.")]
                #[inline]
                pub fn $name(&self) -> Option<$value> {
                    match self.get(PropertyId::$variant) {
                        Some(Property::$variant(value)) => Some(value),
                        _ => None,
                    }
                }
            )*
        }
    };
}

accessors! {
    payload_format_indicator -> PayloadFormatIndicator(PayloadFormat);
    message_expiry_interval -> MessageExpiryInterval(u32);
    content_type -> ContentType(&'a str);
    response_topic -> ResponseTopic(TopicName<'a>);
    correlation_data -> CorrelationData(&'a [u8]);
    session_expiry_interval -> SessionExpiryInterval(u32);
    assigned_client_identifier -> AssignedClientIdentifier(&'a str);
    server_keep_alive -> ServerKeepAlive(u16);
    authentication_method -> AuthenticationMethod(&'a str);
    authentication_data -> AuthenticationData(&'a [u8]);
    request_problem_information -> RequestProblemInformation(bool);
    will_delay_interval -> WillDelayInterval(u32);
    request_response_information -> RequestResponseInformation(bool);
    response_information -> ResponseInformation(&'a str);
    server_reference -> ServerReference(&'a str);
    reason_string -> ReasonString(&'a str);
    receive_maximum -> ReceiveMaximum(NonZeroU16);
    topic_alias_maximum -> TopicAliasMaximum(u16);
    topic_alias -> TopicAlias(NonZeroU16);
    maximum_qos -> MaximumQoS(QoS);
    retain_available -> RetainAvailable(bool);
    maximum_packet_size -> MaximumPacketSize(NonZeroU32);
    wildcard_subscription_available -> WildcardSubscriptionAvailable(bool);
    subscription_identifier_available -> SubscriptionIdentifierAvailable(bool);
    shared_subscription_available -> SharedSubscriptionAvailable(bool);
}

impl<'a> Properties<'a> {
    /// The subscription identifier of a SUBSCRIBE; the first one of a PUBLISH.
    #[inline]
    pub fn subscription_identifier(&self) -> Option<SubscriptionId> {
        match self.get(PropertyId::SubscriptionIdentifier) {
            Some(Property::SubscriptionIdentifier(id)) => Some(id),
            _ => None,
        }
    }

    /// All subscription identifiers of a PUBLISH, in order.
    pub fn subscription_identifiers(&self) -> impl Iterator<Item = SubscriptionId> + use<'a> {
        self.iter().filter_map(|property| match property {
            Property::SubscriptionIdentifier(id) => Some(id),
            _ => None,
        })
    }

    /// Names and values of the user properties, in order `[MQTT-3.3.2-18]`.
    #[inline]
    pub fn user_properties(&self) -> UserProperties<'a> {
        UserProperties { properties: self.iter() }
    }
}

/// Names and values of user properties, in order.
#[derive(Clone, Debug)]
pub struct UserProperties<'a> {
    properties: PropertiesIter<'a>,
}

impl<'a> Iterator for UserProperties<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        self.properties.find_map(|property| match property {
            Property::UserProperty(name, value) => Some((name, value)),
            _ => None,
        })
    }
}
