//! What has been granted is looked at again: when the rules have changed, and when a client comes back to its session.

mod steps;

use std::sync::Arc;

use tautwire_access::{Changes, Permissions, Policy};
use tautwire_router::SessionKey;

use super::{CheckBudget, ClientCheck};
use crate::index::ConnectionId;

/// What has to be looked at again because something else holds now.
pub(crate) struct AccessReviews {
    /// What has been granted: the rules of before.
    pub(super) rules: Option<Arc<Policy>>,
    /// Clients that have been let in: who says whether they are known.
    pub(super) clients: Option<ClientCheck>,
}

/// Something that is looked at again, over several turns.
pub(crate) enum AccessReview {
    /// All clients that have been let in, from this place on: some may not be known any more.
    Identities { next: usize, client_check: ClientCheck },
    /// All connections, from this place on: the rules have changed.
    Connections { next: usize, was: Arc<Policy>, changes: Box<Changes> },
    /// The subscriptions of one session, from the one behind this filter on.
    Session {
        key: SessionKey,
        connection: ConnectionId,
        permissions: Permissions,
        after: Box<str>,
        checks: CheckBudget,
    },
}

impl std::fmt::Debug for AccessReview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AccessReview::Identities { .. } => "Identities",
            AccessReview::Connections { .. } => "Connections",
            AccessReview::Session { .. } => "Session",
        })
    }
}
