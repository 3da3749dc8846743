//! Saves changes of sessions to their records, and delays the acknowledgements that depend on them.

use tautwire_cluster::names::ClientKey;
use tautwire_protocol::QoS;
use tautwire_session::{AckLevel, Change, LogPosition, Outbound};

use super::port::ClusterRequest;
use crate::connection::ack::{Ack, DelayedAck};
use crate::connection::connections::PauseReason;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Clustered;
use crate::mutant::{Mutant, is};
use crate::shard::Shard;
use crate::shard::ShardState;

/// A session that had no room for a message reads on when fewer messages than this are queued.
pub(super) const QUEUE_LOW: usize = 16;

impl ShardState<Clustered> {
    /// Applies a change of a session and requests what the cluster has to store. There is no journal.
    #[cold]
    #[inline(never)]
    pub(crate) fn commit_in_cluster(&mut self, session: SessionIndex, change: Change) {
        self.record_change(session, &change);
        self.count_filters(session, &change);
        if let Some(gone) = self.sessions.entry(session).apply(change) {
            self.subtract_stored(&gone);
            if gone.share.is_some() {
                self.record_settled(self.sessions.key(session), &gone);
            }
        }
        self.record_change_applied(session);
    }

    /// Requests what the cluster has to store, before a session changes.
    fn record_change(&mut self, session: SessionIndex, change: &Change) {
        let cluster = &mut self.mode.cluster;
        match change {
            Change::ExpiryInterval(seconds) => {
                if *seconds != self.sessions[session].expiry_interval_s() {
                    cluster.set_persistent(session, *seconds > 0);
                    cluster.record_disconnect_settings(session);
                    cluster.await_save(session);
                }
            }
            // CONNACK waits for it [MQTT-3.1.2-7].
            Change::Will(will) => {
                cluster.record_disconnect_settings(session);
                if will.is_some() && !is(Mutant::SendsConnAckBeforeWillSaved) {
                    cluster.await_save(session);
                } else {
                    cluster.request_save(session);
                }
            }
            // SUBACK and UNSUBACK wait for it.
            Change::Subscribed(..) | Change::Unsubscribed(_) => {
                if cluster.is_persisted(session) {
                    cluster.await_save(session);
                }
            }
            // The identifier must not be used for another message until the client has released it, and the message must not be sent as a
            // new one.
            Change::Started(delivery) => {
                if delivery.qos == QoS::ExactlyOnce && cluster.is_persisted(session) {
                    cluster.await_save(session);
                }
            }
            Change::StartedQueued => {
                let front = self.sessions[session].outbound().and_then(Outbound::front);
                if front.is_some_and(|front| front.qos == QoS::ExactlyOnce) && cluster.is_persisted(session) {
                    cluster.await_save(session);
                }
            }
            Change::Received(_) => {
                if cluster.is_persisted(session) {
                    cluster.await_save(session);
                }
            }
            Change::Completed(_) => cluster.record_acknowledged(session, self.clock.now_ms()),
            Change::Released(packet_id) => cluster.release(session, *packet_id),
            Change::Queued(_)
            | Change::Unqueued
            | Change::Taken(_)
            | Change::NextPacketId(_)
            | Change::AwaitingPubComp(_) => {}
        }
    }

    /// Reads on for a session that has room again.
    fn record_change_applied(&mut self, session: SessionIndex) {
        let queued = self.sessions[session].outbound().map_or(0, Outbound::queued);
        if queued < QUEUE_LOW {
            self.mode.cluster.unblock(session);
        }
    }

    /// Sends `ack` once all pending events of its session have occurred, after all earlier delayed acknowledgements. At `Memory` it waits
    /// only for the acknowledgements of earlier messages [MQTT-4.6.0-2], [MQTT-4.6.0-3].
    #[cold]
    #[inline(never)]
    pub(crate) fn acknowledge_in_cluster(&mut self, level: AckLevel, index: ConnectionIndex, mut ack: Ack) {
        let session = self.connections[index].session();
        let served = session.and_then(|session| self.mode.cluster.served(session));
        // Nothing is acknowledged for a session that another node has.
        let Some(served) = served else { return };
        let (client, reached) = (served.client(), served.reached());
        let connection = &self.connections[index];
        let is_at_once = level == AckLevel::Memory && !connection.has_delayed_ack(Ack::is_publish_ack);
        let until = match level {
            AckLevel::Memory => connection.delayed_positions().map_or_else(LogPosition::default, |(_, last)| last),
            AckLevel::Os | AckLevel::Disk | AckLevel::Quorum => served.last_position(),
        };
        let leaves_too_early = match ack {
            Ack::Published(..) | Ack::Received(..) => is(Mutant::AcknowledgesBeforeStored),
            Ack::Deliver(..) | Ack::Release(..) => is(Mutant::SendsBeforeSaved),
            _ => false,
        };
        if is_at_once || until <= reached && !connection.has_delayed_acks() || leaves_too_early {
            self.add_refusals(client, &mut ack);
            self.latency_recorder.record_acknowledged(&ack);
            self.write_delayed_ack(index, &ack);
            return;
        }
        let ShardState { connections, memory, latency_recorder, .. } = self;
        let delayed = DelayedAck { until, level, since: latency_recorder.stamp(), ack };
        connections[index].delay_ack(delayed, memory.ledger());
    }

    /// Adds the filters that the cluster has refused to a SUBACK.
    fn add_refusals(&mut self, client: ClientKey, ack: &mut Ack) {
        if let Ack::Subscribed(packet_id, reasons) = ack {
            self.mode.cluster.joining.add_refusals(client, *packet_id, reasons);
        }
    }

    /// Releases acknowledgements of a session after an event that it waited for.
    pub(super) fn release_pending_acks(&mut self, session: Option<SessionIndex>) {
        let Some(session) = session else { return };
        let cluster = &self.mode.cluster;
        let Some(served) = cluster.served(session) else { return };
        let (client, reached, is_settled) =
            (served.client(), served.reached(), served.reached() == served.last_position());
        if let Some(id) = cluster.claimed_by(session) {
            if is_settled {
                self.resume_reading(id, PauseReason::SessionClaim);
            }
            return;
        }
        let Some(index) = self.sessions.connection(session) else { return };
        while let Some((until, _)) = self.connections[index].delayed_positions()
            && let Some((ack, since)) = self.connections[index].pop_delayed_ack(|until, _| until <= reached)
        {
            let mut ack = self.refuse_if_not_stored(index, session, until, ack);
            self.add_refusals(client, &mut ack);
            self.latency_recorder.record_waited(&ack, since);
            self.write_delayed_ack(index, &ack);
        }
        self.resume_after_acks(index);
    }
}

impl Shard<Clustered> {
    /// Sends the states of sessions with a requested save.
    pub(super) fn save_sessions(&mut self) {
        while let Some((session, client, number)) = self.state.mode.cluster.next_save() {
            self.state.send_disconnect_settings(session, false);
            let state = self.state.state_of(session, None);
            self.state.mode.cluster.push_request(ClusterRequest::Save { client, number, state });
        }
    }
}
