//! Access checks of subscriptions, limited by the work they may do.

use tautwire_access::{AccessDecision, Permissions, SubscribeCheck};
use tautwire_protocol::{QoS, TopicFilter};

/// Nodes of the rules' trees that count as one step of a job, which takes about a microsecond.
const NODES_PER_STEP: usize = 32;

/// The budget for the checks of one slice of a job, with the check that the last slice did not finish.
#[derive(Debug)]
pub(crate) struct CheckBudget {
    given: usize,
    left: usize,
    partial: Option<Box<PartialCheck>>,
}

#[derive(Debug)]
struct PartialCheck {
    filter: Box<str>,
    check: SubscribeCheck,
}

impl CheckBudget {
    /// A budget of this many steps.
    pub(crate) fn with_steps(steps: usize) -> CheckBudget {
        let nodes = steps.saturating_mul(NODES_PER_STEP);
        CheckBudget { given: nodes, left: nodes, partial: None }
    }

    /// Sets the budget to this many steps.
    pub(crate) fn give(&mut self, steps: usize) {
        self.given = steps.saturating_mul(NODES_PER_STEP);
        self.left = self.given;
    }

    /// The steps used so far.
    pub(crate) fn steps_taken(&self) -> usize {
        (self.given - self.left).div_ceil(NODES_PER_STEP)
    }

    /// Whether a subscription is allowed; `None` if the budget ran out. Repeated with the same filter, the check continues.
    pub(crate) fn check(
        &mut self,
        permissions: &Permissions,
        filter: TopicFilter<'_>,
        qos: QoS,
    ) -> Option<AccessDecision> {
        let partial = self.partial.take();
        let partial =
            partial.filter(|partial| *partial.filter == *filter.as_str() && partial.check.is_for(permissions, qos));
        let Some(mut partial) = partial else {
            let started = permissions.start_subscribe(filter, qos, &mut self.left);
            let save = |check| self.partial = Some(Box::new(PartialCheck { filter: filter.as_str().into(), check }));
            return started.map_err(save).ok();
        };
        let decision = partial.check.resume(filter, &mut self.left);
        if decision.is_none() {
            self.partial = Some(partial);
        }
        decision
    }
}
