//! Batches of messages that go from one shard to another.

use std::sync::Arc;

use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_message::{Message, MessageId, MessageRef, Transcodings};
use tautwire_session::PendingMessage;

use crate::session_key::SessionKey;

/// A message with more stored bytes than this is shared instead of copied into the batch.
const COPIED_MAX_BYTES: usize = 1024;

/// What one shard sends another in one turn of its loop, in the order of publishing. Its memory is charged to the sender's ledger until the
/// receiver has processed it.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Item>,
    shared_bytes: usize,
    read_at_us: u64,
    /// The sequence number of the first entry that has one; each further one has the next.
    first_forwarded: u64,
    charge: Charge,
}

/// The size of a batch, to allocate the next one at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct BatchSize {
    bytes: usize,
    entries: usize,
}

#[derive(Debug)]
struct Item {
    content: Content,
    is_forwarded: bool,
}

#[derive(Debug)]
enum Content {
    Copied { end: u32, generation: u64 },
    Shared { message: Message, generation: u64 },
    WithTranscodings(Box<(Message, u64, Arc<Transcodings>)>),
    Share(Box<(ShareReceiver, PendingMessage)>),
    Update(Box<MemberUpdate>),
}

/// Where a message of a shared subscription goes on another shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareReceiver {
    /// To the member that was picked when the message was published.
    Member(SessionKey),
    /// To the member that was picked for a queued message of the group. The message counts as queued until it arrives.
    FromQueue {
        /// The member.
        member: SessionKey,
        /// The bytes of the message in the queue.
        queued_bytes: usize,
    },
    /// To the group's queue.
    Queue,
}

/// Reported by the shard of a member to the shard with the queue of the shared subscription, or in a cluster to its coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberUpdate {
    /// The whole filter of the shared subscription.
    pub share: Arc<str>,
    /// The member.
    pub member: SessionKey,
    /// The update.
    pub update: GroupUpdate,
}

/// The content of a [`MemberUpdate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupUpdate {
    /// The member can take messages now, or has left.
    Ready,
    /// The member has completed this message.
    Done(MessageId),
    /// The member is gone without having acknowledged this message, which may go to any other.
    Back(MessageId),
}

/// An entry of a batch.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The content.
    pub content: BatchPayload<'a>,
    /// The sequence number among all messages forwarded from the sending shard to this one, if the message is persistent.
    pub forwarded: Option<u64>,
}

/// The content of an entry of a batch.
#[derive(Debug)]
pub enum BatchPayload<'a> {
    /// A message for all matching subscriptions of the shard that are not newer than `generation`.
    Route {
        /// The message.
        message: MessageRef<'a>,
        /// The exchange's generation when the message was published.
        generation: u64,
        /// Its transcodings, which all shards share.
        transcodings: Option<&'a Arc<Transcodings>>,
    },
    /// A message of a shared subscription, with its receiver.
    Share(&'a ShareReceiver, &'a PendingMessage),
    /// An update of a member, for the shard with the queue of its shared subscription, or in a cluster for its coordinator.
    Update(&'a MemberUpdate),
}

impl Batch {
    /// Creates an empty batch with the capacity of `earlier`, charged to the ledger of the sending shard. `read_at_us` is when the first of
    /// its messages was read from its publisher, by a clock that all shards share.
    pub fn with_size_of(earlier: &BatchSize, read_at_us: u64, ledger: &Arc<MemoryLedger>) -> Batch {
        let mut batch = Batch {
            bytes: Vec::with_capacity(earlier.bytes),
            entries: Vec::with_capacity(earlier.entries),
            shared_bytes: 0,
            read_at_us,
            first_forwarded: 0,
            charge: Charge::new(ledger, Kind::Transit),
        };
        batch.update_charge();
        batch
    }

    /// Charges the memory of the batch itself. Messages that it refers to are charged already.
    fn update_charge(&mut self) {
        self.charge.set(size_of::<Batch>() + self.bytes.capacity() + self.entries.capacity() * size_of::<Item>());
    }

    /// Returns when the first of its messages was read from its publisher.
    #[inline]
    pub fn read_at_us(&self) -> u64 {
        self.read_at_us
    }

    /// Returns the size of the batch.
    pub fn size(&self) -> BatchSize {
        BatchSize { bytes: self.bytes.len(), entries: self.entries.len() }
    }

    /// Adds a message for the subscriptions of the receiving shard, with `transcodings` if some of them may request another format. `keep`
    /// returns the message as one allocation, if it is not copied. `forwarded`: see [`Entry::forwarded`].
    pub fn push_route(
        &mut self,
        message: &MessageRef<'_>,
        keep: impl FnOnce() -> Message,
        generation: u64,
        transcodings: Option<&Arc<Transcodings>>,
        forwarded: Option<u64>,
    ) {
        let capacities = (self.bytes.capacity(), self.entries.capacity());
        let copied_end = self.bytes.len() + message.stored_bytes();
        let content = if let Some(transcodings) = transcodings {
            let message = keep();
            self.shared_bytes += message.allocated_bytes();
            Content::WithTranscodings(Box::new((message, generation, transcodings.clone())))
        } else if message.stored_bytes() <= COPIED_MAX_BYTES
            && let Ok(end) = u32::try_from(copied_end)
        {
            message.append_stored(&mut self.bytes);
            Content::Copied { end, generation }
        } else {
            let message = keep();
            self.shared_bytes += message.allocated_bytes();
            Content::Shared { message, generation }
        };
        self.push(content, forwarded);
        if capacities != (self.bytes.capacity(), self.entries.capacity()) {
            self.update_charge();
        }
    }

    /// Adds a message of a shared subscription. `forwarded`: see [`Entry::forwarded`].
    pub fn push_share(&mut self, receiver: ShareReceiver, delivery: PendingMessage, forwarded: Option<u64>) {
        self.shared_bytes += delivery.counted_bytes();
        self.push(Content::Share(Box::new((receiver, delivery))), forwarded);
        self.update_charge();
    }

    /// Adds an update of a member of a shared subscription.
    pub fn push_update(&mut self, update: MemberUpdate) {
        self.shared_bytes += size_of::<MemberUpdate>();
        self.push(Content::Update(Box::new(update)), None);
        self.update_charge();
    }

    fn push(&mut self, content: Content, forwarded: Option<u64>) {
        if let Some(number) = forwarded
            && self.first_forwarded == 0
        {
            self.first_forwarded = number;
        }
        self.entries.push(Item { content, is_forwarded: forwarded.is_some() });
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the bytes of messages that it holds or keeps alive.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len() + self.shared_bytes
    }

    /// Iterates over the entries in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let (mut start, mut next_forwarded) = (0, self.first_forwarded);
        self.entries.iter().map(move |item| {
            let forwarded = item.is_forwarded.then_some(next_forwarded);
            next_forwarded += u64::from(item.is_forwarded);
            let content = match &item.content {
                Content::Copied { end, generation } => {
                    let end = *end as usize;
                    let stored = &self.bytes[start..end];
                    start = end;
                    BatchPayload::Route {
                        message: MessageRef::from_stored(stored),
                        generation: *generation,
                        transcodings: None,
                    }
                }
                Content::Shared { message, generation } => {
                    BatchPayload::Route { message: message.as_ref(), generation: *generation, transcodings: None }
                }
                Content::WithTranscodings(item) => {
                    let (message, generation, transcodings) = &**item;
                    BatchPayload::Route {
                        message: message.as_ref(),
                        generation: *generation,
                        transcodings: Some(transcodings),
                    }
                }
                Content::Share(share) => BatchPayload::Share(&share.0, &share.1),
                Content::Update(update) => BatchPayload::Update(update),
            };
            Entry { content, forwarded }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_message::MessageId;
    use tautwire_protocol::QoS;

    #[test]
    fn entries_round_trip() {
        let large = vec![7; 2 * COPIED_MAX_BYTES];
        let parts = |payload| MessageRef {
            id: MessageId { run: 1, number: 2 },
            topic: "a",
            properties: &[],
            payload,
            qos: QoS::AtLeastOnce,
            retain: false,
            expires_at_ms: None,
        };
        let payloads: [&[u8]; 4] = [b"x", &large, b"", b"yz"];
        let ledger = Arc::new(MemoryLedger::default());
        let mut batch = Batch::with_size_of(&BatchSize::default(), 0, &ledger);
        for (at, payload) in payloads.iter().enumerate() {
            let transcodings = (at == 3).then(Arc::<Transcodings>::default);
            let forwarded = [None, Some(7), None, Some(8)][at];
            batch.push_route(
                &parts(payload),
                || parts(payload).to_message(),
                at as u64,
                transcodings.as_ref(),
                forwarded,
            );
        }
        assert_eq!(batch.len(), 4);
        for (at, entry) in batch.entries().enumerate() {
            let BatchPayload::Route { message, generation, transcodings } = entry.content else { panic!("a route") };
            assert_eq!(entry.forwarded, [None, Some(7), None, Some(8)][at]);
            assert_eq!(transcodings.is_some(), at == 3);
            assert_eq!(message, parts(payloads[at]));
            assert_eq!(generation, at as u64);
        }
        assert!(ledger.held(Kind::Transit) > 0);
        drop(batch);
        assert_eq!(ledger.held(Kind::Transit), 0, "the receiver has processed it");
    }
}
