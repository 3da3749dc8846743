//! A policy: the rules of a file, and those of listeners.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::assignment::Assignment;
use crate::compiled::{Compiled, Role};
use crate::error::AccessError;
use crate::file;
use crate::limits::SHARED_ROLE_SETS_MAX;
use crate::placeholder::PlaceholderSet;
use crate::rule::Rule;
use crate::subject::Subject;

/// A compiled rule file, and those of listeners that have their own. It is immutable: a changed file becomes a new policy.
pub struct Policy {
    /// If `None`, everything is allowed.
    compiled: Option<Compiled>,
    /// Rules that replace these for a listener, by its name.
    listeners: Vec<(Box<str>, Arc<Policy>)>,
    /// Role sets of clients. Locked when a client connects, never for a message.
    role_sets: Mutex<HashMap<Box<[u32]>, Arc<RoleSet>, FixedState>>,
}

/// The roles of a client, in the order of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RoleSet {
    pub(crate) roles: Box<[u32]>,
    pub(crate) placeholders: PlaceholderSet,
}

impl Policy {
    /// The policy without a rule file: everything is allowed.
    #[must_use]
    pub fn open() -> Self {
        Self::new(None)
    }

    /// Parses and compiles a rule file. `file` is its name, for messages. Requests that no rule allows are denied.
    ///
    /// # Errors
    /// All errors of the file, in order; at most [`crate::limits::ERRORS_MAX`]. A file without any rule is an error.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<AccessError>> {
        file::read(file, text).map(|compiled| Self::new(Some(compiled)))
    }

    fn new(compiled: Option<Compiled>) -> Self {
        Self { compiled, listeners: Vec::new(), role_sets: Mutex::default() }
    }

    /// Adds the rules of listeners, each of which replaces these rules for its clients.
    #[must_use]
    pub fn with_listeners(self, listeners: Vec<(Box<str>, Policy)>) -> Self {
        let listeners = listeners.into_iter().map(|(name, policy)| (name, Arc::new(policy))).collect();
        Self { listeners, ..self }
    }

    /// The rules that are specific to a listener.
    pub(crate) fn for_listener(&self, listener: &str) -> Option<&Arc<Policy>> {
        self.listeners.iter().find(|(name, _)| **name == *listener).map(|(_, policy)| policy)
    }

    /// The listeners that have their own rules.
    pub(crate) fn of_listeners(&self) -> impl Iterator<Item = (&str, &Arc<Policy>)> {
        self.listeners.iter().map(|(name, policy)| (&**name, policy))
    }

    /// Whether everything is allowed, because there is no rule file.
    #[inline]
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.compiled.is_none() && self.listeners.iter().all(|(_, policy)| policy.is_open())
    }

    /// Whether the file has a role of this name.
    #[must_use]
    pub fn has_role(&self, name: &str) -> bool {
        self.compiled.as_ref().is_some_and(|compiled| compiled.role_numbers.contains_key(name))
    }

    /// The number of rules, counting each filter, including those of listeners.
    #[must_use]
    pub fn rule_count(&self) -> usize {
        let own = self.compiled.as_ref().map_or(0, |compiled| compiled.rules.len());
        own + self.listeners.iter().map(|(_, policy)| policy.rule_count()).sum::<usize>()
    }

    /// The number of roles.
    #[must_use]
    pub fn role_count(&self) -> usize {
        self.compiled.as_ref().map_or(0, |compiled| compiled.roles.len())
    }

    /// The number of users in the table `[users]`.
    #[must_use]
    pub fn user_count(&self) -> usize {
        self.compiled.as_ref().map_or(0, |compiled| compiled.users.len())
    }

    /// Approximate memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let listeners_bytes: usize = self.listeners.iter().map(|(_, policy)| policy.memory_bytes()).sum();
        let Some(compiled) = &self.compiled else { return size_of::<Self>() + listeners_bytes };
        let filters: usize = compiled.rules.iter().map(|rule| rule.filter.len()).sum();
        let names: usize = compiled.roles.iter().map(|role| role.name.len() * 2).sum();
        size_of::<Self>()
            + listeners_bytes
            + compiled.rules.capacity() * size_of::<Rule>()
            + filters
            + compiled.roles.capacity() * size_of::<Role>()
            + names
            + compiled.role_numbers.allocation_size()
            + compiled.tree.memory_bytes()
            + compiled.users.memory_bytes()
            + compiled.assignments.capacity() * size_of::<Assignment>()
    }

    pub(crate) fn compiled(&self) -> Option<&Compiled> {
        self.compiled.as_ref()
    }

    /// Indices of the roles of a subject, in the order of the file.
    pub(crate) fn roles_of(&self, subject: &Subject<'_>) -> Vec<u32> {
        let Some(compiled) = &self.compiled else { return Vec::new() };
        let mut roles = subject.user.map_or(Vec::new(), |user| compiled.users.roles_of(user).to_vec());
        for assignment in compiled.assignments.iter().filter(|assignment| assignment.is_for(subject)) {
            roles.extend_from_slice(&assignment.roles);
        }
        roles.extend(subject.roles.iter().filter_map(|&name| compiled.role_numbers.get(name)));
        roles.sort_unstable();
        roles.dedup();
        roles
    }

    pub(crate) fn role_set(&self, roles: Vec<u32>) -> Arc<RoleSet> {
        // A set is inserted only when complete, so a panic elsewhere leaves no partial entry.
        let mut known = self.role_sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = known.get(&*roles) {
            return set.clone();
        }
        let of_role =
            |&role: &u32| self.compiled.as_ref().map_or_else(Default::default, |c| c.roles[role as usize].placeholders);
        let placeholders = roles.iter().map(of_role).fold(PlaceholderSet::default(), PlaceholderSet::union);
        let set = Arc::new(RoleSet { roles: roles.into(), placeholders });
        if known.len() < SHARED_ROLE_SETS_MAX {
            known.insert(set.roles.clone(), set.clone());
        }
        set
    }
}

/// Omits users and rules: there may be many.
impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("is_open", &self.is_open())
            .field("roles", &self.role_count())
            .field("rules", &self.rule_count())
            .field("users", &self.user_count())
            .finish()
    }
}
