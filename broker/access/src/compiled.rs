//! The compiled content of a rule file.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::assignment::Assignment;
use crate::placeholder::{Placeholder, PlaceholderSet};
use crate::rule::Rule;
use crate::tree::{Root, Tree};
use crate::users::Users;

/// The compiled content of a rule file.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    pub(crate) file: String,
    pub(crate) roles: Vec<Role>,
    pub(crate) role_numbers: HashMap<Box<str>, u32, FixedState>,
    /// In the order of the file.
    pub(crate) rules: Vec<Rule>,
    pub(crate) tree: Tree,
    pub(crate) placeholders: Vec<Placeholder>,
    pub(crate) users: Users,
    pub(crate) assignments: Vec<Assignment>,
}

#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) name: Box<str>,
    pub(crate) roots: ActionRoots,
    pub(crate) placeholders: PlaceholderSet,
    /// Its rules, which are contiguous.
    pub(crate) rules: std::ops::Range<u32>,
}

/// The trees of a role.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActionRoots {
    pub(crate) publish: Root,
    pub(crate) subscribe: Root,
}

impl Compiled {
    #[inline]
    pub(crate) fn roots(&self, role: u32) -> ActionRoots {
        self.roles[role as usize].roots
    }

    pub(crate) fn rules_of(&self, role: u32) -> &[Rule] {
        let rules = self.roles.get(role as usize).map_or(0..0, |role| role.rules.clone());
        self.rules.get(rules.start as usize..rules.end as usize).unwrap_or_default()
    }
}
