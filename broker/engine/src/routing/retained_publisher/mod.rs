//! The publisher of a retained message, stored with the message if `acl.check_retained_publisher` is set.
//!
//! It is the first user property of the message, so it is stored and replicated with the message: on disk, on other nodes, in backups.
//! Clients cannot set it and never receive it.

mod steps;

use std::fmt::Write as _;
use std::sync::Arc;

use tautwire_access::{Permissions, Policy, Subject};
use tautwire_message::MessageRef;
use tautwire_protocol::{Properties, PropertyId, RawProperty};

/// The name of the user property.
const NAME: &str = "tautwire-publisher";

/// The encoded property up to its value: the identifier, and the length-prefixed name.
const BEGINNING: &[u8] = b"\x26\x00\x12tautwire-publisher";

/// The properties of a message that a client may see.
#[inline]
pub(crate) fn without_publisher<'m>(message: &MessageRef<'m>) -> &'m [u8] {
    if message.retain { split(message.properties).1 } else { message.properties }
}

/// Whether a client has sent the reserved property.
pub(crate) fn is_forged(properties: &Properties<'_>) -> bool {
    properties.user_properties().any(|(name, _)| name == NAME)
}

/// Whether `property` is the publisher property.
pub(crate) fn is_publisher(property: &RawProperty<'_>) -> bool {
    property.id == PropertyId::UserProperty && property.bytes.starts_with(BEGINNING)
}

/// Splits properties into the publisher and the others.
fn split(properties: &[u8]) -> (Option<&str>, &[u8]) {
    let found = properties.strip_prefix(BEGINNING).and_then(|rest| {
        let (length, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        Some((str::from_utf8(value).ok()?, rest))
    });
    found.map_or((None, properties), |(publisher, rest)| (Some(publisher), rest))
}

/// The stored data about a publisher. As text, each part has its length in front.
#[derive(Debug, PartialEq, Eq)]
struct PublisherRecord<'a> {
    listener: &'a str,
    client_id: &'a str,
    user: Option<&'a str>,
    roles: Vec<&'a str>,
}

impl<'a> PublisherRecord<'a> {
    fn to_text(&self) -> String {
        let mut text = String::new();
        let parts = [Some(self.listener), Some(self.client_id), self.user];
        for part in parts.into_iter().chain(self.roles.iter().map(|role| Some(*role))) {
            let _ = match part {
                Some(part) => write!(text, "{}:{part}", part.len()),
                None => write!(text, "-:"),
            };
        }
        text
    }

    fn read(mut text: &'a str) -> Option<PublisherRecord<'a>> {
        let mut next = || {
            let (length, rest) = text.split_once(':')?;
            let part = if length == "-" { None } else { Some(rest.get(..length.parse().ok()?)?) };
            text = rest.get(part.map_or(0, str::len)..)?;
            Some(part)
        };
        let (listener, client_id, user) = (next()??, next()??, next()?);
        let roles = std::iter::from_fn(|| next().flatten()).collect();
        Some(PublisherRecord { listener, client_id, user, roles })
    }

    /// The publisher's permissions under the current rules. Its claims are not stored.
    fn permissions(&self, policy: &Arc<Policy>) -> Permissions {
        let PublisherRecord { listener, client_id, user, roles } = self;
        policy.resolve(&Subject { client_id, user: *user, listener, claims: &[], roles })
    }
}

/// The permissions of the last publisher looked up. Retained messages of one publisher often follow each other.
#[derive(Debug, Default)]
pub(crate) struct LastPublisher(Option<(Box<str>, Permissions)>);

impl LastPublisher {
    /// The permissions of `publisher` under `policy`; `None` if `publisher` is not a valid record.
    pub(crate) fn permissions(&mut self, policy: &Arc<Policy>, publisher: &str) -> Option<&Permissions> {
        let is_known = |(known, permissions): &(Box<str>, Permissions)| {
            **known == *publisher && Arc::ptr_eq(permissions.policy(), policy)
        };
        if !self.0.as_ref().is_some_and(is_known) {
            self.0 = Some((publisher.into(), PublisherRecord::read(publisher)?.permissions(policy)));
        }
        self.0.as_ref().map(|(_, permissions)| permissions)
    }
}

#[cfg(test)]
mod tests {
    use tautwire_message::MessageId;
    use tautwire_protocol::QoS;

    use crate::routing::contracts::append_user_property;

    use super::*;

    fn message(properties: &[u8], retain: bool) -> MessageRef<'_> {
        let (id, qos) = (MessageId::NONE, QoS::AtMostOnce);
        MessageRef { id, topic: "t", properties, payload: b"x", qos, retain, expires_at_ms: None }
    }

    #[test]
    fn a_publisher_round_trips() {
        for (user, roles) in [(None, vec![]), (Some(""), vec!["a"]), (Some("an:n"), vec!["1:x", "é", ""])] {
            let publisher = PublisherRecord { listener: "mqtt://[::]:1883", client_id: "-:3:é", user, roles };
            assert_eq!(PublisherRecord::read(&publisher.to_text()), Some(publisher));
        }
        for wrong in ["", "1:a", "1:a1:b", "x:a1:b-:", "9:a1:b-:", "-:1:b-:", "2:é", "1:é1:b-:"] {
            assert_eq!(PublisherRecord::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_the_first_property_of_a_retained_message_is_the_publisher() {
        let (mut own, mut whole) = (Vec::new(), Vec::new());
        append_user_property(&mut own, "a", "b");
        append_user_property(&mut whole, NAME, "1:l1:c-:");
        whole.extend_from_slice(&own);
        assert_eq!(split(&whole), (Some("1:l1:c-:"), &own[..]));
        assert_eq!(without_publisher(&message(&whole, true)), own);
        assert_eq!(without_publisher(&message(&whole, false)), whole, "none is kept with such a message");
        assert_eq!(split(&own), (None, &own[..]));
        for cut in 0..whole.len() - own.len() {
            assert_eq!(split(&whole[..cut]), (None, &whole[..cut]));
        }
    }
}
