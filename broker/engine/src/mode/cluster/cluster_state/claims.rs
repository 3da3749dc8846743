//! Claims of clients whose CONNECT waits for its session.

use std::collections::HashMap;

use tautwire_cluster::names::ClientKey;
use tautwire_cluster::{Elsewhere, Refusal, Start};

use crate::index::{ConnectionId, SessionIndex};

/// A connection whose client waits for its session.
#[derive(Debug)]
pub(crate) struct Claim<F> {
    pub(in crate::mode::cluster) ticket: u64,
    pub(in crate::mode::cluster) client: ClientKey,
    /// The epoch under which the session is served, once the node has it.
    pub(in crate::mode::cluster) epoch: u64,
    /// The name of the session.
    pub(in crate::mode::cluster) name: Box<str>,
    pub(in crate::mode::cluster) start: Start,
    pub(in crate::mode::cluster) step: Step<F>,
}

/// The progress of a claim. `F` is the state of a session whose messages are being fetched.
#[derive(Debug)]
pub(crate) enum Step<F> {
    /// The claim was sent to the cluster.
    Requested,
    /// The node has the session, and reads its in-flight messages.
    SessionFetch(F),
    /// The node has the session.
    Served {
        /// The session in the shard's tables, if it existed.
        resumed: Option<SessionIndex>,
    },
    /// The session is in the shard's tables, and its record is being written.
    Saving { session: SessionIndex, is_present: bool },
    /// The claim failed.
    Refused(Denial),
}

/// Why this node does not serve a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denial {
    Refused(Refusal),
    /// Another node accepts the client.
    Elsewhere(Elsewhere),
}

impl From<Refusal> for Denial {
    fn from(why: Refusal) -> Denial {
        Denial::Refused(why)
    }
}

/// All claims of a shard.
#[derive(Debug)]
pub(crate) struct Claims<F> {
    by_connection: HashMap<ConnectionId, Claim<F>>,
    by_ticket: HashMap<u64, ConnectionId>,
}

impl<F> Default for Claims<F> {
    fn default() -> Claims<F> {
        Claims { by_connection: HashMap::new(), by_ticket: HashMap::new() }
    }
}

impl<F> Claims<F> {
    pub(crate) fn begin(&mut self, id: ConnectionId, claim: Claim<F>) {
        self.by_ticket.insert(claim.ticket, id);
        self.by_connection.insert(id, claim);
    }

    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Claim<F>> {
        self.by_connection.get_mut(&id)
    }

    /// The name of the session of a claim.
    pub(crate) fn name(&self, id: ConnectionId) -> Option<&str> {
        Some(&self.by_connection.get(&id)?.name)
    }

    /// Fails a claim; its client gets the reason when its CONNECT is handled again. Returns the claim's progress.
    pub(crate) fn fail_claim(&mut self, id: ConnectionId, why: Denial) -> Option<Step<F>> {
        let claim = self.by_connection.get_mut(&id)?;
        Some(std::mem::replace(&mut claim.step, Step::Refused(why)))
    }

    pub(crate) fn end(&mut self, id: ConnectionId) -> Option<Claim<F>> {
        let claim = self.by_connection.remove(&id)?;
        self.by_ticket.remove(&claim.ticket);
        Some(claim)
    }

    /// The connection of the claim with this ticket.
    pub(crate) fn with_ticket(&self, ticket: u64) -> Option<ConnectionId> {
        self.by_ticket.get(&ticket).copied()
    }

    /// The connection of a client that waits for CONNACK although this node has its session.
    pub(crate) fn find_acquired(&self, client: ClientKey) -> Option<ConnectionId> {
        let is_acquired = |claim: &Claim<F>| !matches!(claim.step, Step::Requested | Step::Refused(_));
        let mut claims = self.by_connection.iter();
        claims.find(|(_, claim)| claim.client == client && is_acquired(claim)).map(|(id, _)| *id)
    }

    /// All connections with a claim, in order.
    pub(crate) fn connections(&self) -> Vec<ConnectionId> {
        let mut all: Vec<_> = self.by_connection.keys().copied().collect();
        all.sort_unstable();
        all
    }
}
