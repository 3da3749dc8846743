//! Routes messages from the log and from other nodes.

use std::sync::Arc;

use tautwire_cluster::delivery::{DeliverySource, Span};
use tautwire_cluster::names::{ClientKey, Partition};
use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::QoS;
use tautwire_session::PendingMessage;

use super::cluster_state::{LogPlace, RoutingSpan, messages_of};
use super::fetched_session::read_message;
use super::sys::NODES_TOPIC;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::{Acceptance, Clustered};
use crate::mutant::{Mutant, is};
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::MessageSource;
use crate::scheduling::fan_out::FanOutBudget;
use crate::shard::Shard;
use crate::shard::ShardState;

impl Shard<Clustered> {
    /// Whether arrived messages can be routed now.
    pub(super) fn can_route_arrivals(&self) -> bool {
        self.accepts_batches() && !self.state.mode.cluster.is_suspended()
    }

    /// Routes arrived parts of the log, unless the fan-out of an earlier message is deferred.
    #[cold]
    #[inline(never)]
    pub(crate) fn route_arrivals(&mut self) {
        while self.can_route_arrivals()
            && self.state.work_budget.can_transcode()
            && let Some(RoutingSpan { source, span, next }) = self.state.mode.cluster.log.current_span()
        {
            let mut budget = FanOutBudget::begin(&self.state);
            let mut is_over = true;
            for (place, message) in span.messages_from(next) {
                let at = LogPlace { partition: span.partition, place };
                if let Some(parts) = read_message(at, message.stored) {
                    let publisher = self.publisher_of(message.publisher.client);
                    match source {
                        DeliverySource::Live => self.route_from_log(parts, publisher),
                        DeliverySource::Read => self.route_read(at, parts, publisher),
                    }
                }
                self.state.mode.cluster.log.record_routed(at);
                if budget.is_spent_after(&self.state, message.stored.len()) || !self.state.work_budget.can_transcode() {
                    is_over = false;
                    break;
                }
            }
            if is_over {
                self.finish_span(span.partition);
            }
            self.disconnect_overruns();
            if self.finish_source(&budget) {
                self.state.paused_readers.pause_batches();
            }
        }
    }

    /// Handles a part of the log that was read on request.
    pub(super) fn receive_read(&mut self, number: u64, span: &Arc<Span>) {
        let cluster = &mut self.state.mode.cluster;
        if let Some(id) = cluster.end_read(number, span) {
            self.receive_fetched(id, span);
        }
    }

    fn finish_span(&mut self, partition: Partition) {
        let lost = self.state.mode.cluster.finish_span();
        if lost > 0 {
            self.state.counters().dropped_log_retention.add(lost);
            log::warn!(
                "{lost} groups of messages of partition {partition} were removed from the log before they were delivered"
            );
        }
    }

    pub(super) fn publisher_of(&self, client: ClientKey) -> MessageSource {
        MessageSource::Log(self.state.mode.cluster.session_of(client))
    }

    fn route_from_log(&mut self, message: MessageRef<'_>, publisher: MessageSource) {
        if message.retain {
            self.state.apply_retained_from_log(&message);
        }
        if let Some(mut outgoing) = self.outgoing(message) {
            let _ = self.route(&mut outgoing, publisher, 0);
        }
    }

    /// Offers a message to lagging sessions and groups that still need it.
    fn route_read(&mut self, at: LogPlace, message: MessageRef<'_>, publisher: MessageSource) {
        let Some(mut outgoing) = self.outgoing(message) else { return };
        let topic = outgoing.message.topic;
        let cluster = &self.state.mode.cluster;
        // A message of QoS 0 is in the log because it is retained; it was only for subscribers that were connected.
        let is_persisted = outgoing.message.qos != QoS::AtMostOnce;
        let matches = self.table.find_acknowledged(topic, |session| is_persisted && cluster.wants(session, at));
        let has_groups = !cluster.homes.is_empty();
        let contract = self.state.config.contracts().find(topic).cloned();
        self.state.deliver_to_all(&matches, contract.as_deref(), &mut outgoing, publisher, 0);
        if has_groups {
            let mut groups = Vec::new();
            self.state.context.exchange().groups_for(topic, &mut groups);
            self.state.redeliver_to_groups(at, contract.as_deref(), &mut outgoing);
            self.state.offer_to_groups(&groups, contract.as_deref(), &mut outgoing);
        }
    }

    /// The message to route, unless it has expired. The publisher's node has checked its contract.
    fn outgoing<'m>(&self, message: MessageRef<'m>) -> Option<OutgoingPublish<'m>> {
        let is_expired = message.is_expired(self.state.clock.now_ms());
        (!is_expired).then(|| OutgoingPublish { is_checked: true, is_admitted: true, ..OutgoingPublish::new(message) })
    }

    /// Routes messages of QoS 0 from another node.
    pub(super) fn route_bus_messages(&mut self, batch: &[u8]) {
        let budget = FanOutBudget::begin(&self.state);
        messages_of(batch).for_each(|stored| self.route_bus_message(stored));
        self.finish_source(&budget);
    }

    fn route_bus_message(&mut self, stored: &[u8]) {
        let Some(message) = MessageRef::read_stored(stored).filter(|message| message.qos == QoS::AtMostOnce) else {
            log::error!("dropped a message from another broker of the cluster: it cannot be read or its QoS is not 0");
            return;
        };
        if message.topic == NODES_TOPIC {
            return self.receive_node_report(message.payload);
        }
        let message = MessageRef { id: self.state.context.next_message_id(), ..message };
        self.route_from_log(message, MessageSource::Log(None));
    }
}

/// Whether a message is from the log, so that a session may have received it before.
#[inline]
pub(crate) fn is_from_log(message: &MessageRef<'_>) -> bool {
    LogPlace::of(message.id).is_some()
}

impl ShardState<Clustered> {
    /// Whether a session accepts a message. A session without room for a message of the log reads it later.
    #[cold]
    #[inline(never)]
    pub(crate) fn accepts_from_log(&mut self, session: SessionIndex, delivery: &PendingMessage) -> Acceptance {
        let Some(at) = LogPlace::of(delivery.message.id()) else { return Acceptance::IfQueueHasRoom };
        let cluster = &self.mode.cluster;
        // The group's home has checked that there is room.
        if delivery.share.is_some() {
            return Acceptance::Yes;
        }
        if cluster.was_already_delivered(session) {
            return Acceptance::Yes;
        }
        if !cluster.wants(session, at) && !is(Mutant::DeliversBelowPosition) {
            return Acceptance::No;
        }
        let is_taken = self.has_room_from_log(session, delivery);
        let cluster = &mut self.mode.cluster;
        if is_taken {
            cluster.record_delivery(session, at);
            Acceptance::Yes
        } else {
            if !is(Mutant::DropsBlockedMessages) {
                cluster.block(session, at);
            }
            self.counters().messages_deferred_to_log.add(1);
            Acceptance::No
        }
    }

    /// Whether the session's position was past this message on the node that served it before.
    #[cold]
    #[inline(never)]
    pub(crate) fn was_sent_elsewhere(&self, index: ConnectionIndex, message: MessageId) -> bool {
        let cluster = &self.mode.cluster;
        let Some(session) = self.connections[index].session() else { return false };
        LogPlace::of(message).is_some_and(|at| cluster.is_ahead_of(session, at))
    }

    /// Whether a session has room for a message of the log. A session without messages accepts any, since no acknowledgement would ever
    /// make room.
    fn has_room_from_log(&self, session: SessionIndex, delivery: &PendingMessage) -> bool {
        let Some(outbound) = self.sessions[session].outbound().filter(|outbound| !outbound.is_empty()) else {
            return true;
        };
        let bytes = delivery.counted_bytes();
        let is_short = outbound.queued() < super::session_save::QUEUE_LOW;
        self.has_room_for(session, bytes)
            && (is_short || self.memory.share().admits(outbound.counted_bytes(), bytes).is_ok())
    }
}
