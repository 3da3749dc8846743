//! Requests of a shard to the cluster thread, and its events. Both arrive in order.

use std::fmt;
use std::sync::Arc;

pub use tautwire_cluster::RetainedChange;
use tautwire_cluster::names::{ClientKey, GroupKey, PARTITIONS, Partition};
use tautwire_cluster::record::{Place, Retain};
use tautwire_cluster::{Decision, DisconnectSettings, Sequence, Start};
use tautwire_protocol::PacketId;

/// A request of a shard to the cluster thread.
#[derive(Clone, PartialEq, Eq)]
pub enum ClusterRequest {
    /// Claims the session of a client that has sent CONNECT. The answer is `Serve` or `Refuse` with this ticket, whose highest byte is the
    /// number of the shard.
    Claim {
        /// The number of the request.
        ticket: u64,
        /// The name of the session: see [`session_name`](tautwire_session::session_name).
        name: Box<str>,
        /// Whether the client starts clean or resumes.
        start: Start,
    },
    /// Abandons a claim whose client has disconnected.
    Abandon {
        /// The client.
        client: ClientKey,
        /// The ticket of the claim.
        ticket: u64,
    },
    /// Publishes a message of QoS 1 or 2, or with RETAIN, to the log. The answer is `Stored` or `NotStored`, also for QoS 0.
    Publish {
        /// The publisher.
        client: ClientKey,
        /// Returned with the answer; increases with each message of a session.
        ticket: u64,
        /// The ticket of the session's last `NotStored` that this shard has received; 0 if there was none. Messages sent before it was
        /// received are not stored either. For a message that was acknowledged already, its own ticket.
        refusal_seen: u64,
        /// The topic.
        topic: Box<str>,
        /// The packet identifier of a QoS 2 message.
        packet_id: Option<PacketId>,
        /// For a message with RETAIN: how it is retained.
        retain: Option<RetainInfo>,
        /// The stored form of the message.
        message: Vec<u8>,
    },
    /// Publishes a message of an operator to the log. The answer is `Published` with this ticket, whose highest byte is the number of the
    /// shard.
    PublishFromOperator {
        /// The number of the request.
        ticket: u64,
        /// The topic.
        topic: Box<str>,
        /// For a message with RETAIN: how it is retained.
        retain: Option<RetainInfo>,
        /// The stored form of the message.
        message: Vec<u8>,
    },
    /// Releases the packet identifier of a QoS 2 message after PUBREL. The answer is `Completed`.
    Release {
        /// The publisher.
        client: ClientKey,
        /// The packet identifier.
        packet_id: PacketId,
    },
    /// Saves the state of a session. The answer is `Saved`.
    Save {
        /// The client.
        client: ClientKey,
        /// Returned with the answer.
        number: u64,
        /// The complete state.
        state: Vec<u8>,
    },
    /// Changes the settings for the end of the client's connection. They are stored with the next `Save` or `Left`, which this precedes.
    SetDisconnectSettings {
        /// The client.
        client: ClientKey,
        /// The complete settings.
        settings: DisconnectSettings,
    },
    /// Releases a client that this shard no longer serves. An empty state means that the session has ended.
    Left {
        /// The client.
        client: ClientKey,
        /// The state of the session.
        state: Vec<u8>,
    },
    /// Confirms that arrived messages were routed, so there is room for more.
    Received {
        /// The partition.
        partition: Partition,
        /// The end of the routed part.
        until: Sequence,
    },
    /// Reads a part of the log for sessions of this shard. The answer is [`Decision::Read`].
    Read {
        /// Returned with the answer.
        number: u64,
        /// The partition.
        partition: Partition,
        /// The first group to read.
        from: Sequence,
    },
    /// Prepares a search for retained messages. The answer is `RetainedSync` with this ticket, whose highest byte is the number of the
    /// shard. By then, everything retained before this request has arrived as [`ClusterEvent::Retained`].
    RetainedSync {
        /// The number of the request.
        ticket: u64,
    },
    /// Joins a group: a session of this shard has subscribed to `$share/name/filter`, or was resumed with that subscription. The answer is
    /// `Joined` or `NotJoined`.
    Join {
        /// The client.
        client: ClientKey,
        /// The epoch of its claim.
        epoch: u64,
        /// The complete subscription.
        share: Box<str>,
    },
    /// Marks a member of a group as offline: this shard no longer serves its session. It stays a member.
    Leave {
        /// The client.
        client: ClientKey,
        /// The complete subscription.
        share: Box<str>,
    },
    /// Removes a member from a group, because it has unsubscribed or its session has ended.
    QuitGroup {
        /// The client.
        client: ClientKey,
        /// The epoch of its claim.
        epoch: u64,
        /// The complete subscription.
        share: Box<str>,
    },
    /// Reports the progress of a group whose home is this shard.
    Checkpoint {
        /// The group.
        group: GroupKey,
        /// By partition: the first place that was not offered, and the open messages before it.
        leases: Vec<(Partition, Place, Vec<Place>)>,
    },
    /// Returns a partition of a group that this shard no longer delivers, as `Recall` requested.
    Returned {
        /// The group.
        group: GroupKey,
        /// The partition.
        partition: Partition,
        /// The first place that was not offered.
        next: Place,
        /// The open messages before it.
        open: Vec<Place>,
    },
    /// Sends messages of QoS 0 to the subscribers of other nodes.
    Broadcast {
        /// The topic of the messages.
        topic: Box<str>,
        /// A batch, which [`messages_of`](crate::messages_of) reads.
        messages: Vec<u8>,
    },
    /// Announces the first subscriber of this shard to messages of QoS 0 that match this filter.
    AddInterest(Box<str>),
    /// Withdraws a filter that has no subscriber on this shard any more.
    RemoveInterest(Box<str>),
    /// Asks when the other nodes know all announced filters. The answer is `InterestSync` with this ticket, whose highest byte is the
    /// number of the shard.
    InterestSync {
        /// The number of the request.
        ticket: u64,
    },
}

/// An event of the cluster thread for a shard.
#[derive(Debug, Clone)]
pub enum ClusterEvent {
    /// An incarnation of the node begins. In each partition, messages arrive from these places on.
    Began {
        /// The places, by partition.
        next: [Place; PARTITIONS as usize],
        /// The maximum size of a session's state in the cluster.
        state_max_bytes: usize,
    },
    /// The state of a client's session is too large and was not saved. When the session leaves, the last saved state applies.
    TooLarge(ClientKey),
    /// The node's decision about a client of this shard or about itself, or a part of the log that arrived or was requested.
    Decided(Decision),
    /// Retained messages have changed, in the order of the stream: [`Decision::Retain`]. Every shard gets this.
    Retained(Arc<[RetainedChange]>),
    /// Messages of QoS 0 of one topic from another node: a batch, which [`messages_of`](crate::messages_of) reads.
    BusMessages(Arc<[u8]>),
}

/// How a message is retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainInfo {
    /// How long it is retained.
    pub retain: Retain,
    /// The position in the stream of the topic's current retained message, as far as this node knows.
    pub known: Option<Sequence>,
}

impl fmt::Debug for ClusterRequest {
    /// Omits payloads.
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
            ClusterRequest::SetDisconnectSettings { client, settings } => write!(f, "set {settings:?} of {client}"),
            ClusterRequest::Left { client, state } => write!(f, "left {client}, {} bytes", state.len()),
            ClusterRequest::Received { partition, until } => write!(f, "received {partition} until {}", until.0),
            ClusterRequest::Read { number, partition, from } => write!(f, "read {number}: {partition} from {}", from.0),
            ClusterRequest::RetainedSync { ticket } => write!(f, "retained sync {ticket:x}"),
            ClusterRequest::Join { client, epoch, share } => write!(f, "join {client} at {epoch} to {share}"),
            ClusterRequest::Leave { client, share } => write!(f, "leave {client} of {share}"),
            ClusterRequest::QuitGroup { client, epoch, share } => write!(f, "quit {client} at {epoch} from {share}"),
            ClusterRequest::Checkpoint { group, leases } => write!(f, "checkpoint {group:?}, {leases:?}"),
            ClusterRequest::Returned { group, partition, next, open } => {
                write!(f, "returned {partition} of {group:?} at {next:?}, {} open", open.len())
            }
            ClusterRequest::Broadcast { messages, .. } => write!(f, "broadcast {} bytes", messages.len()),
            ClusterRequest::AddInterest(filter) => write!(f, "add interest {filter}"),
            ClusterRequest::RemoveInterest(filter) => write!(f, "unlisten to {filter}"),
            ClusterRequest::InterestSync { ticket } => write!(f, "interest sync {ticket:x}"),
        }
    }
}
