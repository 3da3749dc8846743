//! What goes between a shard and the thread of the cluster. The order of both ways is kept.

use std::fmt;
use std::sync::Arc;

pub use tautwire_cluster::RetainedChange;
use tautwire_cluster::names::{ClientKey, GroupKey, PARTITIONS, Partition};
use tautwire_cluster::record::{Place, Retain};
use tautwire_cluster::{Decision, DisconnectSettings, Sequence, Start};
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
        /// Comes back with the answer, and is a higher one for each message of a session.
        ticket: u64,
        /// The ticket of the session's last `NotStored` that this shard has heard; 0 where there was none. What comes before it is heard is not
        /// stored either. Of a message that was acknowledged already, its own ticket.
        refusal_seen: u64,
        /// Its topic.
        topic: Box<str>,
        /// Of a QoS 2 message.
        packet_id: Option<PacketId>,
        /// With RETAIN.
        retain: Option<RetainInfo>,
        /// The stored form of the message.
        message: Vec<u8>,
    },
    /// A message of an operator for the log. The answer is `Published` with this ticket, whose highest byte is the number of the shard.
    PublishFromOperator {
        /// Which request this is.
        ticket: u64,
        /// Its topic.
        topic: Box<str>,
        /// With RETAIN.
        retain: Option<RetainInfo>,
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
    SetDisconnectSettings {
        /// Of whom.
        client: ClientKey,
        /// All of it.
        terms: DisconnectSettings,
    },
    /// This shard does not serve the client any more. With an empty state, the session has ended.
    Left {
        /// Which client.
        client: ClientKey,
        /// What the session has.
        state: Vec<u8>,
    },
    /// What has arrived has been routed, so there is room for more.
    Received {
        /// Of which partition.
        partition: Partition,
        /// Where it ended.
        until: Sequence,
    },
    /// Read a part of the log for sessions of this shard. The answer is [`Decision::Read`].
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
    RetainedSync {
        /// Which request this is.
        ticket: u64,
    },
    /// A session of this shard has subscribed to `$share/name/filter`, or comes with that subscription. The answer is `Joined` or `NotJoined`.
    Join {
        /// Whose.
        client: ClientKey,
        /// Of its claim.
        epoch: u64,
        /// The subscription, whole.
        share: Box<str>,
    },
    /// A session with a shared subscription is not served by this shard any more. It stays a member.
    Leave {
        /// Whose.
        client: ClientKey,
        /// The subscription, whole.
        share: Box<str>,
    },
    /// A session has given up a shared subscription, or has ended.
    QuitGroup {
        /// Whose.
        client: ClientKey,
        /// Of its claim.
        epoch: u64,
        /// The subscription, whole.
        share: Box<str>,
    },
    /// How far a group has come that is at home on this shard.
    Checkpoint {
        /// Which.
        group: GroupKey,
        /// By partition: the first place that has not been looked at, and what is open before it.
        leases: Vec<(Partition, Place, Vec<Place>)>,
    },
    /// This shard has ceased to deliver a partition of a group, as `Recall` has asked.
    Returned {
        /// Which group.
        group: GroupKey,
        /// Which partition.
        partition: Partition,
        /// The first place that has not been looked at.
        next: Place,
        /// What is open before it.
        open: Vec<Place>,
    },
    /// Messages of QoS 0 for the subscribers of other nodes.
    Broadcast {
        /// Their topic.
        topic: Box<str>,
        /// What [`messages_of`](crate::messages_of) reads.
        messages: Vec<u8>,
    },
    /// A client of this shard wants messages of QoS 0 that match this filter, and none did.
    AddInterest(Box<str>),
    /// None does any more.
    RemoveInterest(Box<str>),
    /// A client waits until other nodes know what is listened to by now. The answer is `InterestSync` with this ticket, whose highest byte is the number of
    /// the shard.
    InterestSync {
        /// Which request this is.
        ticket: u64,
    },
}

/// Something that a shard is told by the cluster.
#[derive(Debug, Clone)]
pub enum ClusterEvent {
    /// A life of the node begins. In each partition the shard is told of messages from here on.
    Began {
        /// By partition.
        next: [Place; PARTITIONS as usize],
        /// The largest state of a session that the cluster takes.
        state_max_bytes: usize,
    },
    /// The state of a client's session is more than the cluster takes, and was not saved. What was saved before holds when the session leaves.
    TooLarge(ClientKey),
    /// The node has decided something about a client of this shard, or about itself; or it hands on a part of the log, which has arrived or
    /// was asked for.
    Decided(Decision),
    /// What topics retain has changed, in the order of the stream: [`Decision::Retain`]. Each shard is told.
    Retained(Arc<[RetainedChange]>),
    /// Messages of QoS 0 from another node, of one topic: what [`messages_of`](crate::messages_of) reads.
    BusMessages(Arc<[u8]>),
}

/// How a message is retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainInfo {
    /// For how long.
    pub retain: Retain,
    /// Where their stream has what the topic retains so far, as far as this node knows.
    pub known: Option<Sequence>,
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
            ClusterRequest::PublishFromOperator { ticket, message, .. } => {
                write!(f, "publish {ticket:x} of an operator, {} bytes", message.len())
            }
            ClusterRequest::Release { client, packet_id } => write!(f, "release {} of {client}", packet_id.get()),
            ClusterRequest::Save { client, number, state } => {
                write!(f, "save {number} of {client}, {} bytes", state.len())
            }
            ClusterRequest::SetDisconnectSettings { client, terms } => write!(f, "keep {terms:?} of {client}"),
            ClusterRequest::Left { client, state } => write!(f, "left {client}, {} bytes", state.len()),
            ClusterRequest::Received { partition, until } => write!(f, "took {partition} until {}", until.0),
            ClusterRequest::Read { number, partition, from } => write!(f, "read {number}: {partition} from {}", from.0),
            ClusterRequest::RetainedSync { ticket } => write!(f, "look {ticket:x}"),
            ClusterRequest::Join { client, epoch, share } => write!(f, "join {client} at {epoch} to {share}"),
            ClusterRequest::Leave { client, share } => write!(f, "leave {client} of {share}"),
            ClusterRequest::QuitGroup { client, epoch, share } => write!(f, "part {client} at {epoch} from {share}"),
            ClusterRequest::Checkpoint { group, leases } => write!(f, "checkpoint {group:?}, {leases:?}"),
            ClusterRequest::Returned { group, partition, next, open } => {
                write!(f, "returned {partition} of {group:?} at {next:?}, {} open", open.len())
            }
            ClusterRequest::Broadcast { messages, .. } => write!(f, "broadcast {} bytes", messages.len()),
            ClusterRequest::AddInterest(filter) => write!(f, "listen to {filter}"),
            ClusterRequest::RemoveInterest(filter) => write!(f, "unlisten to {filter}"),
            ClusterRequest::InterestSync { ticket } => write!(f, "spread {ticket:x}"),
        }
    }
}
