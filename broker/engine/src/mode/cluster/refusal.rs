//! Messages that the log did not store in time, and never will.

use tautwire_cluster::names::ClientKey;
use tautwire_protocol::{DisconnectReason, PubAckReason, PubRecReason};
use tautwire_session::{Change, LogPosition};

use super::cluster_state::AckTiming;
use crate::connection::ack::Ack;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Clustered;
use crate::mutant::{Mutant, is};
use crate::shard::Shard;
use crate::shard::ShardState;

const NOT_STORED: &str = "the cluster did not store the message in time; send it again";

impl Shard<Clustered> {
    /// Reports a message that was not stored. A client of MQTT 5.0 gets the reason in its acknowledgement; one of 3.1.1 is disconnected. A
    /// client whose message was acknowledged before it was stored gets nothing more.
    pub(super) fn refuse_not_stored(&mut self, client: ClientKey, ticket: u64) {
        let cluster = &mut self.state.mode.cluster;
        let Some((session, ack_timing)) = cluster.record_not_stored(client, ticket) else { return };
        match ack_timing {
            AckTiming::Immediate | AckTiming::InOrder => self.state.counters().acknowledged_messages_lost.add(1),
            AckTiming::Never | AckTiming::WhenStored => self.state.counters().publishes_refused.add(1),
        }
        let index = self.state.sessions.connection(session);
        if ack_timing == AckTiming::WhenStored && index.is_some_and(|index| !self.state.connections[index].is_v5()) {
            self.end_for_cluster(session, DisconnectReason::ImplementationSpecificError, NOT_STORED);
        } else {
            self.state.release_pending_acks(Some(session));
        }
        self.state.resume_publishers();
    }
}

impl ShardState<Clustered> {
    /// The acknowledgement that was delayed until `until`, or a refusal in its place, which frees the packet identifier.
    pub(super) fn refuse_if_not_stored(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        until: LogPosition,
        ack: Ack,
    ) -> Ack {
        let cluster = &mut self.mode.cluster;
        if !ack.is_publish_ack() || !cluster.take_refused(session, until) || is(Mutant::AcknowledgesRefusedMessages) {
            return ack;
        }
        match ack {
            Ack::Published(packet_id, ..) => {
                Ack::Published(packet_id, PubAckReason::ImplementationSpecificError, Some(NOT_STORED.into()))
            }
            Ack::Received(packet_id, ..) => {
                // The cluster has already dropped it, so it needs no release.
                self.sessions.entry(session).apply(Change::Released(packet_id));
                self.connections[index].end_inbound_qos2();
                Ack::Received(packet_id, PubRecReason::ImplementationSpecificError, Some(NOT_STORED.into()))
            }
            ack => ack,
        }
    }
}
