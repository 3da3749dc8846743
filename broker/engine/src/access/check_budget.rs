//! Checks of subscriptions, counted by what they cost.

use tautwire_access::{AccessDecision, Permissions, SubscribeCheck};
use tautwire_protocol::{QoS, TopicFilter};

/// Nodes of the rules' trees that are looked at in one step of a job, which takes about a microsecond.
const NODES_PER_STEP: usize = 32;

/// The checks of one slice of a job, and the one that the slice before has not finished.
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
    /// Checks that may take so many steps of a job.
    pub(crate) fn with_steps(steps: usize) -> CheckBudget {
        let nodes = steps.saturating_mul(NODES_PER_STEP);
        CheckBudget { given: nodes, left: nodes, partial: None }
    }

    /// Gives them so many steps of a job from now on.
    pub(crate) fn give(&mut self, steps: usize) {
        self.given = steps.saturating_mul(NODES_PER_STEP);
        self.left = self.given;
    }

    /// Steps of a job that they have taken.
    pub(crate) fn steps_taken(&self) -> usize {
        (self.given - self.left).div_ceil(NODES_PER_STEP)
    }

    /// Whether a subscription is allowed; `None` where too few steps are left to know. Asked about the same filter, it goes on.
    pub(crate) fn check(
        &mut self,
        permissions: &Permissions,
        filter: TopicFilter<'_>,
        qos: QoS,
    ) -> Option<AccessDecision> {
        let held = self.partial.take();
        let held = held.filter(|held| *held.filter == *filter.as_str() && held.check.is_for(permissions, qos));
        let Some(mut held) = held else {
            let begun = permissions.start_subscribe(filter, qos, &mut self.left);
            let hold = |check| self.partial = Some(Box::new(PartialCheck { filter: filter.as_str().into(), check }));
            return begun.map_err(hold).ok();
        };
        let verdict = held.check.resume(filter, &mut self.left);
        if verdict.is_none() {
            self.partial = Some(held);
        }
        verdict
    }
}
