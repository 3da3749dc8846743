//! The one place through which acknowledgements leave.

use std::borrow::Cow;

use tautwire_protocol::{
    Packet, PacketId, Properties, Property, PubAck, PubAckReason, PubComp, PubCompReason, PubRec, PubRecReason, PubRel,
    PubRelReason, SubAck, SubscribeReason, UnsubAck, UnsubscribeReason,
};
use tautwire_session::{Journal, LogPosition};

use crate::hub::Hub;

/// An acknowledgement. It tells the client that the broker remembers something, so it must not leave before that is
/// true.
#[derive(Debug)]
pub(crate) enum Ack {
    /// PUBACK.
    Published(PacketId, PubAckReason, Option<Cow<'static, str>>),
    /// PUBREC.
    Received(PacketId, PubRecReason, Option<Cow<'static, str>>),
    /// PUBREL.
    Release(PacketId, PubRelReason),
    /// PUBCOMP.
    Complete(PacketId, PubCompReason),
    /// SUBACK.
    Subscribed(PacketId, Box<[SubscribeReason]>),
    /// UNSUBACK.
    Unsubscribed(PacketId, Box<[UnsubscribeReason]>),
}

impl<J: Journal> Hub<J> {
    /// Sends `ack` once everything that has been written down so far is durable, and not before acknowledgements held
    /// earlier.
    pub(crate) fn acknowledge(&mut self, index: u32, ack: Ack) {
        let connection = &mut self.connections[index as usize];
        let holds = connection.extras.as_ref().is_some_and(|extras| !extras.held_acks.is_empty());
        if !holds && self.written <= self.journal.durable() {
            self.write_ack(index, &ack);
            return;
        }
        let extras = connection.extras();
        extras.held_publish_acks += usize::from(ack.ends_publish());
        extras.held_acks.push_back((self.written, ack));
        if !holds {
            self.holding.push(index);
        }
    }

    /// Sends what the journal's progress has made true.
    pub(crate) fn release_acks(&mut self) {
        let durable = self.journal.durable();
        for index in std::mem::take(&mut self.holding) {
            while let Some(ack) = self.next_held_ack(index, durable) {
                self.write_ack(index, &ack);
            }
            let extras = &self.connections[index as usize].extras;
            if extras.as_ref().is_some_and(|extras| !extras.held_acks.is_empty()) {
                self.holding.push(index);
            }
        }
    }

    fn next_held_ack(&mut self, index: u32, durable: LogPosition) -> Option<Ack> {
        let extras = self.connections[index as usize].extras.as_mut()?;
        extras.held_acks.front().filter(|(position, _)| *position <= durable)?;
        let (_, ack) = extras.held_acks.pop_front()?;
        extras.held_publish_acks -= usize::from(ack.ends_publish());
        Some(ack)
    }

    fn write_ack(&mut self, index: u32, ack: &Ack) {
        let connection = &self.connections[index as usize];
        let v5 = connection.is_v5();
        let explanation = match ack {
            // [MQTT-3.1.2-29]
            Ack::Published(_, _, why) | Ack::Received(_, _, why) if v5 && connection.problem_information => {
                why.as_deref()
            }
            _ => None,
        };
        if let Some(why) = explanation {
            let properties = [Property::ReasonString(why)];
            if self.write_packet(index, &ack.packet(Properties::from_list(&properties), v5)) {
                return;
            }
            // [MQTT-3.4.2-2] and its like: where the reason string is too much, it goes first.
        }
        self.write_packet(index, &ack.packet(Properties::EMPTY, v5));
    }
}

impl Ack {
    /// Whether the client may count its message as no longer in flight [MQTT-3.3.4-7] although no identifier is held.
    fn ends_publish(&self) -> bool {
        match self {
            Ack::Published(..) => true,
            Ack::Received(_, reason, _) => reason.is_error(),
            _ => false,
        }
    }

    fn packet<'a>(&'a self, properties: Properties<'a>, v5: bool) -> Packet<'a> {
        match self {
            Ack::Published(packet_id, reason, _) => {
                Packet::PubAck(PubAck { packet_id: *packet_id, reason: *reason, properties })
            }
            Ack::Received(packet_id, reason, _) => {
                Packet::PubRec(PubRec { packet_id: *packet_id, reason: *reason, properties })
            }
            Ack::Release(packet_id, reason) => {
                Packet::PubRel(PubRel { packet_id: *packet_id, reason: *reason, properties })
            }
            Ack::Complete(packet_id, reason) => {
                Packet::PubComp(PubComp { packet_id: *packet_id, reason: *reason, properties })
            }
            Ack::Subscribed(packet_id, reasons) => {
                Packet::SubAck(SubAck { packet_id: *packet_id, properties, reasons: (&reasons[..]).into() })
            }
            Ack::Unsubscribed(packet_id, reasons) => {
                // 3.1.1 has no codes here.
                let reasons = if v5 { &reasons[..] } else { &[] };
                Packet::UnsubAck(UnsubAck { packet_id: *packet_id, properties, reasons: reasons.into() })
            }
        }
    }
}
