//! SUBSCRIBE and UNSUBSCRIBE.

use tautwire_protocol::{
    PacketId, Property, PropertyContext, RetainHandling, SubAck, SubscriptionId, SubscriptionOptions, TopicFilter,
    UnsubAck,
};
use tautwire_session::{Change, SubscriptionRecord, SubscriptionSet};

use super::Machine;
use super::events::{Event, Handler};
use super::request::{FilterRequest, Kind, Request, Why, with_packet};
use crate::error::Refused;
use crate::properties::PropertyBlock;
use crate::{Error, Subscribe};

/// The maximum number of requests that wait for a connection or an answer. More would be a mistake of the application.
const REQUESTS_MAX: usize = 10_000;

impl<T> Machine<T> {
    /// Subscribes. [`Event::Subscribed`] returns `tag`.
    ///
    /// # Errors
    /// A filter is invalid, this version or the server does not support an option, or [`Error::QueueFull`].
    pub fn subscribe(&mut self, subscribe: &Subscribe, tag: T, handler: &mut impl Handler<T>) -> Result<(), Error> {
        let filters = subscribe.filters.iter().map(|filter| (filter.as_str().into(), subscribe.options)).collect();
        self.subscribe_to(subscribe, filters, subscribe.identifier, tag, handler)
    }

    /// As `subscribe`, with options that are merged with those of other subscriptions.
    pub(crate) fn subscribe_to(
        &mut self,
        subscribe: &Subscribe,
        filters: Vec<FilterRequest>,
        identifier: Option<SubscriptionId>,
        tag: T,
        handler: &mut impl Handler<T>,
    ) -> Result<(), Error> {
        subscribe.check()?;
        let properties = subscribe.properties.clone();
        let kind = Kind::Subscribe { filters, identifier, properties, why: Why::Asked };
        self.request(kind, Some(tag), handler)
    }

    /// Changes the options of existing subscriptions without a new delivery of retained messages. MQTT 3.1.1 cannot express that,
    /// so nothing changes there [MQTT-3.8.4-3].
    pub(crate) fn adjust(
        &mut self,
        filters: Vec<FilterRequest>,
        identifier: Option<SubscriptionId>,
        handler: &mut impl Handler<T>,
    ) {
        if filters.is_empty() || !self.version().is_v5() {
            return;
        }
        let filters = filters.into_iter().map(|(filter, options)| {
            (filter, SubscriptionOptions { retain_handling: RetainHandling::DoNotSend, ..options })
        });
        let properties = PropertyBlock::new(PropertyContext::Subscribe);
        let kind = Kind::Subscribe { filters: filters.collect(), identifier, properties, why: Why::Adjusted };
        // If there is no room for it, the options stay as they are.
        let _ = self.request(kind, None, handler);
    }

    /// Ends subscriptions. [`Event::Unsubscribed`] returns `tag`, if there is one.
    ///
    /// # Errors
    /// As [`Machine::subscribe`].
    pub fn unsubscribe(
        &mut self,
        filters: &[&str],
        properties: &[Property<'_>],
        tag: Option<T>,
        handler: &mut impl Handler<T>,
    ) -> Result<(), Error> {
        let mut block = PropertyBlock::new(PropertyContext::Unsubscribe);
        for property in properties {
            block.push(*property).map_err(|error| Error::Encode { packet: "UNSUBSCRIBE", error })?;
        }
        for filter in filters {
            TopicFilter::new(filter)?;
        }
        let filters = filters.iter().map(|filter| (*filter).into()).collect();
        self.request(Kind::Unsubscribe { filters, properties: block }, tag, handler)
    }

    fn request(&mut self, kind: Kind, tag: Option<T>, handler: &mut impl Handler<T>) -> Result<(), Error> {
        if self.requests.len() + self.unsent.len() >= REQUESTS_MAX {
            self.counters.refused_full += 1;
            return Err(Error::QueueFull);
        }
        // Whether it can be encoded does not depend on the identifier.
        let bytes = with_packet(&kind, PacketId::new(1), |packet| packet.encoded_len(self.options.version))
            .map_err(|error| Error::Encode { packet: kind.name(), error })?;
        if self.is_open() {
            self.check_request(&kind, bytes)?;
        }
        self.unsent.push_back(Request { kind, tag });
        if self.is_open() {
            self.send_requests(usize::MAX, handler);
        }
        Ok(())
    }

    /// Checks what the server supports.
    fn check_request(&self, kind: &Kind, bytes: usize) -> Result<(), Error> {
        let offer = &self.link.offer;
        if let Some(limit_bytes) = offer.maximum_packet_size_bytes.filter(|limit| bytes > *limit as usize) {
            return Err(Error::TooLarge { bytes, limit_bytes });
        }
        let Kind::Subscribe { filters, identifier, .. } = kind else { return Ok(()) };
        let mut filters = filters.iter().filter_map(|(filter, _)| TopicFilter::new(filter).ok());
        if identifier.is_some() && !offer.subscription_identifiers {
            return Err(Error::NotSupported("subscription identifiers"));
        }
        if !offer.wildcards && filters.clone().any(TopicFilter::has_wildcard) {
            return Err(Error::NotSupported("wildcard subscriptions"));
        }
        if !offer.shared_subscriptions && filters.any(|filter| filter.share().is_some()) {
            return Err(Error::NotSupported("shared subscriptions"));
        }
        Ok(())
    }

    /// Sends up to `most` of the waiting requests.
    pub(super) fn send_requests(&mut self, most: usize, handler: &mut impl Handler<T>) {
        for _ in 0..most.max(self.unsent.len()) {
            let Some(packet_id) = self.request_id() else { return };
            let Some(request) = self.unsent.pop_front() else { return };
            let version = self.options.version;
            let sent = with_packet(&request.kind, Some(packet_id), |packet| packet.encoded_len(version))
                .map_err(|error| Error::Encode { packet: request.kind.name(), error })
                .and_then(|bytes| self.check_request(&request.kind, bytes))
                .and_then(|()| {
                    with_packet(&request.kind, Some(packet_id), |packet| packet.append_to(version, &mut self.output))
                        .map_err(|error| Error::Encode { packet: request.kind.name(), error })
                });
            match sent {
                Ok(_) => self.requests.push_back((packet_id, request)),
                Err(error) => request.fail(error, handler),
            }
        }
    }

    /// Renews the subscriptions of the lost session, before anything else.
    pub(super) fn renew_subscriptions(&mut self, subscriptions: &SubscriptionSet) {
        let renewed: Vec<_> = subscriptions
            .iter()
            .map(|(filter, record)| Request {
                kind: Kind::Subscribe {
                    filters: vec![(filter.into(), record.options)],
                    identifier: record.identifier,
                    properties: PropertyBlock::new(PropertyContext::Subscribe),
                    why: Why::Renewed,
                },
                tag: None,
            })
            .collect();
        for request in renewed.into_iter().rev() {
            self.unsent.push_front(request);
        }
    }

    pub(super) fn on_suback(
        &mut self,
        ack: &SubAck<'_>,
        now_ms: u64,
        handler: &mut impl Handler<T>,
    ) -> Result<(), Error> {
        let Some(request) = self.take_request(ack.packet_id) else {
            return Err(self.breach("SUBACK without a SUBSCRIBE"));
        };
        let Kind::Subscribe { filters, identifier, why, .. } = request.kind else {
            return Err(self.breach("SUBACK for an UNSUBSCRIBE"));
        };
        if ack.reasons.len() != filters.len() {
            // [MQTT-3.8.4-6]
            return Err(self.breach("the number of codes in SUBACK differs from the number of filters"));
        }
        let text = ack.properties.reason_string();
        for ((filter, options), reason) in filters.into_iter().zip(ack.reasons.iter()) {
            if reason.granted_qos().is_some() {
                // The requested options, for a renewal if the session is lost.
                self.session
                    .apply(Change::Subscribed(filter, SubscriptionRecord { options, identifier, format: None }));
            } else if why == Why::Renewed {
                let why = Error::refused(Refused::Subscription(filter.clone()), reason, text);
                handler.event(Event::SubscriptionLost(filter, why));
            }
        }
        if let Some(tag) = request.tag {
            handler.event(Event::Subscribed(tag, Ok((ack.reasons.iter().collect(), text))));
        }
        self.pump(now_ms, handler);
        Ok(())
    }

    pub(super) fn on_unsuback(
        &mut self,
        ack: &UnsubAck<'_>,
        now_ms: u64,
        handler: &mut impl Handler<T>,
    ) -> Result<(), Error> {
        let Some(request) = self.take_request(ack.packet_id) else {
            return Err(self.breach("UNSUBACK without an UNSUBSCRIBE"));
        };
        let Kind::Unsubscribe { filters, .. } = request.kind else {
            return Err(self.breach("UNSUBACK for a SUBSCRIBE"));
        };
        let mut reasons = ack.reasons.iter();
        for filter in filters {
            if !reasons.next().is_some_and(|reason| reason.is_error()) {
                self.session.apply(Change::Unsubscribed(filter));
            }
        }
        if let Some(tag) = request.tag {
            let text = ack.properties.reason_string();
            handler.event(Event::Unsubscribed(tag, Ok((ack.reasons.iter().collect(), text))));
        }
        self.pump(now_ms, handler);
        Ok(())
    }

    fn take_request(&mut self, packet_id: PacketId) -> Option<Request<T>> {
        let at = self.requests.iter().position(|(requested, _)| *requested == packet_id)?;
        self.requests.remove(at).map(|(_, request)| request)
    }
}
