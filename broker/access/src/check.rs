//! Checks of subscriptions, which can be done incrementally.

use std::fmt;

use tautwire_protocol::{QoS, TopicFilter};

use crate::compiled::Compiled;
use crate::decision::{AccessDecision, Denial};
use crate::permissions::Permissions;
use crate::request::{Action, matched};
use crate::tree::{FilterQuery, TreeSearch};

/// The check of one subscription, which proceeds by as many steps at a time as its caller allows.
#[derive(Clone)]
pub struct SubscribeCheck {
    permissions: Permissions,
    qos: QoS,
    search: TreeSearch,
}

impl Permissions {
    /// Whether the client may subscribe, that is, receive every topic that the filter can match.
    ///
    /// `filter` is the filter as the client sent it. A subscription with `$share/NAME/` is a shared one; `$share/NAME/` and `$as/FORMAT/`
    /// are not part of the topics that rules match. The work grows with the number of rules; if others wait meanwhile, use
    /// [`Permissions::start_subscribe`].
    pub fn may_subscribe(&self, filter: TopicFilter<'_>, qos: QoS) -> AccessDecision {
        let mut check = SubscribeCheck::new(self.clone(), qos);
        let decision = check.resume(filter, &mut usize::MAX.clone());
        decision.unwrap_or(AccessDecision::Denied(Denial::TooComplex))
    }

    /// As [`Permissions::may_subscribe`], in about `steps_left` steps at most; subtracts those that were taken. A step is a visit to a
    /// node, about 25 ns. Returns a check to continue if the steps were not enough.
    ///
    /// # Errors
    /// The steps were not enough.
    pub fn start_subscribe(
        &self,
        filter: TopicFilter<'_>,
        qos: QoS,
        steps_left: &mut usize,
    ) -> Result<AccessDecision, SubscribeCheck> {
        if self.rules.compiled().is_none() {
            return Ok(AccessDecision::Allowed);
        }
        let mut check = SubscribeCheck::new(self.clone(), qos);
        check.resume(filter, steps_left).ok_or(check)
    }

    pub(crate) fn filter_query<'q>(
        &'q self,
        rules: &'q Compiled,
        filter: TopicFilter<'q>,
        qos: QoS,
    ) -> FilterQuery<'q> {
        let query = self.query(Action::new(qos, filter.share().is_some()));
        FilterQuery::new(&rules.tree, self.subscribe_roots(rules), query, matched(filter).as_bytes())
    }
}

impl SubscribeCheck {
    /// A check that has not started.
    fn new(permissions: Permissions, qos: QoS) -> Self {
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
