//! Messages of the file, converted when they are first needed.

use std::collections::HashMap;

use tautwire_message::{Message, MessageId, MessageRef};
use tautwire_protocol::wire::read_variable_byte_integer;
use tautwire_protocol::{Properties, PropertyContext, PropertyId, QoS, SubscriptionId, TopicName};

use crate::database::StoredMessage;
use crate::report::Reason;

/// The maximum length of a payload: a packet has no more.
const PAYLOAD_MAX_BYTES: usize = tautwire_protocol::MAX_PACKET_SIZE_BYTES as usize;

/// The messages by number, each converted once.
pub(crate) struct Messages<'d, 'a> {
    by_number: HashMap<u64, (&'d StoredMessage<'a>, Option<Message>)>,
    now_ms: u64,
    run: u64,
    made: u64,
}

impl<'d, 'a> Messages<'d, 'a> {
    /// `run`: drawn at random, for the identifiers of the messages.
    pub(crate) fn new(stored: &'d [StoredMessage<'a>], now_ms: u64, run: u64) -> Messages<'d, 'a> {
        let by_number = stored.iter().map(|message| (message.number, (message, None))).collect();
        Messages { by_number, now_ms, run, made: 0 }
    }

    /// The topic of a message, for the report.
    pub(crate) fn topic(&self, number: u64) -> &'a [u8] {
        self.by_number.get(&number).map_or(b"", |(stored, _)| stored.topic)
    }

    /// The message of that number.
    pub(crate) fn get(&mut self, number: u64) -> Result<Message, Reason> {
        let (stored, made) = self.by_number.get_mut(&number).ok_or(Reason::MessageMissing)?;
        if let Some(message) = made {
            return Ok(message.clone());
        }
        let expires_at_ms = (stored.expires_at_s > 0).then(|| stored.expires_at_s.saturating_mul(1000));
        if expires_at_ms.is_some_and(|at| at <= self.now_ms) {
            return Err(Reason::MessageExpired);
        }
        let topic = text(stored.topic).filter(|topic| TopicName::new(topic).is_ok()).ok_or(Reason::InvalidMessage)?;
        let qos = QoS::from_u8(stored.qos).ok_or(Reason::InvalidMessage)?;
        let properties = forwarded(stored.properties).ok_or(Reason::InvalidMessage)?;
        if stored.payload.len() > PAYLOAD_MAX_BYTES {
            return Err(Reason::InvalidMessage);
        }
        self.made += 1;
        let id = MessageId { run: self.run, number: self.made };
        let (payload, properties, retain) = (stored.payload, &properties[..], stored.retain);
        let message = MessageRef { id, topic, properties, payload, qos, retain, expires_at_ms }.to_message();
        Ok(made.insert(message).clone())
    }
}

/// A valid string of the standard: UTF-8 without U+0000 [MQTT-1.5.4-1], [MQTT-1.5.4-2].
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// The properties that are forwarded to every subscriber; `None` if they are not those of a PUBLISH.
fn forwarded(with_length: &[u8]) -> Option<Vec<u8>> {
    const OF_ONE_CONNECTION: [PropertyId; 3] =
        [PropertyId::MessageExpiryInterval, PropertyId::TopicAlias, PropertyId::SubscriptionIdentifier];
    let raw = properties(with_length)?.raw()?;
    let wanted = raw.filter(|property| !OF_ONE_CONNECTION.contains(&property.id));
    Some(wanted.flat_map(|property| property.bytes).copied().collect())
}

/// The Subscription Identifiers of a delivery; `None` if its properties are not those of a PUBLISH.
pub(crate) fn subscription_ids(with_length: &[u8]) -> Option<Vec<SubscriptionId>> {
    Some(properties(with_length)?.subscription_identifiers().collect())
}

fn properties(with_length: &[u8]) -> Option<Properties<'_>> {
    if with_length.is_empty() {
        return Some(Properties::EMPTY);
    }
    let (len, taken) = read_variable_byte_integer(with_length).ok()?;
    let block = &with_length[taken..];
    if block.len() != usize::try_from(len).ok()? {
        return None;
    }
    Properties::from_wire(block, PropertyContext::Publish).ok()
}
