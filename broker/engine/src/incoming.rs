//! Packets of a connected client.

use std::borrow::Cow;

use tautwire_message::MessageRef;
use tautwire_protocol::{
    AuthReason, DisconnectReason, Packet, PacketId, PropertyId, PubAckReason, PubCompReason, PubRecReason,
    PubRelReason, Publish, QoS, ReasonCode,
};
use tautwire_session::{Change, Journal};

use crate::ack::Ack;
use crate::connection::Phase;
use crate::contracts::{Ending, Refusal};
use crate::frames::Outgoing;
use crate::output::Chunk;
use crate::route::Origin;
use crate::shard::{Handled, Shard};

/// Why a connection must end, and what to say of it.
pub(crate) struct Breach(pub(crate) DisconnectReason, pub(crate) &'static str);

/// A message's topic, and the alias that is to stand for it.
struct Resolved<'a> {
    topic: Cow<'a, str>,
    alias: Option<u16>,
}

impl<J: Journal> Shard<J> {
    /// Any packet but PUBLISH.
    pub(crate) fn on_packet(&mut self, index: u32, packet: &Packet<'_>) -> Handled {
        if let Packet::Connect(connect) = packet {
            return self.on_connect(index, connect);
        }
        let Some(session) = self.hub.connections[index as usize].session else { return Handled::Ended };
        match packet {
            Packet::PubAck(ack) => self.on_acknowledged(index, session, ack.packet_id, QoS::AtLeastOnce),
            Packet::PubRec(received) => self.on_received(index, session, received.packet_id, received.reason),
            Packet::PubRel(release) => self.on_release(index, session, release.packet_id),
            Packet::PubComp(complete) => self.on_complete(session, complete.packet_id),
            Packet::Subscribe(subscribe) => self.on_subscribe(index, session, subscribe),
            Packet::Unsubscribe(unsubscribe) => self.on_unsubscribe(index, session, unsubscribe),
            Packet::PingReq => {
                // [MQTT-3.12.4-1]
                self.hub.write_packet(index, &Packet::PingResp);
            }
            Packet::Disconnect(disconnect) => self.on_disconnect(index, session, disconnect),
            Packet::Auth(auth) => {
                // No exchange can be under way where no method is configured [MQTT 5.0 section 4.12].
                let why = match auth.reason {
                    AuthReason::ReAuthenticate => "no authentication method is in use",
                    _ => "no authentication is under way",
                };
                self.protocol_error(index, why);
            }
            Packet::Connect(_)
            | Packet::ConnAck(_)
            | Packet::Publish(_)
            | Packet::SubAck(_)
            | Packet::UnsubAck(_)
            | Packet::PingResp => self.protocol_error(index, "a packet that only a server sends"),
        }
        if self.hub.connections[index as usize].phase == Phase::Open { Handled::Done } else { Handled::Ended }
    }

    /// A message from a client. `payload_at` is where its payload lies in `chunk`.
    pub(crate) fn on_publish(
        &mut self,
        index: u32,
        publish: &Publish<'_>,
        chunk: &Chunk,
        payload_at: usize,
    ) -> Handled {
        let qos = publish.qos();
        if qos != QoS::AtMostOnce && self.hub.outboxes.iter().any(|outbox| outbox.is_full()) {
            self.pause(index);
            return Handled::Later;
        }
        let Some(session) = self.hub.connections[index as usize].session else { return Handled::Ended };
        let counters = self.hub.counters();
        counters.publishes_received.add(1);
        counters.publish_bytes_received.add(publish.payload.len() as u64);

        if let Err(Breach(reason, why)) = self.check_capabilities(publish) {
            self.disconnect(index, reason, why);
            return Handled::Ended;
        }
        // A topic that was given an alias earlier is taken out while the message is on its way, so as not to be copied.
        let Resolved { topic, alias } = match self.resolve_topic(index, publish) {
            Ok(resolved) => resolved,
            Err(Breach(reason, why)) => {
                self.disconnect(index, reason, why);
                return Handled::Ended;
            }
        };
        if let Some(packet_id) = publish.packet_id()
            && let Some(handled) = self.before_acknowledged(index, session, qos, packet_id)
        {
            self.keep_alias(index, alias, topic);
            return handled;
        }

        let mut scratch = Vec::new();
        let message = MessageRef {
            topic: &topic,
            properties: travelling(publish, &mut scratch),
            payload: publish.payload,
            qos,
            retain: publish.retain,
            expires_at_ms: self.expires_at_ms(publish),
        };
        let outcome = match self.check_message(publish, &topic) {
            _ if self.answer_discovery(index, publish, &topic) => Ok(true),
            Ok(()) => {
                let mut outgoing = Outgoing { chunk: Some((chunk, payload_at)), ..Outgoing::new(message) };
                self.publish(&mut outgoing, Origin::Session(session))
            }
            Err(refusal) => Err(refusal),
        };
        self.keep_alias(index, alias, topic);
        if let Err(refusal) = &outcome
            && self.ends_connection(index, qos, refusal)
        {
            self.hub.counters().publishes_refused.add(1);
            self.disconnect(index, DisconnectReason::PayloadFormatInvalid, &refusal.why);
            return Handled::Ended;
        }
        self.after_publish(index, session, publish, outcome);
        if self.hub.connections[index as usize].phase == Phase::Open { Handled::Done } else { Handled::Ended }
    }

    /// Retains and routes; says whether anybody wanted it.
    pub(crate) fn publish(&mut self, outgoing: &mut Outgoing<'_>, origin: Origin) -> Result<bool, Box<Refusal>> {
        if !outgoing.message.retain {
            let generation = self.hub.exchange.generation();
            return self.route(outgoing, origin, generation).or_else(|broken| self.refuse_broken(*broken, outgoing));
        }
        if let Some(contract) = self.hub.contracts.find(outgoing.message.topic)
            && let Err(broken) = self.hub.hold_to(&contract, outgoing)
        {
            return self.refuse_broken(*broken, outgoing);
        }
        outgoing.is_checked = true;
        let Ok(retention) = self.hub.exchange.retain(&outgoing.message, &mut outgoing.kept) else {
            self.hub.counters().retained_refused.add(1);
            return Err(Refusal::new(ReasonCode::QuotaExceeded, "the broker retains as much as it may"));
        };
        self.hub.record_retained(outgoing, retention.sequence);
        self.route(outgoing, origin, retention.generation).or_else(|broken| self.refuse_broken(*broken, outgoing))
    }

    /// What the server has said in CONNACK that it does not do.
    fn check_capabilities(&self, publish: &Publish<'_>) -> Result<(), Breach> {
        self.check_offered(publish.qos(), publish.retain)?;
        if publish.properties.contains(PropertyId::SubscriptionIdentifier) {
            // [MQTT-3.3.4-6]
            return Err(Breach(
                DisconnectReason::ProtocolError,
                "a client's PUBLISH carries a subscription identifier",
            ));
        }
        Ok(())
    }

    /// Whether there are such messages here at all.
    #[inline]
    pub(crate) fn check_offered(&self, qos: QoS, retain: bool) -> Result<(), Breach> {
        let settings = &self.hub.settings;
        if qos > settings.max_qos {
            return Err(Breach(DisconnectReason::QoSNotSupported, "the QoS is above the maximum"));
        }
        if retain && !settings.retain_available {
            return Err(Breach(DisconnectReason::RetainNotSupported, "retained messages are not available"));
        }
        Ok(())
    }

    /// The topic by name or alias, and the alias to be remembered for it.
    fn resolve_topic<'a>(&mut self, index: u32, publish: &Publish<'a>) -> Result<Resolved<'a>, Breach> {
        let Some(alias) = publish.properties.topic_alias() else {
            return Ok(Resolved {
                topic: Cow::Borrowed(publish.topic.map_or("", |topic| topic.as_str())),
                alias: None,
            });
        };
        let alias = alias.get();
        if alias > self.hub.settings.topic_alias_maximum {
            // [MQTT-3.2.2-17]
            return Err(Breach(DisconnectReason::TopicAliasInvalid, "the topic alias is above the maximum"));
        }
        if let Some(topic) = publish.topic {
            return Ok(Resolved { topic: Cow::Borrowed(topic.as_str()), alias: Some(alias) });
        }
        let known = self.hub.connections[index as usize].extras().aliases_in.remove(&alias);
        match known {
            Some(topic) => Ok(Resolved { topic: Cow::Owned(topic.into()), alias: Some(alias) }),
            None => Err(Breach(DisconnectReason::ProtocolError, "the topic alias stands for nothing")),
        }
    }

    #[inline]
    fn keep_alias(&mut self, index: u32, alias: Option<u16>, topic: Cow<'_, str>) {
        if let Some(alias) = alias {
            self.hub.connections[index as usize].extras().aliases_in.insert(alias, topic.into());
        }
    }

    /// What must be looked at before a QoS 1 or 2 message is taken on.
    fn before_acknowledged(&mut self, index: u32, session: u32, qos: QoS, packet_id: PacketId) -> Option<Handled> {
        let connection = &self.hub.connections[index as usize];
        let held = self.hub.sessions[session as usize].session.held();
        if qos == QoS::ExactlyOnce && held.is_some_and(|held| held.contains(packet_id)) {
            // Sent again, because our PUBREC was lost: answered again, not delivered again [MQTT-4.3.3-10].
            let ack = Ack::Received(packet_id, PubRecReason::Success, None);
            self.hub.acknowledge(index, ack);
            return Some(Handled::Done);
        }
        let waiting = connection.extras.as_ref().map_or(0, |extras| extras.held_publish_acks);
        let in_flight = waiting + held.map_or(0, |held| held.len());
        if connection.is_v5() && in_flight >= usize::from(self.hub.settings.receive_maximum) {
            // [MQTT-3.3.4-7]
            let reason = DisconnectReason::ReceiveMaximumExceeded;
            self.disconnect(index, reason, "more messages in flight than Receive Maximum");
            return Some(Handled::Ended);
        }
        None
    }

    /// Whether a client may publish to `topic`.
    pub(crate) fn check_topic(&self, topic: &str) -> Result<(), ReasonCode> {
        let settings = &self.hub.settings;
        let levels = || topic.bytes().filter(|byte| *byte == b'/').count() + 1;
        if topic.len() > settings.topic_bytes
            || (topic.len() >= settings.topic_levels && levels() > settings.topic_levels)
        {
            return Err(ReasonCode::TopicNameInvalid);
        }
        const RESERVED: [&str; 4] = ["$SYS", "$share", "$as", "$quarantine"];
        if topic.starts_with('$') && topic.split('/').next().is_some_and(|first| RESERVED.contains(&first)) {
            return Err(ReasonCode::NotAuthorized);
        }
        Ok(())
    }

    fn check_message(&self, publish: &Publish<'_>, topic: &str) -> Result<(), Box<Refusal>> {
        self.check_topic(topic).map_err(|reason| Refusal::new(reason, "clients may not publish to this topic"))?;
        if !publish.payload_is_as_indicated() {
            return Err(Refusal::new(ReasonCode::PayloadFormatInvalid, "the payload is not UTF-8 as indicated"));
        }
        Ok(())
    }

    /// Whether a refusal is to cost the publisher its connection.
    fn ends_connection(&self, index: u32, qos: QoS, refusal: &Refusal) -> bool {
        match refusal.ending {
            Ending::Never => false,
            Ending::Always => true,
            Ending::WithoutAnswer => qos == QoS::AtMostOnce || !self.hub.connections[index as usize].is_v5(),
        }
    }

    fn expires_at_ms(&self, publish: &Publish<'_>) -> Option<u64> {
        let interval_s = publish.properties.message_expiry_interval()?;
        Some(self.hub.now_ms + u64::from(interval_s) * 1000)
    }

    /// Answers as the QoS demands [MQTT-3.3.4-1].
    fn after_publish(&mut self, index: u32, session: u32, publish: &Publish<'_>, outcome: Result<bool, Box<Refusal>>) {
        // Codes and reason strings are for 5.0. A client of 3.1.1 is told that its message was taken, which is the only
        // answer it knows but to be cut off.
        let v5 = self.hub.connections[index as usize].is_v5();
        let (reason, why) = match outcome {
            Ok(true) => (ReasonCode::Success, None),
            Ok(false) if v5 => (ReasonCode::NoMatchingSubscribers, None),
            Ok(false) => (ReasonCode::Success, None),
            Err(refusal) => {
                let Refusal { reason, why, .. } = *refusal;
                self.hub.counters().publishes_refused.add(1);
                if v5 { (reason, Some(why)) } else { (ReasonCode::Success, None) }
            }
        };
        match publish.delivery {
            tautwire_protocol::Delivery::AtMostOnce => {}
            tautwire_protocol::Delivery::AtLeastOnce { packet_id, .. } => {
                let reason = PubAckReason::try_from(reason).unwrap_or(PubAckReason::UnspecifiedError);
                self.hub.acknowledge(index, Ack::Published(packet_id, reason, why));
            }
            tautwire_protocol::Delivery::ExactlyOnce { packet_id, .. } => {
                let reason = PubRecReason::try_from(reason).unwrap_or(PubRecReason::UnspecifiedError);
                if !reason.is_error() {
                    self.hub.commit(session, Change::Held(packet_id));
                }
                self.hub.acknowledge(index, Ack::Received(packet_id, reason, why));
            }
        }
    }

    /// Reading goes on when the other shards have caught up.
    fn pause(&mut self, index: u32) {
        self.hub.counters().publishers_paused.add(1);
        self.hub.connections[index as usize].paused = true;
        let id = self.hub.id(index);
        self.hub.paused.push(id);
    }

    /// PUBACK. An identifier that is not in use may belong to an exchange that ended with an earlier connection.
    fn on_acknowledged(&mut self, index: u32, session: u32, packet_id: PacketId, qos: QoS) {
        let outbound = self.hub.sessions[session as usize].session.outbound();
        match outbound.and_then(|outbound| outbound.unacknowledged(packet_id)) {
            None => {}
            Some(delivery) if delivery.qos != qos => self.protocol_error(index, "PUBACK for a QoS 2 message"),
            Some(_) => {
                self.hub.commit(session, Change::Completed(packet_id));
                self.hub.pump(session);
            }
        }
    }

    /// PUBREC.
    fn on_received(&mut self, index: u32, session: u32, packet_id: PacketId, reason: PubRecReason) {
        let Some(outbound) = self.hub.sessions[session as usize].session.outbound() else {
            self.release(index, packet_id, PubRelReason::PacketIdentifierNotFound);
            return;
        };
        match outbound.unacknowledged(packet_id) {
            Some(delivery) if delivery.qos != QoS::ExactlyOnce => {
                self.protocol_error(index, "PUBREC for a QoS 1 message");
            }
            Some(_) if reason.is_error() => {
                // [MQTT-4.8.2-6]: not given to another either.
                self.hub.commit(session, Change::Completed(packet_id));
                self.hub.pump(session);
            }
            Some(_) => {
                self.hub.commit(session, Change::Received(packet_id));
                self.release(index, packet_id, PubRelReason::Success);
            }
            None if outbound.is_released(packet_id) => {
                self.release(index, packet_id, PubRelReason::Success);
            }
            None if reason.is_error() => {}
            None => self.release(index, packet_id, PubRelReason::PacketIdentifierNotFound),
        }
    }

    fn release(&mut self, index: u32, packet_id: PacketId, reason: PubRelReason) {
        let v5 = self.hub.connections[index as usize].is_v5();
        let reason = if v5 { reason } else { PubRelReason::Success };
        self.hub.acknowledge(index, Ack::Release(packet_id, reason));
    }

    /// PUBREL.
    fn on_release(&mut self, index: u32, session: u32, packet_id: PacketId) {
        let held = self.hub.sessions[session as usize].session.held();
        let known = held.is_some_and(|held| held.contains(packet_id));
        let connection = &self.hub.connections[index as usize];
        // In a session that was resumed, the client may not have got our PUBCOMP. The code for an unknown identifier is no
        // error then [MQTT 5.0 section 3.7.2.1], but clients take it for one.
        let is_mismatch = !known && connection.is_v5() && !connection.resumed;
        if known {
            self.hub.commit(session, Change::Released(packet_id));
        }
        let reason = if is_mismatch { PubCompReason::PacketIdentifierNotFound } else { PubCompReason::Success };
        self.hub.acknowledge(index, Ack::Complete(packet_id, reason));
    }

    /// PUBCOMP.
    fn on_complete(&mut self, session: u32, packet_id: PacketId) {
        let outbound = self.hub.sessions[session as usize].session.outbound();
        if outbound.is_some_and(|outbound| outbound.is_released(packet_id)) {
            self.hub.commit(session, Change::Completed(packet_id));
            self.hub.pump(session);
        }
    }
}

/// The properties that go on to subscribers. They are one piece of the packet unless one among them stays behind.
fn travelling<'a>(publish: &Publish<'a>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let stays = |id| matches!(id, PropertyId::TopicAlias | PropertyId::MessageExpiryInterval);
    let properties = &publish.properties;
    if properties.is_empty() {
        return &[];
    }
    if !properties.contains(PropertyId::TopicAlias) && !properties.contains(PropertyId::MessageExpiryInterval) {
        return properties.as_wire().unwrap_or_default();
    }
    for property in properties.raw().into_iter().flatten().filter(|property| !stays(property.id)) {
        scratch.extend_from_slice(property.bytes);
    }
    scratch
}
