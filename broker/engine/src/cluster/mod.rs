//! A shard of one of several brokers: sessions are claimed before they are served, and messages of QoS 1 and 2 reach subscribers by the
//! log that all nodes share. `docs/decisions/0033-a-shard-in-a-cluster.md` says who asks whom.
//!
//! Without a cluster there is no [`room`], and nothing of this happens.

pub(crate) mod cluster_state;
mod disconnect_settings;
mod groups;
mod lease;
mod log_routing;
mod mirror;
mod port;
mod publish;
mod refusal;
mod retained;
mod session_claims;
mod session_fetch;
mod session_release;
mod session_save;
mod session_state;
mod settings;
mod state_size;
mod sys;

use std::num::NonZeroU16;

use tautwire_cluster::Decision;
use tautwire_cluster::names::Seed;
use tautwire_protocol::PacketId;
use tautwire_session::{InCluster, Journal};

use self::cluster_state::Denial;
pub use self::cluster_state::messages_of;
pub(crate) use self::cluster_state::{OperatorPublishOutcome, OperatorPublishRange};
pub use self::groups::home_of;
pub(crate) use self::log_routing::{LogAcceptance, is_from_log};
pub(crate) use self::mirror::Mirror;
pub use self::port::{ClusterEvent, ClusterRequest, RetainInfo, RetainedChange};
pub(crate) use self::retained::comes_by_log;
pub use self::session_state::shares_of;
pub use self::settings::ClusterSettings;
pub(crate) use self::state_size::Fit;
use crate::shard::Shard;
use crate::state::ShardState;
use crate::turn::Io;

/// What a client has asked for and has not come true: messages on their way to the log, records, identifiers. A client with so much is not read
/// from.
pub(crate) const PENDING_MAX: usize = 1_024;

/// What a shard knows of its cluster.
pub(crate) type ShardClusterState = cluster_state::ClusterState<Box<session_fetch::SessionFetch>>;

/// Where it has that. Of a shard whose journal is not [`InCluster`], this is `None` when the broker is compiled.
pub(crate) type ClusterBox<J> = Option<<J as Journal>::ClusterBox<ShardClusterState>>;

impl Shard<InCluster> {
    /// Makes the shard one of a cluster. To be called before its first turn. Clients are refused until
    /// [`ClusterEvent::Began`] has come.
    ///
    /// There is no such thing for another shard: the store of the cluster has the sessions.
    pub fn join_cluster(&mut self, seed: Seed, settings: ClusterSettings) {
        let shard = self.state.context.join_cluster();
        self.state.cluster = Some(Box::new(ShardClusterState::new(seed, shard.0, settings)));
    }
}

impl<J: Journal> Shard<J> {
    /// The thread of the cluster has something to tell. To be called from
    /// [`Io::run_commands`](crate::Io::run_commands), in the order in which it was told.
    pub fn handle_cluster_event(&mut self, event: ClusterEvent, now_ms: u64) {
        self.state.clock.set(now_ms);
        let Some(room) = &mut self.state.cluster else { return };
        match event {
            ClusterEvent::Began { next, state_max_bytes } => {
                room.begin_life(next, state_max_bytes);
                self.state.context.mirror().begin_life(room.lives(), self.state.context.exchange());
            }
            // What a former life has asked for.
            _ if !room.has_life() => {}
            ClusterEvent::TooLarge(client) => self.end_too_large(client),
            ClusterEvent::Decided(decision) => self.apply_decision(decision),
            ClusterEvent::Retained(changes) => self.apply_retained(&changes),
            ClusterEvent::BusMessages(messages) => self.route_bus_messages(&messages),
        }
    }

    fn apply_decision(&mut self, decision: Decision) {
        let Some(room) = &mut self.state.cluster else { return };
        match decision {
            Decision::Serve { ticket, client, is_present: _, epoch, taken, state } => {
                let taken: Vec<_> = taken.into_iter().filter_map(packet_id).collect();
                self.load_session(ticket, (client, epoch), &taken, state);
            }
            Decision::Refuse { ticket, why } => self.refuse_claim(ticket, why),
            Decision::SessionTakenOver(client) => self.end_taken_over(client),
            Decision::Lost(client) => self.lose(client),
            Decision::Stored { client, ticket } => {
                let session = room.stored(client, ticket);
                self.state.go_on_with(session);
                self.state.resume_ahead_of_cluster();
            }
            Decision::Completed { client, packet_id: packet } => {
                let session = packet_id(packet).and_then(|packet_id| room.completed(client, packet_id));
                self.state.go_on_with(session);
            }
            Decision::Saved { client, number } => {
                let session = room.saved(client, number);
                self.state.go_on_with(session);
            }
            Decision::Suspended => self.suspend(),
            Decision::Resumed => self.resume(),
            Decision::Fenced => {
                log::error!(
                    "this broker has been taken for dead by its cluster: all connections end, and it begins anew"
                );
                self.end_life();
            }
            Decision::Drained => {
                log::info!("this broker has been drained, and takes no part in its cluster any more");
                self.end_life();
            }
            Decision::Published { ticket, is_stored } => {
                room.was_published(ticket, is_stored);
                self.state.resume_ahead_of_cluster();
            }
            Decision::NotStored { client, ticket } => self.refuse_not_stored(client, ticket),
            Decision::Redirect { ticket, to } => self.refuse_claim(ticket, Denial::Elsewhere(to)),
            Decision::Migrate { client, to } => self.migrate(client, to),
            Decision::RetainedSync { ticket } => self.finish_retained_sync(ticket),
            Decision::Arrived(span) => room.log.arrived(span),
            Decision::Read { shard: _, number, span } => self.receive_read(number, &span),
            Decision::Joined { client, group } => self.state.joined(client, group),
            Decision::InterestSync { ticket } => {
                for session in room.sync_interest(ticket) {
                    self.state.go_on_with(Some(session));
                }
            }
            Decision::NotJoined { client, group, why } => self.refuse_to_join(client, group, why),
            Decision::Lease { group, share, partition, next, open } => {
                self.lease_group(group, &share, partition, next, open);
            }
            Decision::Recall { group, partition } => self.recall_group(group, partition),
            // Not asked for by a shard; where the log begins, and what topics retain, is told by events of their own.
            Decision::Begin { .. }
            | Decision::Unreadable { .. }
            | Decision::UnreadableNode { .. }
            | Decision::ConfigUnsupported
            | Decision::Retain(_)
            | Decision::DrainRequested { .. }
            | Decision::PeerCommandResult { .. }
            | Decision::Configure { .. }
            | Decision::Proposed { .. } => {}
        }
    }

    /// Does what has come due in the cluster, and hands over what is asked of it.
    #[cold]
    #[inline(never)]
    pub(crate) fn run_cluster_tasks(&mut self, io: &mut impl Io<J>) {
        let now_ms = self.state.clock.now_ms();
        if let Some(room) = &mut self.state.cluster {
            room.collect_due(now_ms);
        }
        self.state.resume_retained_searches();
        if self.state.cluster.as_ref().is_some_and(|room| room.stalled.is_due(now_ms)) {
            self.state.resume_replays();
        }
        self.save_sessions();
        self.run_group_tasks();
        if let Some(room) = &mut self.state.cluster {
            room.begin_reads();
            io.ask_cluster(room.requests());
            room.remove_sent_requests();
        }
    }

    /// Whether something is left to do that no event brings back.
    #[cold]
    #[inline(never)]
    pub(crate) fn has_cluster_work(&self) -> bool {
        self.state
            .cluster
            .as_ref()
            .is_some_and(|room| room.has_saves() || (room.log.has_spans() && self.can_route_arrivals()))
    }
}

fn packet_id(number: NonZeroU16) -> Option<PacketId> {
    PacketId::new(number.get())
}

impl<J: Journal> ShardState<J> {
    /// Whether the shard is one of a cluster.
    #[inline]
    pub(crate) fn is_in_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// When something comes due next, in the cluster or elsewhere.
    #[cold]
    #[inline(never)]
    pub(crate) fn before_cluster_is_due(&self, next_ms: Option<u64>) -> Option<u64> {
        let due_ms = self.cluster.as_ref().and_then(|room| room.next_due_ms());
        next_ms.into_iter().chain(due_ms).min()
    }
}
