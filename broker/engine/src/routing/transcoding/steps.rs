//! Transcoding messages for subscriptions, replays and members of shared subscriptions.

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

/// The maximum Remaining Length of a packet [MQTT 5.0 section 2.1.4].
const REMAINING_MAX_BYTES: usize = 268_435_455;

/// Space for the fixed header, the packet identifier, and subscription identifiers.
const HEADER_SPARE_BYTES: usize = 1 << 20;

/// JSON takes about this many times the space of the compact formats.
const EXPECTED_GROWTH: usize = 4;

/// The assumed maximum growth of a payload: an enumeration value of one byte is a name in JSON.
const GROWTH_MAX: usize = 256;

/// The maximum capacity that is allocated in advance.
const EXPECTED_MAX_BYTES: usize = 64 << 10;

impl<M: Mode> ShardState<M> {
    /// Delivers to subscriptions that are sorted by format. Each format is transcoded once.
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
            let (transcoding, is_new) =
                transcodings.get_or_make(format, || self.transcode(contract, format, &outgoing.message));
            self.count_transcoded(transcoding, is_new);
            if is_new {
                self.work_budget.count_transcoding(outgoing.message.payload.len());
            }
            matched |= match transcoding {
                Transcoding::Unchanged => self.deliver_same_format(same, outgoing, publisher, published_at),
                Transcoding::Transcoded(message) => {
                    self.deliver_same_format(same, &mut OutgoingPublish::of(message), publisher, published_at)
                }
                Transcoding::Failed(notice) => {
                    let (notified, unreported): (Vec<Subscription>, Vec<Subscription>) =
                        same.iter().partition(|subscription| self.can_notify(subscription.session));
                    self.counters().dropped_not_transcodable.add(unreported.len() as u64);
                    for Subscription { session, .. } in unreported {
                        self.record_drop(session, DropReason::Untranscodable, outgoing.message.topic);
                    }
                    self.deliver_same_format(&notified, &mut OutgoingPublish::of(notice), publisher, published_at)
                }
            };
        }
        matched
    }

    /// Transcodes a retained message for a subscription of `session`. If that fails, returns a notice with the reason if
    /// `can_notify`, else `None`.
    pub(crate) fn transcode_retained(
        &mut self,
        session: SessionIndex,
        message: Message,
        format: Option<Format>,
        can_notify: bool,
    ) -> Option<Message> {
        let Some(format) = format else { return Some(message) };
        self.routing.scans.spend_on_transcoding(message.payload().len());
        let contract = self.config.contracts().find(message.topic()).cloned();
        let transcoding = self.transcode(contract.as_deref(), format, &message.as_ref());
        self.count_transcoded(&transcoding, true);
        match transcoding {
            Transcoding::Unchanged => Some(message),
            Transcoding::Transcoded(message) => Some(message),
            Transcoding::Failed(notice) if can_notify => Some(notice),
            Transcoding::Failed(_) => {
                self.counters().dropped_not_transcodable.add(1);
                self.record_drop(session, DropReason::Untranscodable, message.topic());
                None
            }
        }
    }

    /// Transcodes a message for a member of a shared subscription; `None` if that fails.
    pub(crate) fn transcode_for_member(
        &mut self,
        contract: Option<&Contract>,
        format: Format,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> Option<Message> {
        let transcodings = outgoing.transcodings.get_or_insert_default().clone();
        let (transcoding, is_new) =
            transcodings.get_or_make(format, || self.transcode(contract, format, &outgoing.message));
        self.count_transcoded(transcoding, is_new);
        if is_new {
            self.work_budget.count_transcoding(outgoing.message.payload.len());
        }
        match transcoding {
            Transcoding::Unchanged => Some(outgoing.store_message(self.memory.ledger())),
            Transcoding::Transcoded(message) => Some(message.clone()),
            Transcoding::Failed(_) => {
                // Only the member's own shard knows whether its client supports properties, so no notice is sent.
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
            return self.untranscodable(message, "no contract covers the topic, so its format is unknown");
        };
        if message.payload.is_empty() && message.retain {
            return Transcoding::Unchanged;
        }
        // A message that violates its contract may have been accepted (`observe`). Its format is unknown.
        let from = match contract.check(message.topic, content_type, message.payload) {
            Ok(from) if from == to && content_type.is_some() => return Transcoding::Unchanged,
            Ok(from) => from,
            Err(violation) => return self.untranscodable(message, &violation.to_string()),
        };
        let limit_bytes = self.transcoded_max_bytes(message);
        // Charged with the maximum until the size is known, so that other shards do not use the same memory.
        let mut charge = Charge::new(self.memory.ledger(), Kind::Contract);
        charge.set(limit_bytes.min(message.payload.len().saturating_mul(GROWTH_MAX)));
        let mut payload =
            Vec::with_capacity(message.payload.len().saturating_mul(EXPECTED_GROWTH).min(EXPECTED_MAX_BYTES));
        match contract.transcode(from, to, message.payload, &mut payload, limit_bytes) {
            Ok(()) => {}
            Err(violation) if violation.rule == Rule::TooLarge => {
                let why = format!("the payload in {} is larger than {limit_bytes} bytes", to.name());
                return self.untranscodable(message, &why);
            }
            Err(violation) => return self.untranscodable(message, &violation.to_string()),
        }
        let mut properties = properties_for(message, to == Format::Json);
        push(&mut properties, PropertyId::ContentType, to.content_type().as_bytes());
        charge.set(payload.capacity() + properties.capacity());
        // Different content makes it a different message.
        let id = self.context.next_message_id();
        Transcoding::Transcoded(
            MessageRef { id, properties: &properties, payload: &payload, ..*message }
                .to_message_in(self.memory.ledger()),
        )
    }

    /// A notice without payload, with the reason why transcoding failed.
    fn untranscodable(&self, message: &MessageRef<'_>, why: &str) -> Transcoding {
        let mut properties = properties_for(message, false);
        append_user_property(&mut properties, "tautwire-transcoding-error", why);
        let id = self.context.next_message_id();
        Transcoding::Failed(
            MessageRef { id, properties: &properties, payload: &[], ..*message }.to_message_in(self.memory.ledger()),
        )
    }

    fn count_transcoded(&self, transcoding: &Transcoding, is_new: bool) {
        if is_new && matches!(transcoding, Transcoding::Transcoded(_)) {
            self.counters().payloads_transcoded.add(1);
        }
    }

    /// The maximum size of a transcoded payload: limited by the settings, the packet size for clients, free memory, and, with
    /// topic and properties, the maximum of MQTT.
    fn transcoded_max_bytes(&self, message: &MessageRef<'_>) -> usize {
        let largest = REMAINING_MAX_BYTES - HEADER_SPARE_BYTES - message.topic.len();
        let largest = largest.saturating_sub(message.properties.len());
        // Half, since it is in memory twice: while it is encoded, and as a stored message.
        let free_bytes = usize::try_from(self.memory.share().unreserved_bytes() / 2).unwrap_or(usize::MAX);
        let settings = self.config.settings();
        let configured_bytes = settings.transcoded_bytes.min(settings.maximum_packet_size_bytes as usize);
        largest.min(configured_bytes).min(free_bytes)
    }

    /// Whether the session's client is connected and supports properties.
    fn can_notify(&self, session: SessionIndex) -> bool {
        let connection = self.sessions.connection(session);
        connection.is_some_and(|index| self.connections[index].is_v5())
    }
}

/// The properties of `message` without those that describe the encoding of its payload.
fn properties_for(message: &MessageRef<'_>, is_text: bool) -> Vec<u8> {
    let mut remaining = Vec::new();
    let Ok(properties) = Properties::from_wire(message.properties, PropertyContext::Publish) else { return remaining };
    for property in properties.raw().into_iter().flatten() {
        let describes_encoding =
            property.id == PropertyId::ContentType || (property.id == PropertyId::PayloadFormatIndicator && !is_text);
        if !describes_encoding {
            remaining.extend_from_slice(property.bytes);
        }
    }
    remaining
}
