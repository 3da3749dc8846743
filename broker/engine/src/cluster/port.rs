//! What goes between a shard and the thread of the cluster. The order of both ways is kept.

use std::fmt;
use std::sync::Arc;

use tautwire_cluster::names::{ClientKey, PARTITIONS, Partition};
use tautwire_cluster::record::{Place, Retain, RetainedRecord};
use tautwire_cluster::{Decision, Sequence, Start, Terms};
use tautwire_protocol::PacketId;

/// Something that a shard asks of the cluster.
#[derive(Clone, PartialEq, Eq)]
pub enum ClusterRequest {
    /// A client has sent CONNECT. The answer is `Serve` or `Refuse` with this ticket, whose highest byte is the number of the shard.
    Claim {
        /// Which request this is.
        ticket: u64,
        /// What the session is called: see [`session_name`](tautwire_session::session_name).
        name: Box<str>,
        /// What it begins with.
        start: Start,
    },
    /// The client that has asked with this ticket is gone.
    Abandon {
        /// Whose request it was.
        client: ClientKey,
        /// Which one.
        ticket: u64,
    },
    /// A message of QoS 1 or 2, or with RETAIN, for the log. The answer is `Stored` or `NotStored`, for one of QoS 0 as well.
    Publish {
        /// Who publishes it.
        client: ClientKey,
        /// Comes back with the answer.
        ticket: u64,
        /// Its topic.
        topic: Box<str>,
        /// Of a QoS 2 message.
        packet_id: Option<PacketId>,
        /// With RETAIN.
        retain: Option<Retaining>,
        /// The stored form of the message.
        message: Vec<u8>,
    },
    /// PUBREL has come. The answer is `Completed`.
    Release {
        /// From whom.
        client: ClientKey,
        /// For which message.
        packet_id: PacketId,
    },
    /// The state of a session has changed. The answer is `Saved`.
    Save {
        /// Whose it is.
        client: ClientKey,
        /// Comes back with the answer.
        number: u64,
        /// All of it.
        state: Vec<u8>,
    },
    /// What holds when the client's connection ends has changed. It is safe with the next `Save` or `Left`, before which this comes.
    Keep {
        /// Of whom.
        client: ClientKey,
        /// All of it.
        terms: Terms,
    },
    /// This shard does not serve the client any more. With an empty state, the session has ended.
    Left {
        /// Which client.
        client: ClientKey,
        /// What the session has.
        state: Vec<u8>,
    },
    /// A [`Span`] that has arrived has been routed, so there is room for another one.
    Took {
        /// Of which partition.
        partition: Partition,
        /// Where it ended.
        until: Sequence,
    },
    /// Read a part of the log for a session of this shard. The answer is [`ClusterEvent::Read`].
    Read {
        /// Comes back with the answer.
        number: u64,
        /// Which partition.
        partition: Partition,
        /// From which group on.
        from: Sequence,
    },
    /// A search for retained messages is to begin. The answer is `Look` with this ticket, whose highest byte is the number of the shard. All
    /// that was retained before this has been told as [`ClusterEvent::Retained`] by then.
    Look {
        /// Which request this is.
        ticket: u64,
    },
    /// A message of QoS 0 for the subscribers of other nodes.
    Broadcast {
        /// Its topic.
        topic: Box<str>,
        /// The stored form of the message.
        message: Vec<u8>,
    },
    /// A client of this shard wants messages of QoS 0 that match this filter, and none did.
    Listen(Box<str>),
    /// None does any more.
    Unlisten(Box<str>),
}

/// Something that a shard is told by the cluster.
#[derive(Debug, Clone)]
pub enum ClusterEvent {
    /// A life of the node begins. In each partition the shard is told of messages from here on.
    Began {
        /// By partition.
        next: [Place; PARTITIONS as usize],
    },
    /// The node has decided something about a client of this shard, or about itself.
    Decided(Decision),
    /// What topics retain has changed, in the order of the stream. Each shard is told.
    Retained(Arc<[RetainedChange]>),
    /// The log has grown. Spans of one partition come in order, and without gaps.
    Arrived(Arc<Span>),
    /// The answer to [`ClusterRequest::Read`].
    Read {
        /// Of the request.
        number: u64,
        /// What there is from where it was asked for. It may reach beyond what has arrived, and it may be empty.
        span: Arc<Span>,
    },
    /// A message of QoS 0 from another node, in the stored form.
    Heard(Arc<[u8]>),
}

/// How a message is retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retaining {
    /// For how long.
    pub retain: Retain,
    /// Where their stream has what the topic retains so far, as far as this node knows.
    pub known: Option<Sequence>,
}

/// What a topic retains from now on: [`Decision::Retain`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedChange {
    /// What it is.
    pub record: RetainedRecord,
    /// Where it stands in the stream.
    pub sequence: Sequence,
    /// When it expires, by the clock that shards are told the time by.
    pub expires_at_ms: Option<u64>,
}

/// A part of one partition of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Of which partition.
    pub partition: Partition,
    /// The sequence at which the next one begins.
    pub until: Sequence,
    /// What is there, in order.
    pub messages: Vec<LogMessage>,
    /// Groups that were there and are gone, by age or by damage.
    pub lost: u64,
}

/// A message in the log.
#[derive(Clone, PartialEq, Eq)]
pub struct LogMessage {
    /// Where.
    pub place: Place,
    /// Who published it.
    pub publisher: ClientKey,
    /// The stored form of the message.
    pub stored: Box<[u8]>,
}

impl fmt::Debug for ClusterRequest {
    /// Without payloads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterRequest::Claim { ticket, start, .. } => write!(f, "claim {ticket:x}, {start:?}"),
            ClusterRequest::Abandon { client, ticket } => write!(f, "abandon {ticket:x} of {client}"),
            ClusterRequest::Publish { client, ticket, packet_id, message, .. } => {
                write!(f, "publish {ticket} of {client}, {packet_id:?}, {} bytes", message.len())
            }
            ClusterRequest::Release { client, packet_id } => write!(f, "release {} of {client}", packet_id.get()),
            ClusterRequest::Save { client, number, state } => {
                write!(f, "save {number} of {client}, {} bytes", state.len())
            }
            ClusterRequest::Keep { client, terms } => write!(f, "keep {terms:?} of {client}"),
            ClusterRequest::Left { client, state } => write!(f, "left {client}, {} bytes", state.len()),
            ClusterRequest::Took { partition, until } => write!(f, "took {partition} until {}", until.0),
            ClusterRequest::Read { number, partition, from } => write!(f, "read {number}: {partition} from {}", from.0),
            ClusterRequest::Look { ticket } => write!(f, "look {ticket:x}"),
            ClusterRequest::Broadcast { message, .. } => write!(f, "broadcast {} bytes", message.len()),
            ClusterRequest::Listen(filter) => write!(f, "listen to {filter}"),
            ClusterRequest::Unlisten(filter) => write!(f, "unlisten to {filter}"),
        }
    }
}

impl fmt::Debug for LogMessage {
    /// Without the payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message at {:?} of {}, {} bytes", self.place, self.publisher, self.stored.len())
    }
}
