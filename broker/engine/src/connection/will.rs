//! Wills [MQTT 5.0 section 3.1.2.5]: checked and stored at CONNECT, published when the connection ends without DISCONNECT.

use std::sync::Arc;

use tautwire_memory::MemoryLedger;
use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::{Connect, ConnectReason, PayloadFormat, PropertyId, Will};
use tautwire_session::{Change, StoredWill};

use crate::connection::connect_refusal::ConnectRefusal;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::retained_publisher::is_publisher;
use crate::routing::route::MessageSource;
use crate::shard::Shard;

impl<M: Mode> Shard<M> {
    /// Checks a will independently of the client's rights.
    pub(crate) fn check_will(&self, index: ConnectionIndex, will: &Will<'_>) -> Result<(), ConnectRefusal> {
        let refused = |reason, why: &'static str| Err(ConnectRefusal(reason, why.into()));
        let settings = self.state.config.settings();
        if will.qos > self.state.connections[index].max_qos(settings.max_qos) {
            // [MQTT-3.2.2-12]
            return refused(ConnectReason::QoSNotSupported, "the will's QoS is above the maximum");
        }
        if will.retain && !settings.retain_available {
            // [MQTT-3.2.2-13]
            return refused(ConnectReason::RetainNotSupported, "retained messages are not available");
        }
        if let Err(reason) = self.check_topic(will.topic.as_str()) {
            let reason = ConnectReason::try_from(reason).unwrap_or(ConnectReason::TopicNameInvalid);
            return refused(reason, "the will's topic is not allowed");
        }
        if !self.is_payload_allowed(will.payload.len()) {
            self.state.counters().payloads_too_large.add(1);
            return refused(ConnectReason::PacketTooLarge, "the will's payload is larger than limits.payload_bytes");
        }
        let is_text = will.properties.payload_format_indicator() == Some(PayloadFormat::Utf8);
        if is_text && std::str::from_utf8(will.payload).is_err() {
            return refused(ConnectReason::PayloadFormatInvalid, "the will's payload is not UTF-8");
        }
        if self.state.memory.share().admits(0, will_bytes(will)).is_err() {
            self.state.counters().resources_refused_memory.add(1);
            return refused(ConnectReason::QuotaExceeded, "there is no memory for the will");
        }
        if !M::has_room_for_will(&self.state, will) {
            self.state.counters().wills_too_large.add(1);
            return refused(ConnectReason::QuotaExceeded, "the will is larger than the cluster can store");
        }
        match self.will_contract_violation(will) {
            Some(why) => Err(ConnectRefusal(ConnectReason::PayloadFormatInvalid, why.into())),
            None => Ok(()),
        }
    }

    /// Whether the access rules allow the client's will.
    pub(crate) fn is_will_allowed(&self, index: ConnectionIndex, client_id: &str, will: &Will<'_>) -> bool {
        let permissions = self.state.permissions_of(index, client_id);
        let allowed = permissions
            .is_none_or(|permissions| permissions.may_publish(will.topic.as_str(), will.qos, will.retain).is_allowed());
        if !allowed {
            self.state.counters().wills_not_authorized.add(1);
            self.state.audit_denied_client(index, client_id, "will", will.topic.as_str());
        }
        allowed
    }

    /// Sets the will of CONNECT for a session, or removes an older one.
    pub(crate) fn set_will(&mut self, index: ConnectionIndex, session: SessionIndex, connect: &Connect<'_>) {
        let will = connect.will.as_ref().map(|will| {
            let mut properties = Vec::new();
            if will.retain && !will.payload.is_empty() {
                self.state.append_publisher(index, self.state.sessions[session].client_id(), &mut properties);
            }
            Box::new(will_of(will, properties, self.state.memory.ledger()))
        });
        if will.is_some() || self.state.sessions[session].will().is_some() {
            // [MQTT-3.1.2-7]
            self.state.commit(session, Change::Will(will));
        }
    }

    /// Publishes and removes the will of a session, if it has one [MQTT-3.1.2-10].
    pub(crate) fn publish_will(&mut self, session: SessionIndex) {
        let Some(will) = self.state.sessions[session].will().cloned() else { return };
        if M::publishes_will(&mut self.state, session) {
            return;
        }
        let is_allowed = self.state.can_set_will(session, &will);
        self.state.commit(session, Change::Will(None));
        if !is_allowed {
            return;
        }
        let StoredWill { message, message_expiry_s, .. } = will;
        let mut message = MessageRef { id: self.state.context.next_message_id(), ..message.as_ref() };
        message.expires_at_ms = message_expiry_s.map(|seconds| self.state.clock.now_ms() + u64::from(seconds) * 1000);
        // No Local applies to connections; a will has none, so it is also sent to its client's own subscriptions. There was memory for it
        // when it was accepted.
        let mut outgoing = OutgoingPublish { is_admitted: true, ..OutgoingPublish::new(message) };
        if self.publish(&mut outgoing, MessageSource::Session(session)).is_err() {
            self.state.counters().publishes_refused.add(1);
        }
    }
}

/// The approximate memory of a stored will.
pub(crate) fn will_bytes(will: &Will<'_>) -> usize {
    let properties_bytes: usize =
        will.properties.raw().into_iter().flatten().map(|property| property.bytes.len()).sum();
    size_of::<StoredWill>() + will.topic.as_str().len() + will.payload.len() + properties_bytes
}

/// `forwarded_properties`: properties to put before those of the client.
fn will_of(will: &Will<'_>, mut forwarded_properties: Vec<u8>, ledger: &Arc<MemoryLedger>) -> StoredWill {
    for property in will.properties.raw().into_iter().flatten() {
        let is_stored = matches!(property.id, PropertyId::WillDelayInterval | PropertyId::MessageExpiryInterval)
            || (will.retain && is_publisher(&property));
        if !is_stored {
            forwarded_properties.extend_from_slice(property.bytes);
        }
    }
    let message = MessageRef {
        // It gets an identifier when it is published.
        id: MessageId::NONE,
        topic: will.topic.as_str(),
        properties: &forwarded_properties,
        payload: will.payload,
        qos: will.qos,
        retain: will.retain,
        expires_at_ms: None,
    };
    StoredWill {
        message: message.to_message_in(ledger),
        delay_s: will.properties.will_delay_interval().unwrap_or(0),
        message_expiry_s: will.properties.message_expiry_interval(),
    }
}
