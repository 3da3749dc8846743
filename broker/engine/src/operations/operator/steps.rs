//! Steps of [`super`] that need several states of a shard.

use tautwire_message::{Message, MessageRef};
use tautwire_protocol::{DisconnectReason, ReasonCode};
use tautwire_session::{LogPosition, LogState};

use super::{ConfirmCondition, ConfirmStatus, PublishConfirm, PublishFailure, PublishReceipt, packet_len};
use crate::mode::Mode;
use crate::routing::contracts::MessageRefusal;
use crate::routing::publish::{Disconnection, PAYLOAD_TOO_LARGE};
use crate::routing::publish_packets::OutgoingPublish;
use crate::scheduling::fan_out::FanOutBudget;
use crate::shard::Shard;
use crate::shard::ShardState;

impl<M: Mode> Shard<M> {
    /// Publishes a message with the same topics, limits and contracts as for clients. It is not counted as a received packet. Call this
    /// from [`Io::run_commands`](crate::Io::run_commands).
    ///
    /// # Errors
    /// The message was not published.
    pub fn publish_for_operator(&mut self, message: &Message, now_ms: u64) -> Result<PublishReceipt, PublishFailure> {
        self.state.clock.set(now_ms);
        // For a client, reading would pause at QoS 1, and a message of QoS 0 would be dropped; an operator gets an error.
        if self.state.outboxes.is_full() || self.state.log.is_lagging() {
            return Err(PublishFailure::Busy);
        }
        if !M::can_publish_from_operator(&self.state, &message.as_ref()) {
            return Err(PublishFailure::Busy);
        }
        self.state.log.begin_packet();
        let message = MessageRef { id: self.state.context.next_message_id(), ..message.as_ref() };
        let mut outgoing = OutgoingPublish::new(message);
        self.check_publication(&outgoing.message)?;
        let budget = FanOutBudget::begin(&self.state);
        let published = self.publish_as_operator(&mut outgoing);
        self.finish_source(&budget);
        published.map_err(|refusal| PublishFailure::Refused(refusal.reason, refusal.why))
    }

    fn publish_as_operator(
        &mut self,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> Result<PublishReceipt, Box<MessageRefusal>> {
        let (matched, range) = M::publish_from_operator(self, outgoing)?;
        let elsewhere = range.map(|range| PublishConfirm(ConfirmCondition::Elsewhere(range)));
        Ok(PublishReceipt {
            matched,
            confirm: elsewhere.or_else(|| self.state.confirm_for_publication(outgoing.message.topic)),
        })
    }

    /// Disconnects the client of a session, and ends the session too if `ends_session`; returns whether there was something to end. For
    /// `name`, see [`session_name`](tautwire_session::session_name).
    pub fn disconnect_by_name(&mut self, name: &str, ends_session: bool, now_ms: u64) -> bool {
        self.state.clock.set(now_ms);
        let Some(session) = self.state.sessions.find_client_session(name) else { return false };
        let key = self.state.sessions.key(session);
        let connection = self.state.sessions.connection(session);
        if ends_session {
            M::end_session_at_disconnect(&mut self.state, session);
        }
        if let Some(index) = connection {
            self.disconnect(index, DisconnectReason::AdministrativeAction, "an operator has ended the connection");
        }
        // A session that ends with its connection has ended already.
        if ends_session && let Some(session) = self.state.sessions.at(&key) {
            self.end_session(session);
        }
        ends_session || connection.is_some()
    }

    /// The status of a confirmation.
    pub fn confirm_status(&self, confirm: PublishConfirm) -> ConfirmStatus {
        match confirm.0 {
            ConfirmCondition::Written { position, level } if position <= self.state.log.reached(level) => {
                ConfirmStatus::Confirmed
            }
            ConfirmCondition::Written { .. } if self.state.log.state() == LogState::Failed => ConfirmStatus::Failed,
            ConfirmCondition::Written { .. } => ConfirmStatus::Pending,
            ConfirmCondition::Elsewhere(range) => M::publish_status(&self.state, range),
        }
    }

    /// Forgets a confirmation whose status was reported.
    pub fn finish_confirm(&mut self, confirm: PublishConfirm) {
        if let ConfirmCondition::Elsewhere(range) = confirm.0 {
            M::remove_publish_status(&mut self.state, range);
        }
    }

    fn check_publication(&self, message: &MessageRef<'_>) -> Result<(), PublishFailure> {
        let refused = |reason, why: &'static str| Err(PublishFailure::Refused(reason, why.into()));
        let max_qos = self.state.config.settings().max_qos;
        if let Err(Disconnection(reason, why)) = self.check_supported(max_qos, message.qos, message.retain) {
            return refused(reason.into(), why);
        }
        if !self.is_payload_allowed(message.payload.len()) {
            return refused(ReasonCode::PacketTooLarge, PAYLOAD_TOO_LARGE);
        }
        if packet_len(message) > self.state.config.settings().maximum_packet_size_bytes as usize {
            return refused(ReasonCode::PacketTooLarge, "the message is larger than mqtt.maximum_packet_size");
        }
        match self.check_topic(message.topic) {
            Ok(()) if !self.state.config.access().can_operator_publish(message) => {
                refused(ReasonCode::NotAuthorized, "the access rules do not allow this")
            }
            Ok(()) => Ok(()),
            Err(reason @ ReasonCode::TopicNameInvalid) => {
                refused(reason, "the topic exceeds limits.topic_bytes or limits.topic_levels")
            }
            Err(reason) => refused(reason, "clients cannot publish to this topic"),
        }
    }
}

impl<M: Mode> ShardState<M> {
    /// The condition for records that were written since the message began, if there are any.
    fn confirm_for_publication(&self, topic: &str) -> Option<PublishConfirm> {
        if self.log.packet_position() == LogPosition::default() {
            return None;
        }
        let level = self.config.settings().acks.for_topic(topic, self.config.settings().acks.default);
        Some(PublishConfirm(ConfirmCondition::Written { position: self.log.packet_position(), level }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tautwire_protocol::{QoS, TopicName};

    use crate::mode::Volatile;
    use tautwire_router::{Exchange, InterestChange, RetainedLimits, ShardIndex};

    use crate::{Publication, Settings, Shared};

    const NOW_MS: u64 = 1_700_000_000_000;

    fn shard(settings: Settings) -> Shard<Volatile> {
        let limits = RetainedLimits { messages: 1, bytes: 1_000 };
        let shared = Shared::new(settings, Exchange::new(2, limits));
        // The other shard has a subscriber.
        let first = InterestChange { any: true, persistent: false };
        let (_, retained) = shared.exchange.subscribe(ShardIndex(1), "t", first, false);
        assert!(retained.is_none());
        let mut shard = Shard::new(ShardIndex(0), shared, Volatile, NOW_MS);
        shard.set_capacity(ShardIndex(1), 10);
        shard
    }

    fn message(qos: QoS, retain: bool, payload: &[u8]) -> Message {
        let topic = TopicName::new("t").expect("a valid topic");
        Publication { topic, content_type: Some("text/plain"), payload, qos, retain }.to_message()
    }

    /// It matched, and no records were written.
    const MATCHED: PublishReceipt = PublishReceipt { matched: true, confirm: None };

    fn reason(outcome: Result<PublishReceipt, PublishFailure>) -> Option<ReasonCode> {
        match outcome {
            Err(PublishFailure::Refused(reason, _)) => Some(reason),
            Err(other) => panic!("{other:?} instead of a refusal"),
            Ok(_) => None,
        }
    }

    #[test]
    fn a_busy_shard_refuses_an_operators_message() {
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            let mut shard = shard(Settings::default());
            shard.set_capacity(ShardIndex(1), 0);
            assert_eq!(shard.publish_for_operator(&message(qos, false, b"first"), NOW_MS), Ok(MATCHED));
            let second = message(qos, true, b"second");
            assert_eq!(shard.publish_for_operator(&second, NOW_MS), Err(PublishFailure::Busy));
            assert_eq!(shard.state.context.exchange().retained(), (0, 0), "nothing is retained");
            let mut entries = 0;
            shard.state.outboxes.set_capacity(ShardIndex(1), 1);
            shard.state.outboxes.send(ShardIndex(1), |batches| entries = batches.map(|batch| batch.len()).sum());
            assert_eq!(entries, 1);
            assert_eq!(shard.publish_for_operator(&second, NOW_MS), Ok(MATCHED));
            assert_eq!(shard.counters().dropped_shard_queue_full.get(), 0);
        }
    }

    #[test]
    fn an_operator_cannot_send_what_clients_cannot_send() {
        let offered = Settings { max_qos: QoS::AtLeastOnce, retain_available: false, ..Settings::default() };
        let mut shard = shard(Settings { maximum_packet_size_bytes: 100, ..offered });
        // Fixed header, topic, packet identifier, properties.
        let most = 100 - 2 - 3 - 2 - (1 + 13);
        let mut publish = |qos, retain, bytes: usize| {
            let message = message(qos, retain, &vec![0; bytes]);
            reason(shard.publish_for_operator(&message, NOW_MS))
        };
        assert_eq!(publish(QoS::AtLeastOnce, false, most), None);
        assert_eq!(publish(QoS::AtLeastOnce, false, most + 1), Some(ReasonCode::PacketTooLarge));
        assert_eq!(publish(QoS::ExactlyOnce, false, 0), Some(ReasonCode::QoSNotSupported));
        assert_eq!(publish(QoS::AtMostOnce, true, 0), Some(ReasonCode::RetainNotSupported));
        assert_eq!(shard.counters().publishes_received.get(), 0, "no packet was received");
    }
}
