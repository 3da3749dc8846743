//! Clients whose CONNECT waits for their session.

use std::collections::HashMap;

use tautwire_cluster::names::ClientKey;
use tautwire_cluster::{Elsewhere, Refusal, Start};

use crate::index::{ConnectionId, SessionIndex};

/// A connection whose client wants its session.
#[derive(Debug)]
pub(crate) struct Claim<F> {
    pub(crate) ticket: u64,
    pub(crate) client: ClientKey,
    /// By which the session is served, once it is had.
    pub(crate) epoch: u64,
    /// What the session is called.
    pub(crate) name: Box<str>,
    pub(crate) start: Start,
    pub(crate) step: Step<F>,
}

/// How far a claim has come. `F`: what is known of a session whose messages are being read.
#[derive(Debug)]
pub(crate) enum Step<F> {
    /// The cluster is asked.
    Asked,
    /// The session is this node's, and messages that were sent to its client are read.
    SessionFetch(F),
    /// The session is this node's.
    Served {
        /// There was one, and it stands in the shard's tables.
        resumed: Option<SessionIndex>,
    },
    /// It stands in the tables, and its record is being written.
    Saving { session: SessionIndex, is_present: bool },
    /// It is not had.
    Refused(Denial),
}

/// Why a client is not served by this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denial {
    Refused(Refusal),
    /// Another node takes it.
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

    /// What the session of a claim is called.
    pub(crate) fn name(&self, id: ConnectionId) -> Option<&str> {
        Some(&self.by_connection.get(&id)?.name)
    }

    /// A claim ends, and its client is told why when CONNECT is heard again. Gives how far it had come.
    pub(crate) fn take_step(&mut self, id: ConnectionId, why: Denial) -> Option<Step<F>> {
        let claim = self.by_connection.get_mut(&id)?;
        Some(std::mem::replace(&mut claim.step, Step::Refused(why)))
    }

    pub(crate) fn end(&mut self, id: ConnectionId) -> Option<Claim<F>> {
        let claim = self.by_connection.remove(&id)?;
        self.by_ticket.remove(&claim.ticket);
        Some(claim)
    }

    /// The connection that has asked with this ticket, if it still waits.
    pub(crate) fn with_ticket(&self, ticket: u64) -> Option<ConnectionId> {
        self.by_ticket.get(&ticket).copied()
    }

    /// The claim on a session that has been had, where its client has not been let in.
    pub(crate) fn had(&self, client: ClientKey) -> Option<ConnectionId> {
        let is_had = |claim: &Claim<F>| !matches!(claim.step, Step::Asked | Step::Refused(_));
        let mut claims = self.by_connection.iter();
        claims.find(|(_, claim)| claim.client == client && is_had(claim)).map(|(id, _)| *id)
    }

    /// All connections with a claim, in order.
    pub(crate) fn connections(&self) -> Vec<ConnectionId> {
        let mut all: Vec<_> = self.by_connection.keys().copied().collect();
        all.sort_unstable();
        all
    }
}
