//! Messages are held to the contract of their topic before anybody gets them.

use std::borrow::Cow;
use std::sync::Arc;

use tautwire_contracts::{Contract, OnViolation, Unacknowledged, Violation};
use tautwire_message::MessageRef;
use tautwire_protocol::{Properties, PropertyContext, PropertyId, ReasonCode};
use tautwire_router::ShardIndex;
use tautwire_session::LogState;

use crate::config::ConfigSnapshot;
use crate::log_state;
use crate::mode::Mode;
use crate::publish_packets::OutgoingPublish;
use crate::retained_publisher::without_publisher;
use crate::route::MessageSource;
use crate::shard::Shard;
use crate::slow_consumer::SlowConsumer;
use crate::state::ShardState;
use crate::text::beginning;
use crate::violations::ViolationReport;

/// Below this, what broke its contract is published again.
pub(crate) const QUARANTINE: &str = "$quarantine/";
/// The most of an explanation that is sent: a path may be long.
const EXPLANATION_MAX_BYTES: usize = 1_000;
/// The most topic that a packet can say.
const TOPIC_MAX_BYTES: usize = 65_535;
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

impl<M: Mode> ShardState<M> {
    /// Holds a message to `contract`. One that only observes lets everything pass.
    pub(crate) fn check_contract(
        &mut self,
        contract: &Arc<Contract>,
        outgoing: &OutgoingPublish<'_>,
    ) -> Result<(), Box<ViolatedContract>> {
        self.counters().payloads_checked.add(1);
        let MessageRef { topic, properties, payload, retain, .. } = outgoing.message;
        if retain && payload.is_empty() {
            // It takes a retained message away, and says nothing itself [MQTT-3.3.1-6].
            return Ok(());
        }
        let Err(violation) = contract.check(topic, content_type(properties), payload) else { return Ok(()) };
        self.config.record_violation(contract.name(), topic, &violation, self.clock.now_ms());
        self.log_violation(contract, topic, &violation);
        if contract.on_violation() == OnViolation::Observe {
            self.counters().violations_observed.add(1);
            return Ok(());
        }
        Err(Box::new(ViolatedContract { contract: contract.clone(), violation }))
    }

    fn log_violation(&mut self, contract: &Contract, topic: &str, violation: &Violation) {
        let Some(suppressed) = self.config.take_violation_line(self.clock.now_ms()) else { return };
        let more = if suppressed > 0 { format!(" ({suppressed} more since the last line)") } else { String::new() };
        log::warn!("{topic:?} breaks the contract {}: {violation}{more}", contract.name());
    }
}

impl<M: Mode> Shard<M> {
    /// Takes on the contracts that hold now, if they are others.
    pub(crate) fn apply_contracts(&mut self, config: &ConfigSnapshot) {
        if self.state.config.apply_contracts(&config.contracts) {
            // What is remembered of topics has the contracts of before.
            self.table.generation += 1;
        }
    }

    /// Does with a message what its contract says of those that break it.
    #[cold]
    pub(crate) fn refuse_violation(
        &mut self,
        broken: ViolatedContract,
        outgoing: &OutgoingPublish<'_>,
    ) -> Result<bool, Box<MessageRefusal>> {
        let ViolatedContract { contract, violation } = broken;
        let consequence = match contract.on_violation() {
            OnViolation::Quarantine => {
                self.state.counters().violations_quarantined.add(1);
                return Ok(self.quarantine(&contract, &violation, &outgoing.message));
            }
            OnViolation::Disconnect => RefusalAction::Always,
            OnViolation::Reject if contract.unacknowledged() == Unacknowledged::Disconnect => {
                RefusalAction::WithoutReasonCode
            }
            OnViolation::Reject | OnViolation::Observe => RefusalAction::Never,
        };
        self.state.counters().violations_rejected.add(1);
        let why = explanation(&contract, &violation).into();
        Err(Box::new(MessageRefusal { reason: ReasonCode::PayloadFormatInvalid, why, consequence }))
    }

    /// Publishes a message again where only those find it who look for what is wrong.
    fn quarantine(&mut self, contract: &Contract, violation: &Violation, message: &MessageRef<'_>) -> bool {
        let topic = format!("{QUARANTINE}{}", message.topic);
        if topic.len() > TOPIC_MAX_BYTES {
            return false;
        }
        let mut properties = without_publisher(message).to_vec();
        for (name, value) in [
            ("tautwire-contract", contract.name()),
            ("tautwire-rule", violation.rule.code()),
            ("tautwire-path", &violation.path()),
            ("tautwire-reason", &explanation(contract, violation)),
        ] {
            append_user_property(&mut properties, name, value);
        }
        // It goes to those who are there, and is kept for nobody else.
        let id = self.state.context.next_message_id();
        let message = MessageRef { id, topic: &topic, properties: &properties, retain: false, ..*message };
        let mut outgoing = OutgoingPublish { is_checked: true, ..OutgoingPublish::new(message) };
        let generation = self.state.context.exchange().generation();
        self.route(&mut outgoing, MessageSource::Broker, generation).unwrap_or(false)
    }

    /// Whether a message is refused because of its payload.
    pub(crate) fn violates_contract(&self, message: &MessageRef<'_>) -> bool {
        let Some(contract) = self.state.config.contracts().find(message.topic) else { return false };
        let is_refused = matches!(contract.on_violation(), OnViolation::Reject | OnViolation::Disconnect);
        let MessageRef { topic, properties, payload, .. } = *message;
        // It takes a retained message away, and says nothing itself [MQTT-3.3.1-6].
        let is_removal = message.retain && payload.is_empty();
        is_refused && !is_removal && contract.check(topic, content_type(properties), payload).is_err()
    }

    /// Why a will must not be taken on, if it must not: it would break its contract when nobody is there to be told.
    pub(crate) fn will_contract_violation(&self, will: &tautwire_protocol::Will<'_>) -> Option<String> {
        let topic = will.topic.as_str();
        let contract = self.state.config.contracts().find(topic)?.clone();
        if !matches!(contract.on_violation(), OnViolation::Reject | OnViolation::Disconnect) {
            return None;
        }
        let violation = contract.check(topic, will.properties.content_type(), will.payload).err()?;
        self.state.counters().violations_rejected.add(1);
        Some(format!("the will breaks the {}", explanation(&contract, &violation)))
    }
}

fn explanation(contract: &Contract, violation: &Violation) -> String {
    let mut text = format!("contract {}: {violation}", contract.name());
    text.truncate(beginning(&text, EXPLANATION_MAX_BYTES).len());
    text
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
