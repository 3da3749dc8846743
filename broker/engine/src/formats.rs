//! Payloads for subscribers who want them in another format than they were published in.

use tautwire_contracts::Contract;
use tautwire_protocol::{Properties, PropertyContext, PropertyId, Subscribe, SubscribeReason, TopicFilter};
use tautwire_session::{Format, Journal, Message, MessageRef};

use crate::contracts::{append_user_property, content_type};
use crate::discovery::push;
use crate::frames::Outgoing;
use crate::hub::Hub;
use crate::route::{Origin, Subscription};

/// The first level of a filter that names a format: `$as/json/sensors/#`.
const AS: &str = "$as/";
/// The user property of SUBSCRIBE that names a content type.
const ACCEPT: &str = "accept";

/// A subscription's filter, and the format in which payloads are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'f> {
    /// What is compared with topics.
    pub(crate) filter: &'f str,
    pub(crate) format: Option<Format>,
    /// The filter named the format.
    pub(crate) by_filter: bool,
}

/// The format that the packet asks for, for all of its filters.
pub(crate) fn accepted(subscribe: &Subscribe<'_>) -> Result<Option<Format>, SubscribeReason> {
    let mut accepted = subscribe.properties.user_properties().filter(|(name, _)| *name == ACCEPT).peekable();
    if accepted.peek().is_none() {
        return Ok(None);
    }
    // The first that is known, as in other protocols.
    let format = accepted.find_map(|(_, value)| value.split(',').find_map(Format::of_content_type));
    format.map(Some).ok_or(SubscribeReason::ImplementationSpecificError)
}

/// What `filter` asks for; a format that it names itself goes before `accepted`.
pub(crate) fn wanted(filter: TopicFilter<'_>, accepted: Option<Format>) -> Result<Wanted<'_>, SubscribeReason> {
    let matched = filter.matched();
    let Some(rest) = matched.strip_prefix(AS) else {
        return Ok(Wanted { filter: matched, format: accepted, by_filter: false });
    };
    let invalid = SubscribeReason::TopicFilterInvalid;
    let (level, filter) = rest.split_once('/').ok_or(invalid)?;
    let format = Format::of_filter_level(level).ok_or(invalid)?;
    let is_plain = TopicFilter::new(filter).is_ok_and(|filter| filter.share().is_none());
    if is_plain && !filter.starts_with(AS) {
        Ok(Wanted { filter, format: Some(format), by_filter: true })
    } else {
        Err(invalid)
    }
}

/// What became of a payload.
enum Form {
    /// It is in the format already.
    AsItIs,
    /// It is in the hub's scratch.
    Made,
    /// It cannot be; the scratch says why, and has no payload.
    Impossible,
}

/// A message in another form while it is handed out.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    properties: Vec<u8>,
    payload: Vec<u8>,
}

impl<J: Journal> Hub<J> {
    /// Delivers to subscriptions that are sorted by format, each format made once.
    pub(crate) fn deliver_in_formats(
        &mut self,
        found: &[Subscription],
        contract: Option<&Contract>,
        outgoing: &mut Outgoing<'_>,
        origin: Origin,
        published_at: u64,
    ) -> bool {
        let mut matched = false;
        for same in found.chunk_by(|a, b| a.format == b.format) {
            let Some(format) = same.first().and_then(|first| first.format) else { continue };
            let mut scratch = std::mem::take(&mut self.scratch);
            matched |= match self.make(contract, format, &outgoing.message, &mut scratch) {
                Form::AsItIs => self.deliver_matches(same, outgoing, origin, published_at),
                Form::Made => {
                    let mut made = Outgoing { is_checked: true, ..Outgoing::new(scratch.message(&outgoing.message)) };
                    self.deliver_matches(same, &mut made, origin, published_at)
                }
                Form::Impossible => {
                    let told: Vec<Subscription> =
                        same.iter().copied().filter(|subscription| self.can_be_told(subscription.session)).collect();
                    self.counters().dropped_untranscodable.add((same.len() - told.len()) as u64);
                    let mut said = Outgoing { is_checked: true, ..Outgoing::new(scratch.message(&outgoing.message)) };
                    self.deliver_matches(&told, &mut said, origin, published_at)
                }
            };
            self.scratch = scratch;
        }
        matched
    }

    /// A kept message in the format that a subscription wants; `None` where it can neither be had nor its want be said.
    pub(crate) fn in_format(&mut self, message: Message, format: Option<Format>, told: bool) -> Option<Message> {
        let Some(format) = format else { return Some(message) };
        let contract = self.exchange.contract(message.topic());
        let made = self.message_in(contract.as_deref(), format, message.as_ref(), told)?;
        Some(made.unwrap_or(message))
    }

    /// A message in another format: `Some(None)` where it is in that format already, `None` where it can neither be had
    /// nor its want be `told`.
    pub(crate) fn message_in(
        &mut self,
        contract: Option<&Contract>,
        format: Format,
        message: MessageRef<'_>,
        told: bool,
    ) -> Option<Option<Message>> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let made = match self.make(contract, format, &message, &mut scratch) {
            Form::AsItIs => Some(None),
            Form::Impossible if !told => {
                self.counters().dropped_untranscodable.add(1);
                None
            }
            Form::Made | Form::Impossible => Some(Some(scratch.message(&message).to_message())),
        };
        self.scratch = scratch;
        made
    }

    fn make(
        &mut self,
        contract: Option<&Contract>,
        to: Format,
        message: &MessageRef<'_>,
        scratch: &mut Scratch,
    ) -> Form {
        let content_type = content_type(message.properties);
        let Some(contract) = contract else {
            if content_type.and_then(Format::of_content_type) == Some(to) || message.payload.is_empty() {
                return Form::AsItIs;
            }
            scratch.say_why(message, "no contract covers the topic, so that its format is not known");
            return Form::Impossible;
        };
        // Of a message that has been let through although it breaks its contract, nothing is known.
        let from = match contract.check(message.topic, content_type, message.payload) {
            _ if message.payload.is_empty() && message.retain => return Form::AsItIs,
            Ok(from) if from == to && content_type.is_some() => return Form::AsItIs,
            Ok(from) => from,
            Err(violation) => {
                scratch.say_why(message, &violation.to_string());
                return Form::Impossible;
            }
        };
        scratch.payload.clear();
        if let Err(violation) = contract.transcode(from, to, message.payload, &mut scratch.payload) {
            scratch.say_why(message, &violation.to_string());
            return Form::Impossible;
        }
        scratch.properties.clear();
        scratch.take_properties(message, to != Format::Protobuf && to != Format::MessagePack);
        push(&mut scratch.properties, PropertyId::ContentType, to.content_type().as_bytes());
        self.counters().payloads_transcoded.add(1);
        Form::Made
    }

    /// Whether the session's client can be told by properties, now.
    fn can_be_told(&self, session: u32) -> bool {
        let connection = self.sessions[session as usize].connection;
        connection.is_some_and(|index| self.connections[index as usize].is_v5())
    }
}

impl Scratch {
    fn message<'s>(&'s self, like: &MessageRef<'s>) -> MessageRef<'s> {
        MessageRef { properties: &self.properties, payload: &self.payload, ..*like }
    }

    /// The properties of `message` but those that speak of its payload's form.
    fn take_properties(&mut self, message: &MessageRef<'_>, is_text: bool) {
        let Ok(properties) = Properties::from_wire(message.properties, PropertyContext::Publish) else { return };
        for property in properties.raw().into_iter().flatten() {
            let speaks_of_form = property.id == PropertyId::ContentType
                || (property.id == PropertyId::PayloadFormatIndicator && !is_text);
            if !speaks_of_form {
                self.properties.extend_from_slice(property.bytes);
            }
        }
    }

    /// Instead of the payload, why there is none.
    fn say_why(&mut self, message: &MessageRef<'_>, why: &str) {
        self.payload.clear();
        self.properties.clear();
        self.take_properties(message, false);
        append_user_property(&mut self.properties, "tautwire-transcoding-error", why);
    }
}
