//! The operations that a node requests from the store, and its decisions for the engine.

use std::num::NonZeroU16;
use std::sync::Arc;

use crate::delivery::Span;
use crate::names::{ClientKey, GroupKey, Incarnation, Key, LogSubject, PARTITIONS, Partition};
use crate::numbers::{Revision, Sequence};
use crate::record::{ConfigPart, Place, RetainedRecord};

/// Identifies an operation in flight. A node never reuses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// An operation of the store. Each is answered once; without an answer in time, with [`Answer::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Reads a key from the leader, so that everything confirmed before is seen.
    Get(Key),
    /// Writes a key if it has this revision; with `None`, if it does not exist.
    Put {
        /// The key.
        key: Key,
        /// The expected revision.
        expected: Option<Revision>,
        /// The new value.
        value: Vec<u8>,
    },
    /// Reads the last group of a subject from the leader.
    Last(LogSubject),
    /// Appends a group if this is the last sequence of the subject; with `None`, if the subject has no group.
    Append {
        /// The subject.
        subject: LogSubject,
        /// The expected last sequence.
        expected: Option<Sequence>,
        /// The group.
        group: Vec<u8>,
    },
    /// Returns the sequence of the next group of a partition, according to the leader.
    End(Partition),
    /// Reads groups of a partition, in order.
    Read {
        /// The partition.
        partition: Partition,
        /// The first sequence.
        from: Sequence,
        /// The size limit of the answer, which has at least one group.
        max_bytes: usize,
    },
    /// Like `Read`, but waits some seconds if there is no group yet.
    Follow {
        /// The partition.
        partition: Partition,
        /// The first sequence.
        from: Sequence,
        /// The size limit of the answer, which has at least one group.
        max_bytes: usize,
    },
    /// Writes a key if it has this revision, like `Put`. The store removes it after `for_s` seconds by its own clock, unless it is written
    /// again.
    PutFor {
        /// The key.
        key: Key,
        /// The expected revision.
        expected: Revision,
        /// The new value.
        value: Vec<u8>,
        /// The lifetime in seconds.
        for_s: u32,
    },
    /// Removes a key if it has this revision.
    Remove {
        /// The key.
        key: Key,
        /// The expected revision.
        expected: Revision,
    },
    /// Reads session records after a revision, in the order of their revisions.
    Scan {
        /// The revision.
        after: Revision,
        /// The most records to return.
        max: usize,
    },
    /// Reads group records after a revision, in the order of their revisions, from the leader.
    ScanGroups {
        /// The revision.
        after: Revision,
        /// The most records to return.
        max: usize,
    },
    /// Reads the records of all nodes, from the leader.
    Nodes,
    /// Checks whether the shared configuration has this revision, or does not exist. Confirmed by a write of another key, which a replaced
    /// leader cannot do.
    ConfigHolds(Option<Revision>),
    /// Reads the first group of a subject with this sequence or a later one.
    Next {
        /// The subject.
        subject: LogSubject,
        /// The first sequence.
        from: Sequence,
    },
    /// Reads the retained message of a topic, from the leader. The subject is relative: that of the topic.
    LastRetained(String),
    /// Writes the retained message of a topic if its current one has this sequence; with `None`, if it has none.
    Retain {
        /// The subject of the topic.
        subject: String,
        /// The expected sequence.
        expected: Option<Sequence>,
        /// The new value: a [`RetainedRecord`].
        value: Vec<u8>,
        /// The lifetime in seconds, after which the store may remove it; `None` for no limit.
        for_s: Option<u32>,
    },
    /// Reads the stream of retained messages after a sequence, in order. The answer may wait for a moment if there is nothing.
    Mirror {
        /// The sequence.
        after: Sequence,
        /// The most entries to return.
        max: usize,
    },
    /// Unconditionally writes a [mark](crate::record::RetainedRecord::mark) to the stream of retained messages, and returns its sequence.
    /// Everything confirmed before precedes it.
    EndOfRetained,
}

/// A session record in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scanned {
    /// The client.
    pub client: ClientKey,
    /// Its revision.
    pub revision: Revision,
    /// The age by the store's clock, in milliseconds.
    pub age_ms: u64,
    /// The record.
    pub value: Vec<u8>,
}

/// A group record in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedGroup {
    /// The group.
    pub group: GroupKey,
    /// Its revision.
    pub revision: Revision,
    /// The age by the store's clock, in milliseconds.
    pub age_ms: u64,
    /// The record.
    pub value: Vec<u8>,
}

/// The retained message of a topic in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedEntry {
    /// Its sequence in the stream.
    pub sequence: Sequence,
    /// Its age at the time of this answer by the store's clock, in milliseconds.
    pub age_ms: u64,
    /// The value: a [`RetainedRecord`].
    pub value: Vec<u8>,
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// For `Get`: revision and value, if the key exists.
    Got(Option<(Revision, Vec<u8>)>),
    /// For `Put` and `PutFor`: the new revision.
    Put(Revision),
    /// For `Last`, `Next` and `LastRetained`: sequence and value, if there is one.
    Last(Option<(Sequence, Vec<u8>)>),
    /// For `Append` and `Retain`: the sequence in the stream.
    Appended(Sequence),
    /// For `End`: the sequence of the next group.
    End(Sequence),
    /// For `Read` and `Follow`.
    Groups {
        /// The first available sequence from the requested one on. Everything before it was removed.
        first: Sequence,
        /// The groups from there on, in order.
        groups: Vec<(Sequence, Vec<u8>)>,
    },
    /// For `Remove`: the key was removed.
    Removed,
    /// For `Scan`.
    Scanned {
        /// The records, in order.
        records: Vec<Scanned>,
        /// The last revision read. A deleted record has a revision without a record.
        through: Revision,
        /// Whether there were no more records.
        is_end: bool,
    },
    /// For `ScanGroups`.
    ScannedGroups {
        /// The records, in order.
        records: Vec<ScannedGroup>,
        /// The last revision read. A deleted record has a revision without a record.
        through: Revision,
        /// Whether there were no more records.
        is_end: bool,
    },
    /// For `Nodes`: their records, with revisions, in any order.
    Nodes(Vec<(Incarnation, Revision, Vec<u8>)>),
    /// For `ConfigHolds`: it does. Otherwise the answer is `Conflict`.
    Holds,
    /// For `Mirror`.
    Mirrored {
        /// The entries, in order.
        kept: Vec<RetainedEntry>,
        /// No more entries up to this sequence follow.
        through: Sequence,
        /// Whether there was nothing more at the time of the read. Only then is a copy equal to the stream at some time: before that, a
        /// topic may be missing because it has a later entry.
        is_end: bool,
    },
    /// For `EndOfRetained`: the sequence of the mark.
    EndOfRetained(Sequence),
    /// For all writes: the expectation was wrong, or the store was busy with another write of the same key or subject. This attempt has not
    /// written.
    Conflict,
    /// The outcome is unknown: the operation was done, will be done, or will never be done.
    Unknown,
}

/// An output of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// An operation for the store.
    Operation(OperationId, Operation),
    /// A message to another node, over the bus.
    Send(Incarnation, Vec<u8>),
    /// Subscribes to QoS 0 messages whose subjects match this pattern; the bus confirms with [`listening`](crate::Member::listening).
    AddInterest(String),
    /// Cancels the subscription to this pattern.
    RemoveInterest(String),
    /// Subscribes to answers to the probe with this number, on a subject of its own, after all patterns that the bus has confirmed. The
    /// subscription for an earlier probe is cancelled. Repeated whenever the probe is sent again.
    Probe(u64),
    /// An answer, on the subject of another node's probe.
    Echo {
        /// The node that has sent the probe.
        to: Incarnation,
        /// The number of the probe.
        number: u64,
        /// The message for [`receive_peer`](crate::Member::receive_peer) there.
        message: Vec<u8>,
    },
    /// A decision for the engine.
    Decision(Decision),
}

/// How a client's session starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Without state [MQTT-3.1.2-4].
    Clean,
    /// With the existing state [MQTT-3.1.2-5].
    Resume,
}

/// Why a client is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The session could not be claimed in time: 0x88, Server unavailable.
    Unavailable,
    /// The client has connected again meanwhile: 0x8E, Session taken over.
    TakenOver,
    /// Too many claims are in progress: 0x97, Quota exceeded.
    TooMany,
    /// The record is unreadable, or belongs to another client: 0x83, Implementation specific error.
    Unreadable,
    /// The node accepts no clients, and knows no other node that does: 0x88, Server unavailable.
    Closed,
}

/// The outcome of a proposal of a new configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalOutcome {
    /// It was accepted as the revision with this number.
    Accepted(u64),
    /// It was based on another revision than the current one, which has this number. It must be proposed again, based on that one.
    Outdated(u64),
    /// Several revisions were written since, the last with this number. It is unknown whether the proposal was one of them, so the proposer
    /// must check the current one.
    Overtaken(u64),
    /// It exceeds [`config_max_bytes`](crate::Settings::config_max_bytes).
    TooLarge,
    /// Another proposal of this node is in progress, or the current configuration is unreadable.
    Unavailable,
}

/// The outcome of a command to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerCommandOutcome {
    /// The node has accepted the command and executes it.
    Taken,
    /// No live node with that name is known.
    Unknown,
    /// Several live nodes have that name.
    Ambiguous,
    /// The node has not answered within [`command_timeout_ms`](crate::Settings::command_timeout_ms). It may have received the command.
    Silent,
    /// Too many commands are pending.
    TooMany,
}

/// A decision for the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The session belongs to this node: serve its client.
    Serve {
        /// The ticket of the request.
        ticket: u64,
        /// The client.
        client: ClientKey,
        /// The revision of the claim's record. Increases with each claim of the session, even after the session has ended and begun again.
        epoch: u64,
        /// Whether there was a session.
        is_present: bool,
        /// QoS 2 messages that were accepted and not released.
        taken: Vec<NonZeroU16>,
        /// The session state of the engine.
        state: Vec<u8>,
    },
    /// Reject the client that has requested with this ticket.
    Refuse {
        /// The ticket of the request.
        ticket: u64,
        /// The reason.
        why: Refusal,
    },
    /// The client has connected to another node: end its connection with 0x8E, and call [`left`](crate::Member::left).
    SessionTakenOver(ClientKey),
    /// The session belongs to another node: end the connection and discard the state.
    Lost(ClientKey),
    /// The message with this ticket is persisted: send PUBACK or PUBREC. In the order of the messages.
    Stored {
        /// The publisher.
        client: ClientKey,
        /// The ticket of the message.
        ticket: u64,
    },
    /// The Packet Identifier is free: send PUBCOMP.
    Completed {
        /// The client that has released it.
        client: ClientKey,
        /// The Packet Identifier.
        packet_id: NonZeroU16,
    },
    /// The state with this number, and all before, is persisted.
    Saved {
        /// The client.
        client: ClientKey,
        /// The number.
        number: u64,
    },
    /// Sent once, before any client is served and before any change of retained messages: where the node begins to follow the log, for each
    /// partition in order.
    Begin {
        /// The first position of each that will arrive.
        next: Box<[Place; PARTITIONS as usize]>,
    },
    /// The next part of the log, for all shards; each calls [`mark_received`](crate::Member::mark_received).
    Arrived(Arc<Span>),
    /// The answer to [`read`](crate::Member::read).
    Read {
        /// The shard that has requested.
        shard: usize,
        /// The number of the request.
        number: u64,
        /// The requested part of the log.
        span: Arc<Span>,
    },
    /// A session is a member of a group: send SUBACK.
    Joined {
        /// The client.
        client: ClientKey,
        /// The group.
        group: GroupKey,
    },
    /// A session cannot become a member of a group: reject the subscription.
    NotJoined {
        /// The client.
        client: ClientKey,
        /// The group.
        group: GroupKey,
        /// `TooMany` members, 0x97; or `Unreadable`, 0x83.
        why: Refusal,
    },
    /// This node delivers a partition of a group to its members.
    Lease {
        /// The group.
        group: GroupKey,
        /// The shared subscription, `$share/name/filter`.
        share: Arc<str>,
        /// The partition.
        partition: Partition,
        /// The next position to deliver.
        next: Place,
        /// Earlier messages that a member must still receive.
        open: Vec<Place>,
    },
    /// This node must no longer deliver a partition of a group; call [`returned`](crate::Member::returned).
    Recall {
        /// The group.
        group: GroupKey,
        /// The partition.
        partition: Partition,
    },
    /// The record of another node cannot be read by this broker, but by a newer one. This node does not remove it, and its sessions cannot
    /// be claimed here. Sent once for each.
    UnreadableNode {
        /// The node.
        node: Incarnation,
        /// The error.
        error: crate::record::RecordError,
    },
    /// A group of the log cannot be read by this broker, but by a newer one. Nothing more arrives of this partition.
    Unreadable {
        /// The partition.
        partition: Partition,
        /// The sequence of the group.
        sequence: Sequence,
        /// The error.
        error: crate::record::RecordError,
    },
    /// The message with this ticket is not in the log and never will be, because there was no quorum in time: send PUBACK or PUBREC with
    /// 0x83, Implementation specific error; disconnect a client of MQTT 3.1.1. In the order of the messages, like `Stored`.
    NotStored {
        /// The publisher.
        client: ClientKey,
        /// The ticket of the message.
        ticket: u64,
    },
    /// The outcome of a message of an operator.
    Published {
        /// The ticket of the message.
        ticket: u64,
        /// Whether it is persisted. If not, it is not in the log and never will be.
        is_stored: bool,
    },
    /// Retained messages have changed, in the order of the stream: apply this to the local store. At most [`RETAINED_BATCH_MAX`] changes,
    /// and, unless there is only one, at most [`RETAINED_BATCH_MAX_BYTES`].
    Retain(Vec<RetainedChange>),
    /// The local store has everything that was retained before [`sync_retained`](crate::Member::sync_retained) was called with this ticket.
    RetainedSync {
        /// The ticket of the request.
        ticket: u64,
    },
    /// All live nodes know the interest of this node as of the call of [`sync_interest`](crate::Member::sync_interest) with this ticket, or
    /// have not confirmed it in time.
    InterestSync {
        /// The ticket of the request.
        ticket: u64,
    },
    /// Redirect the client with this ticket: send CONNACK with 0x9C or 0x9D and a Server Reference.
    Redirect {
        /// The ticket of the request.
        ticket: u64,
        /// The other node.
        to: Elsewhere,
    },
    /// End the client's connection with 0x9C or 0x9D, and call [`left`](crate::Member::left). Just disconnect a client of MQTT 3.1.1.
    Migrate {
        /// The client.
        client: ClientKey,
        /// The other node, if it is known.
        to: Option<Elsewhere>,
    },
    /// An operator on another node has requested to drain this node, which has begun.
    DrainRequested {
        /// The other node.
        from: Incarnation,
        /// Whether clients must not return.
        is_for_good: bool,
        /// The operator.
        by: String,
    },
    /// The outcome of a command to another node.
    PeerCommandResult {
        /// The ticket of the request.
        ticket: u64,
        /// The outcome.
        outcome: PeerCommandOutcome,
    },
    /// The node is drained, and this incarnation has ended: the process may exit.
    Drained,
    /// A revision of the shared configuration. Apply it as a whole or not at all, and report the result with
    /// [`configured`](crate::Member::configured).
    Configure {
        /// The number of the revision.
        number: u64,
        /// Its content.
        parts: Vec<ConfigPart>,
    },
    /// A revision of the shared configuration has a newer version: the node accepts no clients.
    ConfigUnsupported,
    /// The outcome of a proposal.
    Proposed {
        /// The ticket of the proposal.
        ticket: u64,
        /// The outcome.
        outcome: ProposalOutcome,
    },
    /// The lease has expired. Read nothing from clients and send nothing to them until `Resumed` or `Fenced`.
    Suspended,
    /// The lease was renewed: resume.
    Resumed,
    /// This incarnation has ended. End all connections, and start a new incarnation.
    Fenced,
}

/// The most changes of retained messages in one decision, so that a shard is not busy with them for long.
pub const RETAINED_BATCH_MAX: usize = 64;
/// The most bytes of messages in one decision with several changes.
pub const RETAINED_BATCH_MAX_BYTES: usize = 64 * 1024;

/// A change of the retained message of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedChange {
    /// The new record.
    pub record: RetainedRecord,
    /// Its sequence in the stream, for the next [`Publish`](crate::Publish) to this topic.
    pub sequence: Sequence,
    /// When it expires: by the clock of this node in a [`Decision`], and by that of the shards when it is passed to them.
    pub expires_at_ms: Option<u64>,
}

/// Another node, for a client that must move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its Server Reference.
    pub reference: String,
    /// Whether the client must use it permanently: 0x9D, Server moved, instead of 0x9C, Use another server.
    pub is_for_good: bool,
}
