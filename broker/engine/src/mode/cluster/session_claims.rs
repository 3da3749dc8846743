//! Claims: CONNECT waits until this node has the client's session.

use tautwire_cluster::names::ClientKey;
use tautwire_cluster::{Elsewhere, Refusal, Start};
use tautwire_protocol::{Connect, ConnectReason, DisconnectReason};
use tautwire_session::Change;

use super::cluster_state::{Claim, Denial, Step};
use super::port::ClusterRequest;
use crate::connection::connect_refusal::RefusedClient;
use crate::connection::connections::{PauseReason, Phase};
use crate::index::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::mode::Clustered;
use crate::shard::{Handled, Shard};

const NODE_CLOSED: &str = "this broker of the cluster accepts no clients now";

impl Shard<Clustered> {
    /// Returns whether the session existed, once this node has it; otherwise how CONNECT was handled.
    #[cold]
    #[inline(never)]
    pub(crate) fn claim(&mut self, index: ConnectionIndex, connect: &Connect<'_>, name: &str) -> Result<bool, Handled> {
        let id = self.state.id(index);
        let cluster = &mut self.state.mode.cluster;
        let is_serving = cluster.is_serving();
        let Some(claim) = cluster.claims.get(id) else {
            if is_serving {
                self.begin_claim(index, connect, name);
                return Err(Handled::Later);
            }
            self.state.counters().session_claims_refused.add(1);
            let why = "the broker is not part of its cluster now; try another one";
            self.refuse_connect(index, RefusedClient::of(connect), ConnectReason::ServerUnavailable, why);
            return Err(Handled::Ended);
        };
        let is_present = match claim.step {
            Step::Requested | Step::SessionFetch(_) => None,
            Step::Refused(_) => {
                self.deny(index, connect);
                return Err(Handled::Ended);
            }
            Step::Served { resumed } => Some(resumed.is_some()),
            Step::Saving { session, is_present } => {
                let served = cluster.served(session);
                served.is_some_and(|served| served.reached() == served.last_position()).then_some(is_present)
            }
        };
        is_present.filter(|_| is_serving).ok_or_else(|| {
            self.state.connections[index].pause_reading(PauseReason::SessionClaim);
            Handled::Later
        })
    }

    /// Sends the reason to a client whose claim failed.
    fn deny(&mut self, index: ConnectionIndex, connect: &Connect<'_>) {
        let id = self.state.id(index);
        let cluster = &mut self.state.mode.cluster;
        let Some(Claim { step: Step::Refused(why), .. }) = cluster.claims.end(id) else { return };
        self.state.counters().session_claims_refused.add(1);
        self.state.connections[index].set_maximum_packet_size(connect.properties.maximum_packet_size());
        match why {
            Denial::Refused(why) => {
                let (reason, why) = reason_code(why);
                self.refuse_connect(index, RefusedClient::of(connect), reason, why);
            }
            Denial::Elsewhere(Elsewhere { reference, is_for_good }) => {
                let reason = if is_for_good { ConnectReason::ServerMoved } else { ConnectReason::UseAnotherServer };
                self.redirect_connect(index, RefusedClient::of(connect), reason, NODE_CLOSED, &reference);
            }
        }
    }

    fn begin_claim(&mut self, index: ConnectionIndex, connect: &Connect<'_>, name: &str) {
        let id = self.state.id(index);
        let cluster = &mut self.state.mode.cluster;
        let ticket = cluster.next_number();
        let start = if connect.clean_start { Start::Clean } else { Start::Resume };
        let client = cluster.client(name);
        let claim = Claim { ticket, client, epoch: 0, name: name.into(), start, step: Step::Requested };
        cluster.claims.begin(id, claim);
        cluster.push_request(ClusterRequest::Claim { ticket, name: name.into(), start });
        // Reading from the client is paused until the answer arrives.
        self.state.connections[index].set_version(connect.version);
        self.state.connections[index].pause_reading(PauseReason::SessionClaim);
    }

    /// Refuses the claim with this ticket.
    pub(super) fn refuse_claim(&mut self, ticket: u64, why: impl Into<Denial>) {
        let cluster = &mut self.state.mode.cluster;
        if let Some(id) = cluster.claims.with_ticket(ticket) {
            self.end_claim(id, why);
        }
    }

    /// Fails a claim, and resumes CONNECT to tell its client why.
    pub(super) fn end_claim(&mut self, id: ConnectionId, why: impl Into<Denial>) {
        let cluster = &mut self.state.mode.cluster;
        if let Some(claim) = cluster.claims.get(id) {
            claim.step = Step::Refused(why.into());
        }
        self.state.resume_reading(id, PauseReason::SessionClaim);
    }

    /// Begins to serve the session of a CONNECT, which is in the shard's tables. Returns whether the client can be accepted now, or must
    /// wait until its record is written.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_service(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        connect: &Connect<'_>,
    ) -> bool {
        let (id, now_ms) = (self.state.id(index), self.state.clock.now_ms());
        let expiry_s = self.expiry_interval_s(index, connect);
        let cluster = &mut self.state.mode.cluster;
        let Some(Claim { client, epoch, step, .. }) = cluster.claims.get(id) else { return false };
        let (client, epoch) = (*client, *epoch);
        if let Step::Served { resumed } = *step {
            if resumed.is_none() {
                cluster.serve(session, client, (id, epoch), None, now_ms);
            }
            self.state.commit(session, Change::ExpiryInterval(expiry_s));
            self.set_will(index, session, connect);
            let cluster = &mut self.state.mode.cluster;
            // The record contains the time at which the client disconnected, which is no longer true.
            if resumed.is_some() && expiry_s > 0 && expiry_s != u32::MAX {
                cluster.await_save(session);
            }
            if cluster.served(session).is_some_and(|served| served.reached() < served.last_position()) {
                if let Some(claim) = cluster.claims.get(id) {
                    claim.step = Step::Saving { session, is_present: resumed.is_some() };
                }
                self.state.connections[index].pause_reading(PauseReason::SessionClaim);
                return false;
            }
        }
        let cluster = &mut self.state.mode.cluster;
        cluster.claims.end(id);
        cluster.clear_claim(session);
        self.state.activate_groups(session);
        true
    }

    /// Abandons the claim of a closed connection whose client was not accepted.
    #[cold]
    pub(super) fn abandon_claim(&mut self, id: ConnectionId) {
        self.remove_retained_search(id);
        let cluster = &mut self.state.mode.cluster;
        let Some(Claim { ticket, client, step, .. }) = cluster.claims.end(id) else { return };
        match step {
            Step::Requested => cluster.push_request(ClusterRequest::Abandon { client, ticket }),
            Step::SessionFetch(fetching) => {
                cluster.push_request(ClusterRequest::Left { client, state: fetching.into_bytes() })
            }
            Step::Served { resumed: None } => cluster.push_request(ClusterRequest::Left { client, state: Vec::new() }),
            Step::Served { resumed: Some(session) } | Step::Saving { session, .. } => self.release_unserved(session),
            Step::Refused(_) => {}
        }
    }

    /// Releases a session whose client was not accepted, so its will must not be published.
    fn release_unserved(&mut self, session: SessionIndex) {
        if self.state.sessions[session].will().is_some() {
            self.state.commit(session, Change::Will(None));
        }
        self.release_to_cluster(session);
    }

    /// Ends a connection whose client has connected to another node, or to this one again.
    pub(super) fn end_taken_over(&mut self, client: ClientKey) {
        if let Some(session) = self.stop_serving(client, Refusal::TakenOver.into()) {
            self.state.counters().sessions_taken_over.add(1);
            let why = "the client has connected to another broker of the cluster";
            self.end_for_cluster(session, DisconnectReason::SessionTakenOver, why);
        }
    }

    /// Moves a client to another node.
    pub(super) fn migrate(&mut self, client: ClientKey, to: Option<Elsewhere>) {
        let denial = to.clone().map_or(Denial::Refused(Refusal::Closed), Denial::Elsewhere);
        let Some(session) = self.stop_serving(client, denial) else { return };
        let (reason, reference) = match to {
            Some(Elsewhere { reference, is_for_good: true }) => (DisconnectReason::ServerMoved, reference),
            Some(Elsewhere { reference, is_for_good: false }) => (DisconnectReason::UseAnotherServer, reference),
            None => (DisconnectReason::UseAnotherServer, String::new()),
        };
        match self.state.sessions.connection(session) {
            Some(index) if self.state.connections[index].phase() == Phase::Open => {
                self.disconnect_to(index, reason, NODE_CLOSED, &reference);
            }
            _ => self.release_to_cluster(session),
        }
    }

    /// Stops serving a client. If it waits for its CONNACK, its session is returned to the cluster; otherwise returns the session whose
    /// connection has to end.
    pub(super) fn stop_serving(&mut self, client: ClientKey, denial: Denial) -> Option<SessionIndex> {
        let cluster = &mut self.state.mode.cluster;
        if let Some(id) = cluster.claims.find_acquired(client) {
            match cluster.claims.fail_claim(id, denial) {
                Some(Step::SessionFetch(fetching)) => {
                    cluster.push_request(ClusterRequest::Left { client, state: fetching.into_bytes() });
                }
                Some(Step::Served { resumed: Some(session) } | Step::Saving { session, .. }) => {
                    self.release_unserved(session);
                }
                _ => cluster.push_request(ClusterRequest::Left { client, state: Vec::new() }),
            }
            self.state.resume_reading(id, PauseReason::SessionClaim);
            return None;
        }
        cluster.session_of(client)
    }

    /// Ends a session that another node has taken.
    pub(super) fn end_lost_session(&mut self, client: ClientKey) {
        let cluster = &mut self.state.mode.cluster;
        let session = cluster.session_of(client);
        // Nothing is returned to the cluster.
        if let Some(session) = session {
            self.state.leave_groups(session, false);
        }
        let cluster = &mut self.state.mode.cluster;
        if let Some(served) = session.and_then(|session| cluster.stop_serving(session)) {
            self.state.counters().acknowledged_messages_lost.add(served.acknowledged_before_stored());
        }
        self.state.counters().session_claims_lost.add(1);
        let cluster = &mut self.state.mode.cluster;
        if let Some(id) = cluster.claims.find_acquired(client) {
            cluster.claims.fail_claim(id, Refusal::Unavailable.into());
            if let Some(session) = session {
                self.end_session(session);
            }
            self.state.resume_reading(id, PauseReason::SessionClaim);
        } else if let Some(session) = session {
            let why = "another broker of the cluster serves the session";
            self.state.counters().sessions_taken_over.add(1);
            self.end_for_cluster(session, DisconnectReason::SessionTakenOver, why);
        }
    }

    pub(super) fn end_for_cluster(&mut self, session: SessionIndex, reason: DisconnectReason, why: &str) {
        match self.state.sessions.connection(session) {
            Some(index) if self.state.connections[index].phase() == Phase::Open => {
                self.disconnect(index, reason, why);
            }
            _ => self.release_to_cluster(session),
        }
    }
}

/// The reason code and text for a refused client.
fn reason_code(why: Refusal) -> (ConnectReason, &'static str) {
    match why {
        Refusal::Unavailable => {
            (ConnectReason::ServerUnavailable, "the cluster did not provide the session in time; try again")
        }
        // CONNACK has no Session taken over (0x8E) [MQTT 5.0 section 3.2.2.2].
        Refusal::TakenOver => (ConnectReason::ServerUnavailable, "the client has connected again in the meantime"),
        Refusal::TooMany => (ConnectReason::QuotaExceeded, "too many clients connect to the cluster at once"),
        Refusal::Closed => (ConnectReason::ServerUnavailable, NODE_CLOSED),
        Refusal::Unreadable => {
            (ConnectReason::ImplementationSpecificError, "this broker cannot read the record of the session")
        }
    }
}
