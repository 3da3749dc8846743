//! The commands of shards to their node.

use std::num::NonZeroU16;
use std::sync::mpsc::SyncSender;

use tautwire_cluster::delivery::ReadRequest;
use tautwire_cluster::names::{ClientKey, GroupKey, Partition};
use tautwire_cluster::record::{ConfigPart, Place, Retain};
use tautwire_cluster::{DisconnectSettings, PeerCommandOutcome, Sequence, Start, Status};

use crate::settings::Access;

/// A command to the node, as [`Member`](tautwire_cluster::Member) executes it. Commands of one shard are executed in order.
#[derive(Debug, Clone)]
pub enum Command {
    /// A client has sent CONNECT.
    Claim {
        /// Returned with the answer.
        ticket: u64,
        /// The Client Identifier.
        client_id: String,
        /// Whether to resume the existing state.
        start: Start,
    },
    /// A client has disconnected before its claim was answered.
    Abandon {
        /// The client.
        client: ClientKey,
        /// The ticket of the claim.
        ticket: u64,
    },
    /// A client of this node has published at QoS 1 or 2.
    Publish {
        /// The client.
        client: ClientKey,
        /// Returned when the message is persisted.
        ticket: u64,
        /// The last ticket of this client that its shard knows to be refused.
        refusal_seen: u64,
        /// The topic.
        topic: String,
        /// The Packet Identifier, for QoS 2.
        packet_id: Option<NonZeroU16>,
        /// For a retained message: how to retain it, and the sequence of the topic's retained message in this node's mirror.
        retain: Option<(Retain, Option<Sequence>)>,
        /// The message in its stored form.
        message: Vec<u8>,
    },
    /// An operator has published a message.
    PublishFromOperator {
        /// Returned with the answer.
        ticket: u64,
        /// The topic.
        topic: String,
        /// For a retained message, as in `Publish`.
        retain: Option<(Retain, Option<Sequence>)>,
        /// The message in its stored form.
        message: Vec<u8>,
    },
    /// PUBREL was received.
    Release {
        /// The client.
        client: ClientKey,
        /// The Packet Identifier.
        packet_id: NonZeroU16,
    },
    /// The state of a session has changed.
    Save {
        /// The client.
        client: ClientKey,
        /// Returned when the state is persisted.
        number: u64,
        /// The complete state.
        state: Vec<u8>,
    },
    /// A client of this node has disconnected.
    Left {
        /// The client.
        client: ClientKey,
        /// The state to persist; empty if the session has ended too.
        state: Vec<u8>,
    },
    /// A client of this node has disconnected, and its state exceeds the message size limit of the servers.
    DisconnectedAsSaved {
        /// The client.
        client: ClientKey,
    },
    /// The settings that apply when a client disconnects have changed.
    SetDisconnectSettings {
        /// The client.
        client: ClientKey,
        /// The new settings.
        settings: DisconnectSettings,
    },
    /// A shard has processed received groups.
    Received {
        /// The shard.
        shard: usize,
        /// The partition.
        partition: Partition,
        /// The last processed sequence.
        until: Sequence,
    },
    /// A shard reads the log for sessions that lag behind.
    Read {
        /// The shard.
        shard: usize,
        /// The request.
        request: ReadRequest,
    },
    /// A session of this node has joined a shared subscription.
    Join {
        /// The client.
        client: ClientKey,
        /// The epoch of its claim.
        epoch: u64,
        /// `$share/name/filter`.
        share: String,
    },
    /// A session with a shared subscription is no longer served by this node.
    Leave {
        /// The client.
        client: ClientKey,
        /// `$share/name/filter`.
        share: String,
    },
    /// A session has unsubscribed from a shared subscription, or has ended.
    QuitGroup {
        /// The client.
        client: ClientKey,
        /// The epoch of its claim.
        epoch: u64,
        /// `$share/name/filter`.
        share: String,
    },
    /// The delivery progress of a group.
    Checkpoint {
        /// The group.
        group: GroupKey,
        /// The partitions delivered here, with the next position of each and the unacknowledged positions.
        leases: Vec<(Partition, Place, Vec<Place>)>,
    },
    /// A partition of a group is no longer delivered here.
    Returned {
        /// The group.
        group: GroupKey,
        /// The partition.
        partition: Partition,
        /// The next position to deliver.
        next: Place,
        /// The unacknowledged positions.
        open: Vec<Place>,
    },
    /// A scan of the retained messages begins.
    RetainedSync {
        /// Returned when the node's mirror is up to date.
        ticket: u64,
    },
    /// A connected client has subscribed to a filter, so its QoS 0 messages are needed.
    AddInterest {
        /// The filter without its share prefix.
        filter: String,
    },
    /// The last such subscription was removed.
    RemoveInterest {
        /// The filter as it was given.
        filter: String,
    },
    /// A client waits until the other nodes know the current interest.
    InterestSync {
        /// Returned when they do.
        ticket: u64,
    },
    /// Drains this node.
    Drain {
        /// Whether clients must not reconnect to it.
        is_for_good: bool,
    },
    /// Drains another node.
    DrainPeer {
        /// The name of the node.
        node: String,
        /// Whether clients must not reconnect to it.
        is_for_good: bool,
        /// Who has requested it.
        by: String,
        /// Receives the outcome. Dropped if this node ends before.
        to: SyncSender<PeerCommandOutcome>,
    },
    /// Moves clients to other nodes if this one has more than its share.
    Rebalance,
    /// Proposes a new revision of the shared configuration.
    Propose {
        /// Returned with the answer.
        ticket: u64,
        /// The revision on which it is based.
        base: u64,
        /// The content.
        parts: Vec<ConfigPart>,
    },
    /// The engine has applied a revision of the shared configuration, or has failed to.
    Configured {
        /// The revision.
        number: u64,
        /// Whether it was applied.
        is_applied: bool,
    },
    /// Reconnects to the servers, because the access settings or files they name have changed.
    Reconnect(Box<Access>),
    /// Requests the status of the node. The answer is dropped if the receiver is gone.
    Report(SyncSender<Status>),
}

impl Command {
    /// Returns the size of the command in the queue, besides its slot.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Command::Claim { client_id, .. } => client_id.len(),
            Command::Publish { topic, message, .. } | Command::PublishFromOperator { topic, message, .. } => {
                topic.len() + message.len()
            }
            Command::Save { state, .. } | Command::Left { state, .. } => state.len(),
            Command::AddInterest { filter: text } | Command::RemoveInterest { filter: text } => text.len(),
            Command::Join { share, .. } | Command::Leave { share, .. } | Command::QuitGroup { share, .. } => {
                share.len()
            }
            Command::SetDisconnectSettings { settings, .. } => will_bytes(settings),
            Command::Checkpoint { leases, .. } => leases.iter().map(|(.., open)| size_of_val(&open[..])).sum(),
            Command::Returned { open, .. } => size_of_val(&open[..]),
            Command::DrainPeer { node, by, .. } => node.len() + by.len(),
            Command::Propose { parts, .. } => parts_bytes(parts),
            Command::Abandon { .. }
            | Command::DisconnectedAsSaved { .. }
            | Command::Release { .. }
            | Command::Received { .. }
            | Command::Read { .. }
            | Command::RetainedSync { .. }
            | Command::InterestSync { .. }
            | Command::Drain { .. }
            | Command::Rebalance
            | Command::Configured { .. }
            | Command::Reconnect(_)
            | Command::Report(_) => 0,
        }
    }

    /// Whether the data that the servers would store fits into one message of this size.
    pub(crate) fn fits(&self, message_max_bytes: usize) -> bool {
        let most = match self {
            Command::Save { .. } | Command::Left { .. } => state_max_bytes(message_max_bytes),
            Command::SetDisconnectSettings { .. } => message_max_bytes / WILL_PART,
            _ => message_max_bytes,
        };
        self.stored_bytes() <= most
    }

    /// Returns the size of the data that the servers would store in one message.
    fn stored_bytes(&self) -> usize {
        match self {
            Command::Publish { message, .. } | Command::PublishFromOperator { message, .. } => message.len(),
            Command::Save { state, .. } | Command::Left { state, .. } => state.len(),
            Command::SetDisconnectSettings { settings, .. } => will_bytes(settings),
            Command::Propose { parts, .. } => parts_bytes(parts),
            _ => 0,
        }
    }

    /// Returns the client whose commands must stay in order with this one.
    pub(crate) fn client(&self) -> Option<ClientKey> {
        match self {
            Command::Abandon { client, .. }
            | Command::Publish { client, .. }
            | Command::Release { client, .. }
            | Command::Save { client, .. }
            | Command::Left { client, .. }
            | Command::DisconnectedAsSaved { client }
            | Command::SetDisconnectSettings { client, .. }
            | Command::Join { client, .. }
            | Command::Leave { client, .. }
            | Command::QuitGroup { client, .. } => Some(*client),
            _ => None,
        }
    }
}

fn parts_bytes(parts: &[ConfigPart]) -> usize {
    parts.iter().map(|part| part.name.len() + part.bytes.len()).sum()
}

/// The fraction of a server's largest message that a will may use. A session record holds both state and will, and the identifiers of QoS 2
/// messages that its client has not released.
const WILL_PART: usize = 4;

/// Returns the largest size of a session's state.
pub(crate) fn state_max_bytes(message_max_bytes: usize) -> usize {
    message_max_bytes / 8 * 5
}

fn will_bytes(settings: &DisconnectSettings) -> usize {
    settings.will.as_ref().map_or(0, |will| will.topic.len() + will.message.len())
}
