//! The check of a subscription, in parts.

use std::fmt;

use tautwire_protocol::{QoS, TopicFilter};

use crate::permissions::{AccessDecision, Permissions};
use crate::tree::TreeSearch;

/// The check of one subscription, which goes on for as many steps at a time as its caller gives.
#[derive(Clone)]
pub struct SubscribeCheck {
    permissions: Permissions,
    qos: QoS,
    search: TreeSearch,
}

impl SubscribeCheck {
    /// A check that has not begun.
    pub(crate) fn new(permissions: Permissions, qos: QoS) -> Self {
        Self { permissions, qos, search: TreeSearch::default() }
    }

    /// Whether it is about these permissions and this QoS. Otherwise, start a new check.
    #[must_use]
    pub fn is_for(&self, permissions: &Permissions, qos: QoS) -> bool {
        self.permissions.is_same_as(permissions) && self.qos == qos
    }

    /// Goes on for about so many steps, of which those that were taken are subtracted; `None` where it is not over then. `filter` is
    /// the same each time.
    pub fn resume(&mut self, filter: TopicFilter<'_>, steps_left: &mut usize) -> Option<AccessDecision> {
        let Self { permissions, qos, search } = self;
        let Some(rules) = permissions.rules.compiled() else { return Some(AccessDecision::Allowed) };
        let covered = permissions.question(rules, filter, *qos).resume(search, steps_left)?;
        Some(covered.verdict())
    }
}

/// Shows no values of placeholders: claims may be personal.
impl fmt::Debug for SubscribeCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscribeCheck")
            .field("permissions", &self.permissions)
            .field("qos", &self.qos)
            .finish_non_exhaustive()
    }
}
