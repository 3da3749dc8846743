//! Restores a session that was just claimed: its state, and its in-flight messages from the log.

use std::collections::HashMap;
use std::sync::Arc;

use tautwire_cluster::delivery::Span;
use tautwire_cluster::names::ClientKey;
use tautwire_cluster::{Refusal, Start};
use tautwire_memory::MemoryLedger;
use tautwire_message::{Message, MessageRef};
use tautwire_protocol::{PacketId, QoS};
use tautwire_session::{Change, PendingMessage, Session};

use super::cluster_state::{LogPlace, Places, ReadPurpose, Step};
use super::fetched_session::SessionFetch;
use super::port::ClusterRequest;
use super::session_state::{MessageSource, SessionState, StateMessage, StatePart};
use crate::connection::connections::PauseReason;
use crate::index::{ConnectionId, SessionIndex};
use crate::mode::Clustered;
use crate::mutant::{Mutant, is};
use crate::shard::Shard;

impl Shard<Clustered> {
    /// Starts to load a session that this node has claimed.
    pub(super) fn load_session(
        &mut self,
        ticket: u64,
        (client, epoch): (ClientKey, u64),
        taken: &[PacketId],
        bytes: Vec<u8>,
    ) {
        let now_ms = self.state.clock.now_ms();
        let cluster = &mut self.state.mode.cluster;
        let Some(id) = cluster.claims.with_ticket(ticket) else {
            // Its client has disconnected.
            cluster.push_request(ClusterRequest::Left { client, state: bytes });
            return;
        };
        let mut is_clean = false;
        if let Some(claim) = cluster.claims.get(id) {
            (claim.epoch, is_clean) = (epoch, claim.start == Start::Clean);
        }
        let state = if bytes.is_empty() || is_clean { None } else { Some(SessionState::decode(&bytes)) };
        match state {
            Some(None) => {
                log::error!(
                    "the record of the client {client} has a state that this broker cannot read [cluster_state]"
                );
                cluster.push_request(ClusterRequest::Left { client, state: bytes });
                self.end_claim(id, Refusal::Unreadable);
            }
            Some(Some(state)) if !state.has_expired(now_ms) => {
                let mut wanted: Vec<_> = state.open().collect();
                wanted.sort_unstable_by(|one, other| other.cmp(one));
                wanted.dedup();
                let fetching = SessionFetch { bytes, taken: taken.into(), state, wanted, found: HashMap::new() };
                self.fetch_next(id, Box::new(fetching));
            }
            expired => {
                if let Some(state) = expired.flatten() {
                    self.state.counters().sessions_expired.add(1);
                    let cluster = &mut self.state.mode.cluster;
                    for share in state.shares() {
                        cluster.push_request(ClusterRequest::QuitGroup { client, epoch, share: share.into() });
                    }
                }
                self.begin_clean(id, client, taken);
            }
        }
    }

    /// Begins without a session. Packet identifiers of an ended one are released.
    fn begin_clean(&mut self, id: ConnectionId, client: ClientKey, taken: &[PacketId]) {
        let cluster = &mut self.state.mode.cluster;
        for packet_id in taken {
            cluster.push_request(ClusterRequest::Release { client, packet_id: *packet_id });
        }
        if let Some(claim) = cluster.claims.get(id) {
            claim.step = Step::Served { resumed: None };
        }
        self.state.resume_reading(id, PauseReason::SessionClaim);
    }

    /// Reads the next wanted message, or begins the session if there is none.
    fn fetch_next(&mut self, id: ConnectionId, fetching: Box<SessionFetch>) {
        let cluster = &mut self.state.mode.cluster;
        let Some(next) = fetching.wanted.last().copied() else { return self.begin_session(id, *fetching) };
        cluster.read(ReadPurpose::Claim(id), next.partition, next.place.sequence);
        if let Some(claim) = cluster.claims.get(id) {
            claim.step = Step::SessionFetch(fetching);
        }
    }

    /// Handles a part of the log that was read for a claimed session.
    pub(super) fn receive_fetched(&mut self, id: ConnectionId, span: &Span) {
        let cluster = &mut self.state.mode.cluster;
        let Some(claim) = cluster.claims.get(id) else { return };
        match std::mem::replace(&mut claim.step, Step::Requested) {
            Step::SessionFetch(mut fetching) => {
                fetching.take(span, self.state.memory.ledger());
                self.fetch_next(id, fetching);
            }
            step => claim.step = step,
        }
    }

    /// Begins a completely loaded session.
    fn begin_session(&mut self, id: ConnectionId, fetching: SessionFetch) {
        let now_ms = self.state.clock.now_ms();
        let cluster = &mut self.state.mode.cluster;
        let Some(claim) = cluster.claims.get(id) else { return };
        let (client, epoch, name) = (claim.client, claim.epoch, claim.name.clone());
        let Some(session) = self.state.open_session(&name) else {
            let cluster = &mut self.state.mode.cluster;
            cluster.push_request(ClusterRequest::Left { client, state: fetching.bytes });
            return self.end_claim(id, Refusal::TooMany);
        };
        let next = fetching.state.next;
        self.build(session, &name, fetching);
        let has_subscriptions = self.state.sessions[session].subscriptions().iter().next().is_some();
        let expiry_s = self.state.sessions[session].expiry_interval_s();
        let cluster = &mut self.state.mode.cluster;
        // A session without subscriptions has missed nothing. Messages that it was offered elsewhere, ahead of this shard, are not offered
        // again.
        let next = if has_subscriptions { next } else { later_of(next, cluster.positions()) };
        let has_place = !is(Mutant::IgnoresSessionPosition);
        cluster.serve(session, client, (id, epoch), has_place.then_some(next), now_ms);
        cluster.set_persistent(session, expiry_s > 0);
        if let Some(claim) = cluster.claims.get(id) {
            claim.step = Step::Served { resumed: Some(session) };
        }
        self.state.rejoin_groups(session);
        self.state.await_all_interest_syncs(session);
        self.state.resume_reading(id, PauseReason::SessionClaim);
    }

    /// Builds a session and puts it into the shard's tables.
    fn build(&mut self, index: SessionIndex, name: &str, fetching: SessionFetch) {
        let SessionFetch { taken, state, found, .. } = fetching;
        let mut session = Session::new(name);
        session.apply(Change::ExpiryInterval(state.expiry_s));
        let mut aged_out = 0;
        for part in state.parts {
            match part {
                StatePart::Subscribed(filter, record) => {
                    session.apply(Change::Subscribed(filter, record));
                }
                StatePart::Started(packet_id, pending) => {
                    set_next_packet_id(&mut session, packet_id);
                    let is_once = pending.qos == QoS::ExactlyOnce;
                    match pending_message(pending, &found, self.state.memory.ledger()) {
                        Some(delivery) => {
                            session.apply(Change::Started(delivery));
                        }
                        // The client may hold the identifier, and is sent PUBREL to free it.
                        None if is_once => {
                            session.apply(Change::AwaitingPubComp(packet_id));
                            aged_out += 1;
                        }
                        None => aged_out += 1,
                    }
                }
                StatePart::AwaitingPubComp(packet_id) => {
                    set_next_packet_id(&mut session, packet_id);
                    session.apply(Change::AwaitingPubComp(packet_id));
                }
                StatePart::NextPacketId(packet_id) => {
                    session.apply(Change::NextPacketId(packet_id));
                }
                StatePart::Queued(pending) => {
                    if let Some(delivery) = pending_message(pending, &found, self.state.memory.ledger()) {
                        session.apply(Change::Queued(delivery));
                    }
                }
            }
        }
        for packet_id in taken.into_iter().filter(|_| !is(Mutant::OmitsUnreleasedPacketIds)) {
            session.apply(Change::Taken(packet_id));
        }
        if aged_out > 0 {
            self.state.counters().dropped_log_retention.add(aged_out);
            log::warn!(
                "{aged_out} unacknowledged messages of the client {name:?} were removed from the log before they could be sent again"
            );
        }
        self.state.sessions.entry(index).set_state(session);
        self.state.add_stored(index);
        self.restore_subscriptions(index);
    }
}

/// The later of two places, by partition.
fn later_of(one: Places, other: Places) -> Places {
    std::array::from_fn(|partition| one[partition].max(other[partition]))
}

/// Sets the packet identifier of the next message.
fn set_next_packet_id(session: &mut Session, packet_id: PacketId) {
    if session.next_packet_id() != Some(packet_id) {
        session.apply(Change::NextPacketId(packet_id));
    }
}

fn pending_message(
    pending: StateMessage,
    found: &HashMap<LogPlace, Message>,
    ledger: &Arc<MemoryLedger>,
) -> Option<PendingMessage> {
    let StateMessage { source, qos, retain, subscription_ids } = pending;
    let message = match source {
        MessageSource::Log(at) => found.get(&at)?.clone(),
        MessageSource::Inline(stored) => MessageRef::read_stored(&stored)?.to_message_in(ledger),
    };
    Some(PendingMessage { message: message.into(), qos, retain, subscription_ids, share: None })
}
