//! What clients publish goes to the cluster.

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
    /// Publishes to the clients of all nodes.
    ///
    /// # Errors
    /// It is not published.
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

    /// Hands a message of QoS 1 or 2, or with RETAIN, to the log, by which all nodes get it.
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
        if self.state.tap.is_open() {
            self.state.notify_taps(&outgoing.message, publisher);
        }
        let message = outgoing.message;
        let retain = match self.state.retaining(&message) {
            Ok(retain) => retain,
            Err(why) => return self.refuse_message(why, outgoing, publisher),
        };
        let answering = match Clustered::ack_level(&self.state, index, &message) {
            _ if message.qos == QoS::AtMostOnce => AckTiming::Never,
            AckLevel::Memory if self.may_send_again(index) => AckTiming::InOrder,
            AckLevel::Memory => AckTiming::Immediate,
            AckLevel::Os | AckLevel::Disk | AckLevel::Quorum => AckTiming::WhenStored,
        };
        let bytes = stored(outgoing);
        let packet_id = packet_id.filter(|_| message.qos == QoS::ExactlyOnce);
        if !self.state.mode.cluster.publish(session, message.topic, answering, packet_id, retain, bytes) {
            let why = "the session is another broker's of the cluster";
            return Err(MessageRefusal::new(ReasonCode::ImplementationSpecificError, why));
        }
        // Nobody here knows whether a client of some node wants it.
        Ok(true)
    }

    /// Whether what a client sends now is sent again, if a message before it is refused: it is not answered before that one, and 3.1.1 has no
    /// answer that says so.
    fn may_send_again(&self, index: ConnectionIndex) -> bool {
        let connection = &self.state.connections[index];
        !connection.is_v5() && connection.has_delayed_ack(Ack::is_publish_ack)
    }

    /// Publishes a message of an operator to the clients of all nodes. Gives what its promise is known by, if it goes by the log.
    ///
    /// # Errors
    /// It is not published.
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
        if self.state.tap.is_open() {
            self.state.notify_taps(&outgoing.message, MessageSource::Broker);
        }
        let message = outgoing.message;
        let retain = match self.state.retaining(&message) {
            Ok(retain) => retain,
            Err(why) => return self.refuse_message(why, outgoing, MessageSource::Broker).map(|_| None),
        };
        let bytes = stored(outgoing);
        Ok(Some(self.state.mode.cluster.publish_as_operator(message.topic, retain, bytes)))
    }

    fn check_for_log(&mut self, outgoing: &mut OutgoingPublish<'_>) -> Result<(), RouteError> {
        if let Some(asker) = outgoing.unchecked_publisher.take()
            && !self.state.may_publish(asker, None, &outgoing.message)
        {
            return Err(RouteError::NotAuthorized);
        }
        if let Some(contract) = self.state.config.contracts().find(outgoing.message.topic).cloned() {
            self.state.check_contract(&contract, outgoing).map_err(RouteError::ContractBroken)?;
        }
        outgoing.is_checked = true;
        Ok(())
    }

    /// A message of QoS 0 has been routed on this node, and goes to the others.
    pub(crate) fn broadcast(&mut self, outgoing: &OutgoingPublish<'_>) {
        if !self.state.mode.cluster.broadcast(&outgoing.message) {
            self.state.counters().dropped_cluster_queue_full.add(1);
        }
    }

    /// Whether a message waits for its turn in the log, which brings it to all shards.
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

    /// Reading goes on when the log has taken more.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for_cluster(&mut self, index: ConnectionIndex) {
        self.state.counters().clients_paused_for_cluster.add(1);
        let id = self.state.id(index);
        if self.state.connections[index].pause_reading(PauseReason::RemoteLog) {
            self.state.mode.cluster.wait_for_room(id);
        }
    }
}

fn stored(outgoing: &OutgoingPublish<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(outgoing.message.stored_bytes());
    outgoing.message.append_stored(&mut bytes);
    bytes
}

impl ShardState<Clustered> {
    /// What the answer to a message waits for, where `level` is asked for. The log may refuse what is large, as more than its servers take in
    /// one piece: that is not acknowledged before it is known.
    pub(crate) fn ack_level_in_cluster(&self, level: AckLevel, message: &MessageRef<'_>) -> AckLevel {
        let most_bytes = self.mode.cluster.settings().answered_at_once_max_bytes;
        if level == AckLevel::Memory && message.stored_bytes() > most_bytes { AckLevel::Quorum } else { level }
    }

    /// How much of what the client of a connection has asked for has not come true.
    pub(crate) fn awaits_in_cluster(&self, index: ConnectionIndex) -> usize {
        let served = self.connections[index].session().and_then(|session| self.mode.cluster.served(session));
        served.map_or(0, |served| served.awaits())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn ask_for(&mut self, filter: &str, what: impl FnOnce(&mut ShardClusterState, &str)) {
        // What groups and the broker itself listen to is listened to whoever else does.
        if filter != NODES_TOPIC && !self.mode.cluster.homes.listen_to(filter) {
            what(&mut self.mode.cluster, filter);
        }
    }

    /// A session has a subscription to a filter: SUBACK, or CONNACK where it has come along, waits until all nodes know that this one listens to it.
    #[cold]
    #[inline(never)]
    pub(crate) fn await_interest_sync(&mut self, session: SessionIndex, filter: &str) {
        // What is below $SYS is of each node.
        let is_own = filter.starts_with("$SYS/") || is(Mutant::AcknowledgesBeforeSpread);
        if !is_own {
            self.mode.cluster.await_interest_sync(session, filter);
        }
    }

    /// The same of all filters with which a session has come.
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

    pub(super) fn resume_ahead_of_cluster(&mut self) {
        let cluster = &mut self.mode.cluster;
        for id in cluster.take_unblocked() {
            self.resume_reading(id, PauseReason::RemoteLog);
        }
    }
}
