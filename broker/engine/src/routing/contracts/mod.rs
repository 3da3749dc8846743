//! Checks of messages against the contract of their topic, before they are delivered.

mod steps;

use std::borrow::Cow;
use std::sync::Arc;

use tautwire_contracts::{Contract, Violation};
use tautwire_protocol::{Properties, PropertyContext, PropertyId, ReasonCode};
use tautwire_router::ShardIndex;
use tautwire_session::LogState;

use crate::operations::violations::ViolationReport;
use crate::session::slow_consumer::SlowConsumer;
use crate::storage::log_state;

/// The prefix of the topics to which messages are quarantined.
pub(crate) const QUARANTINE: &str = "$quarantine/";

/// The minimum interval between log lines about violations, for each shard.
const LOG_INTERVAL_MS: u64 = 1_000;

/// The refusal of a message.
#[derive(Debug)]
pub(crate) struct MessageRefusal {
    pub(crate) reason: ReasonCode,
    pub(crate) why: Cow<'static, str>,
    pub(super) consequence: RefusalAction,
}

/// What a refusal means for the publisher's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalAction {
    /// The connection stays open.
    Never,
    /// The connection is closed.
    Always,
    /// The connection is closed if the protocol has no reason code for the publisher: at QoS 0, and in 3.1.1.
    WithoutReasonCode,
    /// There is no memory. The publisher can retry; one of 3.1.1, which gets no reason code, is paused.
    RetryWhenMemoryFree,
    /// The queue of a session is full. The publisher can retry; one of 3.1.1 is paused.
    RetryWhenQueueHasRoom,
    /// The publisher is paused until the queue of a session has room.
    PausedForQueue,
    /// The publisher is paused until the channel to this shard has room.
    Congested(ShardIndex),
    /// The queue of a shared subscription is full. The publisher can retry; one of 3.1.1 is paused.
    RetryWhenShareQueueHasRoom,
    /// The connection is closed if the message needs an acknowledgement and the protocol has no reason code: in 3.1.1.
    Unacknowledged,
}

impl RefusalAction {
    /// Whether the publisher is paused without an answer, whatever its protocol version.
    pub(crate) fn pauses_publisher(self) -> bool {
        matches!(self, RefusalAction::PausedForQueue | RefusalAction::Congested(_))
    }
}

impl MessageRefusal {
    /// There is no memory to queue the message for its receivers.
    #[cold]
    pub(crate) fn no_memory() -> Box<MessageRefusal> {
        let why = "there is no memory for the message or its receivers; send it again later".into();
        Box::new(MessageRefusal {
            reason: ReasonCode::QuotaExceeded,
            why,
            consequence: RefusalAction::RetryWhenMemoryFree,
        })
    }

    /// The queue of a receiver is full.
    #[cold]
    pub(crate) fn queue_full(policy: SlowConsumer) -> Box<MessageRefusal> {
        let why = "the queue of a subscriber is full; send the message again later".into();
        let consequence = match policy {
            SlowConsumer::PausePublisher => RefusalAction::PausedForQueue,
            _ => RefusalAction::RetryWhenQueueHasRoom,
        };
        Box::new(MessageRefusal { reason: ReasonCode::QuotaExceeded, why, consequence })
    }

    /// The channel to a shard is full.
    #[cold]
    pub(crate) fn congested(shard: ShardIndex) -> Box<MessageRefusal> {
        let (reason, why) =
            (ReasonCode::ServerBusy, "a thread of the broker is behind; send the message again later".into());
        Box::new(MessageRefusal { reason, why, consequence: RefusalAction::Congested(shard) })
    }

    /// The queue of a shared subscription that matches has no room for the message.
    #[cold]
    pub(crate) fn share_queue_full() -> Box<MessageRefusal> {
        let why =
            "no member of a shared subscription has room, and its queue is full; send the message again later".into();
        let consequence = RefusalAction::RetryWhenShareQueueHasRoom;
        Box::new(MessageRefusal { reason: ReasonCode::QuotaExceeded, why, consequence })
    }

    /// The log does not accept the message for its receivers.
    #[cold]
    pub(crate) fn no_disk(state: LogState) -> Box<MessageRefusal> {
        let why = if state == LogState::Full { log_state::FULL } else { log_state::FAILED }.into();
        Box::new(MessageRefusal { reason: ReasonCode::QuotaExceeded, why, consequence: RefusalAction::Unacknowledged })
    }

    /// The access rules do not allow the message.
    #[cold]
    pub(crate) fn denied() -> Box<MessageRefusal> {
        MessageRefusal::new(ReasonCode::NotAuthorized, "the access rules do not allow this")
    }

    /// A refusal that keeps the connection open. Boxed, so that a result without refusal stays small.
    #[cold]
    pub(crate) fn new(reason: ReasonCode, why: &'static str) -> Box<MessageRefusal> {
        Box::new(MessageRefusal { reason, why: why.into(), consequence: RefusalAction::Never })
    }
}

/// A violation because of which a message is not delivered.
#[derive(Debug)]
pub(crate) struct ViolatedContract {
    contract: Arc<Contract>,
    violation: Box<Violation>,
}

/// Limits the log lines about violations, which many clients may cause at once.
#[derive(Debug, Default)]
pub(crate) struct ViolationLogLimiter {
    next_ms: u64,
    suppressed: u64,
    /// The violations to report to operators.
    pub(crate) history: ViolationReport,
}

impl ViolationLogLimiter {
    /// The number of lines suppressed since the last one if a line can be logged now, else `None`.
    pub(crate) fn line(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms < self.next_ms {
            self.suppressed += 1;
            return None;
        }
        self.next_ms = now_ms + LOG_INTERVAL_MS;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// The Content Type among the encoded properties of a message.
pub(crate) fn content_type(properties: &[u8]) -> Option<&str> {
    if properties.is_empty() {
        return None;
    }
    Properties::from_wire(properties, PropertyContext::Publish).ok()?.content_type()
}

pub(crate) fn append_user_property(properties: &mut Vec<u8>, name: &str, value: &str) {
    properties.push(PropertyId::UserProperty as u8);
    for text in [name, value] {
        let length = text.len().min(usize::from(u16::MAX));
        properties.extend_from_slice(&(length as u16).to_be_bytes());
        properties.extend_from_slice(&text.as_bytes()[..length]);
    }
}
