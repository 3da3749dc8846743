//! Messages that are spilled to disk, and the channel to their store.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tautwire_memory::{Kind, MemoryLedger};
use tautwire_protocol::QoS;

use crate::id::MessageId;
use crate::message::{Message, MessageRef};

/// Larger messages stay in memory.
pub const SPILL_MAX_BYTES: usize = (1 << PackedInfo::QOS_SHIFT) - 1;

/// The memory of a spilled message: its record, heap overhead, and its entry in the table of the store.
const RECORD_BYTES: usize = size_of::<Record>() + 28;
/// As [`RECORD_BYTES`], for a message that expires.
const EXPIRING_BYTES: usize = size_of::<ExpiringRecord>() + 28;

/// A stored message: in memory, or spilled to disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// In memory.
    Loaded(Message),
    /// The message is in the spill store.
    Spilled(Spilled),
}

impl Body {
    /// The message's identifier.
    #[inline]
    pub fn id(&self) -> MessageId {
        match self {
            Body::Loaded(message) => message.id(),
            Body::Spilled(spilled) => spilled.id(),
        }
    }

    /// The size of the message when it is in memory, in bytes.
    #[inline]
    pub fn allocated_bytes(&self) -> usize {
        match self {
            Body::Loaded(message) => message.allocated_bytes(),
            Body::Spilled(spilled) => spilled.allocated_bytes(),
        }
    }

    /// The length of the payload in bytes; `None` if the message is spilled, as only the store knows it.
    pub fn payload_bytes(&self) -> Option<usize> {
        self.loaded().map(|message| message.payload().len())
    }

    /// The memory that it uses now, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Body::Loaded(message) => message.allocated_bytes(),
            Body::Spilled(spilled) => spilled.record().record_bytes(),
        }
    }

    /// QoS at which the message was published.
    pub fn qos(&self) -> QoS {
        match self {
            Body::Loaded(message) => message.as_ref().qos,
            Body::Spilled(spilled) => spilled.record().qos(),
        }
    }

    /// Time of expiry in milliseconds of the broker's clock; `None` means that it never expires.
    #[inline]
    pub fn expires_at_ms(&self) -> Option<u64> {
        match self {
            Body::Loaded(message) => message.as_ref().expires_at_ms,
            Body::Spilled(spilled) => spilled.expires_at_ms(),
        }
    }

    /// Whether the message has outlived its Message Expiry Interval [MQTT-3.3.2-5].
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms().is_some_and(|at| at <= now_ms)
    }

    /// The message, if it is in memory.
    #[inline]
    pub fn loaded(&self) -> Option<&Message> {
        match self {
            Body::Loaded(message) => Some(message),
            Body::Spilled(_) => None,
        }
    }

    /// The record, if the message is spilled.
    #[inline]
    pub fn spilled(&self) -> Option<&Spilled> {
        match self {
            Body::Loaded(_) => None,
            Body::Spilled(spilled) => Some(spilled),
        }
    }
}

impl From<Message> for Body {
    #[inline]
    fn from(message: Message) -> Body {
        Body::Loaded(message)
    }
}

/// The place of a message in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpillSlot(pub u32);

/// A reference-counted message in the store, which may delete it once the last reference is dropped.
#[derive(Clone)]
pub struct Spilled(SpilledKind);

/// Two kinds, because most messages never expire and there may be millions.
#[derive(Clone)]
enum SpilledKind {
    Permanent(triomphe::Arc<Record>),
    ExpiringRecord(triomphe::Arc<ExpiringRecord>),
}

struct Record {
    id: MessageId,
    account: Arc<SpillAccount>,
    slot: SpillSlot,
    facts: PackedInfo,
}

struct ExpiringRecord {
    record: Record,
    at_ms: u64,
}

/// The size of the message when it is in memory, its QoS, and whether it expires.
#[derive(Clone, Copy)]
struct PackedInfo(u32);

impl PackedInfo {
    const QOS_SHIFT: u32 = 29;
    const EXPIRES: u32 = 1 << 31;

    fn of(message: &Message) -> PackedInfo {
        let MessageRef { qos, expires_at_ms, .. } = message.as_ref();
        let allocated_bytes = message.allocated_bytes().min(SPILL_MAX_BYTES) as u32;
        let expires = if expires_at_ms.is_some() { PackedInfo::EXPIRES } else { 0 };
        PackedInfo(allocated_bytes | u32::from(qos as u8) << PackedInfo::QOS_SHIFT | expires)
    }

    fn allocated_bytes(self) -> usize {
        self.0 as usize & SPILL_MAX_BYTES
    }

    fn qos(self) -> QoS {
        match self.0 >> PackedInfo::QOS_SHIFT & 3 {
            0 => QoS::AtMostOnce,
            1 => QoS::AtLeastOnce,
            _ => QoS::ExactlyOnce,
        }
    }

    fn expires(self) -> bool {
        self.0 & PackedInfo::EXPIRES != 0
    }
}

impl Spilled {
    /// A record of `message`, which is in `slot` of the store and not larger than [`SPILL_MAX_BYTES`]. Only the thread of the account's
    /// shard may call it, or any thread before the shards run.
    pub fn new(message: &Message, slot: SpillSlot, account: &Arc<SpillAccount>) -> Spilled {
        let record = Record { id: message.id(), account: account.clone(), slot, facts: PackedInfo::of(message) };
        account.ledger.enter(Kind::Spilled, record.record_bytes());
        Spilled(match message.as_ref().expires_at_ms {
            None => SpilledKind::Permanent(triomphe::Arc::new(record)),
            Some(at_ms) => SpilledKind::ExpiringRecord(triomphe::Arc::new(ExpiringRecord { record, at_ms })),
        })
    }

    #[inline]
    fn record(&self) -> &Record {
        match &self.0 {
            SpilledKind::Permanent(record) => record,
            SpilledKind::ExpiringRecord(expiring) => &expiring.record,
        }
    }

    /// The message's slot in the store.
    pub fn slot(&self) -> SpillSlot {
        self.record().slot
    }

    /// The message's identifier.
    pub fn id(&self) -> MessageId {
        self.record().id
    }

    /// The size of the message when it is in memory, in bytes.
    #[inline]
    pub fn allocated_bytes(&self) -> usize {
        self.record().facts.allocated_bytes()
    }

    /// The memory that is saved while it is in the store, in bytes.
    pub fn saved_bytes(&self) -> usize {
        self.allocated_bytes().saturating_sub(self.record().record_bytes())
    }

    fn expires_at_ms(&self) -> Option<u64> {
        match &self.0 {
            SpilledKind::Permanent(_) => None,
            SpilledKind::ExpiringRecord(expiring) => Some(expiring.at_ms),
        }
    }

    /// Reads the message from `stored`; `None` if that is not its stored form.
    pub fn read<'a>(&self, stored: &'a [u8]) -> Option<MessageRef<'a>> {
        MessageRef::read_stored(stored).filter(|message| message.id == self.id())
    }
}

impl PartialEq for Spilled {
    fn eq(&self, other: &Spilled) -> bool {
        match (&self.0, &other.0) {
            (SpilledKind::Permanent(one), SpilledKind::Permanent(other)) => triomphe::Arc::ptr_eq(one, other),
            (SpilledKind::ExpiringRecord(one), SpilledKind::ExpiringRecord(other)) => triomphe::Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for Spilled {}

impl fmt::Debug for Spilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cold").field("id", &self.id()).field("slot", &self.slot()).finish_non_exhaustive()
    }
}

impl Record {
    fn qos(&self) -> QoS {
        self.facts.qos()
    }

    fn record_bytes(&self) -> usize {
        if self.facts.expires() { EXPIRING_BYTES } else { RECORD_BYTES }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.account.ledger.give_back(Kind::Spilled, self.record_bytes());
        self.account.freed.push(self.slot);
    }
}

/// State shared by the spilled messages of one shard.
#[derive(Debug)]
pub struct SpillAccount {
    ledger: Arc<MemoryLedger>,
    freed: Arc<FreedSlots>,
}

impl SpillAccount {
    /// An account for messages that `ledger`'s shard spills, in the store that drains `freed`.
    pub fn new(ledger: Arc<MemoryLedger>, freed: Arc<FreedSlots>) -> SpillAccount {
        SpillAccount { ledger, freed }
    }
}

/// Slots that are no longer referenced. Any thread may add one; the store drains them.
#[derive(Debug, Default)]
pub struct FreedSlots(Mutex<Vec<SpillSlot>>);

impl FreedSlots {
    fn push(&self, slot: SpillSlot) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }

    /// Takes all slots and leaves `empty`, whose capacity is reused.
    pub fn take(&self, empty: Vec<SpillSlot>) -> Vec<SpillSlot> {
        debug_assert!(empty.is_empty());
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), empty)
    }
}

/// A request from a shard to the store.
#[derive(Debug)]
pub enum SpillRequest {
    /// Write messages.
    Write {
        /// Returned in the response.
        ticket: u64,
        /// The messages to write, in order.
        messages: Vec<Message>,
    },
    /// Read messages.
    Read {
        /// Returned in the response.
        ticket: u64,
        /// The messages to read, in any order.
        messages: Vec<Spilled>,
    },
}

/// A response from the store.
#[derive(Debug)]
pub enum SpillResponse {
    /// The response to [`SpillRequest::Write`].
    Written {
        /// The ticket of the request.
        ticket: u64,
        /// Each message with its slot; `None` if it was not written.
        messages: Vec<(Message, Option<SpillSlot>)>,
    },
    /// The response to [`SpillRequest::Read`].
    Read {
        /// The ticket of the request.
        ticket: u64,
        /// The messages that were read.
        messages: SpillRead,
    },
}

/// Messages that have been read from the store.
#[derive(Debug)]
pub struct SpillRead {
    bytes: Vec<u8>,
    parts: Vec<(Spilled, Option<Range<usize>>)>,
}

impl SpillRead {
    /// `parts` has the range of each message's stored form in `bytes`; `None` if it could not be read.
    pub fn new(bytes: Vec<u8>, parts: Vec<(Spilled, Option<Range<usize>>)>) -> SpillRead {
        SpillRead { bytes, parts }
    }

    /// The messages in request order, entered in `ledger`; `None` for those that could not be read. Only the thread of the ledger's shard
    /// may call it.
    pub fn into_messages(self, ledger: &Arc<MemoryLedger>) -> impl Iterator<Item = (Spilled, Option<Message>)> + use<> {
        let SpillRead { bytes, parts } = self;
        let ledger = ledger.clone();
        parts.into_iter().map(move |(spilled, range)| {
            let stored = range.and_then(|range| bytes.get(range));
            let message = stored.and_then(|stored| spilled.read(stored)).map(|message| message.to_message_in(&ledger));
            (spilled, message)
        })
    }
}

/// A shard's client of the store. Nothing here blocks.
pub trait SpillClient: Send {
    /// Sends a request.
    ///
    /// # Errors
    /// The channel is full; the request is returned.
    fn post(&mut self, request: SpillRequest) -> Result<(), SpillRequest>;

    /// Whether a response has arrived.
    fn has_answer(&self) -> bool;

    /// The next response, if one has arrived. Responses arrive in request order.
    fn next_answer(&mut self) -> Option<SpillResponse>;

    /// The account of messages that this shard spills.
    fn spill_account(&self) -> &Arc<SpillAccount>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &[u8]) -> MessageRef<'_> {
        MessageRef {
            id: MessageId { run: 1, number: 2 },
            topic: "t",
            properties: &[],
            payload,
            qos: QoS::ExactlyOnce,
            retain: false,
            expires_at_ms: Some(9),
        }
    }

    #[test]
    fn dropping_the_last_reference_frees_the_slot_and_the_bytes() {
        let (ledger, freed) = (Arc::new(MemoryLedger::default()), Arc::new(FreedSlots::default()));
        let account = Arc::new(SpillAccount::new(ledger.clone(), freed.clone()));
        let message = message(&[0; 500]).to_message();
        let spilled = Body::Spilled(Spilled::new(&message, SpillSlot(7), &account));
        assert_eq!((ledger.all(), spilled.memory_bytes()), (EXPIRING_BYTES as u64, EXPIRING_BYTES));
        assert_eq!(
            (spilled.id(), spilled.allocated_bytes(), spilled.qos()),
            (message.id(), message.allocated_bytes(), QoS::ExactlyOnce)
        );
        assert!(spilled.is_expired(9) && !spilled.is_expired(8));
        let other = spilled.clone();
        drop(spilled);
        assert_eq!(freed.take(Vec::new()), []);
        drop(other);
        assert_eq!((freed.take(Vec::new()), ledger.all()), (vec![SpillSlot(7)], 0));
    }

    /// There may be millions of them, retained or in queues.
    #[test]
    fn a_message_without_expiry_is_small() {
        let (ledger, freed) = (Arc::new(MemoryLedger::default()), Arc::new(FreedSlots::default()));
        let account = Arc::new(SpillAccount::new(ledger.clone(), freed.clone()));
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            let message = MessageRef { qos, expires_at_ms: None, ..message(&[0; 500]) }.to_message();
            let spilled = Body::Spilled(Spilled::new(&message, SpillSlot(3), &account));
            assert_eq!((spilled.qos(), spilled.allocated_bytes()), (qos, message.allocated_bytes()));
            assert_eq!((spilled.expires_at_ms(), spilled.is_expired(u64::MAX)), (None, false));
            assert_eq!((ledger.all(), spilled.memory_bytes()), (RECORD_BYTES as u64, RECORD_BYTES));
        }
        assert_eq!((freed.take(Vec::new()).len(), ledger.all()), (3, 0));
        assert_eq!((size_of::<Body>(), RECORD_BYTES), (16, 60));
    }

    #[test]
    fn another_message_in_the_slot_is_detected() {
        let account = Arc::new(SpillAccount::new(Arc::default(), Arc::default()));
        let spilled = Spilled::new(&message(b"a").to_message(), SpillSlot(0), &account);
        let mut stored = Vec::new();
        message(b"a").append_stored(&mut stored);
        assert_eq!(spilled.read(&stored), Some(message(b"a")));
        stored[8] ^= 1;
        assert_eq!(spilled.read(&stored), None);
        assert_eq!(spilled.read(&stored[..20]), None);
    }
}
