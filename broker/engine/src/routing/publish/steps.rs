//! Handling of PUBLISH: checks, retention, routing and acknowledgement.

use std::borrow::Cow;

use tautwire_message::MessageRef;
use tautwire_protocol::{
    DisconnectReason, PacketId, Properties, PropertyContext, PropertyId, PubAckReason, PubRecReason, Publish, QoS,
    ReasonCode, TopicName,
};
use tautwire_router::{RetainError, RetainedClaim, ShardIndex};
use tautwire_session::{AckLevel, Change};

use super::{Disconnection, PAYLOAD_TOO_LARGE};
use crate::connection::ack::Ack;
use crate::connection::connections::{Chunk, PauseReason};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::routing::contracts::{MessageRefusal, RefusalAction};
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::retained_publisher::{is_forged, is_publisher};
use crate::routing::route::{MessageSource, RouteError};
use crate::shard::ShardState;
use crate::shard::{Handled, Shard};

/// A topic to which no client can publish.
const RESERVED_ROOT: &str = "$SYS";

/// The topic of a message, and the topic alias to set for it.
struct ResolvedTopic<'a> {
    topic: Cow<'a, str>,
    alias: Option<u16>,
}

impl<M: Mode> Shard<M> {
    /// Handles a PUBLISH. `payload_at` is the offset of the payload in `chunk`.
    pub(crate) fn on_publish(
        &mut self,
        index: ConnectionIndex,
        publish: &Publish<'_>,
        chunk: &Chunk,
        payload_at: usize,
    ) -> Handled {
        let qos = publish.qos();
        if M::must_pause_publisher(self, index, publish) {
            return Handled::Later;
        }
        let Some(session) = self.state.connections[index].session() else { return Handled::Ended };
        let counters = self.state.counters();
        counters.publishes_received.add(1);
        counters.publish_bytes_received.add(publish.payload.len() as u64);

        if let Err(Disconnection(reason, why)) = self.check_capabilities(index, publish) {
            self.disconnect(index, reason, why);
            return Handled::Ended;
        }
        // The topic of a known alias is taken out of the table while the message is handled, which avoids a copy.
        let ResolvedTopic { topic, alias } = match self.resolve_topic(index, publish) {
            Ok(resolved) => resolved,
            Err(Disconnection(reason, why)) => {
                self.disconnect(index, reason, why);
                return Handled::Ended;
            }
        };
        if let Some(packet_id) = publish.packet_id()
            && let Some(handled) = self.check_before_ack(index, session, qos, packet_id)
        {
            self.store_alias(index, alias, topic);
            return handled;
        }

        if self.is_transcoding_deferred(&topic) {
            self.store_alias(index, alias, topic);
            return self.pause_for_transcoding(index, publish);
        }

        let (outcome, level) = self.publish_from_client(index, session, publish, &topic, (chunk, payload_at));
        self.store_alias(index, alias, topic);
        if let Err(refusal) = &outcome
            && let Some(handled) = self.on_refused(index, publish, refusal)
        {
            return handled;
        }
        if qos != QoS::AtMostOnce {
            self.answer_publish(index, session, publish, level, outcome);
        }
        if self.state.connections[index].is_open() { Handled::Done } else { Handled::Ended }
    }

    /// Publishes a client's message. Returns whether it matched a subscription, and how durable it must be before it is acknowledged.
    // Inlined into `on_publish`, the hot path of every message.
    #[inline(always)]
    fn publish_from_client(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        publish: &Publish<'_>,
        topic: &str,
        payload_in: (&Chunk, usize),
    ) -> (Result<bool, Box<MessageRefusal>>, AckLevel) {
        let mut scratch = Vec::new();
        let properties = match publish.retain {
            false => forwarded_properties(publish, &mut scratch),
            true => self.retained_properties(index, session, publish, &mut scratch),
        };
        let mut outgoing = OutgoingPublish {
            chunk: Some(payload_in),
            unchecked_publisher: self.state.config.access().has_rules().then_some(index),
            ..OutgoingPublish::new(MessageRef {
                id: self.state.context.next_message_id(),
                topic,
                properties,
                payload: publish.payload,
                qos: publish.qos(),
                retain: publish.retain,
                expires_at_ms: self.expires_at_ms(publish),
            })
        };
        let outcome = match self.check_message(publish, topic) {
            Err(refusal) => self.answer_broker_request(index, publish, &outgoing.message, refusal),
            Ok(()) if publish.qos() == QoS::ExactlyOnce && self.state.disk_error_for_session(session).is_some() => {
                self.state.counters().publishes_refused_disk.add(1);
                Err(MessageRefusal::no_disk(self.state.log.state()))
            }
            Ok(()) => M::publish(self, index, session, publish.packet_id(), &mut outgoing),
        };
        let level = M::ack_level(&self.state, index, &outgoing.message);
        (outcome, level)
    }

    /// Handles the refusal of a message. Returns how its packet was handled, or `None` if the publisher is still to be answered.
    #[cold]
    fn on_refused(
        &mut self,
        index: ConnectionIndex,
        publish: &Publish<'_>,
        refusal: &MessageRefusal,
    ) -> Option<Handled> {
        let qos = publish.qos();
        if qos != QoS::AtMostOnce && self.pause_instead_of_refusing(index, publish, refusal.consequence) {
            return Some(Handled::Later);
        }
        let ends = self.ends_connection(index, qos, refusal);
        if !ends && qos != QoS::AtMostOnce {
            return None;
        }
        self.state.counters().publishes_refused.add(1);
        if !ends {
            return Some(Handled::Done);
        }
        let reason = DisconnectReason::try_from(refusal.reason).unwrap_or(DisconnectReason::PayloadFormatInvalid);
        self.disconnect(index, reason, &refusal.why);
        Some(Handled::Ended)
    }

    /// Answers a message to a reserved topic if it is a request to the broker itself.
    #[cold]
    fn answer_broker_request(
        &mut self,
        index: ConnectionIndex,
        publish: &Publish<'_>,
        message: &MessageRef<'_>,
        refusal: Box<MessageRefusal>,
    ) -> Result<bool, Box<MessageRefusal>> {
        if !message.topic.starts_with("$SYS/") {
            return Err(refusal);
        }
        if !self.state.may_publish(index, None, message) {
            return Err(MessageRefusal::denied());
        }
        if self.answer_discovery(index, publish, message.topic) { Ok(true) } else { Err(refusal) }
    }

    /// Handles a PUBLISH of a client with a mount point.
    #[inline(never)]
    pub(crate) fn on_mounted_publish(
        &mut self,
        index: ConnectionIndex,
        publish: &Publish<'_>,
        chunk: &Chunk,
        payload_at: usize,
    ) -> Handled {
        let Some(mount) = self.state.connections[index].mount_point().cloned() else { return Handled::Ended };
        let topic = match publish.topic.map(|topic| mount.topic(topic.as_str())).transpose() {
            // Any reserved topic gives the same refusal.
            Err(ReasonCode::NotAuthorized) => Ok(Some(RESERVED_ROOT.to_owned())),
            topic => topic,
        };
        let properties = mount.properties(&publish.properties);
        let (Ok(topic), Ok(properties)) = (topic, properties) else {
            let why = "the topic or the response topic is too long with the mount point";
            self.disconnect(index, DisconnectReason::TopicNameInvalid, why);
            return Handled::Ended;
        };
        let mut mounted = *publish;
        // A topic alias without a topic refers to a full topic already.
        mounted.topic = topic.as_deref().and_then(|topic| TopicName::new(topic).ok());
        if let Some(wire) = &properties {
            mounted.properties = Properties::from_wire(wire, PropertyContext::Publish).unwrap_or(Properties::EMPTY);
        }
        self.on_publish(index, &mounted, chunk, payload_at)
    }

    /// Counts a message that is refused for now. Returns whether its publisher is paused instead of getting a reason code.
    fn pause_instead_of_refusing(
        &mut self,
        index: ConnectionIndex,
        publish: &Publish<'_>,
        consequence: RefusalAction,
    ) -> bool {
        let counters = self.state.counters();
        let gets_reason_code = self.state.connections[index].is_v5();
        match consequence {
            RefusalAction::Congested(shard) => {
                self.uncount_publish(publish);
                self.pause_for_shard(index, shard);
            }
            RefusalAction::PausedForQueue => self.pause_for_queue(index, publish),
            RefusalAction::RetryWhenQueueHasRoom if gets_reason_code => {
                counters.publishes_refused_queue_full.add(1);
                return false;
            }
            RefusalAction::RetryWhenQueueHasRoom => self.pause_for_queue(index, publish),
            RefusalAction::RetryWhenShareQueueHasRoom => {
                counters.publishes_refused_shared_queue.add(1);
                if gets_reason_code {
                    return false;
                }
                self.pause_for_queue(index, publish);
            }
            RefusalAction::RetryWhenMemoryFree => {
                counters.publishes_refused_memory.add(1);
                if gets_reason_code {
                    return false;
                }
                self.pause_for_memory(index, publish);
            }
            RefusalAction::Never
            | RefusalAction::Always
            | RefusalAction::WithoutReasonCode
            | RefusalAction::Unacknowledged => {
                return false;
            }
        }
        true
    }

    /// Retains and routes a message. Returns whether it had receivers.
    pub(crate) fn publish(
        &mut self,
        outgoing: &mut OutgoingPublish<'_>,
        publisher: MessageSource,
    ) -> Result<bool, Box<MessageRefusal>> {
        let generation = if outgoing.message.retain {
            self.retain(outgoing, publisher)
        } else {
            Ok(self.state.context.exchange().generation())
        };
        let routed = generation.and_then(|generation| self.route(outgoing, publisher, generation));
        routed.or_else(|why| self.refuse_message(why, outgoing, publisher))
    }

    /// Retains a message. Returns the generation with which it must be routed.
    fn retain(&mut self, outgoing: &mut OutgoingPublish<'_>, publisher: MessageSource) -> Result<u64, RouteError> {
        if let Some(shard) = self.congested(outgoing, publisher) {
            return Err(RouteError::Congested(shard));
        }
        if let Some(publisher_index) = outgoing.unchecked_publisher.take()
            && !self.state.may_publish(publisher_index, None, &outgoing.message)
        {
            return Err(RouteError::NotAuthorized);
        }
        if let Some(contract) = self.state.config.contracts().find(outgoing.message.topic).cloned() {
            self.state.check_contract(&contract, outgoing).map_err(RouteError::ContractViolation)?;
        }
        outgoing.is_checked = true;
        if !outgoing.is_admitted && outgoing.message.qos != QoS::AtMostOnce {
            self.admit_retained(outgoing)?;
        } else if outgoing.message.qos == QoS::AtMostOnce {
            self.state.check_retained_at_most_once(outgoing)?;
        }
        let message = outgoing.message;
        let claim = self.retained_claim(publisher);
        let store = || outgoing.store_message(self.state.memory.ledger());
        let retention =
            self.state.context.exchange().retain_for(claim.as_ref(), &message, store).map_err(|refused| {
                let counters = self.state.counters();
                counters.retained_refused.add(1);
                counters.retained_refused_for_client.add(u64::from(refused == RetainError::Quota));
                RouteError::NotRetained(refused)
            })?;
        M::record_retained(&mut self.state, outgoing, retention.sequence);
        self.state.queue_retained_for_spill(outgoing);
        Ok(retention.generation)
    }

    /// The quota against which a retained message counts, if there is one.
    pub(crate) fn retained_claim(&self, publisher: MessageSource) -> Option<RetainedClaim> {
        let MessageSource::Session(session) = publisher else { return None };
        let of_user = self.state.quota_state.quotas().of_user.retained;
        if let Some(user) = self.state.sessions.user(session).filter(|_| of_user.is_bounded()) {
            return Some(RetainedClaim { owner: user.owner(), quota: of_user });
        }
        let quota = self.state.quota_state.quotas().retained;
        let owner = || self.state.context.exchange().retained_owner(self.state.sessions[session].name());
        quota.is_bounded().then(|| RetainedClaim { owner: owner(), quota })
    }

    #[cold]
    pub(crate) fn refuse_message(
        &mut self,
        why: RouteError,
        outgoing: &OutgoingPublish<'_>,
        publisher: MessageSource,
    ) -> Result<bool, Box<MessageRefusal>> {
        let refused = self.refusal_of(why, outgoing);
        if let Err(refusal) = &refused
            && !refusal.consequence.pauses_publisher()
            && self.state.operations.has_observers()
        {
            self.state.trace(&outgoing.message, publisher, refusal.reason, std::iter::empty());
        }
        refused
    }

    fn refusal_of(&mut self, why: RouteError, outgoing: &OutgoingPublish<'_>) -> Result<bool, Box<MessageRefusal>> {
        match why {
            RouteError::ContractViolation(broken) => self.refuse_violation(*broken, outgoing),
            RouteError::NotRetained(refused) => {
                let why = match refused {
                    RetainError::Limit => "the limit on retained messages of the broker is reached",
                    RetainError::Quota => "the quota for retained messages of the client or its user is reached",
                };
                Err(MessageRefusal::new(ReasonCode::QuotaExceeded, why))
            }
            RouteError::NotAuthorized => Err(MessageRefusal::denied()),
            RouteError::NoMemory => Err(MessageRefusal::no_memory()),
            RouteError::QueueFull(policy) => Err(MessageRefusal::queue_full(policy)),
            RouteError::Congested(shard) => Err(MessageRefusal::congested(shard)),
            RouteError::ShareQueueFull => Err(MessageRefusal::share_queue_full()),
            RouteError::DiskUnavailable(state) => {
                self.state.counters().publishes_refused_disk.add(1);
                Err(MessageRefusal::no_disk(state))
            }
        }
    }

    /// Checks a message against the capabilities announced in CONNACK.
    fn check_capabilities(&self, index: ConnectionIndex, publish: &Publish<'_>) -> Result<(), Disconnection> {
        // QoS 0 without RETAIN is always supported.
        if (publish.qos() != QoS::AtMostOnce || publish.retain)
            && let max_qos = self.state.connections[index].max_qos(self.state.config.settings().max_qos)
            && let Err(disconnection) = self.check_supported(max_qos, publish.qos(), publish.retain)
        {
            self.check_server_limits(index, publish).map_err(|()| disconnection)?;
        }
        if publish.properties.contains(PropertyId::SubscriptionIdentifier) {
            // [MQTT-3.3.4-6]
            return Err(Disconnection(
                DisconnectReason::ProtocolError,
                "a client's PUBLISH carries a subscription identifier",
            ));
        }
        Ok(())
    }

    /// Checks a message against the limits in the client's CONNACK, which may be from before a reload.
    #[cold]
    fn check_server_limits(&self, index: ConnectionIndex, publish: &Publish<'_>) -> Result<(), ()> {
        let announced = self.state.server_limits(index);
        let max_qos = self.state.connections[index].max_qos(announced.max_qos);
        let is_allowed = publish.qos() <= max_qos && (announced.retain_available || !publish.retain);
        is_allowed.then_some(()).ok_or(())
    }

    /// Checks whether the broker supports messages of this QoS and RETAIN flag.
    #[inline]
    pub(crate) fn check_supported(&self, max_qos: QoS, qos: QoS, retain: bool) -> Result<(), Disconnection> {
        if qos > max_qos {
            return Err(Disconnection(DisconnectReason::QoSNotSupported, "the QoS is above the maximum"));
        }
        if retain && !self.state.config.settings().retain_available {
            return Err(Disconnection(DisconnectReason::RetainNotSupported, "retained messages are not available"));
        }
        Ok(())
    }

    /// Resolves the topic by name or alias, with the alias to store for it.
    fn resolve_topic<'a>(
        &mut self,
        index: ConnectionIndex,
        publish: &Publish<'a>,
    ) -> Result<ResolvedTopic<'a>, Disconnection> {
        let Some(alias) = publish.properties.topic_alias() else {
            return Ok(ResolvedTopic {
                topic: Cow::Borrowed(publish.topic.map_or("", |topic| topic.as_str())),
                alias: None,
            });
        };
        let alias = alias.get();
        let connection = &self.state.connections[index];
        if alias > connection.topic_alias_maximum(self.state.config.settings().topic_alias_maximum)
            && alias > connection.topic_alias_maximum(self.state.server_limits(index).topic_alias_maximum)
        {
            // [MQTT-3.2.2-17]
            return Err(Disconnection(DisconnectReason::TopicAliasInvalid, "the topic alias is above the maximum"));
        }
        if let Some(topic) = publish.topic {
            let held_bytes = self.state.connection_bytes(index);
            if self.state.memory.share().admits(held_bytes, topic.as_str().len()).is_err() {
                self.state.counters().resources_refused_memory.add(1);
                return Err(Disconnection(DisconnectReason::QuotaExceeded, "there is no memory for the topic alias"));
            }
            return Ok(ResolvedTopic { topic: Cow::Borrowed(topic.as_str()), alias: Some(alias) });
        }
        let known = self.state.connections[index].take_incoming_alias(alias);
        match known {
            Some(topic) => Ok(ResolvedTopic { topic: Cow::Owned(topic.into()), alias: Some(alias) }),
            None => Err(Disconnection(DisconnectReason::ProtocolError, "the topic alias is not set")),
        }
    }

    #[inline]
    fn store_alias(&mut self, index: ConnectionIndex, alias: Option<u16>, topic: Cow<'_, str>) {
        if let Some(alias) = alias {
            let ShardState { connections, memory, .. } = &mut self.state;
            connections[index].store_incoming_alias(alias, topic.into(), memory.ledger());
        }
    }

    /// Checks a QoS 1 or 2 message before it is accepted: duplicates and Receive Maximum.
    fn check_before_ack(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        qos: QoS,
        packet_id: PacketId,
    ) -> Option<Handled> {
        let held = self.state.sessions[session].held();
        if qos == QoS::ExactlyOnce && held.is_some_and(|held| held.contains(packet_id)) {
            // A resend, because our PUBREC was lost: acknowledged again, but not delivered again [MQTT-4.3.3-10].
            let ack = Ack::Received(packet_id, PubRecReason::Success, None);
            self.state.acknowledge(index, ack);
            return Some(Handled::Done);
        }
        // Each connection starts with the full quota [MQTT 5.0 section 4.9]: identifiers held from an earlier one do not count.
        let connection = &self.state.connections[index];
        let in_flight = connection.delayed_publish_acks() + usize::from(connection.inbound_qos2());
        if connection.is_v5()
            && in_flight >= usize::from(connection.receive_maximum(self.state.config.settings().receive_maximum))
            && in_flight >= usize::from(connection.receive_maximum(self.state.server_limits(index).receive_maximum))
        {
            // [MQTT-3.3.4-7]
            self.state.counters().receive_maximum_exceeded.add(1);
            let reason = DisconnectReason::ReceiveMaximumExceeded;
            self.disconnect(index, reason, "more messages in flight than Receive Maximum");
            return Some(Handled::Ended);
        }
        None
    }

    /// Checks whether clients can publish to `topic`.
    pub(crate) fn check_topic(&self, topic: &str) -> Result<(), ReasonCode> {
        let settings = self.state.config.settings();
        let levels = || topic.bytes().filter(|byte| *byte == b'/').count() + 1;
        if topic.len() > settings.topic_bytes
            || (topic.len() >= settings.topic_levels && levels() > settings.topic_levels)
        {
            return Err(ReasonCode::TopicNameInvalid);
        }
        const RESERVED: [&str; 4] = ["$SYS", "$share", "$as", "$quarantine"];
        if topic.starts_with('$') && topic.split('/').next().is_some_and(|first| RESERVED.contains(&first)) {
            return Err(ReasonCode::NotAuthorized);
        }
        Ok(())
    }

    fn check_message(&self, publish: &Publish<'_>, topic: &str) -> Result<(), Box<MessageRefusal>> {
        self.check_topic(topic)
            .map_err(|reason| MessageRefusal::new(reason, "clients cannot publish to this topic"))?;
        if !publish.payload_is_as_indicated() {
            return Err(MessageRefusal::new(ReasonCode::PayloadFormatInvalid, "the payload is not UTF-8 as indicated"));
        }
        if !self.is_payload_allowed(publish.payload.len()) {
            self.state.counters().payloads_too_large.add(1);
            // With Quota exceeded (0x97), clients would send it again.
            return Err(MessageRefusal::new(ReasonCode::ImplementationSpecificError, PAYLOAD_TOO_LARGE));
        }
        Ok(())
    }

    /// Whether a payload of this length is allowed.
    #[inline]
    pub(crate) fn is_payload_allowed(&self, bytes: usize) -> bool {
        let limit = self.state.config.settings().payload_bytes;
        limit == 0 || bytes <= limit
    }

    /// Whether a refusal closes the publisher's connection.
    fn ends_connection(&self, index: ConnectionIndex, qos: QoS, refusal: &MessageRefusal) -> bool {
        match refusal.consequence {
            RefusalAction::Never
            | RefusalAction::RetryWhenMemoryFree
            | RefusalAction::RetryWhenQueueHasRoom
            | RefusalAction::RetryWhenShareQueueHasRoom
            | RefusalAction::PausedForQueue
            | RefusalAction::Congested(_) => false,
            RefusalAction::Always => true,
            RefusalAction::Unacknowledged => qos != QoS::AtMostOnce && !self.state.connections[index].is_v5(),
            RefusalAction::WithoutReasonCode => qos == QoS::AtMostOnce || !self.state.connections[index].is_v5(),
        }
    }

    /// The properties of a message with RETAIN, with its publisher in front if publishers are stored.
    #[inline(never)]
    fn retained_properties<'a>(
        &self,
        index: ConnectionIndex,
        session: SessionIndex,
        publish: &Publish<'a>,
        scratch: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        if !publish.payload.is_empty() {
            self.state.append_publisher(index, self.state.sessions[session].client_id(), scratch);
        }
        if scratch.is_empty() && !is_forged(&publish.properties) {
            return forwarded_properties(publish, scratch);
        }
        for property in publish.properties.raw().into_iter().flatten() {
            if !is_not_forwarded(property.id) && !is_publisher(&property) {
                scratch.extend_from_slice(property.bytes);
            }
        }
        scratch
    }

    fn expires_at_ms(&self, publish: &Publish<'_>) -> Option<u64> {
        let interval_s = publish.properties.message_expiry_interval()?;
        Some(self.state.clock.now_ms() + u64::from(interval_s) * 1000)
    }

    /// Acknowledges a message as its QoS requires [MQTT-3.3.4-1].
    fn answer_publish(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        publish: &Publish<'_>,
        level: AckLevel,
        outcome: Result<bool, Box<MessageRefusal>>,
    ) {
        // Reason codes and strings exist only in 5.0. A client of 3.1.1 gets success, because the only alternative is to
        // close its connection.
        let v5 = self.state.connections[index].is_v5();
        let (reason, why) = match outcome {
            Ok(true) => (ReasonCode::Success, None),
            Ok(false) if v5 => (ReasonCode::NoMatchingSubscribers, None),
            Ok(false) => (ReasonCode::Success, None),
            Err(refusal) => {
                let MessageRefusal { reason, why, .. } = *refusal;
                self.state.counters().publishes_refused.add(1);
                if v5 { (reason, Some(why)) } else { (ReasonCode::Success, None) }
            }
        };
        match publish.delivery {
            tautwire_protocol::Delivery::AtMostOnce => {}
            tautwire_protocol::Delivery::AtLeastOnce { packet_id, .. } => {
                let reason = PubAckReason::try_from(reason).unwrap_or(PubAckReason::UnspecifiedError);
                M::acknowledge(&mut self.state, level, index, Ack::Published(packet_id, reason, why));
            }
            tautwire_protocol::Delivery::ExactlyOnce { packet_id, .. } => {
                let reason = PubRecReason::try_from(reason).unwrap_or(PubRecReason::UnspecifiedError);
                if !reason.is_error() {
                    self.state.commit(session, Change::Taken(packet_id));
                    self.state.connections[index].begin_inbound_qos2();
                }
                M::acknowledge(&mut self.state, level, index, Ack::Received(packet_id, reason, why));
            }
        }
    }

    /// Pauses reading until the channel to `shard` has room.
    pub(crate) fn pause_for_shard(&mut self, index: ConnectionIndex, shard: ShardIndex) {
        self.state.counters().publishers_paused_for_shard_queue.add(1);
        self.state.connections[index].pause_reading(PauseReason::ShardChannel);
        let id = self.state.id(index);
        self.state.paused_readers.wait_for_shard(shard, id);
    }

    /// Pauses reading until the queue of a session has room. As for memory, this is retried from time to time.
    fn pause_for_queue(&mut self, index: ConnectionIndex, publish: &Publish<'_>) {
        self.uncount_publish(publish);
        self.state.counters().publishers_paused_for_session_queue.add(1);
        self.state.connections[index].pause_reading(PauseReason::Memory);
        let id = self.state.id(index);
        self.state.paused_readers.pause_for_memory(id);
    }

    /// Pauses a publisher of 3.1.1 until there is memory. That version has no reason code for it.
    fn pause_for_memory(&mut self, index: ConnectionIndex, publish: &Publish<'_>) {
        self.uncount_publish(publish);
        self.state.counters().publishers_paused_for_memory.add(1);
        self.state.connections[index].pause_reading(PauseReason::Memory);
        let id = self.state.id(index);
        self.state.paused_readers.pause_for_memory(id);
    }

    /// Takes back the count of a message that is read again, and counted then.
    pub(crate) fn uncount_publish(&mut self, publish: &Publish<'_>) {
        let counters = self.state.counters();
        counters.publishes_received.subtract(1);
        counters.publish_bytes_received.subtract(publish.payload.len() as u64);
    }
}

/// The properties that are forwarded to subscribers: a slice of the packet, unless one of them is removed.
#[inline(always)]
fn forwarded_properties<'a>(publish: &Publish<'a>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if publish.properties.is_empty() { &[] } else { forwarded_from(&publish.properties, scratch) }
}

#[inline(never)]
fn forwarded_from<'a>(properties: &Properties<'a>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if !properties.contains(PropertyId::TopicAlias) && !properties.contains(PropertyId::MessageExpiryInterval) {
        return properties.as_wire().unwrap_or_default();
    }
    for property in properties.raw().into_iter().flatten().filter(|property| !is_not_forwarded(property.id)) {
        scratch.extend_from_slice(property.bytes);
    }
    scratch
}

/// Whether a property is not forwarded to subscribers.
fn is_not_forwarded(id: PropertyId) -> bool {
    matches!(id, PropertyId::TopicAlias | PropertyId::MessageExpiryInterval)
}
