//! Messages from the server.

use std::num::NonZeroU16;

use tautwire_protocol::{
    Delivery, DisconnectReason, Packet, PubAckReason, PubComp, PubCompReason, PubRel, Publish, QoS, TopicName,
};
use tautwire_session::Change;

use super::inbound::Arrival;
use super::{AckToken, Answer, Handler, Incoming, Machine};
use crate::Error;
use crate::store::Record;

impl<T> Machine<T> {
    #[inline]
    pub(super) fn on_publish(&mut self, publish: &Publish<'_>, handler: &mut impl Handler<T>) -> Result<(), Error> {
        self.counters.received += 1;
        if !publish.properties.is_empty()
            && let Some(alias) = publish.properties.topic_alias()
        {
            return self.on_aliased(publish, alias, handler);
        }
        self.hand_over(publish, handler)
    }

    /// A message that sets or uses a topic alias [MQTT-3.3.2-12].
    fn on_aliased(
        &mut self,
        publish: &Publish<'_>,
        alias: NonZeroU16,
        handler: &mut impl Handler<T>,
    ) -> Result<(), Error> {
        let alias = alias.get();
        if alias > self.options.topic_alias_maximum {
            // [MQTT-3.1.2-26]
            self.leave(DisconnectReason::TopicAliasInvalid);
            return Err(Error::Protocol("topic alias above Topic Alias Maximum"));
        }
        if let Some(topic) = publish.topic {
            self.link.aliases_in.insert(alias, topic.as_str().into());
            return self.hand_over(publish, handler);
        }
        // Removed while the message is delivered, to avoid a copy.
        let Some(topic) = self.link.aliases_in.remove(&alias) else {
            return Err(self.breach("unknown topic alias"));
        };
        let handed = match TopicName::new(&topic) {
            Ok(name) => self.hand_over(&Publish { topic: Some(name), ..*publish }, handler),
            Err(error) => Err(Error::Topic(error)),
        };
        self.link.aliases_in.insert(alias, topic);
        handed
    }

    #[inline]
    fn hand_over(&mut self, publish: &Publish<'_>, handler: &mut impl Handler<T>) -> Result<(), Error> {
        let (packet_id, dup) = match publish.delivery {
            Delivery::AtMostOnce => {
                handler.message(&Incoming { publish: *publish, token: None });
                return Ok(());
            }
            Delivery::AtLeastOnce { packet_id, dup } | Delivery::ExactlyOnce { packet_id, dup } => (packet_id, dup),
        };
        match self.inbound.arrive(packet_id, publish.qos(), dup, &mut self.session) {
            Arrival::Duplicate => self.counters.duplicates += 1,
            Arrival::New(token) => {
                let held = self.session.held().map_or(0, |held| held.len());
                if self.version().is_v5()
                    && self.inbound.at_least_once() + held > usize::from(self.options.receive_maximum)
                {
                    // [MQTT-3.3.4-9]
                    self.leave(DisconnectReason::ReceiveMaximumExceeded);
                    return Err(Error::Protocol("Receive Maximum exceeded"));
                }
                if handler.message(&Incoming { publish: *publish, token: Some(token) }) == Answer::Acknowledge {
                    self.inbound.answer(token, PubAckReason::Success);
                }
            }
        }
        self.flush_inbound();
        Ok(())
    }

    #[inline]
    fn flush_inbound(&mut self) {
        self.inbound.flush(self.options.version, &mut self.session, self.store.as_ref(), &mut self.output);
    }

    pub(super) fn on_pubrel(&mut self, release: &PubRel<'_>) -> Result<(), Error> {
        let packet_id = release.packet_id;
        let known = self.session.held().is_some_and(|held| held.contains(packet_id));
        let reason = if known || !self.version().is_v5() {
            PubCompReason::Success
        } else {
            PubCompReason::PacketIdentifierNotFound
        };
        if known {
            self.session.apply(Change::Released(packet_id));
            if let Some(store) = &self.store {
                store.record(&Record::Completed { packet_id });
            }
            self.session.shrink();
        }
        self.write(&Packet::PubComp(PubComp::new(packet_id, reason)));
        Ok(())
    }

    /// The application acknowledges a message. The acknowledgement is sent after those of earlier messages, and is
    /// discarded if the session has ended. A reason of 0x80 or above refuses the message (MQTT 5.0 only).
    pub fn acknowledge(&mut self, token: AckToken, reason: PubAckReason) {
        self.inbound.answer(token, reason);
        if self.is_open() {
            self.flush_inbound();
        }
    }

    /// QoS 1 and 2 messages that the application has not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.inbound.unanswered()
    }

    /// The QoS of the message of a token.
    pub fn qos_of(token: AckToken) -> QoS {
        token.qos
    }
}
