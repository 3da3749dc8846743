//! Delivery to outputs and queues, resends after a reconnection, and replays of retained messages.

use tautwire_message::MessageRef;
use tautwire_protocol::{PacketId, PubRelReason, QoS, SubscriptionId};
use tautwire_session::{Change, Outbound, PendingMessage, Resend};

use super::DeliveryOptions;
use super::replay::ReplayStep;
use crate::connection::ack::Ack;
use crate::connection::connections::{Connection, TopicAlias};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::operations::trace::Step;
use crate::routing::publish_packets::{self, OutgoingPublish, PublishHeader, with_alias};
use crate::routing::scans::CLIENT_STEPS;
use crate::session::drops::DropReason;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// Delivers a message to a session of this shard: immediately if its client has room, else through its queue.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        session: SessionIndex,
        outgoing: &mut OutgoingPublish<'_>,
        options: DeliveryOptions<'_>,
    ) {
        match (options.qos, self.sessions.connection(session)) {
            (QoS::AtMostOnce, Some(connection)) => self.deliver_at_most_once(connection, outgoing, options),
            // QoS 0 is not queued for offline clients [MQTT 5.0 section 4.1].
            (QoS::AtMostOnce, None) => {}
            (_, connection) => self.deliver_acknowledged(session, connection, outgoing, options),
        }
    }

    #[inline(always)]
    pub(crate) fn deliver_at_most_once(
        &mut self,
        index: ConnectionIndex,
        outgoing: &OutgoingPublish<'_>,
        options: DeliveryOptions<'_>,
    ) {
        let connection = &self.connections[index];
        let pending = connection.pending_bytes();
        if !self.memory.has_output_room(pending, outgoing.message.payload.len()) {
            self.drop_output_full(index, outgoing);
            return;
        }
        if !outgoing.has_room {
            // Messages with room are not from the replicated log. For a shared subscription, the group's home node has checked.
            if options.share.is_none() && M::was_already_sent(self, index, outgoing.message.id) {
                return;
            }
            if !self.memory.reserve_memory(pending, outgoing.message.payload.len()) {
                self.counters().dropped_memory_full.add(1);
                self.record_drop_at(index, DropReason::MemoryFull, outgoing.message.topic);
                return;
            }
        }
        if self.write_publish(index, outgoing, options, None, false) {
            self.latency_recorder.record_delivered(QoS::AtMostOnce, 1);
        } else {
            self.count_unsendable(index, outgoing.message.topic);
        }
    }

    #[cold]
    fn drop_output_full(&mut self, index: ConnectionIndex, outgoing: &OutgoingPublish<'_>) {
        if M::was_already_sent(self, index, outgoing.message.id) {
            return;
        }
        self.counters().dropped_output_full.add(1);
        self.record_drop_at(index, DropReason::OutputFull, outgoing.message.topic);
    }

    #[cold]
    fn record_drop_at(&mut self, index: ConnectionIndex, reason: DropReason, topic: &str) {
        if let Some(session) = self.connections[index].session() {
            self.record_drop(session, reason, topic);
        }
    }

    // Not inlined into `deliver`, the hot path of every message.
    #[inline(never)]
    fn deliver_acknowledged(
        &mut self,
        session: SessionIndex,
        connection: Option<ConnectionIndex>,
        outgoing: &mut OutgoingPublish<'_>,
        options: DeliveryOptions<'_>,
    ) {
        if connection.is_none() && !self.sessions.is_alive(session) {
            return;
        }
        let delivery = options.to_pending(outgoing, self.memory.ledger());
        if !self.ensure_queue_space(session, &delivery, outgoing.message.topic) {
            return;
        }
        if let Some(index) = connection
            && let Some(packet_id) = self.free_packet_id(session, index)
        {
            self.send_now(session, index, packet_id, delivery, outgoing, options);
        } else {
            self.counters().messages_queued_in_flight_full.add(u64::from(connection.is_some()));
            self.commit(session, Change::Queued(delivery));
        }
        self.throttle_if_full(session, outgoing.message.topic);
    }

    /// Sends a QoS 1 or 2 message immediately, without queueing it.
    pub(super) fn send_now(
        &mut self,
        session: SessionIndex,
        index: ConnectionIndex,
        packet_id: PacketId,
        delivery: PendingMessage,
        outgoing: &OutgoingPublish<'_>,
        options: DeliveryOptions<'_>,
    ) {
        if !self.fits(index, &outgoing.message, options.subscription_ids) {
            // [MQTT-3.1.2-25]
            self.count_unsendable(index, outgoing.message.topic);
            M::settle(self, self.sessions.key(session), &delivery);
            return;
        }
        self.commit_inline(session, Change::Started(delivery));
        if options.qos == QoS::ExactlyOnce && self.is_persisted(session) {
            self.acknowledge(index, Ack::Deliver(packet_id, !outgoing.is_retained_replay));
        } else {
            self.write_publish(index, outgoing, options, Some(packet_id), false);
            self.latency_recorder.record_started(options.qos, !outgoing.is_retained_replay);
        }
    }

    /// A packet identifier for a message that can be sent immediately: the queue is empty and the client's window has room.
    pub(crate) fn free_packet_id(&self, session: SessionIndex, index: ConnectionIndex) -> Option<PacketId> {
        let has_queued = self.sessions[session].outbound().is_some_and(|outbound| outbound.queued() > 0)
            || self.connections[index].has_replays();
        if has_queued { None } else { self.next_id_in_window(session, index) }
    }

    /// The next packet identifier, if the client's window and output have room.
    pub(super) fn next_id_in_window(&self, session: SessionIndex, index: ConnectionIndex) -> Option<PacketId> {
        let connection = &self.connections[index];
        if connection.pending_bytes() > self.memory.output_max_bytes() {
            return None;
        }
        let send_maximum = usize::from(connection.connect_parameters().send_maximum);
        let open = self.sessions[session]
            .outbound()
            .is_none_or(|outbound| outbound.is_resent() && outbound.in_flight() < send_maximum);
        if open && self.has_send_quota(session) { self.sessions[session].next_packet_id() } else { None }
    }

    /// Sends pending messages to the client of `session`, as far as its window and output allow. For `ShardState::send_pending`.
    #[inline(never)]
    pub(crate) fn fill_window(&mut self, session: SessionIndex, index: ConnectionIndex) {
        if !self.connections[index].is_open() {
            return;
        }
        let mut portion = CLIENT_STEPS;
        while self.connections[index].pending_bytes() <= self.memory.output_max_bytes() {
            if self.resend_next(session, index) {
                continue;
            }
            if self.connections[index].has_replays() {
                match self.replay_next(session, index, &mut portion) {
                    ReplayStep::One => continue,
                    ReplayStep::None => {}
                    ReplayStep::Later => return,
                }
            }
            if !self.send_queued(session, index) {
                return;
            }
        }
    }

    /// Resends one packet of the window after a reconnection; returns false if none is due or can be sent yet.
    fn resend_next(&mut self, session: SessionIndex, index: ConnectionIndex) -> bool {
        let send_maximum = usize::from(self.connections[index].connect_parameters().send_maximum);
        let Some(outbound) = self.sessions.entry(session).outbound() else { return false };
        if outbound.is_resent() || outbound.in_flight() >= send_maximum {
            return false;
        }
        let Ok(read) = self.read_to_resend(session, index) else { return false };
        let Some(outbound) = self.sessions.entry(session).outbound() else { return false };
        match outbound.resend() {
            None => false,
            Some(Resend::Release(packet_id)) => {
                self.acknowledge(index, Ack::Release(packet_id, PubRelReason::Success));
                true
            }
            Some(Resend::Publish(packet_id, delivery)) => {
                let mut delivery = delivery.clone();
                if let Some(message) = read {
                    delivery.message = message.into();
                }
                let topic = delivery.message.loaded().map(|message| message.topic());
                if topic.is_some_and(|topic| !self.can_still_receive(index, &delivery, topic)) {
                    // The session may have belonged to another user when the message was sent.
                    self.counters().dropped_not_authorized.add(1);
                    self.record_drop(session, DropReason::NotAuthorized, topic.unwrap_or_default());
                    self.cancel_resend(session, index, packet_id, delivery.qos);
                } else if !self.write_delivery(index, &delivery, Some(packet_id), true) {
                    // It is larger than the client accepts now [MQTT-3.1.2-25].
                    self.counters().dropped_too_large.add(1);
                    self.record_drop(session, DropReason::TooLarge, topic.unwrap_or_default());
                    self.cancel_resend(session, index, packet_id, delivery.qos);
                } else if self.operations.has_observers()
                    && let Some(message) = delivery.message.loaded()
                {
                    self.trace_resend(Step::Resend, &message.as_ref(), session, delivery.qos);
                }
                true
            }
        }
    }

    /// Cancels the resend of a message of the window. The client may still hold the identifier of a QoS 2 message, so that is
    /// released in order.
    fn cancel_resend(&mut self, session: SessionIndex, index: ConnectionIndex, packet_id: PacketId, qos: QoS) {
        if qos == QoS::ExactlyOnce {
            self.commit(session, Change::Received(packet_id));
            self.acknowledge(index, Ack::Release(packet_id, PubRelReason::Success));
        } else {
            self.commit(session, Change::Completed(packet_id));
        }
    }

    /// Sends the oldest queued message; returns false if none is queued or it cannot be sent yet.
    fn send_queued(&mut self, session: SessionIndex, index: ConnectionIndex) -> bool {
        let send_maximum = usize::from(self.connections[index].connect_parameters().send_maximum);
        let Some(outbound) = self.sessions[session].outbound() else { return false };
        let Some(front) = outbound.front() else { return false };
        if !outbound.is_resent() {
            return false;
        }
        if front.message.is_expired(self.clock.now_ms()) {
            // [MQTT-3.3.2-5]
            self.counters().dropped_expired.add(1);
            self.record_front_drop(session, DropReason::Expired);
            self.commit(session, Change::Unqueued);
            return true;
        }
        if outbound.in_flight() >= send_maximum || !self.has_send_quota(session) {
            return false;
        }
        let Some(packet_id) = outbound.next_packet_id() else { return false };
        if !self.load_front(session, index) {
            return false;
        }
        let Some(delivery) = self.sessions[session].outbound().and_then(Outbound::front).cloned() else { return false };
        let Some(message) = self.in_memory(delivery.message.loaded()) else { return false };
        if !self.fits(index, &message.as_ref(), delivery.subscription_ids.as_slice()) {
            self.count_unsendable(index, message.topic());
            self.commit(session, Change::Unqueued);
            return true;
        }
        if !self.can_still_receive(index, &delivery, message.topic()) {
            self.counters().dropped_not_authorized.add(1);
            self.record_drop(session, DropReason::NotAuthorized, message.topic());
            self.commit(session, Change::Unqueued);
            return true;
        }
        self.commit(session, Change::StartedQueued);
        if self.sessions[session].outbound().is_none_or(|outbound| outbound.queued() == 0) {
            self.end_episode(session);
        }
        if delivery.qos == QoS::ExactlyOnce && self.is_persisted(session) {
            self.acknowledge(index, Ack::Deliver(packet_id, false));
        } else {
            self.write_delivery(index, &delivery, Some(packet_id), false);
        }
        if self.operations.has_observers() {
            self.trace_from_queue(&message.as_ref(), session, delivery.qos);
        }
        true
    }

    /// Sends a message of the window for the first time, unless it has been removed meanwhile.
    pub(crate) fn write_inflight(&mut self, index: ConnectionIndex, packet_id: PacketId) {
        let session = self.connections[index].session();
        let outbound = session.and_then(|session| self.sessions[session].outbound());
        if let Some(delivery) = outbound.and_then(|outbound| outbound.unacknowledged(packet_id)).cloned() {
            self.write_delivery(index, &delivery, Some(packet_id), false);
        }
    }

    fn write_delivery(
        &mut self,
        index: ConnectionIndex,
        delivery: &PendingMessage,
        packet_id: Option<PacketId>,
        dup: bool,
    ) -> bool {
        let options = DeliveryOptions {
            qos: delivery.qos,
            retain: delivery.retain,
            subscription_ids: delivery.subscription_ids.as_slice(),
            share: None,
            is_shared: false,
        };
        let Some(message) = self.in_memory(delivery.message.loaded()) else { return false };
        self.write_publish(index, &OutgoingPublish::of(message), options, packet_id, dup)
    }

    /// Whether the packet is within the client's Maximum Packet Size [MQTT-3.1.2-24].
    pub(crate) fn fits(&self, index: ConnectionIndex, message: &MessageRef<'_>, ids: &[SubscriptionId]) -> bool {
        let connection = &self.connections[index];
        if connection.accepts_any_publish() && !publish_packets::may_be_too_long(message) {
            return true;
        }
        let header = self.plain_header(connection, ids);
        match connection.mount_point() {
            None => with_alias(connection, header, message).is_some(),
            Some(mount) => {
                let view = mount.view(message);
                view.is_some_and(|view| with_alias(connection, header, &view.message(message)).is_some())
            }
        }
    }

    /// Counts a message that is not sent: it is larger than the client accepts, or its topic is outside of the client's mount point.
    #[cold]
    pub(super) fn count_unsendable(&mut self, index: ConnectionIndex, topic: &str) {
        let mount = self.connections[index].mount_point();
        let is_outside = mount.is_some_and(|mount| mount.rest(topic).is_none());
        let counters = self.counters();
        let (counter, reason) = if is_outside {
            (&counters.dropped_outside_mount, DropReason::OutsideMount)
        } else {
            (&counters.dropped_too_large, DropReason::TooLarge)
        };
        counter.add(1);
        self.record_drop_at(index, reason, topic);
    }

    /// A header of a QoS 1 packet, for measuring. A QoS 2 packet has the same length.
    fn plain_header<'i>(&self, connection: &Connection, subscription_ids: &'i [SubscriptionId]) -> PublishHeader<'i> {
        PublishHeader {
            v5: connection.is_v5(),
            qos: QoS::AtLeastOnce,
            dup: false,
            retain: false,
            packet_id: PacketId::new(1),
            subscription_ids,
            alias: TopicAlias::None,
            now_ms: self.clock.now_ms(),
        }
    }

    /// Appends a PUBLISH packet to the output; returns false if it is larger than the client accepts.
    #[inline]
    pub(super) fn write_publish(
        &mut self,
        index: ConnectionIndex,
        outgoing: &OutgoingPublish<'_>,
        options: DeliveryOptions<'_>,
        packet_id: Option<PacketId>,
        dup: bool,
    ) -> bool {
        let connection = &self.connections[index];
        let header = PublishHeader {
            qos: options.qos,
            dup,
            retain: options.retain,
            packet_id,
            ..self.plain_header(connection, options.subscription_ids)
        };
        if connection.accepts_any_publish() && !outgoing.may_be_too_long {
            self.append_publish(index, &header, outgoing, options.is_shared);
            return true;
        }
        let Some(mount) = connection.mount_point() else {
            return self.write_fitting(index, header, outgoing, options.is_shared);
        };
        let Some(view) = mount.view(&outgoing.message) else { return false };
        // Only receivers of the full topic share encoded packets.
        self.write_fitting(index, header, &outgoing.with_view(&view), false)
    }

    /// Appends a PUBLISH for a client with limits or topic aliases, with the topic as the client sees it.
    fn write_fitting(
        &mut self,
        index: ConnectionIndex,
        header: PublishHeader<'_>,
        outgoing: &OutgoingPublish<'_>,
        is_shared: bool,
    ) -> bool {
        let Some(header) = with_alias(&self.connections[index], header, &outgoing.message) else { return false };
        self.connections[index].store_outgoing_alias(outgoing.message.topic, header.alias, self.memory.ledger());
        self.append_publish(index, &header, outgoing, is_shared);
        true
    }

    #[inline]
    fn append_publish(
        &mut self,
        index: ConnectionIndex,
        header: &PublishHeader<'_>,
        outgoing: &OutgoingPublish<'_>,
        is_shared: bool,
    ) {
        let output = self.connections.output_or_insert(index);
        self.routing.packets.append(header, outgoing, is_shared, output);
        self.mark_dirty(index);
        self.count_published(1, outgoing.message.payload.len());
    }

    /// Counts PUBLISH packets with the same payload that have been appended to outputs.
    #[inline(always)]
    pub(crate) fn count_published(&mut self, packets: u64, payload_bytes: usize) {
        self.work_budget.count_deliveries(packets);
        let counters = self.counters();
        counters.packets_sent.add(packets);
        counters.publishes_sent.add(packets);
        counters.publish_bytes_sent.add(packets * payload_bytes as u64);
    }
}
