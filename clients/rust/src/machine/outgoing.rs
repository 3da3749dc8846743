//! Messages to the server.

use tautwire_message::{Message, MessageId, MessageRef};
use tautwire_protocol::{
    Delivery, Packet, PacketId, Properties, Property, PropertyId, PubAck, PubComp, PubRec, PubRecReason, PubRel,
    PubRelReason, Publish, QoS, TopicName,
};
use tautwire_session::{Change, Resend};

use super::Machine;
use super::events::{Acceptance, Event, Handler, Published};
use super::link::Phase;
use super::publish_packet::{delivery_of, pending_message, write_publish};
use super::tracked_message::TrackedMessage;
use crate::error::Refused;
use crate::{Error, Publication};

impl<T> Machine<T> {
    /// Accepts a message to send now or later. `tag` is called only if [`Event::Published`] will follow, which returns the tag.
    ///
    /// # Errors
    /// The message cannot be sent, or the server does not support what it needs. [`Error::QueueFull`] and [`Error::OutputFull`]: try
    /// again once output has been taken or messages have been acknowledged.
    pub fn publish(
        &mut self,
        publication: &Publication<'_>,
        now_ms: u64,
        tag: impl FnOnce() -> T,
    ) -> Result<Acceptance, Error> {
        let topic = TopicName::new(publication.topic)?;
        if self.phase == Phase::Open {
            self.check_offer(publication)?;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let accepted = match self.properties(publication, &mut scratch) {
            Ok(properties) => {
                let message = MessageRef {
                    id: MessageId::NONE,
                    topic: topic.as_str(),
                    properties,
                    payload: publication.payload,
                    qos: publication.chosen_qos(),
                    retain: publication.retain,
                    expires_at_ms: publication
                        .expiry_s
                        .map(|seconds| now_ms.saturating_add(u64::from(seconds).saturating_mul(1000))),
                };
                self.accept(&message, now_ms, tag)
            }
            Err(error) => Err(error),
        };
        self.scratch = scratch;
        match &accepted {
            Ok(_) => self.counters.published += 1,
            Err(error) if error.is_full() => self.counters.refused_full += 1,
            Err(_) => {}
        }
        accepted
    }

    /// The encoded properties, without the expiry.
    fn properties<'s>(&self, publication: &Publication<'_>, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], Error> {
        if !publication.has_properties() {
            return Ok(&[]);
        }
        let wrong = |error| Error::Encode { packet: "PUBLISH", error };
        for property in &publication.properties {
            property.append_to(scratch).map_err(wrong)?;
        }
        if let Some(topic) = publication.response_topic {
            Property::ResponseTopic(TopicName::new(topic)?).append_to(scratch).map_err(wrong)?;
        }
        // Checking the typed packet gives a more precise error than checking the block.
        let publish = Publish {
            delivery: Delivery::AtMostOnce,
            retain: false,
            topic: TopicName::new(publication.topic).ok(),
            properties: Properties::from_list(&publication.properties),
            payload: &[],
        };
        publish.encoded_len(self.version()).map_err(wrong)?;
        if publication.expiry_s.is_some() && !self.version().is_v5() {
            return Err(Error::NotSupported("message expiry, which needs MQTT 5.0"));
        }
        if publication.response_topic.is_some() && !self.version().is_v5() {
            return Err(Error::NotSupported("a response topic, which needs MQTT 5.0"));
        }
        if publication.response_topic.is_some()
            && publication.properties.iter().any(|property| matches!(property, Property::ResponseTopic(_)))
        {
            return Err(wrong(tautwire_protocol::EncodeError::PropertyRepeated {
                property: PropertyId::ResponseTopic,
            }));
        }
        for property in &publication.properties {
            match property {
                // [MQTT-3.3.4-6]
                Property::SubscriptionIdentifier(_) => {
                    return Err(Error::argument("a message of a client cannot have a subscription identifier"));
                }
                Property::TopicAlias(alias)
                    if self.phase == Phase::Open && alias.get() > self.link.offer.topic_alias_maximum =>
                {
                    // [MQTT-3.3.2-9]
                    return Err(Error::NotSupported("a topic alias above the server's Topic Alias Maximum"));
                }
                _ => {}
            }
        }
        Ok(scratch)
    }

    /// Checks what the server supports.
    fn check_offer(&self, publication: &Publication<'_>) -> Result<(), Error> {
        let offer = &self.link.offer;
        let qos = publication.chosen_qos();
        if qos > offer.maximum_qos {
            // [MQTT-3.2.2-11]
            return Err(Error::QoSNotSupported(qos));
        }
        if publication.retain && !offer.retain {
            // [MQTT-3.2.2-14]
            return Err(Error::RetainNotSupported);
        }
        Ok(())
    }

    fn accept(&mut self, message: &MessageRef<'_>, now_ms: u64, tag: impl FnOnce() -> T) -> Result<Acceptance, Error> {
        let output_is_full = self.output.len() >= self.options.limits.output_bytes;
        if message.qos == QoS::AtMostOnce {
            // It may overtake messages of another QoS, but not of its own [MQTT-4.6.0-5].
            if self.phase == Phase::Open && self.queued_at_most_once == 0 {
                if output_is_full {
                    return Err(Error::OutputFull);
                }
                let version = self.options.version;
                write_publish(
                    &mut self.output,
                    &mut self.link,
                    &self.options,
                    version,
                    message,
                    Delivery::AtMostOnce,
                    now_ms,
                )?;
                return Ok(Acceptance::Sent);
            }
        } else if let Some(packet_id) = self.free_packet_id()
            && self.queued_tags.is_empty()
            && !output_is_full
        {
            let delivery = delivery_of(message.qos, packet_id, false);
            let version = self.options.version;
            write_publish(&mut self.output, &mut self.link, &self.options, version, message, delivery, now_ms)?;
            let sequence = self.store_message(message, Some(packet_id), now_ms);
            self.session.apply(Change::Started(pending_message(message)));
            self.tags.insert(packet_id, TrackedMessage { tag: Some(tag()), sequence });
            return Ok(Acceptance::Tracked);
        }
        let limits = &self.options.limits;
        let queued_bytes = self.session.outbound().map_or(0, |outbound| outbound.queued_bytes());
        if self.queued_tags.len() >= limits.queue_messages
            || queued_bytes.saturating_add(message.allocated_bytes()) > limits.queue_bytes
                && !self.queued_tags.is_empty()
        {
            return Err(Error::QueueFull);
        }
        self.counters.queued += 1;
        self.queued_at_most_once += usize::from(message.qos == QoS::AtMostOnce);
        let sequence = self.store_message(message, None, now_ms);
        self.session.apply(Change::Queued(pending_message(message)));
        self.queued_tags.push_back(TrackedMessage { tag: Some(tag()), sequence });
        Ok(Acceptance::Tracked)
    }

    /// The packet identifier for the next message, if one may be started now.
    #[inline]
    fn free_packet_id(&self) -> Option<PacketId> {
        if self.phase != Phase::Open {
            return None;
        }
        let maximum = self.options.limits.in_flight.min(self.link.offer.receive_maximum);
        if let Some(outbound) = self.session.outbound()
            && (!outbound.is_resent() || outbound.in_flight() >= usize::from(maximum))
        {
            return None;
        }
        // Identifiers of requests are far ahead; when messages catch up with one, they wait for its answer.
        self.session.next_packet_id().filter(|id| self.requests.iter().all(|(requested, _)| requested != id))
    }

    /// Sends PUBREL again for all exchanges that wait for PUBCOMP. They come before the messages, because these may wait for them.
    pub(super) fn resend_releases(&mut self) {
        let releases: Vec<_> =
            self.session.outbound().map(|outbound| outbound.unsent_releases().collect()).unwrap_or_default();
        releases.into_iter().for_each(|packet_id| self.release(packet_id, PubRelReason::Success));
    }

    /// Sends unacknowledged messages of an earlier connection again, in their original order [MQTT-4.4.0-1], within the limits of the
    /// server: those that wait for PUBCOMP count [MQTT-3.3.4-7].
    pub(super) fn resend(&mut self, now_ms: u64, handler: &mut impl Handler<T>) {
        let maximum = usize::from(self.options.limits.in_flight.min(self.link.offer.receive_maximum));
        let version = self.options.version;
        let mut impossible = Vec::new();
        let Some(outbound) = self.session.outbound_mut() else { return };
        let mut unsent_releases = outbound.unsent_releases().count();
        while outbound.in_flight() + unsent_releases < maximum {
            match outbound.resend() {
                Some(Resend::Publish(packet_id, pending)) => {
                    // [MQTT-3.3.1-1]
                    let delivery = delivery_of(pending.qos, packet_id, true);
                    // A client keeps all of its messages in memory.
                    let Some(message) = pending.message.loaded().map(Message::as_ref) else { break };
                    match write_publish(
                        &mut self.output,
                        &mut self.link,
                        &self.options,
                        version,
                        &message,
                        delivery,
                        now_ms,
                    ) {
                        Ok(()) => self.counters.resent += 1,
                        Err(error) => impossible.push((packet_id, error)),
                    }
                }
                // Its PUBREL has left already.
                Some(Resend::Release(_)) => unsent_releases -= 1,
                None => break,
            }
        }
        // The server supports less than before.
        for (packet_id, error) in impossible {
            self.finish(packet_id, Err(error), handler);
        }
    }

    /// Sends queued messages, within the window and the output limit.
    pub(super) fn pump(&mut self, now_ms: u64, handler: &mut impl Handler<T>) {
        if self.phase != Phase::Open {
            return;
        }
        if self.session.outbound().is_some_and(|outbound| !outbound.is_resent()) {
            self.resend(now_ms, handler);
        }
        while self.output.len() < self.options.limits.output_bytes {
            let Some(front) = self.session.outbound().and_then(|outbound| outbound.front()) else { break };
            let (Some(message), qos) = (front.message.loaded().cloned(), front.qos) else { break };
            let message_ref = message.as_ref();
            if message_ref.is_expired(now_ms) {
                self.counters.expired += 1;
                self.withdraw(qos, Some(Err(Error::Expired)), handler);
                continue;
            }
            let packet_id = if qos == QoS::AtMostOnce { None } else { self.free_packet_id() };
            if packet_id.is_none() && qos != QoS::AtMostOnce {
                break;
            }
            let delivery = packet_id.map_or(Delivery::AtMostOnce, |id| delivery_of(qos, id, false));
            if let Err(error) = self.write_waiting(&message_ref, delivery, now_ms) {
                self.withdraw(qos, Some(Err(error)), handler);
                continue;
            }
            match packet_id {
                None => self.withdraw(qos, Some(Ok(Published::SUCCESS)), handler),
                Some(packet_id) => {
                    self.session.apply(Change::StartedQueued);
                    if let Some(tracked) = self.queued_tags.pop_front() {
                        self.store_sent(tracked.sequence, packet_id);
                        self.tags.insert(packet_id, tracked);
                    }
                }
            }
        }
    }

    /// Writes a message that was accepted before the server's limits were known.
    fn write_waiting(&mut self, message: &MessageRef<'_>, delivery: Delivery, now_ms: u64) -> Result<(), Error> {
        if message.qos > self.link.offer.maximum_qos {
            return Err(Error::QoSNotSupported(message.qos));
        }
        if message.retain && !self.link.offer.retain {
            return Err(Error::RetainNotSupported);
        }
        let version = self.options.version;
        write_publish(&mut self.output, &mut self.link, &self.options, version, message, delivery, now_ms)
    }

    /// Removes the first message of the queue.
    fn withdraw(&mut self, qos: QoS, outcome: Option<Result<Published, Error>>, handler: &mut impl Handler<T>) {
        self.session.apply(Change::Unqueued);
        self.queued_at_most_once -= usize::from(qos == QoS::AtMostOnce);
        let Some(tracked) = self.queued_tags.pop_front() else { return };
        self.forget(tracked.sequence);
        if let (Some(tag), Some(outcome)) = (tracked.tag, outcome) {
            handler.event(Event::Published(tag, outcome));
        }
    }

    pub(super) fn on_puback(
        &mut self,
        ack: &PubAck<'_>,
        now_ms: u64,
        handler: &mut impl Handler<T>,
    ) -> Result<(), Error> {
        match self.unacknowledged_qos(ack.packet_id) {
            Some(QoS::AtLeastOnce) => {}
            Some(_) => return Err(self.breach("PUBACK for a QoS 2 message")),
            // It may belong to an exchange that an earlier connection ended.
            None => return Ok(()),
        }
        let outcome = if ack.reason.is_error() {
            Err(Error::refused(Refused::Message, ack.reason, ack.properties.reason_string()))
        } else {
            Ok(Published { reason: ack.reason.into() })
        };
        self.finish(ack.packet_id, outcome, handler);
        self.pump(now_ms, handler);
        Ok(())
    }

    pub(super) fn on_pubrec(
        &mut self,
        received: &PubRec<'_>,
        now_ms: u64,
        handler: &mut impl Handler<T>,
    ) -> Result<(), Error> {
        let packet_id = received.packet_id;
        let released = self.session.outbound().is_some_and(|outbound| outbound.is_released(packet_id));
        match self.unacknowledged_qos(packet_id) {
            Some(QoS::ExactlyOnce) if received.reason.is_error() => {
                let why = received.properties.reason_string();
                self.finish(packet_id, Err(Error::refused(Refused::Message, received.reason, why)), handler);
                self.pump(now_ms, handler);
            }
            Some(QoS::ExactlyOnce) => {
                if received.reason == PubRecReason::NoMatchingSubscribers {
                    self.unmatched.insert(packet_id);
                }
                self.session.apply(Change::Received(packet_id));
                let sequence = self.tags.get(&packet_id).map_or(0, |tracked| tracked.sequence);
                self.store_released(sequence);
                self.release(packet_id, PubRelReason::Success);
            }
            Some(_) => return Err(self.breach("PUBREC for a QoS 1 message")),
            None if released => self.release(packet_id, PubRelReason::Success),
            None if received.reason.is_error() => {}
            None => self.release(packet_id, PubRelReason::PacketIdentifierNotFound),
        }
        Ok(())
    }

    pub(super) fn on_pubcomp(
        &mut self,
        complete: &PubComp<'_>,
        now_ms: u64,
        handler: &mut impl Handler<T>,
    ) -> Result<(), Error> {
        if self.session.outbound().is_some_and(|outbound| outbound.is_released(complete.packet_id)) {
            // Whatever the reason: PUBREC arrived, so the server has accepted the message.
            let published = Published::of_received(self.unmatched.remove(&complete.packet_id));
            self.finish(complete.packet_id, Ok(published), handler);
            self.pump(now_ms, handler);
        } else if self.unacknowledged_qos(complete.packet_id).is_some() {
            return Err(self.breach("PUBCOMP before PUBREC"));
        }
        Ok(())
    }

    fn unacknowledged_qos(&self, packet_id: PacketId) -> Option<QoS> {
        Some(self.session.outbound()?.unacknowledged(packet_id)?.qos)
    }

    fn release(&mut self, packet_id: PacketId, reason: PubRelReason) {
        let reason = if self.version().is_v5() { reason } else { PubRelReason::Success };
        self.write(&Packet::PubRel(PubRel::new(packet_id, reason)));
    }

    fn finish(&mut self, packet_id: PacketId, outcome: Result<Published, Error>, handler: &mut impl Handler<T>) {
        self.session.apply(Change::Completed(packet_id));
        let Some(tracked) = self.tags.remove(&packet_id) else { return };
        self.forget(tracked.sequence);
        if let Some(tag) = tracked.tag {
            handler.event(Event::Published(tag, outcome));
        }
    }

    /// The packet identifier for a SUBSCRIBE or UNSUBSCRIBE: far ahead of those of messages, so that a message waits for the answer
    /// to a request only after 32,767 others.
    pub(super) fn request_id(&self) -> Option<PacketId> {
        const AHEAD: u16 = 0x8000;
        let next = self.session.next_packet_id().map_or(1, PacketId::get);
        let outbound = self.session.outbound();
        (0..u16::MAX).filter_map(|step| PacketId::new(next.wrapping_add(AHEAD).wrapping_add(step))).find(|id| {
            let in_window =
                outbound.is_some_and(|outbound| outbound.unacknowledged(*id).is_some() || outbound.is_released(*id));
            !in_window && self.requests.iter().all(|(requested, _)| requested != id)
        })
    }
}
