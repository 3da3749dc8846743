//! The incremental check of a subscription.

use std::fmt;

use tautwire_protocol::{QoS, TopicFilter};

use crate::permissions::{AccessDecision, Permissions};
use crate::tree::TreeSearch;

/// The check of one subscription, which proceeds by as many steps at a time as its caller allows.
#[derive(Clone)]
pub struct SubscribeCheck {
    permissions: Permissions,
    qos: QoS,
    search: TreeSearch,
}

impl SubscribeCheck {
    /// A check that has not started.
    pub(crate) fn new(permissions: Permissions, qos: QoS) -> Self {
        Self { permissions, qos, search: TreeSearch::default() }
    }

    /// Whether the check is for these permissions and this QoS. If not, start a new one.
    #[must_use]
    pub fn is_for(&self, permissions: &Permissions, qos: QoS) -> bool {
        self.permissions.is_same_as(permissions) && self.qos == qos
    }

    /// Continues for about `steps_left` steps and subtracts those that were taken; `None` if the check is not complete. `filter` must be
    /// the same each time.
    pub fn resume(&mut self, filter: TopicFilter<'_>, steps_left: &mut usize) -> Option<AccessDecision> {
        let Self { permissions, qos, search } = self;
        let Some(rules) = permissions.rules.compiled() else { return Some(AccessDecision::Allowed) };
        let covered = permissions.filter_query(rules, filter, *qos).resume(search, steps_left)?;
        Some(covered.decision())
    }
}

/// Omits the values of placeholders: claims may be personal data.
impl fmt::Debug for SubscribeCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscribeCheck")
            .field("permissions", &self.permissions)
            .field("qos", &self.qos)
            .finish_non_exhaustive()
    }
}
