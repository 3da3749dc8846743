//! Reviews of granted access: after the rules have changed, and when a client resumes its session.

mod steps;

use std::sync::Arc;

use tautwire_access::{Changes, Permissions, Policy};
use tautwire_router::SessionKey;

use super::{CheckBudget, ClientCheck};
use crate::index::ConnectionId;

/// The reviews that a new configuration requires.
pub(crate) struct AccessReviews {
    /// The previous rules, if they have changed.
    pub(super) rules: Option<Arc<Policy>>,
    /// The check of connected clients, if it has changed.
    pub(super) clients: Option<ClientCheck>,
}

/// A review that takes several turns.
pub(crate) enum AccessReview {
    /// Rechecks all connected clients, from this slot on.
    Identities { next: usize, client_check: ClientCheck },
    /// Reviews all connections, from this slot on, because the rules have changed.
    Connections { next: usize, was: Arc<Policy>, changes: Box<Changes> },
    /// Reviews the subscriptions of one session that follow this filter.
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
