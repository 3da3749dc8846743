//! CONNECT and CONNACK, and the start of a connection.

use tautwire_protocol::{
    ConnAck, Connect, DecodeOptions, MAX_PACKET_SIZE_BYTES, Packet, Properties, Property, PropertyContext,
    ProtocolVersion, decode,
};
use tautwire_session::{Change, Resend, Session};

use super::link::{Link, Offer, Phase};
use super::{Event, Handler, Machine, Published};
use crate::Error;
use crate::duration::millis;
use crate::error::Refused;

impl<T> Machine<T> {
    /// A connection to a server is open: puts CONNECT into the output.
    ///
    /// # Errors
    /// Options that this version of MQTT cannot express.
    pub fn opened(&mut self, now_ms: u64) -> Result<(), Error> {
        let until_ms = now_ms.saturating_add(millis(self.options.connect_timeout));
        self.opened_by(now_ms, until_ms)
    }

    /// As `opened`, for an attempt that began earlier: CONNACK must arrive by `until_ms`.
    pub(crate) fn opened_by(&mut self, now_ms: u64, until_ms: u64) -> Result<(), Error> {
        self.check_store()?;
        self.lost();
        self.link = Link::opened(now_ms);
        let block = self.connect_block()?;
        let options = &self.options;
        let will = match &options.will {
            Some(will) => Some(tautwire_protocol::Will {
                topic: tautwire_protocol::TopicName::new(&will.topic)?,
                payload: &will.payload,
                qos: will.qos,
                retain: will.retain,
                properties: will.properties.get(),
            }),
            None => None,
        };
        let connect = Connect {
            version: options.version,
            clean_start: self.starts_clean(),
            keep_alive_s: options.keep_alive_s,
            client_id: &self.client_id,
            will,
            user_name: options.user_name.as_deref(),
            password: options.password.as_deref(),
            properties: Properties::from_wire(&block, PropertyContext::Connect).map_err(Error::BadPacket)?,
        };
        connect
            .append_to(options.version, &mut self.output)
            .map_err(|error| Error::Encode { packet: "CONNECT", error })?;
        self.phase = Phase::Connecting { until_ms };
        Ok(())
    }

    /// Later connections resume the session. In 3.1.1 a session that ends with its connection needs Clean Session each time.
    fn starts_clean(&self) -> bool {
        self.options.clean_start && !(self.was_open && self.version().is_v5())
    }

    fn connect_block(&mut self) -> Result<Vec<u8>, Error> {
        let mut block = Vec::new();
        if !self.version().is_v5() {
            return match self.options.connect_properties.get().is_empty() && self.options.authenticator.is_none() {
                true => Ok(block),
                false => Err(Error::Options("properties of CONNECT and authenticators need MQTT 5.0".into())),
            };
        }
        let options = &mut self.options;
        let mut push = |property: Property<'_>| {
            property.append_to(&mut block).map(|_| ()).map_err(|error| Error::Encode { packet: "CONNECT", error })
        };
        if options.session_expiry_s > 0 {
            push(Property::SessionExpiryInterval(options.session_expiry_s))?;
        }
        if let Some(maximum) = std::num::NonZeroU16::new(options.receive_maximum).filter(|max| max.get() < u16::MAX) {
            push(Property::ReceiveMaximum(maximum))?;
        }
        let limit = std::num::NonZeroU32::new(options.maximum_packet_size_bytes);
        if let Some(limit) = limit.filter(|limit| limit.get() < MAX_PACKET_SIZE_BYTES) {
            push(Property::MaximumPacketSize(limit))?;
        }
        if options.topic_alias_maximum > 0 {
            push(Property::TopicAliasMaximum(options.topic_alias_maximum))?;
        }
        if let Some(authenticator) = &mut options.authenticator {
            let data = self.answer.take().unwrap_or_else(|| authenticator.begin())?;
            push(Property::AuthenticationMethod(authenticator.method()))?;
            if let Some(data) = &data {
                push(Property::AuthenticationData(data))?;
            }
        }
        for property in &options.connect_properties.get() {
            push(property)?;
        }
        Ok(block)
    }

    /// The refusal of a server without MQTT 5.0: a CONNACK of 3.1.1, which is malformed in 5.0.
    pub(super) fn refusal_in_v3(&self, bytes: &[u8]) -> Option<Error> {
        if !matches!(self.phase, Phase::Connecting { .. }) || !self.version().is_v5() {
            return None;
        }
        match decode(bytes, &DecodeOptions::new(ProtocolVersion::V3_1_1)) {
            Ok((Packet::ConnAck(connack), _)) => refusal(&connack),
            _ => None,
        }
    }

    pub(super) fn on_connack(
        &mut self,
        connack: &ConnAck<'_>,
        now_ms: u64,
        handler: &mut impl Handler<T>,
    ) -> Result<(), Error> {
        let properties = connack.properties;
        if let Some(refusal) = refusal(connack) {
            return Err(refusal);
        }
        if connack.session_present && self.starts_clean() {
            // [MQTT-3.2.2-2]
            return Err(self.breach("CONNACK with Session Present after Clean Start"));
        }
        if let Some(authenticator) = &mut self.options.authenticator {
            if properties.authentication_method() != Some(authenticator.method()) {
                // [MQTT-4.12.0-5]
                return Err(self.breach("CONNACK without the authentication method of CONNECT"));
            }
            match self.answer.take() {
                Some(answer) => drop(answer?),
                None => authenticator.finish(properties.authentication_data())?,
            }
        }
        self.link.offer = Offer::from_connack(connack, self.version());
        self.link.keep_alive_ms =
            u64::from(properties.server_keep_alive().unwrap_or(self.options.keep_alive_s)).saturating_mul(1000);
        if let Some(assigned) = properties.assigned_client_identifier() {
            // [MQTT-3.2.2-16]: later connections use it.
            self.client_id = assigned.to_owned();
        }
        self.response_information = properties.response_information().map(Into::into);
        self.phase = Phase::Open;
        self.counters.connections += 1;
        handler.event(Event::Connected { connack: *connack });
        let requests_before = self.unsent.len();
        if connack.session_present {
            if let Some(outbound) = self.session.outbound_mut() {
                outbound.rewind();
            }
            self.resend_releases();
        } else {
            if self.was_open || self.stored_client_id.is_some() {
                self.counters.sessions_lost += 1;
            }
            self.store_beginning();
            self.start_over(handler);
        }
        self.was_open = true;
        self.send_requests(requests_before, handler);
        self.resend(now_ms, handler);
        self.pump(now_ms, handler);
        Ok(())
    }

    /// The server has no session: subscribes again, and sends unacknowledged messages as new ones. A QoS 2 message might then
    /// arrive twice, so its sender gets an error instead.
    fn start_over(&mut self, handler: &mut impl Handler<T>) {
        self.inbound.forget();
        let unmatched = std::mem::take(&mut self.unmatched);
        let mut old = std::mem::replace(&mut self.session, Session::new(&self.client_id));
        self.renew_subscriptions(old.subscriptions());
        let (mut again, mut done) = (Vec::new(), Vec::new());
        if let Some(outbound) = old.outbound_mut() {
            outbound.rewind();
            while let Some(resend) = outbound.resend() {
                let (packet_id, delivery) = match resend {
                    Resend::Publish(packet_id, delivery) => (packet_id, Some(delivery.clone())),
                    Resend::Release(packet_id) => (packet_id, None),
                };
                let Some(tracked) = self.tags.remove(&packet_id) else { continue };
                let outcome = match delivery {
                    Some(delivery) if delivery.qos == tautwire_protocol::QoS::AtLeastOnce => {
                        again.push((delivery, tracked));
                        continue;
                    }
                    Some(_) => Err(Error::SessionLost),
                    // PUBREC had arrived: the server has accepted the message.
                    None => Ok(Published::of_received(unmatched.contains(&packet_id))),
                };
                done.push(tracked.sequence);
                if let Some(tag) = tracked.tag {
                    handler.event(Event::Published(tag, outcome));
                }
            }
        }
        done.into_iter().for_each(|sequence| self.forget(sequence));
        let waiting = std::iter::from_fn(|| old.take_unfinished());
        let waiting: Vec<_> = waiting.filter(|(_, sent_as)| sent_as.is_none()).map(|(delivery, _)| delivery).collect();
        let mut tags = std::mem::take(&mut self.queued_tags);
        for (delivery, tracked) in again {
            self.counters.resent += 1;
            self.store_unsent(tracked.sequence);
            self.queued_tags.push_back(tracked);
            self.session.apply(Change::Queued(delivery));
        }
        self.queued_tags.append(&mut tags);
        for delivery in waiting {
            self.session.apply(Change::Queued(delivery));
        }
    }
}

/// The error of a CONNACK with a refusal.
fn refusal(connack: &ConnAck<'_>) -> Option<Error> {
    let properties = connack.properties;
    connack.reason.is_error().then(|| Error::Refused {
        what: Refused::Connection,
        reason: connack.reason.into(),
        text: properties.reason_string().map(Into::into),
        server_reference: properties.server_reference().map(Into::into),
    })
}
