//! PUBACK, PUBREC, PUBREL and PUBCOMP from a client.

use tautwire_protocol::{PacketId, PubCompReason, PubRecReason, PubRelReason, QoS, ShortAcknowledgement};
use tautwire_session::Change;

use crate::connection::ack::Ack;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::shard::{Handled, Shard};

impl<M: Mode> Shard<M> {
    /// Handles an acknowledgement of success. A fast path, because these are most of the packets besides PUBLISH.
    pub(crate) fn on_short_ack(&mut self, index: ConnectionIndex, which: ShortAcknowledgement) -> Handled {
        let Some(session) = self.state.connections[index].session() else { return Handled::Ended };
        match which {
            ShortAcknowledgement::PubAck(id) => self.on_puback(index, session, id, QoS::AtLeastOnce),
            ShortAcknowledgement::PubRec(id) => self.on_pubrec(index, session, id, PubRecReason::Success),
            ShortAcknowledgement::PubRel(id) => self.on_pubrel(index, session, id),
            ShortAcknowledgement::PubComp(id) => self.on_pubcomp(session, id),
        }
        if self.state.connections[index].is_open() { Handled::Done } else { Handled::Ended }
    }

    /// Handles PUBACK. An identifier that is not in use may be from a delivery that ended with an earlier connection.
    pub(crate) fn on_puback(&mut self, index: ConnectionIndex, session: SessionIndex, packet_id: PacketId, qos: QoS) {
        let outbound = self.state.sessions[session].outbound();
        match outbound.and_then(|outbound| outbound.unacknowledged(packet_id)) {
            None => {}
            Some(delivery) if delivery.qos != qos => self.protocol_error(index, "PUBACK for a QoS 2 message"),
            Some(_) => {
                self.state.commit_inline(session, Change::Completed(packet_id));
                self.state.send_pending(session);
            }
        }
    }

    /// Handles PUBREC.
    pub(crate) fn on_pubrec(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        packet_id: PacketId,
        reason: PubRecReason,
    ) {
        let Some(outbound) = self.state.sessions[session].outbound() else {
            self.release(index, packet_id, PubRelReason::PacketIdentifierNotFound);
            return;
        };
        match outbound.unacknowledged(packet_id) {
            Some(delivery) if delivery.qos != QoS::ExactlyOnce => {
                self.protocol_error(index, "PUBREC for a QoS 1 message");
            }
            Some(_) if reason.is_error() => {
                // [MQTT-4.8.2-6]: it is not sent to another member either.
                self.state.commit(session, Change::Completed(packet_id));
                self.state.send_pending(session);
            }
            Some(_) => {
                self.state.commit(session, Change::Received(packet_id));
                self.release(index, packet_id, PubRelReason::Success);
            }
            None if outbound.is_released(packet_id) => {
                self.release(index, packet_id, PubRelReason::Success);
            }
            None if reason.is_error() => {}
            None => self.release(index, packet_id, PubRelReason::PacketIdentifierNotFound),
        }
    }

    fn release(&mut self, index: ConnectionIndex, packet_id: PacketId, reason: PubRelReason) {
        let v5 = self.state.connections[index].is_v5();
        let reason = if v5 { reason } else { PubRelReason::Success };
        self.state.acknowledge(index, Ack::Release(packet_id, reason));
    }

    /// Handles PUBREL.
    pub(crate) fn on_pubrel(&mut self, index: ConnectionIndex, session: SessionIndex, packet_id: PacketId) {
        let held = self.state.sessions[session].held();
        let known = held.is_some_and(|held| held.contains(packet_id));
        let connection = &self.state.connections[index];
        // In a resumed session, the client may not have received our PUBCOMP. The code for an unknown identifier is not an
        // error then [MQTT 5.0 section 3.7.2.1], but clients treat it as one.
        let is_mismatch = !known && connection.is_v5() && !connection.connect_parameters().resumed;
        if known {
            self.state.commit(session, Change::Released(packet_id));
            self.state.connections[index].end_inbound_qos2();
        }
        let reason = if is_mismatch { PubCompReason::PacketIdentifierNotFound } else { PubCompReason::Success };
        self.state.acknowledge(index, Ack::Complete(packet_id, reason));
    }

    /// Handles PUBCOMP.
    pub(crate) fn on_pubcomp(&mut self, session: SessionIndex, packet_id: PacketId) {
        let outbound = self.state.sessions[session].outbound();
        if outbound.is_some_and(|outbound| outbound.is_released(packet_id)) {
            self.state.commit(session, Change::Completed(packet_id));
            self.state.send_pending(session);
        }
    }
}
