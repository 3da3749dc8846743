//! The permissions that a new policy may have changed.

use std::sync::Arc;

use crate::permissions::Permissions;
use crate::policy::Policy;
use crate::rule::NO_RULE;

/// The differences between two policies. After a reload most clients need no further check.
///
/// For each of the other clients: resolve its permissions by the new policy; if [`Changes::can_affect`] is true for them, call
/// [`Permissions::may_subscribe`] for each of its subscriptions and [`Permissions::may_publish`] for its will, and remove what is no longer
/// allowed.
#[derive(Debug, Clone)]
pub struct Changes {
    /// Those of the shared rules, and of each listener that has its own rules in both policies.
    differences: Vec<Difference>,
}

/// The differences between the rules of two files.
#[derive(Debug, Clone)]
struct Difference {
    old: Arc<Policy>,
    new: Arc<Policy>,
    /// For each role of the old file, its number in the new one if its rules are unchanged.
    same_roles: Vec<u32>,
    /// Whether exactly one of the two allows everything.
    default_changed: bool,
}

impl Changes {
    /// Compares each role of `old` with the role of that name in `new`.
    #[must_use]
    pub fn between(old: &Arc<Policy>, new: &Arc<Policy>) -> Self {
        let of_listeners = old.of_listeners().filter_map(|(name, old)| Some((old, new.for_listener(name)?)));
        let pairs = std::iter::once((old, new)).chain(of_listeners);
        Self { differences: pairs.map(|(old, new)| Difference::between(old, new)).collect() }
    }

    /// Whether the permissions of a subject may have changed. `old` and `new` are those of the same subject, each resolved by its policy.
    /// If this is false, all decisions are the same as before.
    #[must_use]
    pub fn can_affect(&self, old: &Permissions, new: &Permissions) -> bool {
        let is_theirs =
            |found: &&Difference| Arc::ptr_eq(&found.old, &old.rules) && Arc::ptr_eq(&found.new, &new.rules);
        // A listener has gained or lost rules of its own.
        self.differences.iter().find(is_theirs).is_none_or(|difference| difference.can_affect(old, new))
    }
}

impl Difference {
    fn between(old: &Arc<Policy>, new: &Arc<Policy>) -> Self {
        let same_roles = match (old.compiled(), new.compiled()) {
            (Some(old_rules), Some(new_rules)) => {
                let same = |(number, role): (usize, &crate::compiled::Role)| {
                    let &candidate = new_rules.role_numbers.get(&role.name)?;
                    let (was, is) = (old_rules.rules_of(number as u32), new_rules.rules_of(candidate));
                    let is_same = was.len() == is.len() && was.iter().zip(is).all(|(was, is)| was.is_equivalent(is));
                    is_same.then_some(candidate)
                };
                old_rules.roles.iter().enumerate().map(|role| same(role).unwrap_or(NO_RULE)).collect()
            }
            _ => Vec::new(),
        };
        let default_changed = old.compiled().is_some() != new.compiled().is_some();
        Self { old: old.clone(), new: new.clone(), same_roles, default_changed }
    }

    fn can_affect(&self, old: &Permissions, new: &Permissions) -> bool {
        let was = old.roles.roles.iter().map(|&role| self.same_roles.get(role as usize).copied().unwrap_or(NO_RULE));
        self.default_changed || !was.eq(new.roles.roles.iter().copied())
    }
}
