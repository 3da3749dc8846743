//! What [`super`] does with several parts of a shard.

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

/// So many bytes of documents are made and compared in one turn; the rest follows in the next ones. A document is not cut.
const TURN_MAX_BYTES: usize = 64 << 10;

/// What a document counts as beside its payload: to make, look up and retain a small one takes as long as so many bytes of a
/// large one.
const DOCUMENT_BYTES: usize = 2 << 10;

impl<M: Mode> Shard<M> {
    /// Begins to say what the contracts are, if they have changed and this shard is the one to say so.
    pub(crate) fn begin_contract_publication(&mut self, config: &ConfigSnapshot) {
        let (since, is_enabled) = (config.contracts_since(), config.settings.contract_discovery);
        let is_new = is_enabled != self.told.is_enabled || (is_enabled && since != self.told.since);
        if !self.state.context.is_first() || !is_new {
            return;
        }
        // What has been begun for others is dropped: `names` has what of it is there.
        (self.told.since, self.told.is_enabled) = (since, is_enabled);
        // Where nobody is to be told, what is there goes; and there may never have been any contracts.
        let documents = (is_enabled && since > 0).then(|| Documents::of(config.contracts.clone()));
        self.told.publication = Some(ContractPublication { documents, stale: self.told.names.clone() });
    }

    /// Whether something is left to be said of the contracts.
    #[inline]
    pub(crate) fn has_contracts_to_publish(&self) -> bool {
        self.told.publication.is_some()
    }

    /// Publishes some of what is new of the contracts, and at the end takes back what is gone.
    #[inline]
    pub(crate) fn publish_contracts(&mut self) {
        if let Some(publication) = self.told.publication.take() {
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
                self.told.names.insert(document.name);
            } else if let Some(gone) = publication.stale.pop_first() {
                bytes += DOCUMENT_BYTES;
                self.publish_document(&gone, None);
                self.told.names.remove(&gone);
            } else {
                return;
            }
        }
        self.told.publication = Some(publication);
    }

    fn publish_document(&mut self, name: &str, document: Option<&Document>) {
        let topic = format!("{PREFIX}{name}");
        let held = self.state.context.exchange().retained_message(&topic);
        if document
            .is_some_and(|new| held.is_some_and(|held| held.loaded().is_some_and(|held| held.payload() == new.payload)))
        {
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
            log::warn!("{topic} was not published: the broker retains as much as it may");
        }
    }

    /// Answers a message to one of the topics for requests; false for any other topic. Only the client that asks gets the
    /// answer.
    pub(crate) fn answer_discovery(&mut self, index: ConnectionIndex, publish: &Publish<'_>, topic: &str) -> bool {
        if !self.state.config.settings().contract_discovery {
            return false;
        }
        let catalogue = self.state.config.contracts().clone();
        let (default_topic, format, payload) = match topic {
            REQUEST => {
                let said = publish.properties.content_type().and_then(Format::of_content_type);
                let format = if said == Some(Format::Protobuf) { Format::Protobuf } else { Format::Json };
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
