//! Messages whose bytes lie outside of memory, and the way to the store that has them.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tautwire_memory::{Kind, Ledger};
use tautwire_protocol::QoS;

use crate::id::MessageId;
use crate::message::{Message, MessageRef};

/// A message that takes more stays in memory.
pub const COLD_MAX_BYTES: usize = (1 << Facts::QOS_SHIFT) - 1;

/// What a cold message takes in memory: its record, what the heap adds, and its place in the table of the store.
const RECORD_BYTES: usize = size_of::<Record>() + 28;
/// The same for one that expires.
const EXPIRING_BYTES: usize = size_of::<Expiring>() + 28;

/// A message as somebody holds it who keeps it for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// In memory.
    Hot(Message),
    /// In the store.
    Cold(Cold),
}

impl Body {
    /// Which message it is.
    #[inline]
    pub fn id(&self) -> MessageId {
        match self {
            Body::Hot(message) => message.id(),
            Body::Cold(cold) => cold.id(),
        }
    }

    /// Bytes that the message takes when it is in memory.
    #[inline]
    pub fn kept_bytes(&self) -> usize {
        match self {
            Body::Hot(message) => message.kept_bytes(),
            Body::Cold(cold) => cold.kept_bytes(),
        }
    }

    /// Bytes of the payload; `None` where the message is in the store, which alone knows.
    pub fn payload_bytes(&self) -> Option<usize> {
        self.hot().map(|message| message.payload().len())
    }

    /// Bytes of memory that it takes as it is.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Body::Hot(message) => message.kept_bytes(),
            Body::Cold(cold) => cold.record().record_bytes(),
        }
    }

    /// QoS at which the message was published.
    pub fn qos(&self) -> QoS {
        match self {
            Body::Hot(message) => message.as_ref().qos,
            Body::Cold(cold) => cold.record().qos(),
        }
    }

    /// Moment of expiry in milliseconds of the broker's clock; `None` never expires.
    #[inline]
    pub fn expires_at_ms(&self) -> Option<u64> {
        match self {
            Body::Hot(message) => message.as_ref().expires_at_ms,
            Body::Cold(cold) => cold.expires_at_ms(),
        }
    }

    /// Whether the message has outlived its Message Expiry Interval [MQTT-3.3.2-5].
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms().is_some_and(|at| at <= now_ms)
    }

    /// The message, if it is in memory.
    #[inline]
    pub fn hot(&self) -> Option<&Message> {
        match self {
            Body::Hot(message) => Some(message),
            Body::Cold(_) => None,
        }
    }

    /// The record, if the message is in the store.
    #[inline]
    pub fn cold(&self) -> Option<&Cold> {
        match self {
            Body::Hot(_) => None,
            Body::Cold(cold) => Some(cold),
        }
    }
}

impl From<Message> for Body {
    #[inline]
    fn from(message: Message) -> Body {
        Body::Hot(message)
    }
}

/// Where the store has a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// A message in the store, shared by all who hold it. The store may forget it when the last of them lets go.
#[derive(Clone)]
pub struct Cold(Held);

/// Most messages never expire, and there may be millions.
#[derive(Clone)]
enum Held {
    Lasting(triomphe::Arc<Record>),
    Expiring(triomphe::Arc<Expiring>),
}

struct Record {
    id: MessageId,
    shelf: Arc<Shelf>,
    slot: Slot,
    facts: Facts,
}

struct Expiring {
    record: Record,
    at_ms: u64,
}

/// Bytes that the message takes when it is in memory, its QoS, and whether it expires.
#[derive(Clone, Copy)]
struct Facts(u32);

impl Facts {
    const QOS_SHIFT: u32 = 29;
    const EXPIRES: u32 = 1 << 31;

    fn of(message: &Message) -> Facts {
        let MessageRef { qos, expires_at_ms, .. } = message.as_ref();
        let kept_bytes = message.kept_bytes().min(COLD_MAX_BYTES) as u32;
        let expires = if expires_at_ms.is_some() { Facts::EXPIRES } else { 0 };
        Facts(kept_bytes | u32::from(qos as u8) << Facts::QOS_SHIFT | expires)
    }

    fn kept_bytes(self) -> usize {
        self.0 as usize & COLD_MAX_BYTES
    }

    fn qos(self) -> QoS {
        match self.0 >> Facts::QOS_SHIFT & 3 {
            0 => QoS::AtMostOnce,
            1 => QoS::AtLeastOnce,
            _ => QoS::ExactlyOnce,
        }
    }

    fn expires(self) -> bool {
        self.0 & Facts::EXPIRES != 0
    }
}

impl Cold {
    /// The store has `message` in `slot`, which takes no more than [`COLD_MAX_BYTES`]. Only the thread of the shelf's shard may
    /// call it, or any one before there are threads.
    pub fn new(message: &Message, slot: Slot, shelf: &Arc<Shelf>) -> Cold {
        let record = Record { id: message.id(), shelf: shelf.clone(), slot, facts: Facts::of(message) };
        shelf.ledger.enter(Kind::Cold, record.record_bytes());
        Cold(match message.as_ref().expires_at_ms {
            None => Held::Lasting(triomphe::Arc::new(record)),
            Some(at_ms) => Held::Expiring(triomphe::Arc::new(Expiring { record, at_ms })),
        })
    }

    #[inline]
    fn record(&self) -> &Record {
        match &self.0 {
            Held::Lasting(record) => record,
            Held::Expiring(expiring) => &expiring.record,
        }
    }

    /// Where the store has it.
    pub fn slot(&self) -> Slot {
        self.record().slot
    }

    /// Which message it is.
    pub fn id(&self) -> MessageId {
        self.record().id
    }

    /// Bytes that the message takes when it is in memory.
    #[inline]
    pub fn kept_bytes(&self) -> usize {
        self.record().facts.kept_bytes()
    }

    /// Bytes of memory that are saved while it is in the store.
    pub fn saved_bytes(&self) -> usize {
        self.kept_bytes().saturating_sub(self.record().record_bytes())
    }

    fn expires_at_ms(&self) -> Option<u64> {
        match &self.0 {
            Held::Lasting(_) => None,
            Held::Expiring(expiring) => Some(expiring.at_ms),
        }
    }

    /// The message in the stored form, if `stored` is that.
    pub fn read<'a>(&self, stored: &'a [u8]) -> Option<MessageRef<'a>> {
        MessageRef::read_stored(stored).filter(|message| message.id == self.id())
    }
}

impl PartialEq for Cold {
    fn eq(&self, other: &Cold) -> bool {
        match (&self.0, &other.0) {
            (Held::Lasting(one), Held::Lasting(other)) => triomphe::Arc::ptr_eq(one, other),
            (Held::Expiring(one), Held::Expiring(other)) => triomphe::Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for Cold {}

impl fmt::Debug for Cold {
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
        self.shelf.ledger.give_back(Kind::Cold, self.record_bytes());
        self.shelf.freed.push(self.slot);
    }
}

/// What the cold messages of one shard have in common.
#[derive(Debug)]
pub struct Shelf {
    ledger: Arc<Ledger>,
    freed: Arc<Freed>,
}

impl Shelf {
    /// For messages that `ledger`'s shard makes cold, in the store that empties `freed`.
    pub fn new(ledger: Arc<Ledger>, freed: Arc<Freed>) -> Shelf {
        Shelf { ledger, freed }
    }
}

/// Slots that nobody holds any more. Any thread may add one; the store takes them.
#[derive(Debug, Default)]
pub struct Freed(Mutex<Vec<Slot>>);

impl Freed {
    fn push(&self, slot: Slot) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }

    /// Takes all of them out, in exchange for an empty list whose room is used again.
    pub fn take(&self, empty: Vec<Slot>) -> Vec<Slot> {
        debug_assert!(empty.is_empty());
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), empty)
    }
}

/// What a shard asks of the store.
#[derive(Debug)]
pub enum ColdOrder {
    /// To write messages down.
    Write {
        /// Comes back with the answer.
        ticket: u64,
        /// What is written, in order.
        messages: Vec<Message>,
    },
    /// To read messages.
    Read {
        /// Comes back with the answer.
        ticket: u64,
        /// What is read, in any order.
        messages: Vec<Cold>,
    },
}

/// What has become of an order.
#[derive(Debug)]
pub enum ColdAnswer {
    /// Of [`ColdOrder::Write`].
    Written {
        /// That of the order.
        ticket: u64,
        /// Each message with its slot; without one it has not been written.
        messages: Vec<(Message, Option<Slot>)>,
    },
    /// Of [`ColdOrder::Read`].
    Read {
        /// That of the order.
        ticket: u64,
        /// What was read.
        messages: ColdRead,
    },
}

/// Messages that have been read from the store.
#[derive(Debug)]
pub struct ColdRead {
    bytes: Vec<u8>,
    parts: Vec<(Cold, Option<Range<usize>>)>,
}

impl ColdRead {
    /// For each message where its stored form is in `bytes`; `None` where it could not be read.
    pub fn new(bytes: Vec<u8>, parts: Vec<(Cold, Option<Range<usize>>)>) -> ColdRead {
        ColdRead { bytes, parts }
    }

    /// The messages in the order of the order, kept in `ledger`; `None` for those that could not be read. Only the thread of
    /// the ledger's shard may call it.
    pub fn into_messages(self, ledger: &Arc<Ledger>) -> impl Iterator<Item = (Cold, Option<Message>)> + use<> {
        let ColdRead { bytes, parts } = self;
        let ledger = ledger.clone();
        parts.into_iter().map(move |(cold, range)| {
            let stored = range.and_then(|range| bytes.get(range));
            let message = stored.and_then(|stored| cold.read(stored)).map(|message| message.keep(&ledger));
            (cold, message)
        })
    }
}

/// A shard's way to the store. Nothing here waits.
pub trait ColdPort: Send {
    /// Hands an order over.
    ///
    /// # Errors
    /// There is no room for it now; it is given back.
    fn post(&mut self, order: ColdOrder) -> Result<(), ColdOrder>;

    /// Whether an answer has come.
    fn has_answer(&self) -> bool;

    /// The next answer, if one has come. Answers come in the order of the orders.
    fn next_answer(&mut self) -> Option<ColdAnswer>;

    /// What the messages that this shard makes cold have in common.
    fn shelf(&self) -> &Arc<Shelf>;
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
    fn the_last_holder_gives_the_slot_and_the_bytes_back() {
        let (ledger, freed) = (Arc::new(Ledger::default()), Arc::new(Freed::default()));
        let shelf = Arc::new(Shelf::new(ledger.clone(), freed.clone()));
        let message = message(&[0; 500]).to_message();
        let cold = Body::Cold(Cold::new(&message, Slot(7), &shelf));
        assert_eq!((ledger.all(), cold.memory_bytes()), (EXPIRING_BYTES as u64, EXPIRING_BYTES));
        assert_eq!((cold.id(), cold.kept_bytes(), cold.qos()), (message.id(), message.kept_bytes(), QoS::ExactlyOnce));
        assert!(cold.is_expired(9) && !cold.is_expired(8));
        let other = cold.clone();
        drop(cold);
        assert_eq!(freed.take(Vec::new()), []);
        drop(other);
        assert_eq!((freed.take(Vec::new()), ledger.all()), (vec![Slot(7)], 0));
    }

    /// There may be millions: what a topic retains, or a queue holds.
    #[test]
    fn a_message_that_never_expires_takes_little() {
        let (ledger, freed) = (Arc::new(Ledger::default()), Arc::new(Freed::default()));
        let shelf = Arc::new(Shelf::new(ledger.clone(), freed.clone()));
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            let message = MessageRef { qos, expires_at_ms: None, ..message(&[0; 500]) }.to_message();
            let cold = Body::Cold(Cold::new(&message, Slot(3), &shelf));
            assert_eq!((cold.qos(), cold.kept_bytes()), (qos, message.kept_bytes()));
            assert_eq!((cold.expires_at_ms(), cold.is_expired(u64::MAX)), (None, false));
            assert_eq!((ledger.all(), cold.memory_bytes()), (RECORD_BYTES as u64, RECORD_BYTES));
        }
        assert_eq!((freed.take(Vec::new()).len(), ledger.all()), (3, 0));
        assert_eq!((size_of::<Body>(), RECORD_BYTES), (16, 60));
    }

    #[test]
    fn another_message_is_not_taken_for_the_one_asked_for() {
        let shelf = Arc::new(Shelf::new(Arc::default(), Arc::default()));
        let cold = Cold::new(&message(b"a").to_message(), Slot(0), &shelf);
        let mut stored = Vec::new();
        message(b"a").append_stored(&mut stored);
        assert_eq!(cold.read(&stored), Some(message(b"a")));
        stored[8] ^= 1;
        assert_eq!(cold.read(&stored), None);
        assert_eq!(cold.read(&stored[..20]), None);
    }
}
