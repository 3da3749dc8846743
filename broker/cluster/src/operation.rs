//! What a node asks of the store, and what it tells the engine.

use std::num::NonZeroU16;
use std::sync::Arc;

use crate::delivery::Span;
use crate::names::{ClientKey, GroupKey, Incarnation, Key, LogSubject, PARTITIONS, Partition};
use crate::peer_commands::PeerCommandOutcome;
use crate::record::{ConfigPart, Place, RetainedRecord};

/// Names an operation that is under way. Never given again by one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// The revision of a key. Later revisions are higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// The place of a group in the log of its partition, or of a message in another stream. They begin with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

/// Something for the store to do. Each is answered once; where no answer comes in time, by [`Answer::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Read a key from the leader, so that all that was confirmed before is seen.
    Get(Key),
    /// Write a key if it has this revision; without one, if it does not exist.
    Put {
        /// Which.
        key: Key,
        /// What it has to have.
        expected: Option<Revision>,
        /// What it gets.
        value: Vec<u8>,
    },
    /// Read the last group of a subject from the leader.
    Last(LogSubject),
    /// Append a group, if this is the last of the subject; without one, if the subject has none.
    Append {
        /// To which.
        subject: LogSubject,
        /// What has to be its last.
        expected: Option<Sequence>,
        /// What is appended.
        group: Vec<u8>,
    },
    /// Which sequence the next group of a partition is going to have, as the leader knows it.
    End(Partition),
    /// Read groups of a partition, in order.
    Read {
        /// Of which.
        partition: Partition,
        /// From where on.
        from: Sequence,
        /// No more once there are so many bytes, but one at least.
        max_bytes: usize,
    },
    /// The same; but where there is none, wait until there is one, or for some seconds.
    Follow {
        /// Of which.
        partition: Partition,
        /// From where on.
        from: Sequence,
        /// No more once there are so many bytes, but one at least.
        max_bytes: usize,
    },
    /// Write a key if it has this revision, as `Put` does. The store removes it after so long by its own clock, unless it is written again.
    PutFor {
        /// Which.
        key: Key,
        /// What it has to have.
        expected: Revision,
        /// What it gets.
        value: Vec<u8>,
        /// After how many seconds it goes.
        for_s: u32,
    },
    /// Remove a key if it has this revision.
    Remove {
        /// Which.
        key: Key,
        /// What it has to have.
        expected: Revision,
    },
    /// Read the records of sessions behind this revision, in the order of their revisions.
    Scan {
        /// Behind which.
        after: Revision,
        /// How many at most.
        max: usize,
    },
    /// Read the records of groups behind this revision, in the order of their revisions, from the leader.
    ScanGroups {
        /// Behind which.
        after: Revision,
        /// How many at most.
        max: usize,
    },
    /// Read the records of all nodes, from the leader.
    Nodes,
    /// Whether the shared configuration has this revision, or is not there: a write beside it says so, which a leader that has been replaced cannot do.
    ConfigHolds(Option<Revision>),
    /// Read the first group of a subject that has this sequence or a later one.
    Next {
        /// Of which.
        subject: LogSubject,
        /// From where on.
        from: Sequence,
    },
    /// Read what a topic retains, from the leader. The subject is relative: that of the topic.
    LastRetained(String),
    /// Write what a topic retains, if this is what it had before; without one, if it had nothing.
    Retain {
        /// The subject of the topic.
        subject: String,
        /// What has to be there.
        expected: Option<Sequence>,
        /// What it gets: a [`RetainedRecord`].
        value: Vec<u8>,
        /// After how many seconds the store may remove it; without, never.
        for_s: Option<u32>,
    },
    /// Read what the stream of retained messages has behind this sequence, in order. The answer may wait for a moment if there is nothing.
    Mirror {
        /// Behind which.
        after: Sequence,
        /// How many at most.
        max: usize,
    },
    /// Put a [mark](crate::record::RetainedRecord::mark) into the stream of retained messages, whatever was there, and say where it stands: all that
    /// was confirmed before is in front of it.
    EndOfRetained,
}

/// A session's record, as it lies in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scanned {
    /// Whose.
    pub client: ClientKey,
    /// Its revision.
    pub revision: Revision,
    /// How long ago it was written, by the store's clock, in milliseconds.
    pub age_ms: u64,
    /// What it says.
    pub value: Vec<u8>,
}

/// The record of a group of a shared subscription, as it lies in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedGroup {
    /// Which.
    pub group: GroupKey,
    /// Its revision.
    pub revision: Revision,
    /// How long ago it was written, by the store's clock, in milliseconds.
    pub age_ms: u64,
    /// What it says.
    pub value: Vec<u8>,
}

/// What a topic retains, as it lies in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedEntry {
    /// Where in the stream.
    pub sequence: Sequence,
    /// How long before this answer it was written, by the store's clock, in milliseconds.
    pub age_ms: u64,
    /// What it says: a [`RetainedRecord`].
    pub value: Vec<u8>,
}

/// What has become of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Of `Get`: revision and value, if there is one.
    Got(Option<(Revision, Vec<u8>)>),
    /// Of `Put` and `PutFor`: it is written.
    Put(Revision),
    /// Of `Last`, `Next` and `LastRetained`: where it stands, and what it is, if there is one.
    Last(Option<(Sequence, Vec<u8>)>),
    /// Of `Append` and `Retain`: it is in the stream.
    Appended(Sequence),
    /// Of `End`: the sequence that the next group gets.
    End(Sequence),
    /// Of `Read` and `Follow`.
    Groups {
        /// Where the log goes on from the sequence that was asked for. What is before it, is gone.
        first: Sequence,
        /// What there is from there on, in order.
        groups: Vec<(Sequence, Vec<u8>)>,
    },
    /// Of `Remove`: it is gone.
    Removed,
    /// Of `Scan`.
    Scanned {
        /// The records, in order.
        records: Vec<Scanned>,
        /// What was read ends here: what was removed has left a revision, and no record.
        through: Revision,
        /// Whether there were no more.
        is_end: bool,
    },
    /// Of `ScanGroups`.
    ScannedGroups {
        /// The records, in order.
        records: Vec<ScannedGroup>,
        /// What was read ends here: what was removed has left a revision, and no record.
        through: Revision,
        /// Whether there were no more.
        is_end: bool,
    },
    /// Of `Nodes`: their records, with revisions, in any order.
    Nodes(Vec<(Incarnation, Revision, Vec<u8>)>),
    /// Of `ConfigHolds`: it does. Otherwise that is a conflict.
    Holds,
    /// Of `Mirror`.
    Mirrored {
        /// What there is, in order.
        kept: Vec<RetainedEntry>,
        /// Nothing up to here is to come.
        through: Sequence,
        /// Whether there was nothing more when this was read. Only then is a copy what the stream was at some moment: on the way there, a topic
        /// may be missing because it has something else further on.
        is_end: bool,
    },
    /// Of `EndOfRetained`: where the mark stands.
    EndOfRetained(Sequence),
    /// Of all that write: what was expected does not hold, or the store was busy with another write of the same key or subject. It has
    /// not been done by this attempt.
    Conflict,
    /// It has been done, or it will be, or it never will.
    Unknown,
}

/// What a node gives out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// For the store.
    Operation(OperationId, Operation),
    /// For another node, by the bus.
    Send(Incarnation, Vec<u8>),
    /// Messages of QoS 0 are wanted whose subjects match this pattern; [`listening`](crate::Member::listening) says that the bus knows.
    AddInterest(String),
    /// They are not wanted any more by this pattern.
    RemoveInterest(String),
    /// Answers to the probe with this number are to be heard from now on, by a subject of their own that is listened to later than all patterns
    /// which the bus has confirmed. What was heard so for an earlier probe is not wanted any more. Said again for each probe that is sent again.
    Probe(u64),
    /// An answer, by the subject of another node's probe.
    Echo {
        /// Whose.
        to: Incarnation,
        /// Which.
        number: u64,
        /// For [`refusal_seen`](crate::Member::heard) there.
        message: Vec<u8>,
    },
    /// For the engine.
    Decision(Decision),
}

/// What a client's session begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Without state [MQTT-3.1.2-4].
    Clean,
    /// With the state that there is [MQTT-3.1.2-5].
    Resume,
}

/// Why a client is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The session could not be claimed in time: 0x88, Server unavailable.
    Unavailable,
    /// The client has come a second time meanwhile: 0x8E, Session taken over.
    TakenOver,
    /// Too many claims are under way: 0x97, Quota exceeded.
    TooMany,
    /// The record cannot be read, or is another client's: 0x83, Implementation specific error.
    Unreadable,
    /// The node takes no clients, and knows no other one that does: 0x88, Server unavailable.
    Closed,
}

/// What has become of a proposal of a new configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalOutcome {
    /// It is the revision with this number.
    Accepted(u64),
    /// It was made on another revision than the one that holds, which has this number: it is to be made again, on that one.
    Outdated(u64),
    /// Several revisions have come since, and the last has this number. Whether this was one of them is not known: whoever proposed it looks at
    /// what holds now.
    Overtaken(u64),
    /// It has more than [`config_max_bytes`](crate::Settings::config_max_bytes).
    TooLarge,
    /// Another proposal of this node is under way, or the configuration that holds cannot be read.
    Unavailable,
}

/// Something for the engine to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The session is this node's: its client is to be served.
    Serve {
        /// Who asked.
        ticket: u64,
        /// Whose session.
        client: ClientKey,
        /// Of the claim: the revision of its record. It grows with each claim of the session, also when the session has ended and begun again.
        epoch: u64,
        /// Whether there was a session.
        is_present: bool,
        /// QoS 2 messages that have been taken on and not released.
        taken: Vec<NonZeroU16>,
        /// What the engine kept of it.
        state: Vec<u8>,
    },
    /// The client who asked with this ticket is not served.
    Refuse {
        /// Who asked.
        ticket: u64,
        /// Why.
        why: Refusal,
    },
    /// The client has come to another node: its connection ends with 0x8E, and the engine says [`left`](crate::Member::left).
    SessionTakenOver(ClientKey),
    /// The session is somebody else's: the connection ends, and nothing is to be kept.
    Lost(ClientKey),
    /// The message with this ticket is safe: PUBACK or PUBREC may leave. They come in the order of the messages.
    Stored {
        /// Who published it.
        client: ClientKey,
        /// Which one.
        ticket: u64,
    },
    /// The Packet Identifier is free: PUBCOMP may leave.
    Completed {
        /// Who released it.
        client: ClientKey,
        /// Which one.
        packet_id: NonZeroU16,
    },
    /// The state with this number, and all before, is safe.
    Saved {
        /// Whose.
        client: ClientKey,
        /// Which.
        number: u64,
    },
    /// Once, before anybody is served, and before anything is told of what topics retain: where the node begins to follow the log, for
    /// each partition in order.
    Begin {
        /// The first place of each that is going to arrive.
        next: Box<[Place; PARTITIONS as usize]>,
    },
    /// What comes next in the log, for all shards; each says [`took`](crate::Member::took).
    Arrived(Arc<Span>),
    /// The answer to [`read`](crate::Member::read).
    Read {
        /// Which shard asked.
        shard: usize,
        /// The number of the question.
        number: u64,
        /// What is there.
        span: Arc<Span>,
    },
    /// A session is a member of a group: SUBACK may leave.
    Joined {
        /// Whose session.
        client: ClientKey,
        /// Which group.
        group: GroupKey,
    },
    /// A session cannot be a member of a group: the subscription is refused.
    NotJoined {
        /// Whose session.
        client: ClientKey,
        /// Which group.
        group: GroupKey,
        /// `TooMany` members, 0x97; or `Unreadable`, 0x83.
        why: Refusal,
    },
    /// This node delivers a partition of a group to its members.
    Lease {
        /// Which group.
        group: GroupKey,
        /// Its subscription, `$share/name/filter`.
        share: Arc<str>,
        /// Which partition.
        partition: Partition,
        /// From where on.
        next: Place,
        /// Messages before that which any member has still to get.
        open: Vec<Place>,
    },
    /// This node delivers a partition of a group no more; the engine says [`returned`](crate::Member::returned).
    Recall {
        /// Which group.
        group: GroupKey,
        /// Which partition.
        partition: Partition,
    },
    /// The record of another life of a node cannot be read by this broker; a newer one can. It is not buried by this node, and what it owns is
    /// nobody's here. Said once for each.
    UnreadableNode {
        /// Whose.
        node: Incarnation,
        /// What is wrong with it.
        error: crate::record::RecordError,
    },
    /// A group of the log cannot be read by this broker; a newer one can. Nothing arrives of this partition any more.
    Unreadable {
        /// Of which partition.
        partition: Partition,
        /// Which group.
        sequence: Sequence,
        /// What is wrong with it.
        error: crate::record::RecordError,
    },
    /// The message with this ticket is not in the log and never will be: there was no quorum for it in time. PUBACK or PUBREC with 0x83,
    /// Implementation specific error; a client of 3.1.1 is disconnected. Comes in the order of the messages, as `Stored` does.
    NotStored {
        /// Who published it.
        client: ClientKey,
        /// Which one.
        ticket: u64,
    },
    /// What has become of a message that no client has published, with this ticket.
    Published {
        /// Which one.
        ticket: u64,
        /// It is safe; or it is not in the log and never will be.
        is_stored: bool,
    },
    /// What topics retain has changed, in the order of the stream: this node's own store is to have it so. There are no more than
    /// [`RETAINED_BATCH_MAX`], and, of more than one, no more than [`RETAINED_BATCH_MAX_BYTES`].
    Retain(Vec<RetainedChange>),
    /// This node's store has all that was retained before [`look`](crate::Member::look) was called with this ticket.
    RetainedSync {
        /// Who asked.
        ticket: u64,
    },
    /// What this node listened to when [`interest_sync`](crate::Member::spread) was called with this ticket, all living nodes know, or have not said so in
    /// time.
    InterestSync {
        /// Who asked.
        ticket: u64,
    },
    /// The client who asked with this ticket is better served elsewhere: CONNACK with 0x9C or 0x9D and a Server Reference.
    Redirect {
        /// Who asked.
        ticket: u64,
        /// Where to.
        to: Elsewhere,
    },
    /// The client's connection ends with 0x9C or 0x9D, and the engine says [`left`](crate::Member::left). A client of 3.1.1 is just disconnected.
    Migrate {
        /// Whose.
        client: ClientKey,
        /// Where to, if it can be told.
        to: Option<Elsewhere>,
    },
    /// An operator has asked another node to have this one drained, which has begun.
    DrainRequested {
        /// By which node.
        from: Incarnation,
        /// Clients are not to come back.
        is_for_good: bool,
        /// Who the operator is there.
        by: String,
    },
    /// What has become of an order to another node.
    PeerCommandResult {
        /// Who asked.
        ticket: u64,
        /// What.
        outcome: PeerCommandOutcome,
    },
    /// The node has been drained, and this life is over: the process may end.
    Drained,
    /// A revision of the shared configuration. The engine takes it on as a whole or not at all, and says so with
    /// [`configured`](crate::Member::configured).
    Configure {
        /// Which.
        number: u64,
        /// What it says.
        parts: Vec<ConfigPart>,
    },
    /// There is a revision of the shared configuration that this version cannot read: the node takes no clients.
    ConfigUnsupported,
    /// What has become of a proposal.
    Proposed {
        /// Who proposed.
        ticket: u64,
        /// What.
        outcome: ProposalOutcome,
    },
    /// The lease has run out. Nothing is read from clients and nothing sent to them until `Resumed` or `Fenced`.
    Suspended,
    /// The lease has been renewed: everything goes on.
    Resumed,
    /// This life of the node is over. All connections end, and the node begins another life.
    Fenced,
}

/// Changes of what topics retain that the engine is told at once, so that a shard is not busy with them for long.
pub const RETAINED_BATCH_MAX: usize = 64;
/// The same in bytes of messages.
pub const RETAINED_BATCH_MAX_BYTES: usize = 64 * 1024;

/// What a topic retains from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedChange {
    /// What it is.
    pub record: RetainedRecord,
    /// Where it stands in the stream: what the next [`Publish`](crate::Publish) to this topic names.
    pub sequence: Sequence,
    /// When it expires: by the clock of this node in a [`Decision`], by that of the shards when they are told.
    pub expires_at_ms: Option<u64>,
}

/// Another node, for a client that cannot stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Where clients reach it: the Server Reference.
    pub reference: String,
    /// Whether the client is to go there from now on: 0x9D, Server moved, instead of 0x9C, Use another server.
    pub is_for_good: bool,
}
