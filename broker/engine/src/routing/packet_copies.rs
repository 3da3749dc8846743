//! The fast path for a QoS 0 message with many receivers: copies of one encoded packet, counted together.

use tautwire_protocol::QoS;

use crate::mode::Mode;
use crate::routing::publish_packets::{self, OutgoingPublish, SHARED_PAYLOAD_BYTES};
use crate::routing::route::Subscription;
use crate::shard::ShardState;

/// Copies of one message's packet.
#[derive(Debug)]
pub(crate) struct PacketCopies {
    /// There is memory for all receivers, and the payload is part of the packet.
    is_allowed: bool,
    copied: u64,
}

impl PacketCopies {
    #[inline]
    pub(crate) fn of(outgoing: &OutgoingPublish<'_>) -> PacketCopies {
        let is_allowed =
            outgoing.has_room && !outgoing.may_be_too_long && outgoing.message.payload.len() < SHARED_PAYLOAD_BYTES;
        PacketCopies { is_allowed, copied: 0 }
    }
}

impl<M: Mode> ShardState<M> {
    /// Sends the client of a subscription a copy of the message's packet. Returns false if the regular path is needed: for the
    /// first receiver of each protocol version, which has the packet encoded, and for receivers with packet size limits, topic
    /// aliases, a full output, or a subscription identifier.
    // Always inlined: the hot path of every message to every receiver.
    #[inline(always)]
    pub(crate) fn send_copy(
        &mut self,
        copies: &mut PacketCopies,
        subscription: &Subscription,
        retain: bool,
        outgoing: &OutgoingPublish<'_>,
    ) -> bool {
        if !copies.is_allowed || subscription.identifier.is_some() {
            return false;
        }
        let Some(index) = self.sessions.connection(subscription.session) else { return false };
        let connection = &self.connections[index];
        let packet = self.routing.packets.encoded(connection.is_v5());
        if packet.is_empty() || !connection.accepts_any_publish() || M::is_output_blocked(self, index) {
            return false;
        }
        let output = self.connections.output_or_insert(index);
        let pending = output.pending_bytes();
        if pending > 0 && pending + outgoing.message.payload.len() > self.memory.output_max_bytes() {
            return false;
        }
        output.append_copy(packet, publish_packets::first_byte(false, QoS::AtMostOnce, retain));
        self.connections.mark_dirty(index);
        copies.copied += 1;
        true
    }

    /// Counts the copies of a message.
    #[inline]
    pub(crate) fn record_copies(&mut self, copies: &PacketCopies, outgoing: &OutgoingPublish<'_>) {
        if copies.copied > 0 {
            self.count_published(copies.copied, outgoing.message.payload.len());
            self.latency_recorder.record_delivered(QoS::AtMostOnce, copies.copied);
        }
    }
}
