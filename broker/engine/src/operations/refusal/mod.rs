//! Checks whether the broker would refuse a message, without publishing it, through the functions that refuse messages.

mod steps;

use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::{QoS, ReasonCode};
use tautwire_router::RetainError;
use tautwire_session::LogState;

use crate::routing::route::RouteError;
use crate::session::slow_consumer::SlowConsumer;

/// Generates the enum, its list and its texts from one table, so that none of them lacks a row.
macro_rules! refusals {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $reason:ident;)*) => {
        /// Why the broker refuses a message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum PublishRefusal {
            $($(#[doc = $doc])* $name,)*
        }

        impl PublishRefusal {
            /// All of them.
            pub const ALL: &[PublishRefusal] = &[$(PublishRefusal::$name),*];

            /// The code for operators, which never changes.
            pub fn code(self) -> &'static str {
                match self { $(PublishRefusal::$name => $code,)* }
            }

            /// The reason code for a publisher of MQTT 5.0.
            pub fn reason(self) -> ReasonCode {
                match self { $(PublishRefusal::$name => ReasonCode::$reason,)* }
            }
        }
    };
}

refusals! {
    /// Its packet is larger than the broker accepts.
    PacketTooLarge = "packet_refused", PacketTooLarge;
    /// Its QoS is above the maximum.
    QoSNotSupported = "qos_refused", QoSNotSupported;
    /// Retained messages are not available.
    RetainNotSupported = "retain_refused", RetainNotSupported;
    /// Its topic is longer, or has more levels, than the broker accepts.
    TopicTooLong = "topic_refused", TopicNameInvalid;
    /// Its topic is the broker's own.
    TopicReserved = "topic_reserved", NotAuthorized;
    /// The access rules do not allow the publisher to publish it.
    NotAuthorized = "publish_not_allowed", NotAuthorized;
    /// Its payload breaks the contract of its topic.
    ContractViolation = "contract_violation", PayloadFormatInvalid;
    /// There is no memory for it, or a client that receives it holds more than its share.
    NoMemory = "memory_full", QuotaExceeded;
    /// Its payload is larger than the broker accepts.
    PayloadTooLarge = "payload_refused", ImplementationSpecificError;
    /// The queue of a session that receives it is full, and publishers are refused then.
    SessionQueueFull = "session_queue_full", QuotaExceeded;
    /// No member of a shared subscription can take it, and the queue of the group is full.
    SharedQueueFull = "shared_queue_full", QuotaExceeded;
    /// The log takes no more until there is space on the disk.
    DiskFull = "disk_full", QuotaExceeded;
    /// The log has failed.
    DiskFailed = "disk_failed", QuotaExceeded;
    /// The broker retains as many messages, or bytes, as its limits allow.
    RetainedFull = "retained_full", QuotaExceeded;
    /// The publisher, or its user, retains as many messages, or bytes, as its quota allows.
    RetainedQuota = "retained_full_for_client", QuotaExceeded;
}

impl PublishRefusal {
    fn of_log(state: LogState) -> PublishRefusal {
        if state == LogState::Full { PublishRefusal::DiskFull } else { PublishRefusal::DiskFailed }
    }
}

impl From<&RouteError> for PublishDecision {
    fn from(why: &RouteError) -> PublishDecision {
        PublishDecision::Refused(match why {
            RouteError::NotAuthorized => PublishRefusal::NotAuthorized,
            RouteError::ContractViolation(_) => PublishRefusal::ContractViolation,
            RouteError::NotRetained(RetainError::Limit) => PublishRefusal::RetainedFull,
            RouteError::NotRetained(RetainError::Quota) => PublishRefusal::RetainedQuota,
            RouteError::NoMemory => PublishRefusal::NoMemory,
            RouteError::QueueFull(SlowConsumer::PausePublisher) => return PublishDecision::PublisherPaused,
            RouteError::QueueFull(_) => PublishRefusal::SessionQueueFull,
            RouteError::ShareQueueFull => PublishRefusal::SharedQueueFull,
            // Temporary: only while a thread lags.
            RouteError::Congested(_) => return PublishDecision::Accepted,
            RouteError::DiskUnavailable(state) => PublishRefusal::of_log(*state),
        })
    }
}

/// A message that might be published.
#[derive(Debug, Clone)]
pub struct HypotheticalPublish {
    /// Its topic, mount point included.
    pub topic: Box<str>,
    /// Its QoS.
    pub qos: QoS,
    /// RETAIN.
    pub retain: bool,
    /// Its payload.
    pub payload: Box<[u8]>,
    /// Whether the content of the payload is known, and not only its length.
    pub is_payload_given: bool,
    /// The session name of the publisher. Without one, checks that depend on the publisher are skipped.
    pub publisher: Option<Box<str>>,
}

impl HypotheticalPublish {
    /// Creates one with unknown payload and publisher. The payload has one byte, because an empty one would clear the retained message.
    pub fn new(topic: &str, qos: QoS) -> HypotheticalPublish {
        let payload = [0].into();
        HypotheticalPublish {
            topic: topic.into(),
            qos,
            retain: false,
            payload,
            is_payload_given: false,
            publisher: None,
        }
    }

    /// The message as a client sends it, without properties.
    pub(crate) fn message(&self) -> MessageRef<'_> {
        MessageRef {
            id: MessageId::NONE,
            topic: &self.topic,
            properties: &[],
            payload: &self.payload,
            qos: self.qos,
            retain: self.retain,
            expires_at_ms: None,
        }
    }
}

/// What the broker would do with a [`HypotheticalPublish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishDecision {
    /// It accepts the message.
    Accepted,
    /// It refuses the message.
    Refused(PublishRefusal),
    /// It pauses reading from the publisher until the queue of a session has room.
    PublisherPaused,
    /// The publisher is not connected here, so checks that depend on it are unknown.
    NoPublisher,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_own_code() {
        let mut codes: Vec<&str> = PublishRefusal::ALL.iter().map(|refusal| refusal.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), PublishRefusal::ALL.len());
        assert!(PublishRefusal::ALL.iter().all(|refusal| refusal.reason().is_error()));
    }
}
