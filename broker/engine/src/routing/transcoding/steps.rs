//! What [`super`] does with several parts of a shard.

use tautwire_contracts::{Contract, Rule};
use tautwire_memory::{Charge, Kind};
use tautwire_message::{Format, Message, MessageRef, Transcoding, Transcodings};
use tautwire_protocol::{Properties, PropertyContext, PropertyId};

use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::routing::contracts::{append_user_property, content_type};
use crate::routing::discovery::push;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::{MessageSource, Subscription};
use crate::session::drops::DropReason;
use crate::shard::ShardState;

/// What the Remaining Length of a packet can say [MQTT 5.0 section 2.1.4].
const REMAINING_MAX_BYTES: usize = 268_435_455;

/// Room for what stands before topic, properties and payload, and for subscription identifiers.
const HEADER_SPARE_BYTES: usize = 1 << 20;

/// JSON takes about so many times the room of the compact formats.
const EXPECTED_GROWTH: usize = 4;

/// A payload hardly becomes more times as long: an enumeration's value of one byte is a name in JSON.
const GROWTH_MAX: usize = 256;

/// The most room that is taken beforehand.
const EXPECTED_MAX_BYTES: usize = 64 << 10;

impl<M: Mode> ShardState<M> {
    /// Delivers to subscriptions that are sorted by format, each format made once.
    pub(crate) fn deliver_transcoded(
        &mut self,
        found: &[Subscription],
        contract: Option<&Contract>,
        outgoing: &mut OutgoingPublish<'_>,
        publisher: MessageSource,
        published_at: u64,
    ) -> bool {
        let shared = outgoing.transcodings.clone();
        let own = Transcodings::default();
        let transcodings = shared.as_deref().unwrap_or(&own);
        let mut matched = false;
        for same in found.chunk_by(|a, b| a.format == b.format) {
            let Some(format) = same.first().and_then(|first| first.format) else { continue };
            let (form, is_new) =
                transcodings.get_or_make(format, || self.transcode(contract, format, &outgoing.message));
            self.count_transcoded(form, is_new);
            if is_new {
                self.work_budget.count_transcoding(outgoing.message.payload.len());
            }
            matched |= match form {
                Transcoding::Unchanged => self.deliver_same_format(same, outgoing, publisher, published_at),
                Transcoding::Transcoded(message) => {
                    self.deliver_same_format(same, &mut OutgoingPublish::of(message), publisher, published_at)
                }
                Transcoding::Failed(said) => {
                    let (told, unreported): (Vec<Subscription>, Vec<Subscription>) =
                        same.iter().partition(|subscription| self.can_notify(subscription.session));
                    self.counters().dropped_not_transcodable.add(unreported.len() as u64);
                    for Subscription { session, .. } in unreported {
                        self.record_drop(session, DropReason::Untranscodable, outgoing.message.topic);
                    }
                    self.deliver_same_format(&told, &mut OutgoingPublish::of(said), publisher, published_at)
                }
            };
        }
        matched
    }

    /// A retained message in the format that a subscription of `session` wants; `None` where it can neither be had nor its want be `told`.
    pub(crate) fn transcode_retained(
        &mut self,
        session: SessionIndex,
        message: Message,
        format: Option<Format>,
        told: bool,
    ) -> Option<Message> {
        let Some(format) = format else { return Some(message) };
        self.scans.spend_on_transcoding(message.payload().len());
        let contract = self.config.contracts().find(message.topic()).cloned();
        let form = self.transcode(contract.as_deref(), format, &message.as_ref());
        self.count_transcoded(&form, true);
        match form {
            Transcoding::Unchanged => Some(message),
            Transcoding::Transcoded(message) => Some(message),
            Transcoding::Failed(said) if told => Some(said),
            Transcoding::Failed(_) => {
                self.counters().dropped_not_transcodable.add(1);
                self.record_drop(session, DropReason::Untranscodable, message.topic());
                None
            }
        }
    }

    /// What goes to a member of a shared subscription that wants `format`; `None` where it cannot be had.
    pub(crate) fn transcode_for_member(
        &mut self,
        contract: Option<&Contract>,
        format: Format,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> Option<Message> {
        let transcodings = outgoing.transcodings.get_or_insert_default().clone();
        let (form, is_new) = transcodings.get_or_make(format, || self.transcode(contract, format, &outgoing.message));
        self.count_transcoded(form, is_new);
        if is_new {
            self.work_budget.count_transcoding(outgoing.message.payload.len());
        }
        match form {
            Transcoding::Unchanged => Some(outgoing.store_message(self.memory.ledger())),
            Transcoding::Transcoded(message) => Some(message.clone()),
            Transcoding::Failed(_) => {
                // Whether the member's client could be told why not is known to its own thread only.
                self.counters().dropped_not_transcodable.add(1);
                None
            }
        }
    }

    fn transcode(&self, contract: Option<&Contract>, to: Format, message: &MessageRef<'_>) -> Transcoding {
        let content_type = content_type(message.properties);
        let Some(contract) = contract else {
            if content_type.and_then(Format::of_content_type) == Some(to) || message.payload.is_empty() {
                return Transcoding::Unchanged;
            }
            return self.untranscodable(message, "no contract covers the topic, so that its format is not known");
        };
        if message.payload.is_empty() && message.retain {
            return Transcoding::Unchanged;
        }
        // Of a message that has been let through although it breaks its contract, nothing is known.
        let from = match contract.check(message.topic, content_type, message.payload) {
            Ok(from) if from == to && content_type.is_some() => return Transcoding::Unchanged,
            Ok(from) => from,
            Err(violation) => return self.untranscodable(message, &violation.to_string()),
        };
        let limit_bytes = self.transcoded_max_bytes(message);
        // As much as it may become, until it is known how much it is: other shards must not take the same bytes.
        let mut charge = Charge::new(self.memory.ledger(), Kind::Contract);
        charge.set(limit_bytes.min(message.payload.len().saturating_mul(GROWTH_MAX)));
        let mut payload =
            Vec::with_capacity(message.payload.len().saturating_mul(EXPECTED_GROWTH).min(EXPECTED_MAX_BYTES));
        match contract.transcode(from, to, message.payload, &mut payload, limit_bytes) {
            Ok(()) => {}
            Err(violation) if violation.rule == Rule::TooLarge => {
                let why = format!("its form in {} is larger than {limit_bytes} bytes", to.name());
                return self.untranscodable(message, &why);
            }
            Err(violation) => return self.untranscodable(message, &violation.to_string()),
        }
        let mut properties = properties_for(message, to == Format::Json);
        push(&mut properties, PropertyId::ContentType, to.content_type().as_bytes());
        charge.set(payload.capacity() + properties.capacity());
        // Another content is another message.
        let id = self.context.next_message_id();
        Transcoding::Transcoded(
            MessageRef { id, properties: &properties, payload: &payload, ..*message }
                .to_message_in(self.memory.ledger()),
        )
    }

    /// Instead of the payload, why there is none.
    fn untranscodable(&self, message: &MessageRef<'_>, why: &str) -> Transcoding {
        let mut properties = properties_for(message, false);
        append_user_property(&mut properties, "tautwire-transcoding-error", why);
        let id = self.context.next_message_id();
        Transcoding::Failed(
            MessageRef { id, properties: &properties, payload: &[], ..*message }.to_message_in(self.memory.ledger()),
        )
    }

    fn count_transcoded(&self, form: &Transcoding, is_new: bool) {
        if is_new && matches!(form, Transcoding::Transcoded(_)) {
            self.counters().payloads_transcoded.add(1);
        }
    }

    /// How large a payload may become: no larger than is set, than the packets that clients may send, or than there is memory
    /// for; and with its topic and properties no larger than a packet can be.
    fn transcoded_max_bytes(&self, message: &MessageRef<'_>) -> usize {
        let largest = REMAINING_MAX_BYTES - HEADER_SPARE_BYTES - message.topic.len();
        let largest = largest.saturating_sub(message.properties.len());
        // While it is made, and once more when it is kept.
        let free_bytes = usize::try_from(self.memory.share().unreserved_bytes() / 2).unwrap_or(usize::MAX);
        let settings = self.config.settings();
        let set_bytes = settings.transcoded_bytes.min(settings.maximum_packet_size_bytes as usize);
        largest.min(set_bytes).min(free_bytes)
    }

    /// Whether the session's client can be told by properties, now.
    fn can_notify(&self, session: SessionIndex) -> bool {
        let connection = self.sessions.connection(session);
        connection.is_some_and(|index| self.connections[index].is_v5())
    }
}

/// The properties of `message` but those that speak of its payload's form.
fn properties_for(message: &MessageRef<'_>, is_text: bool) -> Vec<u8> {
    let mut kept = Vec::new();
    let Ok(properties) = Properties::from_wire(message.properties, PropertyContext::Publish) else { return kept };
    for property in properties.raw().into_iter().flatten() {
        let speaks_of_form =
            property.id == PropertyId::ContentType || (property.id == PropertyId::PayloadFormatIndicator && !is_text);
        if !speaks_of_form {
            kept.extend_from_slice(property.bytes);
        }
    }
    kept
}
