//! `tautwire sub --decode`: payloads as JSON, by the contracts of the broker.
//!
//! Payloads are decoded here and not by `$as/json/`: so they are seen as they were published, under the filters that were
//! given, and one that breaks its contract is told of instead of left out.

use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tautwire_client::{Error, Subscribe, Subscription};
use tautwire_contracts::{Catalogue, Format};
use tautwire_protocol::{RetainHandling, TopicFilter, topic_matches};

use super::subscribe::Options;
use super::{CommandExit, refused};
use crate::client::{ConnectOptions, Connection, Message, WaitOutcome, discovery};
use crate::json::is_json;
use crate::stderr;

/// The contracts as they are known.
pub(super) struct Decoder {
    connect: ConnectOptions,
    catalogue: Catalogue,
    /// Where changes of the contracts are heard of.
    updates: Option<Subscription>,
}

impl Decoder {
    /// Asks the broker for its contracts.
    pub(super) fn new(connect: &ConnectOptions) -> Result<Decoder, CommandExit> {
        let catalogue = discovery::contracts(connect, None)?;
        Ok(Decoder { connect: connect.clone(), catalogue, updates: None })
    }

    /// Subscribes to the changes of the contracts. Not for a session that is kept, which would keep the subscription too, nor
    /// where the user has asked for the same.
    pub(super) fn watch(
        &mut self,
        options: &Options,
        connection: &mut Connection,
        deadline: Option<Instant>,
    ) -> Result<(), CommandExit> {
        let is_wanted = |filter: &TopicFilter<'_>| topic_matches(filter.matched(), discovery::INDEX);
        if options.client.keeps_session() || options.filters.iter().any(is_wanted) {
            return Ok(());
        }
        let mut request = Subscribe::to(discovery::INDEX);
        if options.client.is_v5() {
            request = request.retain_handling(RetainHandling::DoNotSend);
        }
        let mut subscribing = connection.client.subscribing(request)?;
        if let WaitOutcome::Ready(updates) = connection.wait(deadline, |cx| Pin::new(&mut subscribing).poll(cx))? {
            match updates {
                Ok(updates) => self.updates = Some(updates),
                Err(error @ Error::Refused { .. }) => {
                    if !options.client.quiet {
                        stderr::write_line(format_args!(
                            "tautwire: changes of the contracts are not seen: {}",
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
                // What is retained was known before.
                Poll::Ready(Some(message)) if message.retain() => {}
                Poll::Ready(Some(_)) => return Poll::Ready(()),
                Poll::Ready(None) => self.updates = None,
                Poll::Pending => break,
            }
        }
        Poll::Pending
    }

    /// Asks for the contracts again.
    pub(super) fn refresh(&mut self) -> Result<(), CommandExit> {
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
        let Some(contract) = self.catalogue.find(message.topic) else {
            return as_it_is("is not JSON, and no contract covers the topic".to_owned());
        };
        let checked = contract.check(message.topic, message.properties.content_type(), message.payload);
        let mut json = Vec::new();
        let decoded = checked.and_then(|format| {
            contract.transcode(format, Format::Json, message.payload, &mut json, usize::MAX)?;
            Ok(())
        });
        match decoded {
            Ok(()) => Ok(Cow::Owned(json)),
            Err(violation) => as_it_is(format!("breaks the contract {}: {violation}", contract.name())),
        }
    }
}

fn refusal(error: &Error) -> String {
    refused::advice(error).map_or_else(|| error.to_string(), |advice| format!("{error}; {advice}"))
}
