//! The steps of [`super`] that need several parts of a shard.

use std::sync::Arc;

use tautwire_access::{Permissions, PublishCache, TopicStamp};
use tautwire_message::MessageRef;
use tautwire_protocol::{QoS, TopicFilter};
use tautwire_session::{PendingMessage, StoredWill};

use super::CheckBudget;
use crate::connection::authentication::identity_of;
use crate::connection::connections::AuthState;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// The permissions of a connection's client with this client identifier; `None` if there are no rules.
    pub(crate) fn permissions_of(&self, index: ConnectionIndex, client_id: &str) -> Option<Permissions> {
        let connection = &self.connections[index];
        let identity = identity_of(connection.auth_state());
        let listener = || connection.origin().map_or("", |origin| origin.listener());
        self.config.access().has_rules().then(|| self.config.access().resolve(identity, listener(), client_id))
    }

    /// The roles of a session's client: from the rules, and from its authentication.
    pub(crate) fn roles_of(&self, session: SessionIndex) -> Vec<Box<str>> {
        let client_id = self.sessions[session].client_id();
        let connection = self.sessions.connection(session);
        let connected = connection.and_then(|index| identity_of(self.connections[index].auth_state()));
        let identity = connected.or_else(|| self.sessions.identity(session));
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

    /// The publish cache of a connection with a session, for the current rules; `None` if there are no rules.
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

    /// Whether the client of a connection may subscribe; `None` if the budget of `checks` ran out.
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

    /// Whether a queued message may still be sent, if that must be rechecked.
    pub(crate) fn can_still_receive(&mut self, index: ConnectionIndex, delivery: &PendingMessage, topic: &str) -> bool {
        let must_recheck = self.connections[index].auth_state().is_some_and(AuthState::must_recheck_queue);
        if !must_recheck {
            return true;
        }
        let Some(gate) = self.publish_gate_of(index) else { return true };
        // The subscription's QoS may be higher than the message's.
        let levels = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
        let mut levels = levels.into_iter().filter(|level| *level >= delivery.qos);
        levels.any(|qos| gate.permissions().may_receive(topic, qos, delivery.share.is_some()).is_allowed())
    }

    /// Whether a session's client may set this will. The will of a session from before a restart was checked when its CONNECT was accepted.
    pub(crate) fn can_set_will(&mut self, session: SessionIndex, will: &StoredWill) -> bool {
        if !self.config.access().has_rules() {
            return true;
        }
        let connection = self.sessions.connection(session);
        let connected = connection.and_then(|index| identity_of(self.connections[index].auth_state()));
        let Some(identity) = connected.or_else(|| self.sessions.identity(session)) else { return true };
        let message = will.message.as_ref();
        let permissions = self.config.access().resolve(Some(identity), "", self.sessions[session].client_id());
        let allowed = permissions.may_publish(message.topic, message.qos, message.retain).is_allowed();
        if !allowed {
            self.counters().wills_not_authorized.add(1);
        }
        allowed
    }
}
