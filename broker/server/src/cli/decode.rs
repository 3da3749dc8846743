//! `tautwire sub --decode`: prints payloads as JSON, using the contracts of the broker.
//!
//! Payloads are decoded here instead of by `$as/json/`, so that they appear as published and under the given filters, and a payload that
//! violates its contract is reported instead of left out.

use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tautwire_client::{Error, Subscribe, Subscription};
use tautwire_contracts::{Catalogue, Format};
use tautwire_protocol::{RetainHandling, TopicFilter, topic_matches};

use super::client_options::ClientOptions;
use super::{CommandExit, refused};
use crate::client::{ConnectOptions, Connection, Message, WaitOutcome, discovery};
use crate::json::is_json;
use crate::stderr;

/// Decodes payloads with the contracts of the broker.
pub(super) struct Decoder {
    connect: ConnectOptions,
    catalogue: Catalogue,
    /// The subscription to changes of the contracts.
    updates: Option<Subscription>,
}

impl Decoder {
    /// Fetches the contracts of the broker.
    pub(super) fn new(connect: &ConnectOptions) -> Result<Decoder, CommandExit> {
        let catalogue = discovery::contracts(connect, None)?;
        Ok(Decoder { connect: connect.clone(), catalogue, updates: None })
    }

    /// Subscribes to changes of the contracts. Not for a persistent session, which would keep the subscription, and not if the user has
    /// subscribed to the same topic.
    pub(super) fn watch(
        &mut self,
        client: &ClientOptions,
        filters: &[TopicFilter<'_>],
        connection: &mut Connection,
        deadline: Option<Instant>,
    ) -> Result<(), CommandExit> {
        let is_requested = |filter: &TopicFilter<'_>| topic_matches(filter.matched(), discovery::INDEX);
        if client.keeps_session() || filters.iter().any(is_requested) {
            return Ok(());
        }
        let mut request = Subscribe::to(discovery::INDEX);
        if client.is_v5() {
            request = request.retain_handling(RetainHandling::DoNotSend);
        }
        let mut subscribing = connection.client.subscribing(request)?;
        if let WaitOutcome::Ready(updates) = connection.wait(deadline, |cx| Pin::new(&mut subscribing).poll(cx))? {
            match updates {
                Ok(updates) => self.updates = Some(updates),
                Err(error @ Error::Refused { .. }) => {
                    if !client.quiet {
                        stderr::write_line(format_args!(
                            "tautwire: cannot subscribe to changes of the contracts: {}",
                            refusal(&error)
                        ));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Ready when the contracts have changed.
    pub(super) fn poll_updates(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(updates) = &mut self.updates {
            match updates.poll_next(cx) {
                // The retained message is not a change.
                Poll::Ready(Some(message)) if message.retain() => {}
                Poll::Ready(Some(_)) => return Poll::Ready(()),
                Poll::Ready(None) => self.updates = None,
                Poll::Pending => break,
            }
        }
        Poll::Pending
    }

    /// Fetches the contracts again.
    pub(super) fn refresh(&mut self) -> Result<(), CommandExit> {
        self.catalogue = discovery::contracts(&self.connect, None)?;
        Ok(())
    }

    /// The payload as JSON.
    ///
    /// # Errors
    /// The reason why it cannot be decoded.
    pub(super) fn decoded<'m>(&self, message: &Message<'m>) -> Result<Cow<'m, [u8]>, String> {
        let unchanged =
            |why: String| if is_json(message.payload) { Ok(Cow::Borrowed(message.payload)) } else { Err(why) };
        if message.payload.is_empty() {
            return Ok(Cow::Borrowed(message.payload));
        }
        let Some(contract) = self.catalogue.find(message.topic) else {
            return unchanged("is not JSON, and no contract covers the topic".to_owned());
        };
        let checked = contract.check(message.topic, message.properties.content_type(), message.payload);
        let mut json = Vec::new();
        let decoded = checked.and_then(|format| {
            contract.transcode(format, Format::Json, message.payload, &mut json, usize::MAX)?;
            Ok(())
        });
        match decoded {
            Ok(()) => Ok(Cow::Owned(json)),
            Err(violation) => unchanged(format!("violates the contract {}: {violation}", contract.name())),
        }
    }
}

fn refusal(error: &Error) -> String {
    refused::advice(error).map_or_else(|| error.to_string(), |advice| format!("{error}; {advice}"))
}
