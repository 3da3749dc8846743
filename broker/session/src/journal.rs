//! The seam for durability.

use tautwire_message::{Message, MessageId};
use tautwire_protocol::PacketId;

use crate::change::Change;

/// A place in the log: the number of a frame. An acknowledgement may leave once the frames that it speaks of are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LogPosition(pub u64);

/// Names a session in the log. The number is never given to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionNumber(pub u64);

impl SessionNumber {
    /// No session has this number: a message that is handed over for it is for the group of the shared subscription.
    pub const OF_NONE: SessionNumber = SessionNumber(u64::MAX);
}

/// A shard, as the log calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ShardNumber(pub u16);

/// How clients are placed on the shards of one run of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardPlacement {
    /// How many shards there are, from 1.
    pub shards: u16,
    /// By which identifiers of clients are hashed.
    pub seed: u64,
}

/// What an acknowledgement waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AckLevel {
    /// Nothing.
    Memory,
    /// That the system has what was written down: it survives the end of the process.
    Os,
    /// That the disk has it: it survives a power cut.
    #[default]
    Disk,
    /// That most servers of the cluster that hold it have it: it survives the loss of a machine. Without a cluster, as `Disk`.
    Quorum,
}

/// Whether a log takes more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogState {
    /// It does.
    Open,
    /// It has as much as it may, or the disk is full. What can be refused is to be refused.
    Full,
    /// The disk has failed. Nothing more will ever be safe.
    Failed,
}

/// For whom a message goes to another shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receivers<'a> {
    /// Whoever has subscribed there.
    Subscribers,
    /// The session that was chosen for a shared subscription, which is given whole: `$share/group/filter`.
    Member(SessionNumber, &'a str),
}

/// A change of the retained messages.
#[derive(Debug, Clone, PartialEq)]
pub enum RetainedChange {
    /// The message replaces what its topic held.
    Set(Message),
    /// The topic holds nothing any more.
    Cleared(Box<str>),
}

/// One thing to write down.
#[derive(Debug)]
pub enum Record<'a> {
    /// A session begins without state.
    Opened {
        /// What the session is called from now on.
        session: SessionNumber,
        /// Whose it is.
        client_id: &'a str,
        /// When, in milliseconds of Unix time.
        at_ms: u64,
    },
    /// A session changes.
    Changed {
        /// The session.
        session: SessionNumber,
        /// What changes.
        change: &'a Change,
        /// The identifier that the change gives to a message.
        packet_id: Option<PacketId>,
    },
    /// The session's client is connected: what runs while it is away stands still.
    Returned {
        /// Whose client it is.
        session: SessionNumber,
        /// Since when, in milliseconds of Unix time.
        at_ms: u64,
    },
    /// The session's client is away.
    Left {
        /// Whose client it is.
        session: SessionNumber,
        /// Since when, in milliseconds of Unix time.
        at_ms: u64,
    },
    /// A session ends and its state goes with it.
    Ended(SessionNumber),
    /// Numbers up to these have been given. Said where state is written down as a whole.
    Counted {
        /// To sessions.
        last_session: SessionNumber,
        /// To changes of the retained messages.
        last_sequence: u64,
    },
    /// A run of the broker begins. All that was handed over before has been taken, by the records of the same frame.
    RunStarted(ShardPlacement),
    /// A message goes to another shard, for sessions there that are written down.
    Forwarded {
        /// The shard that writes this.
        from: ShardNumber,
        /// The other one.
        to: ShardNumber,
        /// Counts the messages from this shard to that one, from 1 in each run of the broker.
        sequence: u64,
        /// The message.
        message: &'a Message,
        /// Who is to get it.
        receivers: Receivers<'a>,
    },
    /// All that another shard has handed to this one has been taken, up to a number: by the records of the same frame.
    ForwardAccepted {
        /// The other shard.
        from: ShardNumber,
        /// The shard that writes this.
        to: ShardNumber,
        /// The number.
        sequence: u64,
    },
    /// The retained messages change. They are common to all shards: of two changes of one topic, the one with the higher
    /// number took effect later, whichever was written down first.
    Retained {
        /// Counts the changes of all retained messages.
        sequence: u64,
        /// What changes.
        change: &'a RetainedChange,
    },
}

/// Where a shard writes down its changes before they take effect, in frames of which a crash leaves all or nothing.
pub trait Journal {
    /// Whether anything is kept at all. Where it is not, nothing else here is called.
    const PERSISTENT: bool;

    /// A number for a session that has none.
    fn next_session(&mut self) -> SessionNumber;

    /// Adds a record to the frame that has been begun, and gives that frame's position.
    fn record(&mut self, record: Record<'_>) -> LogPosition;

    /// The message is being taken from another shard, whose frame has it: it need not be written again before the record that says it
    /// has been taken.
    fn mark_forwarded(&mut self, message: MessageId);

    /// The frame is complete; the next record begins another one. Does nothing where no record has been added.
    fn end_frame(&mut self);

    /// About how large the frame that has been begun is.
    fn frame_bytes(&self) -> usize {
        0
    }

    /// Whether all frames that are complete have their place in the log, before all that any shard completes from now on.
    fn has_submitted_all(&self) -> bool;

    /// How far the log is safe.
    fn durable(&self) -> LogPosition;

    /// How far the system has the log: what survives the end of the process, and perhaps not that of the system.
    fn written(&self) -> LogPosition {
        self.durable()
    }

    /// How far the log is safe enough.
    fn reached(&self, level: AckLevel) -> LogPosition {
        match level {
            AckLevel::Memory => LogPosition(u64::MAX),
            AckLevel::Os => self.written(),
            AckLevel::Disk | AckLevel::Quorum => self.durable(),
        }
    }

    /// Whether the log is too far behind to take much more.
    fn is_lagging(&self) -> bool;

    /// Whether it takes more at all.
    fn state(&self) -> LogState {
        LogState::Open
    }
}

/// No log: nothing is written down, and everything is as durable as it will ever be, at once.
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
