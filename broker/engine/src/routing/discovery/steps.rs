//! Publishing contracts over several turns, and answering requests for them.

use tautwire_contracts::discovery::{self, Document, Documents};
use tautwire_message::{Format, MessageRef};
use tautwire_protocol::{Property, PropertyId, Publish, QoS};

use super::{ContractPublication, REQUEST, SERVICE_REQUEST, push};
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::routing::deliver::DeliveryOptions;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::MessageSource;
use crate::settings::config::ConfigSnapshot;
use crate::shard::Shard;

const PREFIX: &str = "$SYS/contracts/";

const RESPONSE: &str = "$SYS/contracts/response";

const SERVICE_RESPONSE: &str = "$SYS/discovery/response";

/// Bytes of documents that are encoded and compared in one turn. A document is never split.
const TURN_MAX_BYTES: usize = 64 << 10;

/// The fixed cost of a document: to encode, look up and retain a small one takes as long as this many bytes of a large one.
const DOCUMENT_BYTES: usize = 2 << 10;

impl<M: Mode> Shard<M> {
    /// Starts publishing the contracts if they have changed and this is the first shard.
    pub(crate) fn begin_contract_publication(&mut self, config: &ConfigSnapshot) {
        let (since, is_enabled) = (config.contracts_version(), config.settings.contract_discovery);
        let is_new = is_enabled != self.state.routing.published_contracts.is_enabled
            || (is_enabled && since != self.state.routing.published_contracts.since);
        if !self.state.context.is_first() || !is_new {
            return;
        }
        // An unfinished publication is dropped; `names` has the documents that it published.
        (self.state.routing.published_contracts.since, self.state.routing.published_contracts.is_enabled) =
            (since, is_enabled);
        // If discovery is disabled, published documents are removed. There may never have been any contracts.
        let documents = (is_enabled && since > 0).then(|| Documents::of(config.contracts.clone()));
        self.state.routing.published_contracts.publication =
            Some(ContractPublication { documents, stale: self.state.routing.published_contracts.names.clone() });
    }

    /// Whether contracts are still to be published.
    #[inline]
    pub(crate) fn has_contracts_to_publish(&self) -> bool {
        self.state.routing.published_contracts.publication.is_some()
    }

    /// Publishes some of the new contracts, and at the end removes stale documents.
    #[inline]
    pub(crate) fn publish_contracts(&mut self) {
        if let Some(publication) = self.state.routing.published_contracts.publication.take() {
            self.continue_publication(publication);
        }
    }

    fn continue_publication(&mut self, mut publication: ContractPublication) {
        let mut bytes = 0;
        while bytes < TURN_MAX_BYTES {
            if let Some(document) = publication.documents.as_mut().and_then(Iterator::next) {
                bytes += DOCUMENT_BYTES + document.payload.len();
                self.publish_document(&document.name, Some(&document));
                publication.stale.remove(&document.name);
                self.state.routing.published_contracts.names.insert(document.name);
            } else if let Some(gone) = publication.stale.pop_first() {
                bytes += DOCUMENT_BYTES;
                self.publish_document(&gone, None);
                self.state.routing.published_contracts.names.remove(&gone);
            } else {
                return;
            }
        }
        self.state.routing.published_contracts.publication = Some(publication);
    }

    fn publish_document(&mut self, name: &str, document: Option<&Document>) {
        let topic = format!("{PREFIX}{name}");
        let current = self.state.context.exchange().retained_message(&topic);
        if document.is_some_and(|new| {
            current.is_some_and(|current| current.loaded().is_some_and(|current| current.payload() == new.payload))
        }) {
            return;
        }
        let properties = document.map_or_else(Vec::new, |document| content_type(document.format));
        let message = MessageRef {
            id: self.state.context.next_message_id(),
            topic: &topic,
            properties: &properties,
            payload: document.map_or(&[], |document| &document.payload),
            qos: QoS::AtMostOnce,
            retain: true,
            expires_at_ms: None,
        };
        if self.publish(&mut OutgoingPublish::new(message), MessageSource::Broker).is_err() {
            log::warn!("{topic} was not published: the limit on retained messages of the broker is reached");
        }
    }

    /// Answers a message to one of the request topics; returns false for any other topic. Only the requesting client gets the
    /// response.
    pub(crate) fn answer_discovery(&mut self, index: ConnectionIndex, publish: &Publish<'_>, topic: &str) -> bool {
        if !self.state.config.settings().contract_discovery {
            return false;
        }
        let catalogue = self.state.config.contracts().clone();
        let (default_topic, format, payload) = match topic {
            REQUEST => {
                let requested = publish.properties.content_type().and_then(Format::of_content_type);
                let format = if requested == Some(Format::Protobuf) { Format::Protobuf } else { Format::Json };
                (RESPONSE, format, discovery::answer(&catalogue, format, publish.payload))
            }
            SERVICE_REQUEST => {
                (SERVICE_RESPONSE, Format::Protobuf, discovery::service_discovery(&catalogue, publish.payload))
            }
            _ => return false,
        };
        self.state.work_budget.count_transcoding(DOCUMENT_BYTES + payload.len());
        let mut properties = content_type(format);
        if let Some(Property::CorrelationData(data)) = publish.properties.get(PropertyId::CorrelationData) {
            push(&mut properties, PropertyId::CorrelationData, data);
        }
        let response_topic = publish.properties.response_topic();
        let message = MessageRef {
            id: self.state.context.next_message_id(),
            topic: response_topic.map_or(default_topic, |topic| topic.as_str()),
            properties: &properties,
            payload: &payload,
            qos: QoS::AtMostOnce,
            retain: false,
            expires_at_ms: None,
        };
        let options = DeliveryOptions {
            qos: QoS::AtMostOnce,
            retain: false,
            subscription_ids: &[],
            share: None,
            is_shared: false,
        };
        self.state.deliver_at_most_once(index, &OutgoingPublish::new(message), options);
        true
    }
}

fn content_type(format: Format) -> Vec<u8> {
    let mut properties = Vec::new();
    push(&mut properties, PropertyId::ContentType, format.content_type().as_bytes());
    properties
}
