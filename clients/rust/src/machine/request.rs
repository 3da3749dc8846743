//! A SUBSCRIBE or UNSUBSCRIBE of the machine.

use tautwire_protocol::{
    EncodeError, List, Packet, PacketId, Properties, Property, SubscriptionId, SubscriptionOptions,
    SubscriptionRequest, TopicFilter, Unsubscribe as UnsubscribePacket,
};

use super::events::{Event, Handler};
use crate::Error;
use crate::properties::PropertyBlock;

/// A SUBSCRIBE or UNSUBSCRIBE, kept until it is answered.
pub(super) struct Request<T> {
    pub(super) kind: Kind,
    /// `None` for a request of the machine itself.
    pub(super) tag: Option<T>,
}

pub(super) enum Kind {
    Subscribe { filters: Vec<FilterRequest>, identifier: Option<SubscriptionId>, properties: PropertyBlock, why: Why },
    Unsubscribe { filters: Vec<Box<str>>, properties: PropertyBlock },
}

/// A filter with its subscription options.
pub(crate) type FilterRequest = (Box<str>, SubscriptionOptions);

/// The purpose of a SUBSCRIBE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Requested by the application.
    Asked,
    /// Renews a subscription of a lost session.
    Renewed,
    /// One of several subscriptions to a filter has ended. If the server refuses, the old options remain.
    Adjusted,
}

impl<T> Request<T> {
    pub(super) fn fail(self, error: Error, handler: &mut impl Handler<T>) {
        match (self.tag, self.kind) {
            (Some(tag), Kind::Subscribe { .. }) => handler.event(Event::Subscribed(tag, Err(error))),
            (Some(tag), Kind::Unsubscribe { .. }) => handler.event(Event::Unsubscribed(tag, Err(error))),
            (None, Kind::Subscribe { filters, why: Why::Renewed, .. }) => {
                for (filter, _) in filters {
                    handler.event(Event::SubscriptionLost(filter, error.clone()));
                }
            }
            (None, Kind::Subscribe { .. } | Kind::Unsubscribe { .. }) => {}
        }
    }
}

impl Kind {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Kind::Subscribe { .. } => "SUBSCRIBE",
            Kind::Unsubscribe { .. } => "UNSUBSCRIBE",
        }
    }
}

/// Builds the packet and passes it to `use_it`.
pub(super) fn with_packet<R>(
    kind: &Kind,
    packet_id: Option<PacketId>,
    use_it: impl FnOnce(&Packet<'_>) -> Result<R, EncodeError>,
) -> Result<R, EncodeError> {
    let Some(packet_id) = packet_id else { return Err(EncodeError::NoTopicFilters) };
    match kind {
        Kind::Subscribe { filters, identifier, properties, .. } => {
            let requests: Vec<_> = filters
                .iter()
                .filter_map(|(filter, options)| Some((TopicFilter::new(filter).ok()?, *options)))
                .map(|(filter, options)| SubscriptionRequest { filter, options })
                .collect();
            let mut list: Vec<_> = properties.get().iter().collect();
            list.extend(identifier.map(Property::SubscriptionIdentifier));
            use_it(&Packet::Subscribe(tautwire_protocol::Subscribe {
                packet_id,
                properties: Properties::from_list(&list),
                requests: List::from_slice(&requests),
            }))
        }
        Kind::Unsubscribe { filters, properties } => {
            let filters: Vec<_> = filters.iter().filter_map(|filter| TopicFilter::new(filter).ok()).collect();
            use_it(&Packet::Unsubscribe(UnsubscribePacket {
                packet_id,
                properties: properties.get(),
                filters: List::from_slice(&filters),
            }))
        }
    }
}
