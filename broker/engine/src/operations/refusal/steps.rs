//! Steps of [`super`] that need several states of a shard.

use tautwire_message::MessageRef;
use tautwire_protocol::{QoS, ReasonCode};

use super::{HypotheticalPublish, PublishDecision, PublishRefusal};
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::operations::operator::packet_len;
use crate::routing::publish::Disconnection;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::{Matches, MessageSource, RouteError};
use crate::shard::Shard;

impl<M: Mode> Shard<M> {
    /// Whether the broker would accept a message now. Runs the checks of `on_publish` in the same order, and changes nothing.
    pub(crate) fn check_publish(&self, hypothetical: &HypotheticalPublish) -> PublishDecision {
        let session = match hypothetical.publisher.as_deref().map(|name| self.state.sessions.find(name)) {
            None => None,
            Some(Some(session)) if self.state.sessions.connection(session).is_some() => Some(session),
            Some(_) => return PublishDecision::NoPublisher,
        };
        match self.publish_refusal(session, &hypothetical.message(), hypothetical.is_payload_given) {
            Some(refusal) => PublishDecision::Refused(refusal),
            None => self
                .routing_refusal(session, &hypothetical.message())
                .err()
                .map_or(PublishDecision::Accepted, |why| PublishDecision::from(&why)),
        }
    }

    /// The checks before the message is retained and routed.
    fn publish_refusal(
        &self,
        publisher: Option<SessionIndex>,
        message: &MessageRef<'_>,
        is_payload_given: bool,
    ) -> Option<PublishRefusal> {
        // Before the packet is decoded.
        if packet_len(message) > self.state.config.settings().maximum_packet_size_bytes as usize {
            return Some(PublishRefusal::PacketTooLarge);
        }
        let common = self.state.config.settings().max_qos;
        let connection = publisher.and_then(|session| self.state.sessions.connection(session));
        let max_qos = connection.map_or(common, |index| self.state.connections[index].max_qos(common));
        if let Err(Disconnection(reason, _)) = self.check_supported(max_qos, message.qos, message.retain) {
            let is_qos = ReasonCode::from(reason) == ReasonCode::QoSNotSupported;
            return Some(if is_qos { PublishRefusal::QoSNotSupported } else { PublishRefusal::RetainNotSupported });
        }
        match self.check_topic(message.topic) {
            // The broker publishes there itself.
            Err(_) if message.topic.starts_with("$SYS/") && publisher.is_none() => {}
            Err(ReasonCode::TopicNameInvalid) => return Some(PublishRefusal::TopicTooLong),
            Err(_) => return Some(PublishRefusal::TopicReserved),
            Ok(()) => {}
        }
        if !self.is_payload_allowed(message.payload.len()) {
            return Some(PublishRefusal::PayloadTooLarge);
        }
        if message.qos == QoS::ExactlyOnce
            && let Some(state) = publisher.and_then(|session| self.state.disk_error_for_session(session))
        {
            return Some(PublishRefusal::of_log(state));
        }
        if publisher.is_some_and(|session| !self.is_publish_allowed(session, message)) {
            return Some(PublishRefusal::NotAuthorized);
        }
        if is_payload_given && self.violates_contract(message) {
            return Some(PublishRefusal::ContractViolation);
        }
        None
    }

    /// Finds the matches of a topic, without the cache.
    fn find_matches(&self, topic: &str) -> Matches {
        let mut matches = self.table.find_for_sessions(topic, |_| true);
        self.state.context.exchange().routes(topic, &mut matches.routes);
        matches
    }

    /// Whether the access rules allow the client of a session to publish a message.
    fn is_publish_allowed(&self, session: SessionIndex, message: &MessageRef<'_>) -> bool {
        let permissions = self
            .state
            .sessions
            .connection(session)
            .and_then(|index| self.state.permissions_of(index, self.state.sessions[session].client_id()));
        let MessageRef { topic, qos, retain, .. } = *message;
        permissions.is_none_or(|permissions| permissions.may_publish(topic, qos, retain).is_allowed())
    }

    /// The checks when a message is retained and routed.
    fn routing_refusal(&self, publisher: Option<SessionIndex>, message: &MessageRef<'_>) -> Result<(), RouteError> {
        let outgoing = OutgoingPublish::new(*message);
        if let Some(checked) = M::check_publish(&self.state, message) {
            return checked;
        }
        if message.qos != QoS::AtMostOnce {
            self.state.check_capacity(&outgoing, &self.find_matches(message.topic))?;
        } else if message.retain {
            self.state.check_retained_at_most_once(&outgoing)?;
        }
        if message.retain && !message.payload.is_empty() {
            let claim = self.retained_claim(publisher.map_or(MessageSource::Broker, MessageSource::Session));
            let exchange = self.state.context.exchange();
            let admitted = exchange.check_retained_for(claim.as_ref(), message.topic, message.allocated_bytes());
            admitted.map_err(RouteError::NotRetained)?;
        }
        Ok(())
    }
}
