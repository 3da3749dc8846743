//! Finds served sessions by client.

use hashbrown::HashTable;
use tautwire_cluster::names::ClientKey;

use super::served::ServedSession;
use crate::index::SessionIndex;

/// The indexes of served sessions by client key. The keys are stored only in the sessions.
#[derive(Debug, Default)]
pub(super) struct SessionDirectory(HashTable<SessionIndex>);

type Places = [Option<Box<ServedSession>>];

impl SessionDirectory {
    /// Adds a session, which is in its slot already, as the one of its client.
    pub(super) fn insert(&mut self, client: ClientKey, session: SessionIndex, served: &Places) {
        let is_of = |session: &SessionIndex| client_at(*session, served) == Some(client);
        let rehash = |session: &SessionIndex| client_at(*session, served).map_or(0, hash_of);
        self.0.entry(hash_of(client), is_of, rehash).insert(session);
    }

    pub(super) fn remove(&mut self, client: ClientKey, session: SessionIndex) {
        if let Ok(entry) = self.0.find_entry(hash_of(client), |held| *held == session) {
            entry.remove();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn find(&self, client: ClientKey, served: &Places) -> Option<SessionIndex> {
        self.0.find(hash_of(client), |session| client_at(*session, served) == Some(client)).copied()
    }
}

fn client_at(session: SessionIndex, served: &Places) -> Option<ClientKey> {
    Some(served.get(session.number())?.as_ref()?.client())
}

/// A key is already a hash, with a seed that clients do not know.
fn hash_of(client: ClientKey) -> u64 {
    client.0 as u64
}
