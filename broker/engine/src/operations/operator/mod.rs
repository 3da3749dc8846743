//! Messages that operators publish through the API.

mod steps;

use std::borrow::Cow;

use tautwire_message::{Message, MessageId, MessageRef};
use tautwire_protocol::{PacketId, PropertyId, QoS, ReasonCode, TopicName};
use tautwire_session::{AckLevel, LogPosition};

use crate::connection::connections::TopicAlias;
use crate::operations::publish_range::PublishRange;
use crate::routing::discovery::push;
use crate::routing::publish_packets::PublishHeader;

/// A message to publish for an operator.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    /// The topic.
    pub topic: TopicName<'a>,
    /// The Content Type, at most 65,535 bytes.
    pub content_type: Option<&'a str>,
    /// Application payload.
    pub payload: &'a [u8],
    /// QoS.
    pub qos: QoS,
    /// RETAIN flag.
    pub retain: bool,
}

impl Publication<'_> {
    /// Copies it into one allocation.
    pub fn to_message(&self) -> Message {
        let mut properties = Vec::new();
        if let Some(content_type) = self.content_type {
            push(&mut properties, PropertyId::ContentType, content_type.as_bytes());
        }
        let message = MessageRef {
            // The shard that publishes it sets the identity.
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

/// The result of publishing a message for an operator.
#[derive(Debug, PartialEq, Eq)]
pub struct PublishReceipt {
    /// Whether it matched a subscription.
    pub matched: bool,
    /// When to confirm it to the operator: once the records of the message are durable. `None` if there are none.
    pub confirm: Option<PublishConfirm>,
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
    /// A confirmation that waits for both conditions, which are of the same shard.
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

/// The status of a [`PublishConfirm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmStatus {
    /// The condition is met.
    Confirmed,
    /// The log has not reached it yet, and wakes the shard then.
    Pending,
    /// The log failed before it reached it.
    Failed,
    /// The cluster did not store the message, and never will.
    Refused,
}

/// Why a publish for an operator failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishFailure {
    /// The channel to another shard is full, or the log lags. Nothing was published; a retry may succeed.
    Busy,
    /// It was published, but is not in the log: a crash may lose it.
    NotDurable,
    /// The cluster did not store it, and never will: most of the servers of its partition could not be reached in time, or it is larger
    /// than they accept.
    NotStored,
    /// It was refused as for a client, with this reason code and reason string.
    Refused(ReasonCode, Cow<'static, str>),
}

/// The length of its PUBLISH packet in MQTT 5.0.
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
