//! Encodes changes as the bytes of a frame.

use std::collections::HashSet;

use tautwire_journal::SessionId;
use tautwire_journal::record::{self, Ids, Member, PendingRecord};
use tautwire_message::{Body, Message, MessageId, MessageRef};
use tautwire_protocol::PacketId;
use tautwire_session::{
    Change, PendingMessage, Receivers, Record, RetainedChange, SessionNumber, ShardNumber, ShardPlacement, StoredWill,
};

/// Builds one frame.
#[derive(Debug, Default)]
pub struct FrameWriter {
    body: Vec<u8>,
    /// Messages that are in the frame.
    messages: Identities,
    /// Messages of earlier frames that are being accepted from another shard.
    known: Identities,
}

/// Clients cannot choose message identities, so a fast hash is safe.
type Identities = HashSet<MessageId, foldhash::fast::RandomState>;

impl FrameWriter {
    /// Adds a record, and the messages that it names unless they are in the frame.
    pub fn add(&mut self, record: &Record<'_>) {
        match *record {
            Record::Opened { session, client_id, at_ms } => {
                self.append(&record::Record::Opened { session: id(session), at_ms, client_id });
            }
            Record::Changed { session, change, packet_id } => self.add_change(id(session), change, packet_id),
            Record::Returned { session, at_ms } => {
                self.append(&record::Record::Connected { session: id(session), at_ms });
            }
            Record::Left { session, at_ms } => {
                self.append(&record::Record::Disconnected { session: id(session), at_ms });
            }
            Record::Ended(session) => self.append(&record::Record::Ended { session: id(session) }),
            Record::Counted { last_session, last_sequence } => {
                self.append(&record::Record::Counted { last_session: last_session.0, last_sequence });
            }
            Record::RunStarted(ShardPlacement { shards, seed }) => {
                self.append(&record::Record::RunStarted { shards, seed })
            }
            Record::Forwarded { from, to, sequence, message, receivers } => {
                self.add_message(message);
                let (from, to, message) = (shard(from), shard(to), message.id());
                let member = match receivers {
                    Receivers::Subscribers => None,
                    Receivers::Member(session, share) => Some(Member { session: id(session), share }),
                };
                self.append(&record::Record::Forwarded { from, to, sequence, message, member });
            }
            Record::ForwardAccepted { from, to, sequence } => {
                self.append(&record::Record::ForwardAccepted { from: shard(from), to: shard(to), sequence });
                self.known.clear();
            }
            Record::Retained { sequence, change: RetainedChange::Set(message) } => {
                self.add_message(message);
                self.append(&record::Record::RetainedSet { sequence, message: message.id() });
            }
            Record::Retained { sequence, change: RetainedChange::Cleared(topic) } => {
                self.append(&record::Record::RetainedCleared { sequence, topic });
            }
        }
    }

    /// Adds the record that `message` becomes the retained message of its topic.
    pub(crate) fn add_retained(&mut self, sequence: u64, message: &MessageRef<'_>) {
        if self.messages.insert(message.id) {
            self.append(&record::Record::Message(*message));
        }
        self.append(&record::Record::RetainedSet { sequence, message: message.id });
    }

    /// Marks a message that is being forwarded from another shard. An earlier frame has it, so it is not written again until its acceptance
    /// is recorded.
    pub fn mark_forwarded(&mut self, message: MessageId) {
        self.known.insert(message);
    }

    fn add_change(&mut self, session: SessionId, change: &Change, packet_id: Option<PacketId>) {
        let record = match change {
            Change::ExpiryInterval(seconds) => record::Record::ExpiryInterval { session, seconds: *seconds },
            Change::Will(Some(will)) => {
                let StoredWill { message, delay_s, message_expiry_s } = &**will;
                let (delay_s, message_expiry_s, message) = (*delay_s, *message_expiry_s, message.as_ref());
                record::Record::Will { session, delay_s, message_expiry_s, message }
            }
            Change::Will(None) => record::Record::WillGone { session },
            Change::Subscribed(filter, made) => {
                let (options, identifier, format) = (made.options, made.identifier, made.format);
                record::Record::Subscribed { session, options, identifier, format, filter }
            }
            Change::Unsubscribed(filter) => record::Record::Unsubscribed { session, filter },
            Change::Queued(pending) => {
                self.add_body(&pending.message);
                record::Record::Queued { session, delivery: delivery(pending) }
            }
            Change::Started(pending) => {
                let Some(packet_id) = packet_id else { return missing("Started") };
                self.add_body(&pending.message);
                record::Record::Started { session, packet_id, delivery: delivery(pending) }
            }
            Change::StartedQueued => {
                let Some(packet_id) = packet_id else { return missing("StartedQueued") };
                record::Record::StartedQueued { session, packet_id }
            }
            Change::Unqueued => record::Record::Unqueued { session },
            Change::Received(packet_id) => record::Record::Received { session, packet_id: *packet_id },
            Change::Completed(packet_id) => record::Record::Completed { session, packet_id: *packet_id },
            Change::Taken(packet_id) => record::Record::Taken { session, packet_id: *packet_id },
            Change::Released(packet_id) => record::Record::Released { session, packet_id: *packet_id },
            Change::NextPacketId(packet_id) => record::Record::NextPacketId { session, packet_id: *packet_id },
            Change::AwaitingPubComp(packet_id) => record::Record::AwaitingPubComp { session, packet_id: *packet_id },
        };
        self.append(&record);
    }

    /// Adds the message if it is in memory; a spilled one must be loaded first.
    fn add_body(&mut self, body: &Body) {
        match body {
            Body::Loaded(message) => self.add_message(message),
            Body::Spilled(_) => missing("a message"),
        }
    }

    fn add_message(&mut self, message: &Message) {
        if !self.known.contains(&message.id()) && self.messages.insert(message.id()) {
            record::Record::Message(message.as_ref()).append_to(&mut self.body);
        }
    }

    fn append(&mut self, record: &record::Record<'_>) {
        record.append_to(&mut self.body);
    }

    /// Returns the number of bytes added.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Returns the number of bytes added.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Returns the frame's body, and starts the next one in `buffer`.
    pub fn take(&mut self, buffer: Vec<u8>) -> Vec<u8> {
        debug_assert!(buffer.is_empty());
        self.messages.clear();
        std::mem::replace(&mut self.body, buffer)
    }
}

fn delivery(pending: &PendingMessage) -> PendingRecord<'_> {
    PendingRecord {
        message: pending.message.id(),
        qos: pending.qos,
        retain: pending.retain,
        subscription_ids: Ids::Given(pending.subscription_ids.as_slice()),
        share: pending.share.as_deref(),
    }
}

fn id(session: SessionNumber) -> SessionId {
    SessionId::new(session.0).expect("numbers of sessions begin at 1")
}

fn shard(number: ShardNumber) -> tautwire_journal::ShardNumber {
    tautwire_journal::ShardNumber(number.0)
}

/// Reports a bug: a started message without a Packet Identifier, or a message that is not in memory.
fn missing(what: &str) {
    debug_assert!(false, "{what} is incomplete and cannot be written");
}
