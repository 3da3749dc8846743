//! The mode of a broker in a cluster.
//!
//! A session is claimed before it is served, and messages of QoS 1 and 2 reach subscribers through the log that all nodes share.
//! `docs/decisions/0033-a-shard-in-a-cluster.md` describes the requests and answers.
//!
//! [`policy`] implements the interface to the core.

pub(crate) mod cluster_state;
mod clustered;
mod disconnect_settings;
mod fetched_session;
mod groups;
mod lease;
mod log_routing;
mod mirror;
mod policy;
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
use tautwire_protocol::PacketId;

use self::cluster_state::Denial;
pub use self::cluster_state::messages_of;
pub use self::clustered::Clustered;
pub use self::groups::home_of;
pub use self::port::{ClusterEvent, ClusterRequest, RetainInfo, RetainedChange};
pub use self::session_state::shares_of;
pub use self::settings::ClusterSettings;
use crate::scheduling::io::Io;
use crate::shard::Shard;

impl Shard<Clustered> {
    /// Handles an event of the cluster thread.
    fn handle_cluster_event(&mut self, event: ClusterEvent) {
        let cluster = &mut self.state.mode.cluster;
        match event {
            ClusterEvent::Began { next, state_max_bytes } => {
                cluster.begin_incarnation(next, state_max_bytes);
                self.state.mode.mirror.begin_incarnation(cluster.incarnation(), self.state.context.exchange());
            }
            // Answers to requests of an earlier incarnation are dropped.
            _ if !cluster.is_started() => {}
            ClusterEvent::TooLarge(client) => self.end_too_large(client),
            ClusterEvent::Decided(decision) => self.apply_decision(decision),
            ClusterEvent::Retained(changes) => self.apply_retained(&changes),
            ClusterEvent::BusMessages(messages) => self.route_bus_messages(&messages),
        }
    }

    fn apply_decision(&mut self, decision: Decision) {
        let cluster = &mut self.state.mode.cluster;
        match decision {
            Decision::Serve { ticket, client, is_present: _, epoch, taken, state } => {
                let taken: Vec<_> = taken.into_iter().filter_map(packet_id).collect();
                self.load_session(ticket, (client, epoch), &taken, state);
            }
            Decision::Refuse { ticket, why } => self.refuse_claim(ticket, why),
            Decision::SessionTakenOver(client) => self.end_taken_over(client),
            Decision::Lost(client) => self.end_lost_session(client),
            Decision::Stored { client, ticket } => {
                let session = cluster.record_stored(client, ticket);
                self.state.release_pending_acks(session);
                self.state.resume_publishers();
            }
            Decision::Completed { client, packet_id: packet } => {
                let session = packet_id(packet).and_then(|packet_id| cluster.record_completed(client, packet_id));
                self.state.release_pending_acks(session);
            }
            Decision::Saved { client, number } => {
                let session = cluster.record_saved(client, number);
                self.state.release_pending_acks(session);
            }
            Decision::Suspended => self.suspend(),
            Decision::Resumed => self.resume(),
            Decision::Fenced => {
                log::error!(
                    "the cluster has declared this broker dead: closing all connections and joining the cluster again"
                );
                self.end_incarnation();
            }
            Decision::Drained => {
                log::info!("this broker has been drained and has left its cluster");
                self.end_incarnation();
            }
            Decision::Published { ticket, is_stored } => {
                cluster.record_operator_publish(ticket, is_stored);
                self.state.resume_publishers();
            }
            Decision::NotStored { client, ticket } => self.refuse_not_stored(client, ticket),
            Decision::Redirect { ticket, to } => self.refuse_claim(ticket, Denial::Elsewhere(to)),
            Decision::Migrate { client, to } => self.migrate(client, to),
            Decision::RetainedSync { ticket } => self.finish_retained_sync(ticket),
            Decision::Arrived(span) => cluster.log.push_live(span),
            Decision::Read { shard: _, number, span } => self.receive_read(number, &span),
            Decision::Joined { client, group } => self.state.record_joined(client, group),
            Decision::InterestSync { ticket } => {
                for session in cluster.sync_interest(ticket) {
                    self.state.release_pending_acks(Some(session));
                }
            }
            Decision::NotJoined { client, group, why } => self.refuse_join(client, group, why),
            Decision::Lease { group, share, partition, next, open } => {
                self.lease_group(group, &share, partition, next, open);
            }
            Decision::Recall { group, partition } => self.recall_group(group, partition),
            // No answer to a request of a shard. The start of the log and retained messages come as separate events.
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

    /// Runs due cluster tasks, and sends the requests of this turn.
    #[cold]
    #[inline(never)]
    pub(crate) fn run_cluster_tasks(&mut self, io: &mut impl Io<Clustered>) {
        let now_ms = self.state.clock.now_ms();
        self.state.mode.cluster.collect_due(now_ms);
        self.state.resume_retained_searches();
        if self.state.mode.cluster.stalled.is_due(now_ms) {
            self.state.resume_replays();
        }
        self.save_sessions();
        self.run_group_tasks();
        let cluster = &mut self.state.mode.cluster;
        cluster.begin_reads();
        io.send_requests(cluster.requests());
        cluster.remove_sent_requests();
    }

    /// Whether work is left that no event triggers.
    #[cold]
    #[inline(never)]
    pub(crate) fn has_cluster_work(&self) -> bool {
        let cluster = &self.state.mode.cluster;
        cluster.has_saves() || (cluster.log.has_spans() && self.can_route_arrivals())
    }
}

fn packet_id(number: NonZeroU16) -> Option<PacketId> {
    PacketId::new(number.get())
}
