//! Received QoS 1 and 2 messages: their pending acknowledgements and the order in which these are sent.

use std::collections::VecDeque;

use hashbrown::HashMap;
use tautwire_protocol::{
    Packet, PacketId, ProtocolVersion, PubAck, PubAckReason, PubRec, PubRecReason, QoS, ReasonCode,
};
use tautwire_session::{Change, Session};

use super::AckToken;
use crate::FileStore;
use crate::store::Record;

/// Received messages without acknowledgement. Acknowledgements are sent in the order in which the messages arrived on
/// the connection [MQTT-4.6.0-2] [MQTT-4.6.0-3].
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// The number of the session: tokens of earlier sessions are invalid.
    epoch: u32,
    at_least_once: VecDeque<PendingAck>,
    exactly_once: VecDeque<PendingAck>,
    /// Unacknowledged messages of earlier connections. The server will send them again; the application already has
    /// them.
    carried: HashMap<PacketId, (QoS, Option<PubAckReason>)>,
}

#[derive(Debug)]
struct PendingAck {
    packet_id: PacketId,
    /// The reason of the application; `None` until it has acknowledged the message.
    reason: Option<PubAckReason>,
}

/// How to handle a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    New(AckToken),
    /// A duplicate: the application has or had it.
    Duplicate,
}

impl Inbound {
    /// Delivered messages that the application has not acknowledged, QoS 1 and 2 together.
    pub(super) fn unanswered(&self) -> usize {
        self.at_least_once.len() + self.exactly_once.len()
    }

    /// QoS 1 messages without PUBACK.
    pub(super) fn at_least_once(&self) -> usize {
        self.at_least_once.len()
    }

    /// QoS 2 messages for which PUBREC has not been sent.
    pub(super) fn unanswered_exactly_once(&self) -> usize {
        let carried = self.carried.values().filter(|(qos, _)| *qos == QoS::ExactlyOnce).count();
        self.exactly_once.len() + carried
    }

    /// Records a received message.
    pub(super) fn arrive(&mut self, packet_id: PacketId, qos: QoS, dup: bool, session: &mut Session) -> Arrival {
        let held = qos == QoS::ExactlyOnce && session.held().is_some_and(|held| held.contains(packet_id));
        let carried = match self.carried.remove(&packet_id) {
            // Without DUP it is another message: the server has given up the earlier one [MQTT-3.3.1-1].
            Some((carried_qos, reason)) if carried_qos == qos && dup => Some(reason),
            _ => None,
        };
        if let Some(reason) = carried {
            self.pending_acks(qos).push_back(PendingAck { packet_id, reason });
            return Arrival::Duplicate;
        }
        let is_pending = (dup || held) && self.pending_acks(qos).iter().any(|ack| ack.packet_id == packet_id);
        if is_pending {
            return Arrival::Duplicate;
        }
        if held && dup {
            // Our PUBREC was lost: acknowledge again, but do not deliver again [MQTT-4.3.3-10].
            self.pending_acks(qos).push_back(PendingAck { packet_id, reason: Some(PubAckReason::Success) });
            return Arrival::Duplicate;
        }
        if qos == QoS::ExactlyOnce {
            session.apply(Change::Taken(packet_id));
        }
        self.pending_acks(qos).push_back(PendingAck { packet_id, reason: None });
        Arrival::New(AckToken { packet_id, qos, epoch: self.epoch })
    }

    /// The application acknowledges a message.
    pub(super) fn answer(&mut self, token: AckToken, reason: PubAckReason) {
        if token.epoch != self.epoch {
            return;
        }
        let pending = self.pending_acks(token.qos).iter_mut().find(|ack| ack.packet_id == token.packet_id);
        if let Some(ack) = pending {
            ack.reason.get_or_insert(reason);
        } else if let Some((qos, answer)) = self.carried.get_mut(&token.packet_id)
            && *qos == token.qos
        {
            answer.get_or_insert(reason);
        }
    }

    /// Writes the acknowledgements that may be sent now.
    #[inline]
    pub(super) fn flush(
        &mut self,
        version: ProtocolVersion,
        session: &mut Session,
        store: Option<&FileStore>,
        output: &mut Vec<u8>,
    ) {
        while let Some(PendingAck { packet_id, reason: Some(reason) }) = self.at_least_once.front() {
            let reason = if version.is_v5() { *reason } else { PubAckReason::Success };
            let written = Packet::PubAck(PubAck::new(*packet_id, reason)).append_to(version, output);
            debug_assert!(written.is_ok(), "{written:?}");
            self.at_least_once.pop_front();
        }
        while let Some(PendingAck { packet_id, reason: Some(reason) }) = self.exactly_once.front() {
            let reason = PubRecReason::try_from(ReasonCode::from(*reason)).unwrap_or(PubRecReason::UnspecifiedError);
            let reason = if version.is_v5() { reason } else { PubRecReason::Success };
            if reason.is_error() {
                // A refusal ends the exchange: the identifier is free (section 4.3.3).
                session.apply(Change::Released(*packet_id));
            } else if let Some(store) = store {
                // Once PUBREC has been sent, the message is not sent again.
                store.record(&Record::Received { packet_id: *packet_id });
            }
            let written = Packet::PubRec(PubRec::new(*packet_id, reason)).append_to(version, output);
            debug_assert!(written.is_ok(), "{written:?}");
            self.exactly_once.pop_front();
        }
    }

    /// The connection has ended; the session may continue.
    pub(super) fn carry(&mut self) {
        for (qos, acks) in [(QoS::AtLeastOnce, &mut self.at_least_once), (QoS::ExactlyOnce, &mut self.exactly_once)] {
            self.carried.extend(acks.drain(..).map(|ack| (ack.packet_id, (qos, ack.reason))));
        }
    }

    /// The session has ended.
    pub(super) fn forget(&mut self) {
        self.at_least_once.clear();
        self.exactly_once.clear();
        self.carried.clear();
        self.epoch = self.epoch.wrapping_add(1);
    }

    fn pending_acks(&mut self, qos: QoS) -> &mut VecDeque<PendingAck> {
        match qos {
            QoS::ExactlyOnce => &mut self.exactly_once,
            _ => &mut self.at_least_once,
        }
    }
}
