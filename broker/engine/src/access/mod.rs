//! What clients may do by the access rules.
//!
//! A publish is looked at with the match cache's entry of its topic at hand, a subscription when it is made. Deliveries need no
//! look, but for what has waited since before the rules changed or the client came back.

mod check_budget;
mod client_info;
mod review;

use std::num::NonZeroU64;
use std::sync::Arc;

use tautwire_access::{Identity, Permissions, Policy, PublishCache, Subject, TopicStamp};
use tautwire_message::MessageRef;
use tautwire_protocol::{QoS, TopicFilter};
use tautwire_session::{PendingMessage, StoredWill};

use crate::auth_progress::AuthProgress;
use crate::authentication::identity_of;
use crate::config::ConfigSnapshot;
use crate::connections::AuthState;
use crate::index::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::retained_publisher::LastPublisher;
use crate::state::ShardState;

pub(crate) use check_budget::CheckBudget;
pub use client_info::{ClientCheck, ClientInfo, RecheckOutcome};
pub(crate) use review::{AccessReview, AccessReviews};

/// The rules as a shard has them.
pub(crate) struct AccessRules {
    policy: Arc<Policy>,
    /// The number of the config with which it came.
    policy_version: u64,
    /// Says whether clients are known, where that has ever changed.
    client_check: Option<ClientCheck>,
    /// The number of the config with which it came.
    client_check_version: u64,
    /// There are rules.
    has_rules: bool,
    /// Clients are asked who they are.
    requires_auth: bool,
    auth_progress: Arc<AuthProgress>,
    /// Connections whose address decides whether they stay, and has been forgotten.
    unknown_address: Vec<ConnectionId>,
    last_publisher: LastPublisher,
}

impl AccessRules {
    pub(crate) fn new(config: &ConfigSnapshot) -> AccessRules {
        AccessRules {
            policy: config.policy.clone(),
            policy_version: config.policy_version(),
            client_check: config.known().cloned(),
            client_check_version: config.client_check_version(),
            has_rules: !config.policy.is_open(),
            requires_auth: config.asks,
            auth_progress: config.auth_progress.clone(),
            unknown_address: Vec::new(),
            last_publisher: LastPublisher::default(),
        }
    }

    /// Whether clients are asked who they are.
    #[inline]
    pub(crate) fn requires_auth(&self) -> bool {
        self.requires_auth
    }

    /// How much has been done to find out who clients are.
    pub(crate) fn auth_progress(&self) -> u64 {
        self.auth_progress.count()
    }

    /// Whether there are rules: without any, everything is allowed.
    #[inline]
    pub(crate) fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Takes on what holds now; gives what has to be looked at again because it is new.
    pub(crate) fn apply(&mut self, config: &ConfigSnapshot) -> AccessReviews {
        self.requires_auth = config.asks;
        self.auth_progress.clone_from(&config.auth_progress);
        let rules = (config.policy_version() != self.policy_version).then(|| {
            self.policy_version = config.policy_version();
            self.has_rules = !config.policy.is_open();
            std::mem::replace(&mut self.policy, config.policy.clone())
        });
        let clients = config.known().filter(|_| config.client_check_version() != self.client_check_version).cloned();
        if clients.is_some() {
            self.client_check_version = config.client_check_version();
            self.client_check.clone_from(&clients);
        }
        AccessReviews { rules, clients }
    }

    /// `listener`: that of a client without an identity.
    fn resolve(&self, identity: Option<&Arc<Identity>>, listener: &str, client_id: &str) -> Permissions {
        match identity {
            Some(identity) => identity.as_subject(client_id, |subject| self.policy.resolve(subject)),
            // It came before anybody was asked.
            None => {
                let nobody = Subject { client_id, user: None, listener, claims: &[], roles: &[] };
                self.policy.resolve(&nobody)
            }
        }
    }

    /// What the publisher of a retained message may do, by what is kept of it.
    pub(crate) fn permissions_of_publisher(&mut self, publisher: &str) -> Option<&Permissions> {
        self.last_publisher.permissions(&self.policy, publisher)
    }

    /// Whether somebody who is no client may publish.
    pub(crate) fn can_operator_publish(&self, message: &MessageRef<'_>) -> bool {
        let permissions = || self.policy.resolve(&Subject::ADMIN);
        !self.has_rules || permissions().may_publish(message.topic, message.qos, message.retain).is_allowed()
    }
}

/// Numbers for the entries of a shard's match cache, so that a [`PublishCache`] knows topics again.
#[derive(Debug, Default)]
pub(crate) struct TopicStamps(u64);

impl TopicStamps {
    pub(crate) fn next(&mut self) -> Option<TopicStamp> {
        self.0 += 1;
        NonZeroU64::new(self.0).map(TopicStamp::new)
    }
}

impl<M: Mode> ShardState<M> {
    /// What the client of a connection may do, as `client_id`; `None` where there are no rules.
    pub(crate) fn permissions_of(&self, index: ConnectionIndex, client_id: &str) -> Option<Permissions> {
        let connection = &self.connections[index];
        let identity = identity_of(connection.auth_state());
        let listener = || connection.origin().map_or("", |origin| origin.listener());
        self.config.access().has_rules().then(|| self.config.access().resolve(identity, listener(), client_id))
    }

    /// The roles of a session's client: those that the rules give it, and those that its authentication gives it.
    pub(crate) fn roles_of(&self, session: SessionIndex) -> Vec<Box<str>> {
        let client_id = self.sessions[session].client_id();
        let connection = self.sessions.connection(session);
        let bound = connection.and_then(|index| identity_of(self.connections[index].auth_state()));
        let identity = bound.or_else(|| self.sessions.identity(session));
        let access = self.config.access();
        let permissions = match connection {
            Some(index) => self.permissions_of(index, client_id),
            None => {
                identity.filter(|_| access.has_rules()).map(|identity| access.resolve(Some(identity), "", client_id))
            }
        };
        let mut roles: Vec<Box<str>> =
            permissions.iter().flat_map(|permissions| permissions.role_names()).map(Box::from).collect();
        for role in identity.iter().flat_map(|identity| identity.roles.iter()) {
            if !roles.contains(role) {
                roles.push(role.clone());
            }
        }
        roles
    }

    /// The gate of a connection that serves a session, by the rules that hold now; `None` where there are none.
    fn publish_gate_of(&mut self, index: ConnectionIndex) -> Option<&mut PublishCache> {
        if !self.config.access().has_rules() {
            return None;
        }
        let held = self.connections[index].auth_state().and_then(AuthState::gate);
        let is_current =
            held.is_some_and(|gate| Arc::ptr_eq(gate.permissions().policy(), &self.config.access().policy));
        if !is_current {
            let client_id = self.connections[index].session().map_or("", |session| self.sessions[session].client_id());
            let gate = self.permissions_of(index, client_id).map(PublishCache::new);
            self.connections[index].auth_state_or_new().set_gate(gate);
        }
        self.connections[index].auth_state_mut()?.gate_mut()
    }

    /// Whether the client of a connection may publish a message. `stamp` is that of the match cache's entry for its topic.
    pub(crate) fn may_publish(
        &mut self,
        index: ConnectionIndex,
        stamp: Option<TopicStamp>,
        message: &MessageRef<'_>,
    ) -> bool {
        let MessageRef { topic, qos, retain, .. } = *message;
        let allowed =
            self.publish_gate_of(index).is_none_or(|gate| gate.may_publish(stamp, topic, qos, retain).is_allowed());
        if !allowed {
            self.counters().publishes_not_authorized.add(1);
            self.audit_denied(index, "publish", topic);
        }
        allowed
    }

    /// Whether the client of a connection may make a subscription; `None` where `checks` has too few steps left to know.
    pub(crate) fn may_subscribe(
        &mut self,
        index: ConnectionIndex,
        filter: TopicFilter<'_>,
        qos: QoS,
        checks: &mut CheckBudget,
    ) -> Option<bool> {
        let allowed = match self.publish_gate_of(index) {
            Some(gate) => checks.check(gate.permissions(), filter, qos)?.is_allowed(),
            None => true,
        };
        if !allowed {
            self.counters().subscriptions_not_authorized.add(1);
            self.audit_denied(index, "subscribe", filter.as_str());
        }
        Some(allowed)
    }

    /// Whether a message that has waited may be sent, where that is in doubt.
    pub(crate) fn can_still_receive(&mut self, index: ConnectionIndex, delivery: &PendingMessage, topic: &str) -> bool {
        let doubts = self.connections[index].auth_state().is_some_and(AuthState::must_recheck_queue);
        if !doubts {
            return true;
        }
        let Some(gate) = self.publish_gate_of(index) else { return true };
        // The subscription's QoS may have been higher than what has come of it.
        let levels = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
        let mut levels = levels.into_iter().filter(|level| *level >= delivery.qos);
        levels.any(|qos| gate.permissions().may_receive(topic, qos, delivery.share.is_some()).is_allowed())
    }

    /// Whether a session's client may leave this will. The will of a session from before a restart has been allowed by the rules
    /// of its CONNECT.
    pub(crate) fn can_set_will(&mut self, session: SessionIndex, will: &StoredWill) -> bool {
        if !self.config.access().has_rules() {
            return true;
        }
        let connection = self.sessions.connection(session);
        let bound = connection.and_then(|index| identity_of(self.connections[index].auth_state()));
        let Some(identity) = bound.or_else(|| self.sessions.identity(session)) else { return true };
        let message = will.message.as_ref();
        let permissions = self.config.access().resolve(Some(identity), "", self.sessions[session].client_id());
        let allowed = permissions.may_publish(message.topic, message.qos, message.retain).is_allowed();
        if !allowed {
            self.counters().wills_not_authorized.add(1);
        }
        allowed
    }
}
