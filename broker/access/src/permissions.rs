//! The permissions of a client.

use std::fmt;
use std::sync::Arc;

use tautwire_protocol::QoS;

use crate::compiled::Compiled;
use crate::decision::AccessDecision;
use crate::placeholder::PlaceholderValues;
use crate::policy::{Policy, RoleSet};
use crate::request::Action;
use crate::subject::Subject;
use crate::tree::{AccessQuery, FirstMatch, Root};

/// What a policy allows a client. Resolved when it connects ([`Policy::resolve`]), and again when the policy changes.
///
/// 48 bytes. Clients with the same roles share their role set; the values of placeholders, if a role has any, are one allocation.
#[derive(Clone)]
pub struct Permissions {
    /// The policy that they were resolved by.
    pub(crate) policy: Arc<Policy>,
    /// The part of it that applies to the client's listener.
    pub(crate) rules: Arc<Policy>,
    pub(crate) roles: Arc<RoleSet>,
    pub(crate) bindings: PlaceholderValues,
}

impl Policy {
    /// The permissions of a subject. Called for each CONNECT; evaluates each `[[assign]]` of the file.
    #[must_use]
    pub fn resolve(self: &Arc<Self>, subject: &Subject<'_>) -> Permissions {
        let rules = self.for_listener(subject.listener).unwrap_or(self);
        let roles = rules.role_set(rules.roles_of(subject));
        let bindings = match rules.compiled() {
            Some(compiled) if !roles.placeholders.is_empty() => {
                PlaceholderValues::new(roles.placeholders, &compiled.placeholders, subject)
            }
            _ => PlaceholderValues::default(),
        };
        Permissions { policy: self.clone(), rules: rules.clone(), roles, bindings }
    }
}

impl Permissions {
    /// Whether the client may publish a message or a will. Does not allocate.
    ///
    /// `topic` is the topic name, with topic aliases resolved.
    #[inline]
    pub fn may_publish(&self, topic: &str, qos: QoS, retain: bool) -> AccessDecision {
        match self.rules.compiled() {
            Some(rules) => AccessDecision::of(self.first_for_publish(rules, topic, qos, retain)),
            None => AccessDecision::Allowed,
        }
    }

    /// Whether both give the same decisions for all requests.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.policy, &other.policy)
            && Arc::ptr_eq(&self.rules, &other.rules)
            && self.roles == other.roles
            && self.bindings == other.bindings
    }

    /// Whether a queued message may be delivered for a subscription. Not needed for a subscription that these permissions have granted; it
    /// is for messages that were queued before the policy changed. Does not allocate.
    ///
    /// `qos` is the QoS of the subscription, `shared` whether it is a shared one.
    pub fn may_receive(&self, topic: &str, qos: QoS, shared: bool) -> AccessDecision {
        match self.rules.compiled() {
            Some(rules) => AccessDecision::of(self.first_for_receive(rules, topic, Action::new(qos, shared))),
            None => AccessDecision::Allowed,
        }
    }

    /// The policy that they were resolved by.
    #[must_use]
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The names of the client's roles, in the order of the file.
    pub fn role_names(&self) -> impl Iterator<Item = &str> {
        let rules = self.rules.compiled();
        self.roles.roles.iter().filter_map(move |&role| Some(&*rules?.roles.get(role as usize)?.name))
    }

    /// Heap bytes that only this client uses. 0 if its roles have no placeholders.
    #[must_use]
    pub fn own_heap_bytes(&self) -> usize {
        self.bindings.heap_bytes()
    }

    pub(crate) fn first_for_publish(&self, rules: &Compiled, topic: &str, qos: QoS, retain: bool) -> FirstMatch {
        let roots = self.roles.roles.iter().map(|&role| rules.roots(role).publish);
        rules.tree.first_for_topic(roots, self.query(Action::new(qos, retain)), topic.as_bytes())
    }

    pub(crate) fn first_for_receive(&self, rules: &Compiled, topic: &str, action: Action) -> FirstMatch {
        rules.tree.first_for_topic(self.subscribe_roots(rules), self.query(action), topic.as_bytes())
    }

    pub(crate) fn query(&self, action: Action) -> AccessQuery<'_> {
        AccessQuery { bindings: &self.bindings, action }
    }

    pub(crate) fn subscribe_roots(&self, rules: &Compiled) -> impl Iterator<Item = Root> {
        self.roles.roles.iter().map(|&role| rules.roots(role).subscribe)
    }
}

/// Omits the values of placeholders: claims may be personal data.
impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles: Vec<&str> = self.role_names().collect();
        f.debug_struct("Permissions").field("roles", &roles).finish_non_exhaustive()
    }
}
