//! What clients may do by the access rules.
//!
//! A publish is looked at with the match cache's entry of its topic at hand, a subscription when it is made. Deliveries need no
//! look, but for what has waited since before the rules changed or the client came back.

mod checks;
mod review;
mod visitor;

use std::num::NonZeroU64;
use std::sync::Arc;

use tautwire_access::{Identity, Permissions, Policy, PublishCache, Subject, TopicStamp};
use tautwire_message::MessageRef;
use tautwire_protocol::{QoS, TopicFilter};
use tautwire_session::{Journal, KeptWill, PendingMessage};

use crate::admission::identity_of;
use crate::auth_progress::AuthProgress;
use crate::connections::Standing;
use crate::hub::Hub;
use crate::place::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::regime::Regime;
use crate::retained_publisher::LastPublisher;

pub(crate) use checks::Checks;
pub(crate) use review::{Review, Reviews};
pub use visitor::{Fate, Known, Visitor};

/// The rules as a shard has them.
pub(crate) struct Access {
    policy: Arc<Policy>,
    /// The number of the regime with which it came.
    policy_since: u64,
    /// Says whether clients are known, where that has ever changed.
    known: Option<Known>,
    /// The number of the regime with which it came.
    known_since: u64,
    /// There are rules.
    is_closed: bool,
    /// Clients are asked who they are.
    asks: bool,
    auth_progress: Arc<AuthProgress>,
    /// Connections whose address decides whether they stay, and has been forgotten.
    addressless: Vec<ConnectionId>,
    last_publisher: LastPublisher,
}

impl Access {
    pub(crate) fn new(regime: &Regime) -> Access {
        Access {
            policy: regime.policy.clone(),
            policy_since: regime.policy_since(),
            known: regime.known().cloned(),
            known_since: regime.known_since(),
            is_closed: !regime.policy.is_open(),
            asks: regime.asks,
            auth_progress: regime.auth_progress.clone(),
            addressless: Vec::new(),
            last_publisher: LastPublisher::default(),
        }
    }

    /// Whether clients are asked who they are.
    #[inline]
    pub(crate) fn asks(&self) -> bool {
        self.asks
    }

    /// How much has been done to find out who clients are.
    pub(crate) fn auth_progress(&self) -> u64 {
        self.auth_progress.count()
    }

    /// Whether there are rules: without any, everything is allowed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Takes on what holds now; gives what has to be looked at again because it is new.
    pub(crate) fn take_on(&mut self, regime: &Regime) -> Reviews {
        self.asks = regime.asks;
        self.auth_progress.clone_from(&regime.auth_progress);
        let rules = (regime.policy_since() != self.policy_since).then(|| {
            self.policy_since = regime.policy_since();
            self.is_closed = !regime.policy.is_open();
            std::mem::replace(&mut self.policy, regime.policy.clone())
        });
        let clients = regime.known().filter(|_| regime.known_since() != self.known_since).cloned();
        if clients.is_some() {
            self.known_since = regime.known_since();
            self.known.clone_from(&clients);
        }
        Reviews { rules, clients }
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
    pub(crate) fn operator_may_publish(&self, message: &MessageRef<'_>) -> bool {
        let permissions = || self.policy.resolve(&Subject::ADMIN);
        !self.is_closed || permissions().may_publish(message.topic, message.qos, message.retain).is_allowed()
    }
}

/// Numbers for the entries of a shard's match cache, so that a [`PublishCache`] knows topics again.
#[derive(Debug, Default)]
pub(crate) struct Stamps(u64);

impl Stamps {
    pub(crate) fn next(&mut self) -> Option<TopicStamp> {
        self.0 += 1;
        NonZeroU64::new(self.0).map(TopicStamp::new)
    }
}

impl<J: Journal> Hub<J> {
    /// What the client of a connection may do, as `client_id`; `None` where there are no rules.
    pub(crate) fn permissions_of(&self, index: ConnectionIndex, client_id: &str) -> Option<Permissions> {
        let connection = &self.connections[index];
        let identity = identity_of(connection.standing());
        let listener = || connection.origin().map_or("", |origin| origin.listener());
        self.regime.access().is_closed().then(|| self.regime.access().resolve(identity, listener(), client_id))
    }

    /// The roles of a session's client: those that the rules give it, and those that its authentication gives it.
    pub(crate) fn roles_of(&self, session: SessionIndex) -> Vec<Box<str>> {
        let client_id = self.sessions[session].client_id();
        let connection = self.sessions.connection(session);
        let bound = connection.and_then(|index| identity_of(self.connections[index].standing()));
        let identity = bound.or_else(|| self.sessions.identity(session));
        let access = self.regime.access();
        let permissions = match connection {
            Some(index) => self.permissions_of(index, client_id),
            None => {
                identity.filter(|_| access.is_closed()).map(|identity| access.resolve(Some(identity), "", client_id))
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
    fn gate_of(&mut self, index: ConnectionIndex) -> Option<&mut PublishCache> {
        if !self.regime.access().is_closed() {
            return None;
        }
        let held = self.connections[index].standing().and_then(Standing::gate);
        let is_current =
            held.is_some_and(|gate| Arc::ptr_eq(gate.permissions().policy(), &self.regime.access().policy));
        if !is_current {
            let client_id = self.connections[index].session().map_or("", |session| self.sessions[session].client_id());
            let gate = self.permissions_of(index, client_id).map(PublishCache::new);
            self.connections[index].standing_or_new().set_gate(gate);
        }
        self.connections[index].standing_mut()?.gate_mut()
    }

    /// Whether the client of a connection may publish a message. `stamp` is that of the match cache's entry for its topic.
    pub(crate) fn may_publish(
        &mut self,
        index: ConnectionIndex,
        stamp: Option<TopicStamp>,
        message: &MessageRef<'_>,
    ) -> bool {
        let MessageRef { topic, qos, retain, .. } = *message;
        let allowed = self.gate_of(index).is_none_or(|gate| gate.may_publish(stamp, topic, qos, retain).is_allowed());
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
        checks: &mut Checks,
    ) -> Option<bool> {
        let allowed = match self.gate_of(index) {
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
    pub(crate) fn may_still_receive(&mut self, index: ConnectionIndex, delivery: &PendingMessage, topic: &str) -> bool {
        let doubts = self.connections[index].standing().is_some_and(Standing::doubts_queue);
        if !doubts {
            return true;
        }
        let Some(gate) = self.gate_of(index) else { return true };
        // The subscription's QoS may have been higher than what has come of it.
        let levels = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
        let mut levels = levels.into_iter().filter(|level| *level >= delivery.qos);
        levels.any(|qos| gate.permissions().may_receive(topic, qos, delivery.share.is_some()).is_allowed())
    }

    /// Whether a session's client may leave this will. The will of a session from before a restart has been allowed by the rules
    /// of its CONNECT.
    pub(crate) fn may_leave_will(&mut self, session: SessionIndex, will: &KeptWill) -> bool {
        if !self.regime.access().is_closed() {
            return true;
        }
        let connection = self.sessions.connection(session);
        let bound = connection.and_then(|index| identity_of(self.connections[index].standing()));
        let Some(identity) = bound.or_else(|| self.sessions.identity(session)) else { return true };
        let message = will.message.as_ref();
        let permissions = self.regime.access().resolve(Some(identity), "", self.sessions[session].client_id());
        let allowed = permissions.may_publish(message.topic, message.qos, message.retain).is_allowed();
        if !allowed {
            self.counters().wills_not_authorized.add(1);
        }
        allowed
    }
}
