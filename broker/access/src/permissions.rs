//! What one client may do.

use std::fmt;
use std::sync::Arc;

use tautwire_protocol::{QoS, TopicFilter};

use crate::check::SubscribeCheck;
use crate::placeholder::{PlaceholderSet, PlaceholderValues};
use crate::policy::{Compiled, Policy};
use crate::request::{Action, matched};
use crate::tree::{AccessQuery, Coverage, FilterQuery, FirstMatch, Root};

/// What one client may do, by one policy. Resolved when it connects ([`Policy::resolve`]), and again when the policy changes.
///
/// 48 bytes. Clients with the same roles share what those need; the values of placeholders, where a role has any, are one
/// allocation of their own length.
#[derive(Clone)]
pub struct Permissions {
    /// By which they were resolved.
    pub(crate) policy: Arc<Policy>,
    /// What of it holds for the client's listener.
    pub(crate) rules: Arc<Policy>,
    pub(crate) roles: Arc<RoleSet>,
    pub(crate) bindings: PlaceholderValues,
}

/// The roles of a client, in the order of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RoleSet {
    pub(crate) roles: Box<[u32]>,
    pub(crate) placeholders: PlaceholderSet,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AccessDecision {
    /// Yes.
    Allowed,
    /// No: Not authorized, 0x87 in MQTT 5.0. In 3.1.1 SUBACK says 0x80, CONNACK 5, and a PUBLISH is acknowledged and dropped.
    Denied(Denial),
}

/// Why the answer is no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// A rule says so.
    ByRule,
    /// No rule allows it.
    NoRule,
    /// So many rules that deny meet the filter of a subscription that the check takes more than
    /// [`crate::limits::SUBSCRIBE_STEPS_MAX`] steps.
    TooComplex,
}

impl AccessDecision {
    /// Whether the answer is yes.
    #[inline]
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed)
    }
}

impl Denial {
    /// A stable name, for counters and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ByRule => "denied_by_rule",
            Self::NoRule => "denied_without_rule",
            Self::TooComplex => "denied_too_intricate",
        }
    }
}

impl Permissions {
    /// Whether a message may be published, or a will left. Allocates nothing.
    ///
    /// `topic` is a topic name, as it is after topic aliases have been resolved.
    #[inline]
    pub fn may_publish(&self, topic: &str, qos: QoS, retain: bool) -> AccessDecision {
        match self.rules.compiled() {
            Some(rules) => verdict(self.first_for_publish(rules, topic, qos, retain)),
            None => AccessDecision::Allowed,
        }
    }

    /// Whether a subscription may be made: whether the client may receive every topic that the filter can match.
    ///
    /// `filter` is the filter as the client sent it. A subscription with `$share/NAME/` is a shared one; `$share/NAME/` and
    /// `$as/FORMAT/` are no part of the topics that rules are about. The work grows with the number of rules; where others wait
    /// meanwhile, use [`Permissions::start_subscribe`].
    pub fn may_subscribe(&self, filter: TopicFilter<'_>, qos: QoS) -> AccessDecision {
        let mut check = SubscribeCheck::new(self.clone(), qos);
        let verdict = check.resume(filter, &mut usize::MAX.clone());
        verdict.unwrap_or(AccessDecision::Denied(Denial::TooComplex))
    }

    /// The same in at most about `steps_left` steps, of which those that were taken are subtracted. A step is a look at a node, about
    /// 25 ns. Gives a check that goes on where that was not enough.
    ///
    /// # Errors
    /// There were too few steps.
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

    /// Whether both give the same answers, whatever is asked.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.policy, &other.policy)
            && Arc::ptr_eq(&self.rules, &other.rules)
            && self.roles == other.roles
            && self.bindings == other.bindings
    }

    /// Whether one message may be delivered for a subscription. A subscription that has been granted by these permissions needs
    /// no such question. It is for messages that wait in a queue from before the policy changed. Allocates nothing.
    ///
    /// `qos` is the QoS of the subscription, `shared` whether it is a shared one.
    pub fn may_receive(&self, topic: &str, qos: QoS, shared: bool) -> AccessDecision {
        match self.rules.compiled() {
            Some(rules) => verdict(self.first_for_receive(rules, topic, Action::new(qos, shared))),
            None => AccessDecision::Allowed,
        }
    }

    /// The policy that they were resolved by.
    #[must_use]
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Names of the client's roles, in the order of the file.
    pub fn role_names(&self) -> impl Iterator<Item = &str> {
        let rules = self.rules.compiled();
        self.roles.roles.iter().filter_map(move |&role| Some(&*rules?.roles.get(role as usize)?.name))
    }

    /// Heap bytes that are for this client alone. Without placeholders in its roles there are none.
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

    pub(crate) fn question<'q>(&'q self, rules: &'q Compiled, filter: TopicFilter<'q>, qos: QoS) -> FilterQuery<'q> {
        let query = self.query(Action::new(qos, filter.share().is_some()));
        FilterQuery::new(&rules.tree, self.subscribe_roots(rules), query, matched(filter).as_bytes())
    }

    fn query(&self, action: Action) -> AccessQuery<'_> {
        AccessQuery { bindings: &self.bindings, action }
    }

    fn subscribe_roots(&self, rules: &Compiled) -> impl Iterator<Item = Root> {
        self.roles.roles.iter().map(|&role| rules.roots(role).subscribe)
    }
}

fn verdict(first: FirstMatch) -> AccessDecision {
    if first.allows { AccessDecision::Allowed } else { AccessDecision::Denied(denial(first)) }
}

fn denial(first: FirstMatch) -> Denial {
    if first == FirstMatch::NONE { Denial::NoRule } else { Denial::ByRule }
}

impl Coverage {
    pub(crate) fn verdict(&self) -> AccessDecision {
        match self {
            Coverage::AllAllowed => AccessDecision::Allowed,
            Coverage::FirstDenied { first, .. } => AccessDecision::Denied(denial(*first)),
            Coverage::TooComplex => AccessDecision::Denied(Denial::TooComplex),
        }
    }
}

/// Shows no values of placeholders: claims may be personal.
impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles: Vec<&str> = self.role_names().collect();
        f.debug_struct("Permissions").field("roles", &roles).finish_non_exhaustive()
    }
}
