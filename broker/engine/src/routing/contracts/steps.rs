//! Contract checks, and the actions on a violation.

use std::sync::Arc;

use tautwire_contracts::{Contract, OnViolation, Unacknowledged, Violation};
use tautwire_message::MessageRef;
use tautwire_protocol::ReasonCode;

use super::{MessageRefusal, QUARANTINE, RefusalAction, ViolatedContract, append_user_property, content_type};
use crate::mode::Mode;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::retained_publisher::without_publisher;
use crate::routing::route::MessageSource;
use crate::settings::config::ConfigSnapshot;
use crate::shard::Shard;
use crate::shard::ShardState;
use crate::text::truncated;

/// The maximum length of an explanation that is sent. A path may be long.
const EXPLANATION_MAX_BYTES: usize = 1_000;

/// The maximum length of a topic in a packet.
const TOPIC_MAX_BYTES: usize = 65_535;

impl<M: Mode> ShardState<M> {
    /// Checks a message against `contract`. With `observe`, violations are only recorded.
    pub(crate) fn check_contract(
        &mut self,
        contract: &Arc<Contract>,
        outgoing: &OutgoingPublish<'_>,
    ) -> Result<(), Box<ViolatedContract>> {
        self.counters().payloads_checked.add(1);
        let MessageRef { topic, properties, payload, retain, .. } = outgoing.message;
        if retain && payload.is_empty() {
            // It clears a retained message and has no content [MQTT-3.3.1-6].
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
        log::warn!("a message to {topic:?} violates the contract {}: {violation}{more}", contract.name());
    }
}

impl<M: Mode> Shard<M> {
    /// Applies the current contracts if they have changed.
    pub(crate) fn apply_contracts(&mut self, config: &ConfigSnapshot) {
        if self.state.config.apply_contracts(&config.contracts) {
            // Cached matches have the old contracts.
            self.table.generation += 1;
        }
    }

    /// Applies the contract's violation policy to a message: quarantine or refuse it.
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

    /// Publishes a message to its quarantine topic, with the reason.
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
        // Only current subscribers get it; it is not retained.
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
        // It clears a retained message and has no content [MQTT-3.3.1-6].
        let is_removal = message.retain && payload.is_empty();
        is_refused && !is_removal && contract.check(topic, content_type(properties), payload).is_err()
    }

    /// Why a will is refused at CONNECT, if it is: it violates its contract, and could not be refused later.
    pub(crate) fn will_contract_violation(&self, will: &tautwire_protocol::Will<'_>) -> Option<String> {
        let topic = will.topic.as_str();
        let contract = self.state.config.contracts().find(topic)?.clone();
        if !matches!(contract.on_violation(), OnViolation::Reject | OnViolation::Disconnect) {
            return None;
        }
        let violation = contract.check(topic, will.properties.content_type(), will.payload).err()?;
        self.state.counters().violations_rejected.add(1);
        Some(format!("the will violates the {}", explanation(&contract, &violation)))
    }
}

fn explanation(contract: &Contract, violation: &Violation) -> String {
    let mut text = format!("contract {}: {violation}", contract.name());
    text.truncate(truncated(&text, EXPLANATION_MAX_BYTES).len());
    text
}
