//! An application message.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use tautwire_memory::{Kind, MemoryLedger};
use tautwire_protocol::QoS;
use triomphe::ThinArc;

use crate::id::MessageId;

/// Length of the stored form's header: identity (16), expiry (8), properties length (4), topic length (2), flags (1), reserved (1).
const STORED_HEADER_BYTES: usize = 32;
/// Size of an allocated message besides topic, properties and payload: the header, its length and the reference count.
const ALLOCATION_HEADER_BYTES: usize = size_of::<Header>() + 2 * size_of::<usize>();
const FLAG_RETAIN: u8 = 0b100;
const NEVER_MS: u64 = u64::MAX;

/// A message up to this size is assembled in a thread-local buffer and copied into its own allocation: one allocation instead of two.
const SCRATCH_BYTES: usize = 16 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A message borrowed from a read buffer, a batch from another thread, or a [`Message`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MessageRef<'a> {
    /// The message's identifier.
    pub id: MessageId,
    /// Topic Name, valid and without wildcards.
    pub topic: &'a str,
    /// The properties that are forwarded to every subscriber, in wire form: all but Topic Alias, Message Expiry Interval and Subscription
    /// Identifier. Validated, without the property length.
    pub properties: &'a [u8],
    /// Application payload.
    pub payload: &'a [u8],
    /// QoS at which the message was published.
    pub qos: QoS,
    /// RETAIN flag as published.
    pub retain: bool,
    /// Time of expiry in milliseconds of the broker's clock (Unix time); `None` means that it never expires.
    pub expires_at_ms: Option<u64>,
}

impl<'a> MessageRef<'a> {
    /// Reads what [`MessageRef::append_stored`] wrote.
    ///
    /// # Panics
    /// If `bytes` is not such a form.
    pub fn from_stored(bytes: &'a [u8]) -> MessageRef<'a> {
        let id = MessageId { run: u64::from_le_bytes(field(bytes, 0)), number: u64::from_le_bytes(field(bytes, 8)) };
        let expires = u64::from_le_bytes(field(bytes, 16));
        let properties_len = u32::from_le_bytes(field(bytes, 24)) as usize;
        let topic_len = usize::from(u16::from_le_bytes(field(bytes, 28)));
        let (topic, rest) = bytes[STORED_HEADER_BYTES..].split_at(topic_len);
        let (properties, payload) = rest.split_at(properties_len);
        MessageRef {
            id,
            topic: std::str::from_utf8(topic).unwrap_or_default(),
            properties,
            payload,
            qos: QoS::from_u8(bytes[30] & 0b11).unwrap_or(QoS::AtMostOnce),
            retain: bytes[30] & FLAG_RETAIN != 0,
            expires_at_ms: (expires != NEVER_MS).then_some(expires),
        }
    }

    /// Reads the stored form from untrusted bytes; `None` if they are not exactly one.
    pub fn read_stored(bytes: &'a [u8]) -> Option<MessageRef<'a>> {
        let header = bytes.get(..STORED_HEADER_BYTES)?;
        let properties_len = u32::from_le_bytes(field(header, 24)) as usize;
        let topic_len = usize::from(u16::from_le_bytes(field(header, 28)));
        let (topic, rest) = bytes[STORED_HEADER_BYTES..].split_at_checked(topic_len)?;
        let has_known_flags = header[30] & !(FLAG_RETAIN | 0b11) == 0 && header[31] == 0;
        let is_whole = rest.len() >= properties_len && std::str::from_utf8(topic).is_ok();
        QoS::from_u8(header[30] & 0b11).filter(|_| is_whole && has_known_flags)?;
        Some(MessageRef::from_stored(bytes))
    }

    /// Copies the message into one shared allocation, which is counted in `ledger` until it is dropped. Only the thread of the ledger's
    /// shard may call it.
    pub fn to_message_in(&self, ledger: &Arc<MemoryLedger>) -> Message {
        let bytes = self.allocated_bytes();
        ledger.enter(Kind::Message, bytes);
        self.allocate(Some(Entry { ledger: ledger.clone(), bytes }))
    }

    /// Copies the message into one shared allocation that no ledger counts: for clients and tests.
    pub fn to_message(&self) -> Message {
        self.allocate(None)
    }

    fn allocate(&self, entry: Option<Entry>) -> Message {
        let header = Header {
            id: self.id,
            expires_at_ms: self.expires_at_ms.unwrap_or(NEVER_MS),
            entry,
            // A packet has less than 2^28 bytes and a topic at most 65,535, so neither length is truncated.
            properties_len: self.properties.len() as u32,
            topic_len: self.topic.len() as u16,
            flags: self.flags(),
        };
        let text_len = self.topic.len() + self.properties.len() + self.payload.len();
        if text_len > SCRATCH_BYTES {
            let text = [self.topic.as_bytes(), self.properties, self.payload].concat();
            return Message(ThinArc::from_header_and_slice(header, &text));
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            scratch.extend_from_slice(self.topic.as_bytes());
            scratch.extend_from_slice(self.properties);
            scratch.extend_from_slice(self.payload);
            Message(ThinArc::from_header_and_slice(header, scratch))
        })
    }

    /// Appends the stored form, [`MessageRef::stored_bytes`] long, for [`MessageRef::from_stored`].
    pub fn append_stored(&self, out: &mut Vec<u8>) {
        out.reserve(self.stored_bytes());
        let mut header = [0; STORED_HEADER_BYTES];
        header[0..8].copy_from_slice(&self.id.run.to_le_bytes());
        header[8..16].copy_from_slice(&self.id.number.to_le_bytes());
        header[16..24].copy_from_slice(&self.expires_at_ms.unwrap_or(NEVER_MS).to_le_bytes());
        header[24..28].copy_from_slice(&(self.properties.len() as u32).to_le_bytes());
        header[28..30].copy_from_slice(&(self.topic.len() as u16).to_le_bytes());
        header[30] = self.flags();
        out.extend_from_slice(&header);
        out.extend_from_slice(self.topic.as_bytes());
        out.extend_from_slice(self.properties);
        out.extend_from_slice(self.payload);
    }

    /// The length of the stored form in bytes.
    pub fn stored_bytes(&self) -> usize {
        STORED_HEADER_BYTES + self.topic.len() + self.properties.len() + self.payload.len()
    }

    /// The size of the message as an allocation, in bytes.
    pub fn allocated_bytes(&self) -> usize {
        ALLOCATION_HEADER_BYTES + self.topic.len() + self.properties.len() + self.payload.len()
    }

    /// Whether the message has outlived its Message Expiry Interval [MQTT-3.3.2-5].
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|at| at <= now_ms)
    }

    fn flags(&self) -> u8 {
        self.qos.as_u8() | if self.retain { FLAG_RETAIN } else { 0 }
    }
}

impl fmt::Debug for MessageRef<'_> {
    /// Prints sizes, never the payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageRef")
            .field("topic", &self.topic)
            .field("qos", &self.qos)
            .field("retain", &self.retain)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// The header of an allocated message. Topic, properties and payload follow it.
struct Header {
    id: MessageId,
    expires_at_ms: u64,
    /// Released when the last reference is dropped.
    #[expect(dead_code, reason = "held only for its Drop")]
    entry: Option<Entry>,
    properties_len: u32,
    topic_len: u16,
    flags: u8,
}

/// The message's entry in the memory ledger.
struct Entry {
    ledger: Arc<MemoryLedger>,
    bytes: usize,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ledger.give_back(Kind::Message, self.bytes);
    }
}

/// A reference-counted message: one allocation, shared by all queues and the retained store.
#[derive(Clone)]
pub struct Message(ThinArc<Header, u8>);

impl Message {
    /// Borrows the message's parts.
    pub fn as_ref(&self) -> MessageRef<'_> {
        let header = &self.0.header.header;
        let (topic, rest) = self.0.slice.split_at(usize::from(header.topic_len));
        let (properties, payload) = rest.split_at(header.properties_len as usize);
        MessageRef {
            id: header.id,
            topic: std::str::from_utf8(topic).unwrap_or_default(),
            properties,
            payload,
            qos: QoS::from_u8(header.flags & 0b11).unwrap_or(QoS::AtMostOnce),
            retain: header.flags & FLAG_RETAIN != 0,
            expires_at_ms: (header.expires_at_ms != NEVER_MS).then_some(header.expires_at_ms),
        }
    }

    /// The message's identifier.
    pub fn id(&self) -> MessageId {
        self.0.header.header.id
    }

    /// The Topic Name.
    pub fn topic(&self) -> &str {
        self.as_ref().topic
    }

    /// Whether there are other references to the message.
    pub fn is_shared(&self) -> bool {
        self.0.with_arc(triomphe::Arc::strong_count) > 1
    }

    /// The size of the allocation in bytes.
    #[inline]
    pub fn allocated_bytes(&self) -> usize {
        ALLOCATION_HEADER_BYTES + self.0.slice.len()
    }

    /// The payload, as a slice that a clone of this message keeps alive.
    pub fn payload(&self) -> &[u8] {
        let header = &self.0.header.header;
        &self.0.slice[usize::from(header.topic_len) + header.properties_len as usize..]
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Message) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for Message {}

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
    fn a_message_returns_its_parts() {
        let parts = MessageRef {
            id: MessageId { run: 3, number: 4 },
            topic: "a/b",
            properties: &[1, 1],
            payload: b"hello",
            qos: QoS::ExactlyOnce,
            retain: true,
            expires_at_ms: Some(77),
        };
        assert_eq!(parts.to_message().as_ref(), parts);
        let mut stored = Vec::new();
        parts.append_stored(&mut stored);
        assert_eq!((MessageRef::from_stored(&stored), stored.len()), (parts, parts.stored_bytes()));
        let never = MessageRef { expires_at_ms: None, payload: b"", qos: QoS::AtMostOnce, retain: false, ..parts };
        assert_eq!(never.to_message().as_ref(), never);
        assert_eq!(never.to_message().allocated_bytes(), never.allocated_bytes());
        let long = MessageRef { payload: &vec![7; 2 * SCRATCH_BYTES], ..parts };
        assert_eq!(long.to_message().as_ref(), long);
    }

    #[test]
    fn a_changed_or_truncated_stored_message_is_another_or_invalid() {
        let parts = MessageRef {
            id: MessageId { run: 3, number: 4 },
            topic: "a/ü",
            properties: &[1, 1],
            payload: b"",
            qos: QoS::ExactlyOnce,
            retain: true,
            expires_at_ms: None,
        };
        let mut stored = Vec::new();
        parts.append_stored(&mut stored);
        assert_eq!(MessageRef::read_stored(&stored), Some(parts));
        for len in 0..stored.len() {
            assert_eq!(MessageRef::read_stored(&stored[..len]), None);
        }
        for bit in 0..8 * stored.len() {
            let mut changed = stored.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(MessageRef::read_stored(&changed), Some(parts), "bit {bit}");
        }
    }

    #[test]
    fn a_message_is_charged_once_until_its_last_reference_is_dropped() {
        let ledger = Arc::new(MemoryLedger::default());
        let parts = MessageRef {
            id: MessageId::NONE,
            topic: "t",
            properties: &[],
            payload: &[0; 1_000],
            qos: QoS::AtLeastOnce,
            retain: false,
            expires_at_ms: None,
        };
        let message = parts.to_message_in(&ledger);
        let others = [message.clone(), message.clone()];
        assert_eq!(ledger.held(Kind::Message), parts.allocated_bytes() as u64);
        drop(message);
        assert_eq!(ledger.held(Kind::Message), parts.allocated_bytes() as u64);
        drop(others);
        assert_eq!((ledger.held(Kind::Message), ledger.all()), (0, 0));
    }

    #[test]
    fn a_message_expires_at_its_expiry_time() {
        let parts = MessageRef {
            id: MessageId::NONE,
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
    fn debug_output_has_no_payload() {
        let parts = MessageRef {
            id: MessageId::NONE,
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
