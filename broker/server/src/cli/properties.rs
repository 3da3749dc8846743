//! MQTT 5.0 properties from the command line.

use std::num::{NonZeroU16, NonZeroU32};
use std::str::FromStr;

use tautwire_protocol::{
    PayloadFormat, Property, PropertyContext, PropertyId, PropertyType, SubscriptionId, TopicName,
};

use crate::nearest::nearest;

/// The packets that accept properties, by the names that `-D` takes.
pub(super) const PACKETS: &[(&str, PropertyContext)] = &[
    ("connect", PropertyContext::Connect),
    ("will", PropertyContext::Will),
    ("publish", PropertyContext::Publish),
    ("subscribe", PropertyContext::Subscribe),
    ("unsubscribe", PropertyContext::Unsubscribe),
    ("disconnect", PropertyContext::Disconnect),
];

/// Properties for one packet. Their strings live as long as the process, like its arguments.
#[derive(Debug, Clone, Default)]
pub(super) struct PropertyList {
    list: Vec<Property<'static>>,
}

impl PropertyList {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn into_vec(self) -> Vec<Property<'static>> {
        self.list
    }

    /// Adds a property, if the packet allows it and it is not a duplicate.
    pub(super) fn add(&mut self, context: PropertyContext, property: Property<'static>) -> Result<(), String> {
        let id = property.id();
        if !id.is_allowed_in(context) {
            return Err(format!("{} is not a property of {}", cli_name(id), context.name()));
        }
        if !id.is_repeatable_in(context) && self.list.iter().any(|known| known.id() == id) {
            return Err(format!("{} is given twice for {}", cli_name(id), context.name()));
        }
        self.list.push(property);
        Ok(())
    }

    /// Adds a property, replacing one with the same identifier.
    pub(super) fn replace(&mut self, property: Property<'static>) {
        self.list.retain(|known| known.id() != property.id());
        self.list.push(property);
    }

    pub(super) fn contains(&self, id: PropertyId) -> bool {
        self.list.iter().any(|known| known.id() == id)
    }
}

/// The property with a name such as `content-type`.
pub(super) fn id(name: &str) -> Result<PropertyId, String> {
    let known = || PropertyId::ALL.iter().copied();
    if let Some(id) = known().find(|id| cli_name(*id) == name) {
        return Ok(id);
    }
    let names: Vec<String> = known().map(cli_name).collect();
    Err(match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("unknown property {name}; did you mean {near}?"),
        None => format!("unknown property {name}"),
    })
}

/// The number of values after the name.
pub(super) fn value_count(id: PropertyId) -> usize {
    if id.data_type() == PropertyType::Utf8StringPair { 2 } else { 1 }
}

/// Parses a user property from `NAME=VALUE`.
pub(super) fn user_property(text: String) -> Result<Property<'static>, String> {
    match String::leak(text).split_once('=') {
        Some((name, value)) => Ok(Property::UserProperty(name, value)),
        None => Err("expected NAME=VALUE".into()),
    }
}

/// Parses a property from its values, of which there are [`value_count`].
pub(super) fn parse(id: PropertyId, values: Vec<String>) -> Result<Property<'static>, String> {
    let mut values = values.into_iter().map(String::leak).map(|text| &*text);
    let text = values.next().unwrap_or_default();
    let second = values.next().unwrap_or_default();
    let property = match id {
        PropertyId::PayloadFormatIndicator => Property::PayloadFormatIndicator(payload_format(text)?),
        PropertyId::MessageExpiryInterval => Property::MessageExpiryInterval(number(text)?),
        PropertyId::ContentType => Property::ContentType(text),
        PropertyId::ResponseTopic => Property::ResponseTopic(TopicName::new(text).map_err(|error| error.to_string())?),
        PropertyId::CorrelationData => Property::CorrelationData(text.as_bytes()),
        PropertyId::SubscriptionIdentifier => Property::SubscriptionIdentifier(subscription_identifier(text)?),
        PropertyId::SessionExpiryInterval => Property::SessionExpiryInterval(session_expiry(text)?),
        PropertyId::AuthenticationMethod => Property::AuthenticationMethod(text),
        PropertyId::AuthenticationData => Property::AuthenticationData(text.as_bytes()),
        PropertyId::RequestProblemInformation => Property::RequestProblemInformation(boolean(text)?),
        PropertyId::WillDelayInterval => Property::WillDelayInterval(number(text)?),
        PropertyId::RequestResponseInformation => Property::RequestResponseInformation(boolean(text)?),
        PropertyId::ReasonString => Property::ReasonString(text),
        PropertyId::ReceiveMaximum => Property::ReceiveMaximum(non_zero_u16(text)?),
        PropertyId::TopicAliasMaximum => Property::TopicAliasMaximum(number(text)?),
        PropertyId::TopicAlias => Property::TopicAlias(non_zero_u16(text)?),
        PropertyId::UserProperty => Property::UserProperty(text, second),
        PropertyId::MaximumPacketSize => {
            let size = NonZeroU32::new(number(text)?);
            Property::MaximumPacketSize(size.ok_or_else(|| "expected a number of bytes from 1".to_owned())?)
        }
        PropertyId::AssignedClientIdentifier
        | PropertyId::ServerKeepAlive
        | PropertyId::ResponseInformation
        | PropertyId::ServerReference
        | PropertyId::MaximumQoS
        | PropertyId::RetainAvailable
        | PropertyId::WildcardSubscriptionAvailable
        | PropertyId::SubscriptionIdentifierAvailable
        | PropertyId::SharedSubscriptionAvailable => {
            return Err(format!("only a broker sends the property {}", cli_name(id)));
        }
    };
    Ok(property)
}

/// The name in the form of the command line: `content-type`.
fn cli_name(id: PropertyId) -> String {
    id.name().replace('_', "-")
}

pub(super) fn payload_format(text: &str) -> Result<PayloadFormat, String> {
    match text {
        "0" | "bytes" => Ok(PayloadFormat::Unspecified),
        "1" | "utf8" | "utf-8" => Ok(PayloadFormat::Utf8),
        _ => Err(format!("expected utf8 or bytes, found \"{text}\"")),
    }
}

pub(super) fn subscription_identifier(text: &str) -> Result<SubscriptionId, String> {
    let id = u32::from_str(text).ok().and_then(SubscriptionId::new);
    id.ok_or_else(|| format!("expected a whole number from 1 to {}, found \"{text}\"", SubscriptionId::MAX))
}

/// Parses seconds, or `never`, which can also be written as `-1`.
pub(super) fn session_expiry(text: &str) -> Result<u32, String> {
    match text {
        "never" | "-1" | "∞" => Ok(u32::MAX),
        _ => number(text).map_err(|_| format!("expected seconds from 0 to {}, or never, found \"{text}\"", u32::MAX)),
    }
}

pub(super) fn non_zero_u16(text: &str) -> Result<NonZeroU16, String> {
    NonZeroU16::from_str(text).map_err(|_| format!("expected a whole number from 1 to 65535, found \"{text}\""))
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "0" | "false" => Ok(false),
        "1" | "true" => Ok(true),
        _ => Err(format!("expected 0 or 1, found \"{text}\"")),
    }
}

fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = u64::from_str(text).ok().and_then(|number| T::try_from(number).ok());
    let bits = 8 * size_of::<T>();
    number.ok_or_else(|| format!("expected a whole number of at most {bits} bits, found \"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, values: &[&str]) -> Result<Property<'static>, String> {
        parse(id(name)?, values.iter().map(|value| (*value).to_owned()).collect())
    }

    #[test]
    fn properties_are_parsed_by_name() {
        assert_eq!(parsed("content-type", &["text/plain"]), Ok(Property::ContentType("text/plain")));
        assert_eq!(parsed("user-property", &["a", "b=c"]), Ok(Property::UserProperty("a", "b=c")));
        assert_eq!(parsed("message-expiry-interval", &["60"]), Ok(Property::MessageExpiryInterval(60)));
        assert_eq!(parsed("session-expiry-interval", &["never"]), Ok(Property::SessionExpiryInterval(u32::MAX)));
        assert_eq!(
            parsed("payload-format-indicator", &["utf8"]),
            Ok(Property::PayloadFormatIndicator(PayloadFormat::Utf8))
        );
        assert_eq!(user_property("a=b=c".into()), Ok(Property::UserProperty("a", "b=c")));
        assert_eq!(value_count(PropertyId::UserProperty), 2);
        assert_eq!(value_count(PropertyId::ContentType), 1);
    }

    #[test]
    fn invalid_properties_are_reported() {
        assert_eq!(
            parsed("contnet-type", &[""]),
            Err("unknown property contnet-type; did you mean content-type?".into())
        );
        assert!(parsed("topic-alias", &["0"]).is_err());
        assert!(parsed("receive-maximum", &["65536"]).is_err());
        assert!(parsed("message-expiry-interval", &["4294967296"]).is_err());
        assert!(parsed("response-topic", &["a/#"]).is_err());
        assert!(parsed("server-keep-alive", &["1"]).is_err_and(|text| text.contains("only a broker")));
        assert!(user_property("a".into()).is_err());
    }

    #[test]
    fn a_property_is_accepted_where_it_is_allowed() {
        let mut list = PropertyList::default();
        let context = PropertyContext::Publish;
        assert_eq!(list.add(context, Property::ContentType("a")), Ok(()));
        assert!(list.add(context, Property::ContentType("b")).is_err_and(|text| text.contains("twice")));
        assert!(
            list.add(context, Property::WillDelayInterval(1)).is_err_and(|text| text.contains("not a property of"))
        );
        assert_eq!(list.add(context, Property::UserProperty("a", "b")), Ok(()));
        assert_eq!(list.add(context, Property::UserProperty("a", "b")), Ok(()));
        assert_eq!(list.into_vec().len(), 3);
    }
}
