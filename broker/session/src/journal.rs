//! The persistence interface of a shard.

use tautwire_message::{Message, MessageId};
use tautwire_protocol::PacketId;

use crate::change::Change;

/// A position in the log: the number of a frame. An acknowledgement may be sent once the frames it depends on are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LogPosition(pub u64);

/// Identifies a session in the log. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionNumber(pub u64);

impl SessionNumber {
    /// Stands for no session: a message forwarded to it is for the group of the shared subscription.
    pub const OF_NONE: SessionNumber = SessionNumber(u64::MAX);
}

/// The number of a shard in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ShardNumber(pub u16);

/// How clients are placed on the shards of one run of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardPlacement {
    /// The number of shards, at least 1.
    pub shards: u16,
    /// The seed of the hash of Client Identifiers.
    pub seed: u64,
}

/// What must have happened before an acknowledgement is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AckLevel {
    /// Nothing.
    Memory,
    /// The operating system has the data: it survives the end of the process.
    Os,
    /// The disk has the data: it survives a power failure.
    #[default]
    Disk,
    /// A majority of the cluster servers that hold the data have it: it survives the loss of a machine. Without a cluster, as `Disk`.
    Quorum,
}

/// Whether a log accepts more records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogState {
    /// It does.
    Open,
    /// It has reached its size limit, or the disk is full. Whatever can be rejected must be rejected.
    Full,
    /// The disk has failed. Nothing becomes durable any more.
    Failed,
}

/// The receivers of a message on another shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receivers<'a> {
    /// All subscribers there.
    Subscribers,
    /// The session chosen for a shared subscription, with its whole filter: `$share/group/filter`.
    Member(SessionNumber, &'a str),
}

/// A change of the retained messages.
#[derive(Debug, Clone, PartialEq)]
pub enum RetainedChange {
    /// The message replaces the retained message of its topic.
    Set(Message),
    /// The retained message of the topic is removed.
    Cleared(Box<str>),
}

/// One state change to be recorded.
#[derive(Debug)]
pub enum Record<'a> {
    /// A session begins without state.
    Opened {
        /// The number of the session.
        session: SessionNumber,
        /// Its Client Identifier.
        client_id: &'a str,
        /// The time, in milliseconds of Unix time.
        at_ms: u64,
    },
    /// A session changes.
    Changed {
        /// The session.
        session: SessionNumber,
        /// The change.
        change: &'a Change,
        /// The identifier that the change assigns to a message.
        packet_id: Option<PacketId>,
    },
    /// The session's client has connected, which stops its timers.
    Returned {
        /// The session of the client.
        session: SessionNumber,
        /// The time, in milliseconds of Unix time.
        at_ms: u64,
    },
    /// The session's client has disconnected.
    Left {
        /// The session of the client.
        session: SessionNumber,
        /// The time, in milliseconds of Unix time.
        at_ms: u64,
    },
    /// A session ends, with its state.
    Ended(SessionNumber),
    /// The highest numbers assigned so far. Used where a whole state is recorded.
    Counted {
        /// The last session number.
        last_session: SessionNumber,
        /// The last sequence number of changes of the retained messages.
        last_sequence: u64,
    },
    /// A run of the broker begins. Everything forwarded before was accepted, by the records of the same frame.
    RunStarted(ShardPlacement),
    /// A message is forwarded to another shard, for persistent sessions there.
    Forwarded {
        /// The shard that writes this record.
        from: ShardNumber,
        /// The receiving shard.
        to: ShardNumber,
        /// The number of the message among those from this shard to that one, from 1 in each run of the broker.
        sequence: u64,
        /// The message.
        message: &'a Message,
        /// The receivers of the message.
        receivers: Receivers<'a>,
    },
    /// Everything that another shard has forwarded to this one up to a number was accepted, by the records of the same frame.
    ForwardAccepted {
        /// The sending shard.
        from: ShardNumber,
        /// The shard that writes this record.
        to: ShardNumber,
        /// The number.
        sequence: u64,
    },
    /// The retained messages change. They are common to all shards: of two changes of one topic, the one with the higher sequence number
    /// took effect later, whichever was recorded first.
    Retained {
        /// The number of the change among all changes of retained messages.
        sequence: u64,
        /// The change.
        change: &'a RetainedChange,
    },
}

/// Records the changes of a shard before they take effect, in frames that are atomic in a crash.
pub trait Journal {
    /// Whether anything is persisted. If false, the other methods do nothing, and nothing waits for them.
    const PERSISTENT: bool;

    /// Returns a number for a new session.
    fn next_session(&mut self) -> SessionNumber;

    /// Adds a record to the current frame, and returns that frame's position.
    fn record(&mut self, record: Record<'_>) -> LogPosition;

    /// Marks a message that is being accepted from another shard, whose frame has it: it is not written again until its acceptance is
    /// recorded.
    fn mark_forwarded(&mut self, message: MessageId);

    /// Completes the frame; the next record begins another one. Does nothing if the frame is empty.
    fn end_frame(&mut self);

    /// Returns the approximate size of the current frame.
    fn frame_bytes(&self) -> usize {
        0
    }

    /// Whether all complete frames have their place in the log, before everything that any shard completes from now on.
    fn has_submitted_all(&self) -> bool;

    /// Returns the last durable position.
    fn durable(&self) -> LogPosition;

    /// Returns the last position written to the operating system, which survives the end of the process but perhaps not a system crash.
    fn written(&self) -> LogPosition {
        self.durable()
    }

    /// Returns the last position that has reached `level`.
    fn reached(&self, level: AckLevel) -> LogPosition {
        match level {
            AckLevel::Memory => LogPosition(u64::MAX),
            AckLevel::Os => self.written(),
            AckLevel::Disk | AckLevel::Quorum => self.durable(),
        }
    }

    /// Whether the log is too far behind to accept much more.
    fn is_lagging(&self) -> bool;

    /// Returns whether the log accepts more records.
    fn state(&self) -> LogState {
        LogState::Open
    }
}

/// No log: nothing is recorded, and everything counts as durable at once.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoJournal;

impl Journal for NoJournal {
    const PERSISTENT: bool = false;

    fn next_session(&mut self) -> SessionNumber {
        SessionNumber(0)
    }

    #[inline]
    fn record(&mut self, _record: Record<'_>) -> LogPosition {
        LogPosition(0)
    }

    #[inline]
    fn mark_forwarded(&mut self, _message: MessageId) {}

    #[inline]
    fn end_frame(&mut self) {}

    #[inline]
    fn has_submitted_all(&self) -> bool {
        true
    }

    #[inline]
    fn durable(&self) -> LogPosition {
        LogPosition(0)
    }

    #[inline]
    fn is_lagging(&self) -> bool {
        false
    }
}
