//! The permissions of a client.

use std::fmt;
use std::sync::Arc;

use tautwire_protocol::{QoS, TopicFilter};

use crate::check::SubscribeCheck;
use crate::placeholder::{PlaceholderSet, PlaceholderValues};
use crate::policy::{Compiled, Policy};
use crate::request::{Action, matched};
use crate::tree::{AccessQuery, Coverage, FilterQuery, FirstMatch, Root};

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

/// The roles of a client, in the order of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RoleSet {
    pub(crate) roles: Box<[u32]>,
    pub(crate) placeholders: PlaceholderSet,
}

/// The decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AccessDecision {
    /// The request is allowed.
    Allowed,
    /// The request is denied: Not authorized, 0x87 in MQTT 5.0. In 3.1.1 SUBACK has 0x80, CONNACK 5, and a PUBLISH is acknowledged and
    /// dropped.
    Denied(Denial),
}

/// Why a request is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// A rule denies it.
    ByRule,
    /// No rule allows it.
    NoRule,
    /// So many deny rules overlap with the filter of a subscription that the check takes more than [`crate::limits::SUBSCRIBE_STEPS_MAX`]
    /// steps.
    TooComplex,
}

impl AccessDecision {
    /// Whether the request is allowed.
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
            Self::NoRule => "denied_by_default",
            Self::TooComplex => "denied_too_complex",
        }
    }
}

impl Permissions {
    /// Whether the client may publish a message or a will. Does not allocate.
    ///
    /// `topic` is the topic name, with topic aliases resolved.
    #[inline]
    pub fn may_publish(&self, topic: &str, qos: QoS, retain: bool) -> AccessDecision {
        match self.rules.compiled() {
            Some(rules) => decision(self.first_for_publish(rules, topic, qos, retain)),
            None => AccessDecision::Allowed,
        }
    }

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
            Some(rules) => decision(self.first_for_receive(rules, topic, Action::new(qos, shared))),
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

    pub(crate) fn filter_query<'q>(
        &'q self,
        rules: &'q Compiled,
        filter: TopicFilter<'q>,
        qos: QoS,
    ) -> FilterQuery<'q> {
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

fn decision(first: FirstMatch) -> AccessDecision {
    if first.allows { AccessDecision::Allowed } else { AccessDecision::Denied(denial(first)) }
}

fn denial(first: FirstMatch) -> Denial {
    if first == FirstMatch::NONE { Denial::NoRule } else { Denial::ByRule }
}

impl Coverage {
    pub(crate) fn decision(&self) -> AccessDecision {
        match self {
            Coverage::AllAllowed => AccessDecision::Allowed,
            Coverage::FirstDenied { first, .. } => AccessDecision::Denied(denial(*first)),
            Coverage::TooComplex => AccessDecision::Denied(Denial::TooComplex),
        }
    }
}

/// Omits the values of placeholders: claims may be personal data.
impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles: Vec<&str> = self.role_names().collect();
        f.debug_struct("Permissions").field("roles", &roles).finish_non_exhaustive()
    }
}
