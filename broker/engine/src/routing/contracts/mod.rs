//! Messages are held to the contract of their topic before anybody gets them.

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

/// Below this, what broke its contract is published again.
pub(crate) const QUARANTINE: &str = "$quarantine/";

/// At most one line of the log in this time, for each shard.
const LOG_INTERVAL_MS: u64 = 1_000;

/// Why a message is not taken on.
#[derive(Debug)]
pub(crate) struct MessageRefusal {
    pub(crate) reason: ReasonCode,
    pub(crate) why: Cow<'static, str>,
    pub(crate) consequence: RefusalAction,
}

/// Whether a refusal ends the publisher's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalAction {
    Never,
    Always,
    /// Where the protocol has no answer that says it: at QoS 0, and in 3.1.1.
    WithoutReasonCode,
    /// Never. There is no memory for the message, and it may be sent again. A publisher of 3.1.1, which cannot be told, waits.
    RetryWhenMemoryFree,
    /// The same, where the queue of a session is full.
    RetryWhenQueueHasRoom,
    /// Never. The publisher waits until the queue of a session has room.
    PausedForQueue,
    /// Never. The publisher waits until the channel to this shard has room.
    Congested(ShardIndex),
    /// Never. The queue of a shared subscription is full, and the message may be sent again.
    RetryWhenShareQueueHasRoom,
    /// Where the message would have to be acknowledged, and the protocol has no answer that says why it is not: in 3.1.1.
    Unacknowledged,
}

impl RefusalAction {
    /// Whether the publisher, whatever its version, waits and is not told anything.
    pub(crate) fn pauses_publisher(self) -> bool {
        matches!(self, RefusalAction::PausedForQueue | RefusalAction::Congested(_))
    }
}

impl MessageRefusal {
    /// There is no memory to keep the message for those who want it.
    #[cold]
    pub(crate) fn no_memory() -> Box<MessageRefusal> {
        let why = "there is no memory for the message, or for those who want it; send it again later".into();
        Box::new(MessageRefusal {
            reason: ReasonCode::QuotaExceeded,
            why,
            consequence: RefusalAction::RetryWhenMemoryFree,
        })
    }

    /// The queue of a session that wants the message is full.
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
            "no member of a shared subscription takes messages, and its queue is full; send the message again later"
                .into();
        let consequence = RefusalAction::RetryWhenShareQueueHasRoom;
        Box::new(MessageRefusal { reason: ReasonCode::QuotaExceeded, why, consequence })
    }

    /// The log does not take the message for those who want it.
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

    /// Boxed, so that the result of what is not refused stays small.
    #[cold]
    pub(crate) fn new(reason: ReasonCode, why: &'static str) -> Box<MessageRefusal> {
        Box::new(MessageRefusal { reason, why: why.into(), consequence: RefusalAction::Never })
    }
}

/// A message breaks the contract of its topic, and is not to go on.
#[derive(Debug)]
pub(crate) struct ViolatedContract {
    contract: Arc<Contract>,
    violation: Box<Violation>,
}

/// Keeps the log readable while a fleet misbehaves.
#[derive(Debug, Default)]
pub(crate) struct ViolationLogLimiter {
    next_ms: u64,
    suppressed: u64,
    /// What operators can be told.
    pub(crate) history: ViolationReport,
}

impl ViolationLogLimiter {
    /// Whether there is a line for a message that breaks its contract: how many others have had none since the last line, or `None`.
    pub(crate) fn line(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms < self.next_ms {
            self.suppressed += 1;
            return None;
        }
        self.next_ms = now_ms + LOG_INTERVAL_MS;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// The Content Type among properties as a message keeps them.
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
