//! Publishes messages of clients and operators to the cluster.

use tautwire_message::MessageRef;
use tautwire_protocol::{PacketId, Publish, QoS, ReasonCode, TopicFilter};
use tautwire_session::AckLevel;

use super::cluster_state::AckTiming;
use super::clustered::ShardClusterState;
use super::sys::NODES_TOPIC;
use crate::connection::ack::Ack;
use crate::connection::connections::PauseReason;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::{Clustered, Mode};
use crate::mutant::{Mutant, is};
use crate::operations::publish_range::PublishRange;
use crate::routing::contracts::MessageRefusal;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::{MessageSource, RouteError};
use crate::routing::transcoding;
use crate::shard::Shard;
use crate::shard::ShardState;

impl Shard<Clustered> {
    /// Publishes a message of a client to the clients of all nodes.
    ///
    /// # Errors
    /// The message was refused.
    #[cold]
    #[inline(never)]
    pub(crate) fn publish_in_cluster(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        packet_id: Option<PacketId>,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> Result<bool, Box<MessageRefusal>> {
        if outgoing.message.qos != QoS::AtMostOnce || outgoing.message.retain {
            return self.publish_by_log(index, session, packet_id, outgoing);
        }
        let published = self.publish(outgoing, MessageSource::Session(session));
        if published.is_ok() {
            self.broadcast(outgoing);
        }
        published
    }

    /// Publishes a message of QoS 1 or 2, or with RETAIN, through the log, which all nodes read.
    fn publish_by_log(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        packet_id: Option<PacketId>,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> Result<bool, Box<MessageRefusal>> {
        let publisher = MessageSource::Session(session);
        if let Err(why) = self.check_for_log(outgoing) {
            return self.refuse_message(why, outgoing, publisher);
        }
        if self.state.operations.has_observers() {
            self.state.notify_taps(&outgoing.message, publisher);
        }
        let message = outgoing.message;
        let retain = match self.state.retain_info(&message) {
            Ok(retain) => retain,
            Err(why) => return self.refuse_message(why, outgoing, publisher),
        };
        let ack_timing = match Clustered::ack_level(&self.state, index, &message) {
            _ if message.qos == QoS::AtMostOnce => AckTiming::Never,
            AckLevel::Memory if self.may_resend(index) => AckTiming::InOrder,
            AckLevel::Memory => AckTiming::Immediate,
            AckLevel::Os | AckLevel::Disk | AckLevel::Quorum => AckTiming::WhenStored,
        };
        let bytes = encode_stored(outgoing);
        let packet_id = packet_id.filter(|_| message.qos == QoS::ExactlyOnce);
        if !self.state.mode.cluster.publish(session, message.topic, ack_timing, packet_id, retain, bytes) {
            let why = "another broker of the cluster serves the session";
            return Err(MessageRefusal::new(ReasonCode::ImplementationSpecificError, why));
        }
        // This node does not know whether a client of another node has subscribed.
        Ok(true)
    }

    /// Whether the client would send this message again if an earlier one were refused. It is then not acknowledged before the earlier one,
    /// because 3.1.1 has no reason code for a refusal.
    fn may_resend(&self, index: ConnectionIndex) -> bool {
        let connection = &self.state.connections[index];
        !connection.is_v5() && connection.has_delayed_ack(Ack::is_publish_ack)
    }

    /// Publishes a message of an operator to the clients of all nodes. Returns a handle for its status if it goes through the log.
    ///
    /// # Errors
    /// The message was refused.
    #[cold]
    #[inline(never)]
    pub(crate) fn publish_from_operator_in_cluster(
        &mut self,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> Result<Option<PublishRange>, Box<MessageRefusal>> {
        if outgoing.message.qos == QoS::AtMostOnce && !outgoing.message.retain {
            self.publish(outgoing, MessageSource::Broker)?;
            self.broadcast(outgoing);
            return Ok(None);
        }
        if let Err(why) = self.check_for_log(outgoing) {
            return self.refuse_message(why, outgoing, MessageSource::Broker).map(|_| None);
        }
        if self.state.operations.has_observers() {
            self.state.notify_taps(&outgoing.message, MessageSource::Broker);
        }
        let message = outgoing.message;
        let retain = match self.state.retain_info(&message) {
            Ok(retain) => retain,
            Err(why) => return self.refuse_message(why, outgoing, MessageSource::Broker).map(|_| None),
        };
        let bytes = encode_stored(outgoing);
        Ok(Some(self.state.mode.cluster.publish_as_operator(message.topic, retain, bytes)))
    }

    fn check_for_log(&mut self, outgoing: &mut OutgoingPublish<'_>) -> Result<(), RouteError> {
        if let Some(asker) = outgoing.unchecked_publisher.take()
            && !self.state.may_publish(asker, None, &outgoing.message)
        {
            return Err(RouteError::NotAuthorized);
        }
        if let Some(contract) = self.state.config.contracts().find(outgoing.message.topic).cloned() {
            self.state.check_contract(&contract, outgoing).map_err(RouteError::ContractViolation)?;
        }
        outgoing.is_checked = true;
        Ok(())
    }

    /// Sends a message of QoS 0, which was routed on this node, to the others.
    pub(crate) fn broadcast(&mut self, outgoing: &OutgoingPublish<'_>) {
        if !self.state.mode.cluster.broadcast(&outgoing.message) {
            self.state.counters().dropped_cluster_queue_full.add(1);
        }
    }

    /// Whether a message has to wait before it goes to the log, which brings it to all shards.
    #[cold]
    pub(super) fn must_wait_for_log(&mut self, index: ConnectionIndex, publish: &Publish<'_>) -> bool {
        if publish.qos() != QoS::AtMostOnce
            && let Some(shard) = self.state.outboxes.first_full()
        {
            self.pause_for_shard(index, shard);
            return true;
        }
        let waits = self.state.mode.cluster.is_full() && (publish.qos() != QoS::AtMostOnce || publish.retain);
        if waits {
            self.wait_for_cluster(index);
        }
        waits
    }

    /// Pauses reading from a publisher until the log has stored more.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for_cluster(&mut self, index: ConnectionIndex) {
        self.state.counters().clients_paused_for_cluster.add(1);
        let id = self.state.id(index);
        if self.state.connections[index].pause_reading(PauseReason::RemoteLog) {
            self.state.mode.cluster.add_paused_publisher(id);
        }
    }
}

fn encode_stored(outgoing: &OutgoingPublish<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(outgoing.message.stored_bytes());
    outgoing.message.append_stored(&mut bytes);
    bytes
}

impl ShardState<Clustered> {
    /// The level at which a message is acknowledged, where `level` is configured. The log may refuse a large message, which its servers do
    /// not accept in one piece: it is not acknowledged before it is stored.
    pub(crate) fn ack_level_in_cluster(&self, level: AckLevel, message: &MessageRef<'_>) -> AckLevel {
        let most_bytes = self.mode.cluster.settings().ack_before_stored_max_bytes;
        if level == AckLevel::Memory && message.stored_bytes() > most_bytes { AckLevel::Quorum } else { level }
    }

    /// The number of pending changes that a connection's client waits for.
    pub(crate) fn pending_in_cluster(&self, index: ConnectionIndex) -> usize {
        let served = self.connections[index].session().and_then(|session| self.mode.cluster.served(session));
        served.map_or(0, |served| served.pending_events())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn update_interest(&mut self, filter: &str, update: impl FnOnce(&mut ShardClusterState, &str)) {
        // A filter of a group, or of the broker itself, stays announced regardless of other subscribers.
        if filter != NODES_TOPIC && !self.mode.cluster.homes.has_interest(filter) {
            update(&mut self.mode.cluster, filter);
        }
    }

    /// Delays SUBACK (CONNACK for a resumed session) until all nodes know that this one has a subscriber to the filter.
    #[cold]
    #[inline(never)]
    pub(crate) fn await_interest_sync(&mut self, session: SessionIndex, filter: &str) {
        // Topics below $SYS are local to each node.
        let is_local = filter.starts_with("$SYS/") || is(Mutant::SendsSubAckBeforeInterestSync);
        if !is_local {
            self.mode.cluster.await_interest_sync(session, filter);
        }
    }

    /// Delays CONNACK until all nodes know the filters of a resumed session.
    pub(super) fn await_all_interest_syncs(&mut self, session: SessionIndex) {
        let subscriptions = self.sessions[session].subscriptions().iter();
        let subscriptions: Vec<_> = subscriptions.map(|(filter, record)| (Box::<str>::from(filter), record)).collect();
        for (filter, record) in subscriptions {
            if let Ok(filter) = TopicFilter::new(&filter)
                && filter.share().is_none()
                && let Ok(wanted) = transcoding::requested_format(filter, record.format)
            {
                self.await_interest_sync(session, wanted.filter);
            }
        }
    }

    pub(super) fn resume_publishers(&mut self) {
        let cluster = &mut self.mode.cluster;
        for id in cluster.take_unblocked() {
            self.resume_reading(id, PauseReason::RemoteLog);
        }
    }
}
