//! How a client handles and checks received packets.

use std::num::NonZeroU16;

use tautwire_engine::Mode;
use tautwire_protocol::{
    ConnAck, ConnectReason, DecodeOptions, DisconnectReason, OwnedPacket, Packet, PacketId, PubRel, Publish, QoS,
    ReasonCode, SubscriptionId, decode,
};

use super::{Acknowledged, Client, Expected, Outcome, PendingAnswer, PendingRequest, Phase};
use crate::ledger::{Arrival, DeliveryLedger};
use crate::support::SimulatedBroker;

impl Client {
    /// Decodes all packets in `bytes`.
    pub(crate) fn decode_all(&self, bytes: &[u8]) -> Vec<OwnedPacket> {
        let mut packets = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (packet, length) =
                decode(rest, &DecodeOptions::new(self.version)).expect("the bytes are whole valid packets");
            packets.push(packet.to_owned_packet().expect("a decoded packet can be owned"));
            rest = &rest[length..];
        }
        packets
    }

    /// Reads up to `most` bytes and handles all whole packets.
    pub(crate) fn read<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut DeliveryLedger,
        most: usize,
    ) -> Outcome {
        let Some(socket) = self.socket else { return Ok(()) };
        let bytes = broker.take(socket, most);
        self.input.extend_from_slice(&bytes);
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        while at < input.len() {
            let options = DecodeOptions::new(self.version);
            let (packet, length) = match decode(&input[at..], &options) {
                Ok(decoded) => decoded,
                Err(error) if error.is_incomplete() => break,
                Err(error) => return Err(format!("client {} received an invalid packet: {error}", self.index)),
            };
            let maximum =
                self.options.as_ref().and_then(|options| options.maximum_packet_bytes).filter(|_| self.is_v5());
            if maximum.is_some_and(|maximum| length > maximum as usize) {
                return Err(format!(
                    "{:?} of {length} bytes exceeds the Maximum Packet Size {maximum:?}",
                    packet.packet_type()
                ));
            }
            self.on_packet(broker, ledger, &packet)
                .map_err(|error| format!("client {} ({}): {error}", self.index, self.version))?;
            at += length;
        }
        self.input = input[at..].to_vec();
        let drained = bytes.len() < most;
        if drained && self.socket == Some(socket) && broker.closed_at_ms(socket).is_some() {
            self.handle_disconnected(broker.now_ms(), ledger);
        }
        Ok(())
    }

    fn on_packet<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut DeliveryLedger,
        packet: &Packet<'_>,
    ) -> Outcome {
        match (self.phase, packet) {
            (Phase::Connecting, Packet::ConnAck(connack)) => self.on_connack(broker, ledger, connack),
            (Phase::Connecting, Packet::Disconnect(_)) => Ok(()),
            (_, Packet::Disconnect(disconnect))
                if self.may_be_refused && disconnect.reason == DisconnectReason::QuotaExceeded =>
            {
                self.refusals += 1;
                Ok(())
            }
            (Phase::Connecting, other) => Err(format!("{:?} before CONNACK", other.packet_type())),
            (_, Packet::Publish(publish)) => self.on_publish(ledger, publish),
            (_, Packet::PubAck(ack)) => {
                self.on_acknowledgement(ledger, QoS::AtLeastOnce, ack.packet_id, ack.reason.into())
            }
            (_, Packet::PubRec(ack)) => {
                self.on_acknowledgement(ledger, QoS::ExactlyOnce, ack.packet_id, ack.reason.into())?;
                if !ack.reason.is_error() {
                    self.send(broker, &Packet::PubRel(PubRel::success(ack.packet_id)));
                }
                Ok(())
            }
            (_, Packet::PubRel(release)) => {
                self.acknowledged.push(Acknowledged::Received(release.packet_id));
                self.unreleased.remove(&release.packet_id.get());
                self.pending_answers.push_back(PendingAnswer::Complete(release.packet_id));
                Ok(())
            }
            (_, Packet::PubComp(complete)) => {
                self.acknowledged.push(Acknowledged::Release(complete.packet_id));
                self.outgoing.retain(|outgoing| outgoing.id != complete.packet_id);
                Ok(())
            }
            (_, Packet::SubAck(suback)) => {
                let Some(PendingRequest::Subscribe(requests)) = self.pending_requests.remove(&suback.packet_id.get())
                else {
                    return Err("SUBACK without a SUBSCRIBE".into());
                };
                let granted: Vec<u8> = suback.reasons.iter().map(|reason| reason.as_u8()).collect();
                let wanted: Vec<u8> = requests.iter().map(|request| request.qos.as_u8()).collect();
                let refusal = if self.is_v5() { ReasonCode::QuotaExceeded.as_u8() } else { 0x80 };
                let is_refused = |granted: u8| self.may_be_refused && granted == refusal;
                if granted.len() != wanted.len()
                    || granted.iter().zip(&wanted).any(|(granted, wanted)| granted != wanted && !is_refused(*granted))
                {
                    return Err(format!("requested QoS {wanted:?}, granted {granted:?}"));
                }
                let made = requests.iter().zip(&granted).filter(|(_, granted)| !is_refused(**granted));
                if let Some(session) = self.session {
                    made.for_each(|(request, _)| ledger.subscribed(session, &request.filter));
                }
                let filters = requests.into_iter().map(|request| request.filter).collect();
                self.acknowledged.push(Acknowledged::Subscribed(filters));
                Ok(())
            }
            (_, Packet::UnsubAck(unsuback)) => {
                let Some(PendingRequest::Unsubscribe(filters)) =
                    self.pending_requests.remove(&unsuback.packet_id.get())
                else {
                    return Err("UNSUBACK without an UNSUBSCRIBE".into());
                };
                if let Some(session) = self.session {
                    filters.iter().for_each(|filter| ledger.unsubscribed(session, filter));
                }
                self.acknowledged.push(Acknowledged::Unsubscribed(filters));
                Ok(())
            }
            (_, Packet::PingResp) => Ok(()),
            // The client may have opened another connection, which ends this one.
            (_, Packet::Disconnect(disconnect)) => Err(format!("disconnected: {:?}", disconnect.reason)),
            (_, other) => Err(format!("{:?} from a server", other.packet_type())),
        }
    }

    fn on_connack<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut DeliveryLedger,
        connack: &ConnAck<'_>,
    ) -> Outcome {
        if self.may_be_refused
            && matches!(connack.reason, ConnectReason::QuotaExceeded | ConnectReason::ServerUnavailable)
        {
            // The broker refuses the connection.
            self.refusals += 1;
            return Ok(());
        }
        if connack.reason != ConnectReason::Success {
            return Err(format!("refused: {:?}", connack.reason));
        }
        match (self.expected, connack.session_present) {
            (Expected::Present, false) if broker.now_ms() < self.expires_at_ms => {
                return Err("the session is lost".into());
            }
            (Expected::Absent, true) => return Err("an unexpected session is present".into()),
            _ => {}
        }
        self.phase = Phase::Connected;
        self.must_start_clean = false;
        self.acknowledged.push(Acknowledged::Connected);
        ledger.forbidden_wills.extend(self.options.as_ref().and_then(|options| options.will));
        self.broker_receive_maximum =
            connack.properties.receive_maximum().map_or(65_535, |maximum| maximum.get().into());
        self.broker_alias_maximum = connack.properties.topic_alias_maximum().unwrap_or(0);
        if !connack.session_present {
            if let Some(session) = self.session.take() {
                ledger.end(session);
            }
            self.outgoing.clear();
            self.unreleased.clear();
        }
        let session = *self.session.get_or_insert_with(|| ledger.begin(self.index));
        ledger.sessions[session].is_persistent =
            self.options.as_ref().is_some_and(|options| options.expiry_interval_s > 0);
        self.update_maximum_packet_bytes(ledger, session);
        self.resend(broker, ledger);
        Ok(())
    }

    /// [MQTT-4.4.0-1]
    fn resend<M: Mode>(&mut self, broker: &mut SimulatedBroker<M>, ledger: &mut DeliveryLedger) {
        let outgoing: Vec<_> =
            self.outgoing.iter().map(|outgoing| (outgoing.id, outgoing.number, outgoing.received)).collect();
        for (id, number, received) in outgoing {
            if received {
                self.send(broker, &Packet::PubRel(PubRel::success(id)));
            } else {
                self.send_publish(broker, ledger, number, Some(id), true);
            }
        }
    }

    /// PUBACK and PUBREC come in the order of the messages [MQTT-4.6.0-2], [MQTT-4.6.0-3].
    fn on_acknowledgement(
        &mut self,
        ledger: &mut DeliveryLedger,
        qos: QoS,
        id: PacketId,
        reason: ReasonCode,
    ) -> Outcome {
        let is_refused = self.may_be_refused && reason == ReasonCode::QuotaExceeded;
        if reason.as_u8() >= 0x80 && !is_refused {
            return Err(format!("message refused, packet {}: {reason:?}", id.get()));
        }
        let Some(at) = self.awaited_acks.iter().position(|(awaited, _)| *awaited == qos) else {
            return Err(format!("unexpected acknowledgement of packet {}", id.get()));
        };
        match self.awaited_acks.remove(at) {
            Some((_, awaited)) if awaited == id.get() => {}
            other => return Err(format!("packet {} is acknowledged before {other:?}", id.get())),
        }
        let Some(outgoing) = self.outgoing.iter_mut().find(|outgoing| outgoing.id == id && outgoing.qos == qos) else {
            return Err(format!("packet {} is acknowledged and not in flight", id.get()));
        };
        outgoing.received = true;
        let number = outgoing.number;
        if is_refused {
            self.refusals += 1;
            ledger.refused(number);
            self.outgoing.retain(|outgoing| outgoing.id != id);
            return Ok(());
        }
        ledger.acknowledged(number);
        self.acknowledged.push(Acknowledged::Message(number));
        if qos == QoS::AtLeastOnce {
            self.outgoing.retain(|outgoing| outgoing.id != id);
        }
        Ok(())
    }

    fn on_publish(&mut self, ledger: &mut DeliveryLedger, publish: &Publish<'_>) -> Outcome {
        let alias = publish.properties.topic_alias().map(NonZeroU16::get);
        let accepted = self.options.as_ref().map_or(0, |options| options.topic_alias_maximum);
        if alias.is_some_and(|alias| alias > accepted) {
            return Err(format!("topic alias {alias:?} exceeds the maximum {accepted}"));
        }
        let topic = match (publish.topic, alias) {
            (Some(topic), Some(alias)) => {
                self.aliases_in.insert(alias, topic.as_str().into());
                topic.as_str().to_owned()
            }
            (Some(topic), None) => topic.as_str().to_owned(),
            (None, Some(alias)) => self.aliases_in.get(&alias).cloned().ok_or("an unknown topic alias")?,
            (None, None) => return Err("a PUBLISH without a topic".into()),
        };
        let repeated = self.track_packet_id(publish, ledger)?;
        let arrival = Arrival {
            topic: &topic,
            payload: publish.payload,
            qos: publish.qos(),
            dup: publish.dup(),
            retain: publish.retain,
            identifiers: publish.properties.subscription_identifiers().map(SubscriptionId::get).collect(),
            expiry_interval_s: publish.properties.message_expiry_interval(),
            repeated,
        };
        match self.session {
            Some(session) => ledger.arrived(session, &arrival),
            None => Err("a PUBLISH without a session".into()),
        }
    }

    /// Tracks the Packet Identifier. Returns true if it is a QoS 2 message that the client already has.
    fn track_packet_id(&mut self, publish: &Publish<'_>, ledger: &DeliveryLedger) -> Result<bool, String> {
        let Some(id) = publish.packet_id() else { return Ok(false) };
        if self.in_flight.insert(id.get(), publish.qos()).is_some() {
            return Err(format!("packet identifier {} is in use", id.get()));
        }
        let options = self.options.as_ref();
        let maximum = options.and_then(|options| options.receive_maximum).filter(|_| self.is_v5()).unwrap_or(65_535);
        if self.in_flight.len() > usize::from(maximum) {
            return Err(format!("{} messages in flight exceed the Receive Maximum {maximum}", self.in_flight.len()));
        }
        if publish.qos() == QoS::AtLeastOnce {
            self.pending_answers.push_back(PendingAnswer::Published(id));
            return Ok(false);
        }
        self.pending_answers.push_back(PendingAnswer::Received(id));
        let number = ledger.publications.iter().position(|held| held.payload == publish.payload);
        match (self.unreleased.get(&id.get()), number) {
            (Some(held), Some(number)) if *held == number => Ok(true),
            (Some(_), _) => Err(format!("packet identifier {} belongs to an unreleased message", id.get())),
            (None, _) => {
                self.unreleased.insert(id.get(), number.unwrap_or(usize::MAX));
                if let Some(number) = number.filter(|number| !ledger.publications[*number].retain) {
                    self.acknowledged.push(Acknowledged::Delivered(number));
                }
                Ok(false)
            }
        }
    }
}
