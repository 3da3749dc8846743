//! Mount points: a topic prefix for all clients of a listener, hidden from them.
//!
//! Topics and filters get the prefix when a packet arrives, and lose it when one is written to the client. Everything in between, and
//! everything stored, uses full topics.

use std::borrow::Cow;
use std::sync::Arc;

use tautwire_message::MessageRef;
use tautwire_protocol::{Properties, Property, PropertyContext, PropertyId, ReasonCode, SubscribeReason, TopicName};

/// The longest topic [MQTT-4.7.3-3].
const TOPIC_MAX_BYTES: usize = 65_535;

/// A topic prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPoint(Arc<str>);

impl MountPoint {
    /// The longest mount point.
    pub const MAX_BYTES: usize = 256;

    /// Returns `None` if `prefix` is not a mount point: it must end with `/`, must not begin with `$` or have wildcards, and has at most
    /// [`MountPoint::MAX_BYTES`].
    pub fn new(prefix: &str) -> Option<MountPoint> {
        let is_valid = TopicName::new(prefix).is_ok()
            && prefix.ends_with('/')
            && !prefix.starts_with('$')
            && prefix.len() <= MountPoint::MAX_BYTES;
        is_valid.then(|| MountPoint(prefix.into()))
    }

    /// The prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The full topic of a client's topic.
    ///
    /// # Errors
    /// The topic begins with `$`: no topic under a mount point does, as wildcards do not match such topics [MQTT-4.7.2-1]. Or the full
    /// topic would be too long.
    pub(crate) fn topic(&self, topic: &str) -> Result<String, ReasonCode> {
        if topic.starts_with('$') {
            return Err(ReasonCode::NotAuthorized);
        }
        self.prepend(topic).ok_or(ReasonCode::TopicNameInvalid)
    }

    fn prepend(&self, topic: &str) -> Option<String> {
        let full = format!("{}{topic}", self.0);
        (full.len() <= TOPIC_MAX_BYTES).then_some(full)
    }

    /// The full filter of a client's filter without `$share/NAME/` and `$as/FORMAT/`.
    ///
    /// # Errors
    /// The filter is empty, or begins with `$`.
    pub(crate) fn filter(&self, filter: &str) -> Result<String, SubscribeReason> {
        match filter {
            "" => Err(SubscribeReason::TopicFilterInvalid),
            filter if filter.starts_with('$') => Err(SubscribeReason::NotAuthorized),
            filter => Ok(format!("{}{filter}", self.0)),
        }
    }

    /// The client's name of a full topic; `None` if the topic is outside the mount point. A filter may match such a topic: `#` becomes one
    /// that also matches the level above.
    pub(crate) fn rest<'t>(&self, topic: &'t str) -> Option<&'t str> {
        topic.strip_prefix(&*self.0).filter(|rest| !rest.is_empty() && !rest.starts_with('$'))
    }

    /// The properties of a client's message with the full Response Topic.
    ///
    /// # Errors
    /// The full topic would be too long.
    pub(crate) fn properties(&self, properties: &Properties<'_>) -> Result<Option<Vec<u8>>, ReasonCode> {
        let Some(topic) = properties.response_topic() else { return Ok(None) };
        let full = self.prepend(topic.as_str()).ok_or(ReasonCode::TopicNameInvalid)?;
        Ok(Some(with_response_topic(properties, TopicName::new(&full).ok())))
    }

    /// The properties of a message for a client. A Response Topic outside the mount point is omitted: the client could not publish there.
    fn client_properties<'p>(&self, wire: &'p [u8]) -> Cow<'p, [u8]> {
        let Ok(properties) = Properties::from_wire(wire, PropertyContext::Publish) else { return Cow::Borrowed(&[]) };
        match properties.response_topic() {
            None => Cow::Borrowed(wire),
            Some(topic) => {
                let rest = self.rest(topic.as_str()).and_then(|rest| TopicName::new(rest).ok());
                Cow::Owned(with_response_topic(&properties, rest))
            }
        }
    }

    /// A message as the client sees it; `None` if its topic is outside the mount point.
    pub(crate) fn view<'m>(&self, message: &MessageRef<'m>) -> Option<View<'m>> {
        let topic = self.rest(message.topic)?;
        Some(View { topic, properties: self.client_properties(message.properties) })
    }
}

/// The topic and properties of a message as seen behind a mount point.
#[derive(Debug)]
pub(crate) struct View<'m> {
    topic: &'m str,
    properties: Cow<'m, [u8]>,
}

impl View<'_> {
    pub(crate) fn message<'v>(&'v self, full: &MessageRef<'v>) -> MessageRef<'v> {
        MessageRef { topic: self.topic, properties: &self.properties, ..*full }
    }
}

fn with_response_topic(properties: &Properties<'_>, topic: Option<TopicName<'_>>) -> Vec<u8> {
    let mut wire = Vec::new();
    for property in properties.raw().into_iter().flatten() {
        if property.id != PropertyId::ResponseTopic {
            wire.extend_from_slice(property.bytes);
        }
    }
    if let Some(topic) = topic {
        // A valid topic name can always be encoded.
        let _ = Property::ResponseTopic(topic).append_to(&mut wire);
    }
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount() -> MountPoint {
        MountPoint::new("factory-1/").expect("a mount point")
    }

    #[test]
    fn a_mount_point_is_whole_levels_that_wildcards_match() {
        let long = format!("{}/", "a".repeat(MountPoint::MAX_BYTES));
        for wrong in ["", "a", "/a", "$a/", "$SYS/", "+/", "a/#/", "a\0/", &long] {
            assert_eq!(MountPoint::new(wrong), None, "{wrong:?}");
        }
        for right in ["a/", "a/b/", "/", "é/", &long[1..]] {
            assert_eq!(MountPoint::new(right).as_ref().map(MountPoint::as_str), Some(right));
        }
    }

    #[test]
    fn topics_get_the_prefix_and_topics_of_the_broker_do_not() {
        let topic = |topic: &str| mount().topic(topic);
        assert_eq!(topic("a/b"), Ok("factory-1/a/b".to_owned()));
        assert_eq!(topic("/"), Ok("factory-1//".to_owned()));
        for reserved in ["$SYS/broker/uptime", "$quarantine/a", "$share/g/a", "$as/json/a", "$anything", "$"] {
            assert_eq!(topic(reserved), Err(ReasonCode::NotAuthorized), "{reserved}");
        }
        let longest = "x".repeat(TOPIC_MAX_BYTES - "factory-1/".len());
        assert_eq!(topic(&longest).map(|full| full.len()), Ok(TOPIC_MAX_BYTES));
        assert_eq!(topic(&format!("{longest}x")), Err(ReasonCode::TopicNameInvalid));
    }

    #[test]
    fn a_topic_outside_of_the_mount_point_is_not_disclosed() {
        assert_eq!(mount().rest("factory-1/a"), Some("a"));
        assert_eq!(mount().rest("factory-1//"), Some("/"));
        for outside in ["factory-1", "factory-1/", "factory-1/$SYS/a", "factory-10/a", "a", "$SYS/a", ""] {
            assert_eq!(mount().rest(outside), None, "{outside}");
        }
    }

    #[test]
    fn a_response_topic_is_kept_if_the_client_can_publish_there() {
        let properties =
            [Property::CorrelationData(b"1"), Property::ResponseTopic(TopicName::new("re/ply").expect("a name"))];
        let mut wire = Vec::new();
        for property in &properties {
            property.append_to(&mut wire).expect("it can be written");
        }
        let own = Properties::from_wire(&wire, PropertyContext::Publish).expect("they are valid");
        let full = mount().properties(&own).expect("it is short").expect("it is there");
        let decoded = Properties::from_wire(&full, PropertyContext::Publish).expect("they are valid");
        assert_eq!(decoded.response_topic().map(TopicName::as_str), Some("factory-1/re/ply"));
        assert_eq!(*mount().client_properties(&full), wire[..]);
        assert_eq!(*mount().client_properties(&wire), wire[..4], "it is outside the mount point");
        assert_eq!(mount().properties(&Properties::EMPTY), Ok(None));
    }
}
