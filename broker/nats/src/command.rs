//! What shards ask of their node.

use std::num::NonZeroU16;
use std::sync::mpsc::SyncSender;

use tautwire_cluster::delivery::ReadRequest;
use tautwire_cluster::names::{ClientKey, GroupKey, Partition};
use tautwire_cluster::record::{ConfigPart, Place, Retain};
use tautwire_cluster::{DisconnectSettings, PeerCommandOutcome, Sequence, Start, Status};

use crate::settings::Access;

/// Something for the node to do, as [`Member`](tautwire_cluster::Member) has it. Commands of one shard are carried out in order.
#[derive(Debug, Clone)]
pub enum Command {
    /// A client has sent CONNECT.
    Claim {
        /// Comes back with the answer.
        ticket: u64,
        /// Who.
        client_id: String,
        /// With or without the state that there is.
        start: Start,
    },
    /// The client that has asked is gone, before there was an answer.
    Abandon {
        /// Whose session.
        client: ClientKey,
        /// Of the claim.
        ticket: u64,
    },
    /// A client that is served has published at QoS 1 or 2.
    Publish {
        /// Who.
        client: ClientKey,
        /// Comes back when the message is safe.
        ticket: u64,
        /// The last ticket of this client that its shard knows to be refused.
        refusal_seen: u64,
        /// Where it goes.
        topic: String,
        /// Of QoS 2.
        packet_id: Option<NonZeroU16>,
        /// With RETAIN: how it is kept, and where this node's own store has what the topic retains so far.
        retain: Option<(Retain, Option<Sequence>)>,
        /// The message in its stored form.
        message: Vec<u8>,
    },
    /// Those who run the broker have published a message.
    PublishFromOperator {
        /// Comes back with the answer.
        ticket: u64,
        /// Where it goes.
        topic: String,
        /// With RETAIN: as that of `Publish`.
        retain: Option<(Retain, Option<Sequence>)>,
        /// The message in its stored form.
        message: Vec<u8>,
    },
    /// PUBREL has come.
    Release {
        /// From whom.
        client: ClientKey,
        /// Which one.
        packet_id: NonZeroU16,
    },
    /// The state of a session has changed.
    Save {
        /// Whose.
        client: ClientKey,
        /// Comes back when the state is safe.
        number: u64,
        /// All of it.
        state: Vec<u8>,
    },
    /// The connection of a client that was served has ended.
    Left {
        /// Whose.
        client: ClientKey,
        /// What is to be kept; nothing if the session has ended too.
        state: Vec<u8>,
    },
    /// The connection of a client that was served has ended, and its state is more than the servers take.
    DisconnectedAsSaved {
        /// Whose.
        client: ClientKey,
    },
    /// What holds when the connection of a client ends has changed.
    SetDisconnectSettings {
        /// Whose.
        client: ClientKey,
        /// What holds.
        terms: DisconnectSettings,
    },
    /// A shard has taken what has arrived.
    Received {
        /// Which shard.
        shard: usize,
        /// Of which partition.
        partition: Partition,
        /// Up to where.
        until: Sequence,
    },
    /// A shard reads for sessions that are behind.
    Read {
        /// Which shard.
        shard: usize,
        /// What.
        request: ReadRequest,
    },
    /// A session that is served shares a subscription.
    Join {
        /// Whose.
        client: ClientKey,
        /// As it was served.
        epoch: u64,
        /// `$share/name/filter`.
        share: String,
    },
    /// A session that shares a subscription is not served here any more.
    Leave {
        /// Whose.
        client: ClientKey,
        /// `$share/name/filter`.
        share: String,
    },
    /// A session has unsubscribed, or has ended.
    QuitGroup {
        /// Whose.
        client: ClientKey,
        /// As it was served.
        epoch: u64,
        /// `$share/name/filter`.
        share: String,
    },
    /// How far a group has come.
    Checkpoint {
        /// Which.
        group: GroupKey,
        /// Partitions that are delivered here, the next place of each, and what is open.
        leases: Vec<(Partition, Place, Vec<Place>)>,
    },
    /// A partition of a group is not delivered here any more.
    Returned {
        /// Which group.
        group: GroupKey,
        /// Which partition.
        partition: Partition,
        /// How far it has come.
        next: Place,
        /// What is open.
        open: Vec<Place>,
    },
    /// A search for retained messages begins.
    RetainedSync {
        /// Comes back when the node's own store has all of them.
        ticket: u64,
    },
    /// A connected client has subscribed to a filter: its messages of QoS 0 are wanted.
    AddInterest {
        /// Without a share.
        filter: String,
    },
    /// It does not any more.
    RemoveInterest {
        /// As it was given.
        filter: String,
    },
    /// A client waits until the other nodes know what is listened to by now.
    InterestSync {
        /// Comes back when they do.
        ticket: u64,
    },
    /// The node is to end.
    Drain {
        /// Clients are not to come back.
        is_for_good: bool,
    },
    /// Another node is to end.
    DrainPeer {
        /// Its name.
        node: String,
        /// Clients are not to come back.
        is_for_good: bool,
        /// Who asks for it.
        by: String,
        /// Is told what has become of it. Dropped if this node ends before.
        to: SyncSender<PeerCommandOutcome>,
    },
    /// Clients go to other nodes if this one has more than its share.
    Rebalance,
    /// A new revision of the shared configuration.
    Propose {
        /// Comes back with the answer.
        ticket: u64,
        /// On which revision it was made.
        base: u64,
        /// What it says.
        parts: Vec<ConfigPart>,
    },
    /// The engine has taken on a revision of the shared configuration, or could not.
    Configured {
        /// Which.
        number: u64,
        /// Whether it has.
        is_applied: bool,
    },
    /// The servers are to be reached in another way from now on, or files that it names have changed.
    Reconnect(Box<Access>),
    /// How is it with the node? The answer is dropped where nobody waits for it any more.
    Report(SyncSender<Status>),
}

impl Command {
    /// What it takes in the queue beside its place.
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
            Command::SetDisconnectSettings { terms, .. } => will_bytes(terms),
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

    /// Whether the servers take what they are to keep of it, where they take so much in one piece.
    pub(crate) fn fits(&self, message_max_bytes: usize) -> bool {
        let most = match self {
            Command::Save { .. } | Command::Left { .. } => state_max_bytes(message_max_bytes),
            Command::SetDisconnectSettings { .. } => message_max_bytes / WILL_PART,
            _ => message_max_bytes,
        };
        self.stored_bytes() <= most
    }

    /// What it has for the servers to keep in one piece.
    fn stored_bytes(&self) -> usize {
        match self {
            Command::Publish { message, .. } | Command::PublishFromOperator { message, .. } => message.len(),
            Command::Save { state, .. } | Command::Left { state, .. } => state.len(),
            Command::SetDisconnectSettings { terms, .. } => will_bytes(terms),
            Command::Propose { parts, .. } => parts_bytes(parts),
            _ => 0,
        }
    }

    /// The client whose commands have to stay in order with this one.
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

/// Of what the servers take in one piece, a will may have one part of so many. The record of a session has both, and the identifiers of QoS 2
/// messages that its client has not released.
const WILL_PART: usize = 4;

/// The most that the state of a session may have.
pub(crate) fn state_max_bytes(message_max_bytes: usize) -> usize {
    message_max_bytes / 8 * 5
}

fn will_bytes(terms: &DisconnectSettings) -> usize {
    terms.will.as_ref().map_or(0, |will| will.topic.len() + will.message.len())
}
