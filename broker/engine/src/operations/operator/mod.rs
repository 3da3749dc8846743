//! Messages that come from those who run the broker, and not in a packet of a client.

mod steps;

use std::borrow::Cow;

use tautwire_message::{Message, MessageId, MessageRef};
use tautwire_protocol::{PacketId, PropertyId, QoS, ReasonCode, TopicName};
use tautwire_session::{AckLevel, LogPosition};

use crate::connection::connections::TopicAlias;
use crate::operations::publish_range::PublishRange;
use crate::routing::discovery::push;
use crate::routing::publish_packets::PublishHeader;

/// A message that the operator wants published.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    /// Where to.
    pub topic: TopicName<'a>,
    /// The Content Type to go along, at most 65,535 bytes.
    pub content_type: Option<&'a str>,
    /// Application payload.
    pub payload: &'a [u8],
    /// QoS.
    pub qos: QoS,
    /// RETAIN flag.
    pub retain: bool,
}

impl Publication<'_> {
    /// The same as one allocation.
    pub fn to_message(&self) -> Message {
        let mut properties = Vec::new();
        if let Some(content_type) = self.content_type {
            push(&mut properties, PropertyId::ContentType, content_type.as_bytes());
        }
        let message = MessageRef {
            // The shard that publishes it gives it its name.
            id: MessageId::NONE,
            topic: self.topic.as_str(),
            properties: &properties,
            payload: self.payload,
            qos: self.qos,
            retain: self.retain,
            expires_at_ms: None,
        };
        message.to_message()
    }
}

/// A message of the operator has been published.
#[derive(Debug, PartialEq, Eq)]
pub struct Published {
    /// Whether anybody wanted it.
    pub matched: bool,
    /// When to confirm it to the operator: once the records of the message are durable. `None` if there are none.
    pub promise: Option<PublishConfirm>,
}

/// The condition for confirming a publish to an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishConfirm(ConfirmCondition);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfirmCondition {
    /// The log of this broker has reached this level of durability at this position.
    Written { position: LogPosition, level: AckLevel },
    /// These messages are stored elsewhere.
    Elsewhere(PublishRange),
}

impl PublishConfirm {
    /// A confirmation that waits for both, which are of the same shard.
    #[must_use]
    pub fn both(one: Option<PublishConfirm>, other: Option<PublishConfirm>) -> Option<PublishConfirm> {
        match (one, other) {
            (
                Some(PublishConfirm(ConfirmCondition::Written { position, level })),
                Some(PublishConfirm(ConfirmCondition::Written { position: other, level: other_level })),
            ) => Some(PublishConfirm(ConfirmCondition::Written {
                position: position.max(other),
                level: level.max(other_level),
            })),
            (
                Some(PublishConfirm(ConfirmCondition::Elsewhere(one))),
                Some(PublishConfirm(ConfirmCondition::Elsewhere(other))),
            ) => Some(PublishConfirm(ConfirmCondition::Elsewhere(one.with(other)))),
            // The mode of a shard never changes.
            (one, other) => one.or(other),
        }
    }
}

/// What has become of a [`PublishConfirm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmStatus {
    /// What was promised is true.
    Confirmed,
    /// The log will come to it, and wakes the shard.
    Pending,
    /// The log has failed before that.
    Failed,
    /// The cluster has not taken what was published, and never will.
    Refused,
}

/// Why an operator is not told that a message has been published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishFailure {
    /// The way to another shard is full, or the log is behind. Nothing was published; it may be tried again.
    Busy,
    /// It was published, but the log does not have it: a crash may lose it.
    NotDurable,
    /// The cluster has not taken it, and never will: most of the servers that hold its partition could not be reached in time, or it is larger
    /// than they take.
    NotStored,
    /// A client that publishes it would be refused with this code and this reason string.
    Refused(ReasonCode, Cow<'static, str>),
}

/// The length of the PUBLISH packet in which a client of 5.0 would send it.
pub(crate) fn packet_len(message: &MessageRef<'_>) -> usize {
    let header = PublishHeader {
        v5: true,
        qos: message.qos,
        dup: false,
        retain: message.retain,
        packet_id: PacketId::new(u16::from(message.qos != QoS::AtMostOnce)),
        subscription_ids: &[],
        alias: TopicAlias::None,
        now_ms: 0,
    };
    header.packet_len(message)
}
