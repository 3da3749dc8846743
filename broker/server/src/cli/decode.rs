//! `tautwire sub --decode`: payloads as JSON, by the contracts of the broker.
//!
//! Payloads are decoded here and not by `$as/json/`: so they are seen as they were published, under the filters that were
//! given, and one that breaks its contract is told of instead of left out.

use std::borrow::Cow;

use tautwire_contracts::{Catalogue, Format};
use tautwire_protocol::{RetainHandling, SubscriptionOptions, SubscriptionRequest, TopicFilter, topic_matches};

use super::Stop;
use super::subscribe::Options;
use crate::client::{ConnectOptions, Message, discovery};
use crate::json::is_json;

/// The contracts as they are known.
pub(super) struct Decoder {
    connect: ConnectOptions,
    catalogue: Catalogue,
    watches: bool,
}

impl Decoder {
    /// Asks the broker for its contracts.
    pub(super) fn new(connect: &ConnectOptions) -> Result<Decoder, Stop> {
        let catalogue = discovery::contracts(connect, None)?;
        Ok(Decoder { connect: connect.clone(), catalogue, watches: false })
    }

    /// The subscription by which changes of the contracts are heard of. None for a session that is kept, which would keep it
    /// too, and where the user has asked for the same.
    pub(super) fn watch(&mut self, options: &Options) -> Option<SubscriptionRequest<'static>> {
        let is_wanted = |filter: &TopicFilter<'_>| topic_matches(filter.matched(), discovery::INDEX);
        if options.client.keeps_session() || options.filters.iter().any(is_wanted) {
            return None;
        }
        self.watches = true;
        let mut how = SubscriptionOptions::default();
        if options.client.is_v5() {
            how.retain_handling = RetainHandling::DoNotSend;
        }
        Some(SubscriptionRequest { filter: TopicFilter::new(discovery::INDEX).ok()?, options: how })
    }

    /// Whether the message says that the contracts have changed, or is there for nothing else.
    pub(super) fn is_news(&self, message: &Message<'_>) -> bool {
        self.watches && message.topic == discovery::INDEX
    }

    /// Asks for the contracts again.
    pub(super) fn refresh(&mut self) -> Result<(), Stop> {
        self.catalogue = discovery::contracts(&self.connect, None)?;
        Ok(())
    }

    /// The payload as JSON.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn decoded<'m>(&self, message: &Message<'m>) -> Result<Cow<'m, [u8]>, String> {
        let as_it_is =
            |why: String| if is_json(message.payload) { Ok(Cow::Borrowed(message.payload)) } else { Err(why) };
        if message.payload.is_empty() {
            return Ok(Cow::Borrowed(message.payload));
        }
        let Some(contract) = self.catalogue.find(&message.topic) else {
            return as_it_is("is not JSON, and no contract covers the topic".to_owned());
        };
        let checked = contract.check(&message.topic, message.properties.content_type(), message.payload);
        let mut json = Vec::new();
        let decoded = checked.and_then(|format| {
            contract.transcode(format, Format::Json, message.payload, &mut json)?;
            Ok(())
        });
        match decoded {
            Ok(()) => Ok(Cow::Owned(json)),
            Err(violation) => as_it_is(format!("breaks the contract {}: {violation}", contract.name())),
        }
    }
}
