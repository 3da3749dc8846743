//! What a node asks of the store, and what it tells the engine.

use std::num::NonZeroU16;
use std::sync::Arc;

use crate::delivery::Span;
use crate::names::{ClientKey, GroupKey, Incarnation, Key, LogSubject, PARTITIONS, Partition};
use crate::record::Place;

/// Names an operation that is under way. Never given again by one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// The revision of a key. Later revisions are higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// The place of a group in the log of its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
}

/// What has become of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Of `Get`: revision and value, if there is one.
    Got(Option<(Revision, Vec<u8>)>),
    /// Of `Put`: it is written.
    Put(Revision),
    /// Of `Last`: where the last group stands, and the group, if there is one.
    Last(Option<(Sequence, Vec<u8>)>),
    /// Of `Append`: it is in the log.
    Appended(Sequence),
    /// Of `End`.
    End(Sequence),
    /// Of `Read` and `Follow`.
    Groups {
        /// Where the log goes on from the sequence that was asked for. What is before it, is gone.
        first: Sequence,
        /// What there is from there on, in order.
        groups: Vec<(Sequence, Vec<u8>)>,
    },
    /// Of `Put` and `Append`: what was expected does not hold, or the store was busy with another write of the same key or subject. It has
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
    Listen(String),
    /// They are not wanted any more by this pattern.
    Unlisten(String),
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
        /// Which time it is that somebody has claimed it.
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
    Surrender(ClientKey),
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
    /// Once, and before anybody is served: where the node begins to follow the log, for each partition in order.
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
    /// This node delivers a partition of a group to its members.
    Lease {
        /// Which group.
        group: GroupKey,
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
    /// A group of the log cannot be read by this broker; a newer one can. Nothing arrives of this partition any more.
    Unreadable {
        /// Of which partition.
        partition: Partition,
        /// Which group.
        sequence: Sequence,
        /// What is wrong with it.
        error: crate::record::RecordError,
    },
    /// The lease has run out. Nothing is read from clients and nothing sent to them until `Resumed` or `Fenced`.
    Suspended,
    /// The lease has been renewed: everything goes on.
    Resumed,
    /// This life of the node is over. All connections end, and the node begins another life.
    Fenced,
}
