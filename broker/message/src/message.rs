//! An application message as the broker holds it.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use tautwire_protocol::QoS;

/// Bytes before the topic: expiry (8), topic length (2), properties length (4), flags (1), reserved (1).
const HEADER_BYTES: usize = 16;
const FLAG_RETAIN: u8 = 0b100;
const NEVER_MS: u64 = u64::MAX;

/// Up to this size a message is put together in memory that its thread keeps, and copied into its own allocation from there:
/// one allocation instead of two.
const SCRATCH_BYTES: usize = 16 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A message borrowed from wherever it lies: a read buffer, a batch from another thread, or a [`Message`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MessageRef<'a> {
    /// Topic Name, valid and without wildcards.
    pub topic: &'a str,
    /// The properties that travel with the message to every subscriber, as they stood on the wire: all but Topic Alias,
    /// Message Expiry Interval and Subscription Identifier. Validated, without the length in front.
    pub properties: &'a [u8],
    /// Application payload.
    pub payload: &'a [u8],
    /// QoS at which the message was published.
    pub qos: QoS,
    /// RETAIN flag as published.
    pub retain: bool,
    /// Moment of expiry in milliseconds of the broker's clock (Unix time); `None` never expires.
    pub expires_at_ms: Option<u64>,
}

impl<'a> MessageRef<'a> {
    /// Reads what [`MessageRef::append_stored`] wrote.
    ///
    /// # Panics
    /// Where `bytes` is anything else.
    pub fn from_stored(bytes: &'a [u8]) -> MessageRef<'a> {
        let topic_len = usize::from(u16::from_le_bytes(field(bytes, 8)));
        let properties_len = u32::from_le_bytes(field(bytes, 10)) as usize;
        let expires = u64::from_le_bytes(field(bytes, 0));
        let (topic, rest) = bytes[HEADER_BYTES..].split_at(topic_len);
        let (properties, payload) = rest.split_at(properties_len);
        MessageRef {
            topic: std::str::from_utf8(topic).unwrap_or_default(),
            properties,
            payload,
            qos: QoS::from_u8(bytes[14] & 0b11).unwrap_or(QoS::AtMostOnce),
            retain: bytes[14] & FLAG_RETAIN != 0,
            expires_at_ms: (expires != NEVER_MS).then_some(expires),
        }
    }

    /// Copies the message into one shared allocation.
    pub fn to_message(&self) -> Message {
        if self.stored_bytes() > SCRATCH_BYTES {
            let mut bytes = Vec::with_capacity(self.stored_bytes());
            self.append_stored(&mut bytes);
            return Message { bytes: bytes.into() };
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            self.append_stored(scratch);
            Message { bytes: scratch.as_slice().into() }
        })
    }

    /// Appends the kept form, [`MessageRef::stored_bytes`] long, to be read by [`MessageRef::from_stored`].
    pub fn append_stored(&self, out: &mut Vec<u8>) {
        out.reserve(self.stored_bytes());
        let mut header = [0; HEADER_BYTES];
        header[0..8].copy_from_slice(&self.expires_at_ms.unwrap_or(NEVER_MS).to_le_bytes());
        // A topic is at most 65,535 bytes and a packet less than 2^28, so neither length is cut.
        header[8..10].copy_from_slice(&(self.topic.len() as u16).to_le_bytes());
        header[10..14].copy_from_slice(&(self.properties.len() as u32).to_le_bytes());
        header[14] = self.qos.as_u8() | if self.retain { FLAG_RETAIN } else { 0 };
        out.extend_from_slice(&header);
        out.extend_from_slice(self.topic.as_bytes());
        out.extend_from_slice(self.properties);
        out.extend_from_slice(self.payload);
    }

    /// Bytes that the message takes when kept.
    pub fn stored_bytes(&self) -> usize {
        HEADER_BYTES + self.topic.len() + self.properties.len() + self.payload.len()
    }

    /// Whether the message has outlived its Message Expiry Interval [MQTT-3.3.2-5].
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|at| at <= now_ms)
    }
}

impl fmt::Debug for MessageRef<'_> {
    /// Says the sizes, never the payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageRef")
            .field("topic", &self.topic)
            .field("qos", &self.qos)
            .field("retain", &self.retain)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// A kept message: one allocation, shared by all queues that hold it and by the retained store.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    bytes: Arc<[u8]>,
}

impl Message {
    /// The message's parts.
    pub fn as_ref(&self) -> MessageRef<'_> {
        MessageRef::from_stored(&self.bytes)
    }

    /// The Topic Name.
    pub fn topic(&self) -> &str {
        self.as_ref().topic
    }

    /// Bytes that the message takes, without the shared allocation's own two counters.
    pub fn stored_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The payload as a slice of a byte buffer that can be kept alive by cloning this message.
    pub fn payload(&self) -> &[u8] {
        self.as_ref().payload
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_gives_back_its_parts() {
        let parts = MessageRef {
            topic: "a/b",
            properties: &[1, 1],
            payload: b"hello",
            qos: QoS::ExactlyOnce,
            retain: true,
            expires_at_ms: Some(77),
        };
        assert_eq!(parts.to_message().as_ref(), parts);
        let never = MessageRef { expires_at_ms: None, payload: b"", qos: QoS::AtMostOnce, retain: false, ..parts };
        assert_eq!(never.to_message().as_ref(), never);
        assert_eq!(never.to_message().stored_bytes(), never.stored_bytes());
    }

    #[test]
    fn expiry_is_reached_at_its_moment() {
        let parts = MessageRef {
            topic: "t",
            properties: &[],
            payload: &[],
            qos: QoS::AtMostOnce,
            retain: false,
            expires_at_ms: Some(10),
        };
        assert!(!parts.is_expired(9));
        assert!(parts.is_expired(10));
    }

    #[test]
    fn debug_output_holds_no_payload() {
        let parts = MessageRef {
            topic: "t",
            properties: &[],
            payload: b"secret",
            qos: QoS::AtMostOnce,
            retain: false,
            expires_at_ms: None,
        };
        assert!(!format!("{:?}", parts.to_message()).contains("secret"));
    }
}
