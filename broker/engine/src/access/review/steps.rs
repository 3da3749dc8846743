//! The steps of [`super`] that need several parts of a shard.

use core::net::IpAddr;
use std::sync::Arc;

use tautwire_access::{AccessDecision, Changes, Permissions, Policy, PublishCache};
use tautwire_protocol::{DisconnectReason, TopicFilter};
use tautwire_router::SessionKey;
use tautwire_session::Change;

use super::{AccessReview, AccessReviews};
use crate::access::{CheckBudget, ClientCheck, ClientInfo, RecheckOutcome};
use crate::connection::authentication::identity_of;
use crate::connection::connections::{AuthState, PauseReason, Phase};
use crate::connection::origin::Peer;
use crate::index::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::scheduling::io::Io;
use crate::scheduling::jobs::Job;
use crate::shard::Shard;

/// A session with more subscriptions is reviewed over several turns.
const FILTERS_PER_TURN: usize = 64;

/// Connections or filters that are reviewed in one slice; fewer if checks are slow.
const JOB_SLICE_STEPS: usize = 256;

impl<M: Mode> Shard<M> {
    /// Starts the reviews that a new configuration requires.
    pub(crate) fn begin_reviews(&mut self, reviews: AccessReviews) {
        let AccessReviews { rules, clients } = reviews;
        if let Some(was) = rules {
            let changes = Box::new(Changes::between(&was, &self.state.config.access().policy));
            self.begin(Job::AccessReview(AccessReview::Connections { next: 0, was, changes }));
        }
        if let Some(client_check) = clients {
            self.begin(Job::AccessReview(AccessReview::Identities { next: 0, client_check }));
        }
    }

    fn review_identities(&mut self, mut next: usize, client_check: ClientCheck) -> (Option<AccessReview>, usize) {
        let mut slots = self.state.connections.indices().skip(next);
        let mut steps = 0;
        while steps < JOB_SLICE_STEPS
            && let Some(index) = slots.next()
        {
            next += 1;
            steps += 1;
            if self.end_if_listener_removed(index) {
                continue;
            }
            self.review_identity(index, &client_check, self.remembered_address(index));
        }
        (slots.next().map(|_| AccessReview::Identities { next, client_check }), steps)
    }

    fn review_identity(&mut self, index: ConnectionIndex, client_check: &ClientCheck, address: Option<IpAddr>) {
        let connection = &self.state.connections[index];
        let Some(session) = connection.session().filter(|_| connection.is_open()) else { return };
        let client_info = self.client_info(index, self.state.sessions[session].client_id(), address);
        let (reason, why) = match client_check(&client_info) {
            RecheckOutcome::Accepted => return,
            RecheckOutcome::DependsOnAddress => {
                let id = self.state.id(index);
                return self.state.config.access_mut().unknown_address.push(id);
            }
            RecheckOutcome::Unknown => {
                (DisconnectReason::NotAuthorized, "the client's credentials are no longer valid")
            }
            // DISCONNECT has no Banned (0x8A), which CONNACK has [MQTT 5.0 section 3.14.2.1].
            RecheckOutcome::Banned => (DisconnectReason::AdministrativeAction, "the client has been banned"),
        };
        self.state.counters().credentials_expired_disconnects.add(1);
        self.disconnect(index, reason, why);
    }

    fn client_info<'v>(
        &'v self,
        index: ConnectionIndex,
        client_id: &'v str,
        address: Option<IpAddr>,
    ) -> ClientInfo<'v> {
        let connection = &self.state.connections[index];
        let identity = identity_of(connection.auth_state()).map(|identity| &**identity);
        let listener = connection.origin().map_or("", |origin| origin.listener());
        ClientInfo { identity, client_id, listener, address }
    }

    fn remembered_address(&self, index: ConnectionIndex) -> Option<IpAddr> {
        self.state.connections[index].origin()?.peer().and_then(Peer::ip)
    }

    /// Rechecks clients with addresses from `io`, where the address was needed but not stored.
    #[inline]
    pub(crate) fn review_addresses(&mut self, io: &mut impl Io<M>) {
        while let Some(id) = self.state.config.access_mut().unknown_address.pop() {
            let address = io.peer(id).and_then(Peer::ip);
            if let (Some(index), Some(address), Some(client_check)) =
                (self.state.connections.find(id), address, self.state.config.access().client_check.clone())
            {
                self.review_identity(index, &client_check, Some(address));
            }
        }
    }

    /// Whether a client whose CONNECT is about to be accepted has become unknown or banned since it authenticated.
    pub(crate) fn is_no_longer_allowed(&self, index: ConnectionIndex, client_id: &str) -> bool {
        let Some(client_check) = &self.state.config.access().client_check else { return false };
        let client_info = self.client_info(index, client_id, self.remembered_address(index));
        matches!(client_check(&client_info), RecheckOutcome::Unknown | RecheckOutcome::Banned)
    }

    /// Ends a connection whose listener has been removed. Returns whether it did.
    fn end_if_listener_removed(&mut self, index: ConnectionIndex) -> bool {
        let connection = &self.state.connections[index];
        if !connection.origin().is_some_and(|origin| origin.is_closed()) {
            return false;
        }
        match connection.phase() {
            Phase::Open => {
                self.disconnect(index, DisconnectReason::AdministrativeAction, "the listener has been removed");
            }
            Phase::AwaitingConnect => self.close(index),
            Phase::Vacant | Phase::Closing => return false,
        }
        self.state.counters().listener_removed_disconnects.add(1);
        true
    }

    /// Runs one slice. Returns the remaining review and the steps taken.
    pub(crate) fn review(&mut self, review: AccessReview) -> (Option<AccessReview>, usize) {
        match review {
            AccessReview::Identities { next, client_check } => self.review_identities(next, client_check),
            AccessReview::Connections { next, was, changes } => self.review_connections(next, was, changes),
            AccessReview::Session { key, connection, permissions, after, checks } => {
                self.review_slice(key, connection, permissions, after, checks)
            }
        }
    }

    fn review_connections(
        &mut self,
        mut next: usize,
        was: Arc<Policy>,
        changes: Box<Changes>,
    ) -> (Option<AccessReview>, usize) {
        let mut steps = 0;
        let mut slots = self.state.connections.indices().skip(next);
        while steps < JOB_SLICE_STEPS
            && let Some(index) = slots.next()
        {
            next += 1;
            steps += 1 + self.review_connection(index, &was, &changes);
        }
        let left = slots.next().map(|_| AccessReview::Connections { next, was, changes });
        (left, steps)
    }

    /// Reviews what a client was granted by the previous rules. Returns the steps taken.
    fn review_connection(&mut self, index: ConnectionIndex, was: &Arc<Policy>, changes: &Changes) -> usize {
        let connection = &self.state.connections[index];
        let Some(session) = connection.session().filter(|_| connection.is_open()) else { return 0 };
        let client_id = self.state.sessions[session].client_id();
        let Some(permissions) = self.state.permissions_of(index, client_id) else {
            if let Some(auth_state) = self.state.connections[index].auth_state_mut() {
                auth_state.set_gate(None);
            }
            return 0;
        };
        let held = connection.auth_state().and_then(AuthState::gate).map(PublishCache::permissions);
        // A publish cache that is newer than the previous rules cannot be compared.
        let concerns = held
            .filter(|held| Arc::ptr_eq(held.policy(), was))
            .is_none_or(|held| changes.can_affect(held, &permissions));
        let auth_state = self.state.connections[index].auth_state_or_new();
        auth_state.set_gate(Some(PublishCache::new(permissions.clone())));
        if !concerns {
            return 0;
        }
        auth_state.require_queue_recheck();
        self.review_will(session);
        self.review_subscriptions(session, index, permissions).1
    }

    fn review_will(&mut self, session: SessionIndex) {
        if let Some(will) = self.state.sessions[session].will().cloned()
            && !self.state.can_set_will(session, &will)
        {
            self.state.commit(session, Change::Will(None));
        }
    }

    /// Removes the subscriptions that are no longer allowed, at once if they are few. Returns whether that is done, and the steps taken.
    fn review_subscriptions(
        &mut self,
        session: SessionIndex,
        index: ConnectionIndex,
        permissions: Permissions,
    ) -> (bool, usize) {
        let (key, connection) = (self.state.sessions.key(session), self.state.id(index));
        let review = AccessReview::Session {
            key,
            connection,
            permissions,
            after: "".into(),
            checks: CheckBudget::with_steps(0),
        };
        let count = self.state.sessions[session].subscriptions().len();
        let (left, steps) = if count > FILTERS_PER_TURN { (Some(review), 0) } else { self.review(review) };
        let is_done = left.is_none();
        if let Some(left) = left {
            self.state.jobs.push(Job::AccessReview(left));
        }
        (is_done, steps)
    }

    /// Reviews the subscriptions of a session that a client resumes. Returns false if that takes several turns; reading from the client is
    /// paused meanwhile.
    pub(crate) fn is_review_complete(&mut self, index: ConnectionIndex, session: SessionIndex) -> bool {
        let client_id = self.state.sessions[session].client_id();
        let Some(permissions) = self.state.permissions_of(index, client_id) else { return true };
        let since = self.state.config.access().policy_version;
        let auth_state = self.state.connections[index].auth_state_or_new();
        if auth_state.is_reviewed_for(since) {
            return true;
        }
        auth_state.require_queue_recheck();
        let (is_done, _) = self.review_subscriptions(session, index, permissions);
        if is_done {
            self.state.connections[index].auth_state_or_new().set_reviewed_version(since);
        } else {
            self.state.connections[index].pause_reading(PauseReason::Job);
        }
        is_done
    }

    fn review_slice(
        &mut self,
        key: SessionKey,
        connection: ConnectionId,
        permissions: Permissions,
        mut after: Box<str>,
        mut checks: CheckBudget,
    ) -> (Option<AccessReview>, usize) {
        let Some(session) = self.state.sessions.at(&key) else {
            self.end_review(connection, &permissions);
            return (None, 1);
        };
        let mut denied = Vec::new();
        let mut filters = 0;
        let mut is_last = true;
        let mut last = None;
        checks.give(JOB_SLICE_STEPS);
        for (filter, record) in self.state.sessions[session].subscriptions().after(&after) {
            let has_steps = filters + checks.steps_taken() < JOB_SLICE_STEPS;
            let allowed = match TopicFilter::new(filter).ok().filter(|_| has_steps) {
                Some(filter) => checks.check(&permissions, filter, record.options.qos).map(AccessDecision::is_allowed),
                None => Some(false).filter(|_| has_steps),
            };
            let Some(allowed) = allowed else {
                is_last = false;
                break;
            };
            filters += 1;
            last = Some(filter);
            if !allowed {
                denied.push((Box::<str>::from(filter), record.format));
            }
        }
        let steps = filters + checks.steps_taken();
        if let Some(last) = last {
            after = last.into();
        }
        let index = self.state.connections.find(connection);
        for (filter, format) in denied {
            if let Ok(filter) = TopicFilter::new(&filter) {
                self.state.counters().subscriptions_revoked.add(1);
                self.end_subscription(session, index, filter, format);
            }
        }
        if is_last {
            self.end_review(connection, &permissions);
            return (None, steps);
        }
        (Some(AccessReview::Session { key, connection, permissions, after, checks }), steps)
    }

    /// Ends the review of the session that a connection is about to serve. If the rules have changed meanwhile, the review is repeated
    /// when CONNECT is processed again.
    fn end_review(&mut self, connection: ConnectionId, permissions: &Permissions) {
        let is_current = Arc::ptr_eq(permissions.policy(), &self.state.config.access().policy);
        let since = self.state.config.access().policy_version;
        let Some(found) = self.state.connections.get(connection) else { return };
        if found.is_paused_for(PauseReason::Job) && found.session().is_none() {
            if is_current {
                found.auth_state_or_new().set_reviewed_version(since);
            }
            self.state.resume_reading(connection, PauseReason::Job);
        }
    }

    /// Updates a client's permissions after re-authentication.
    pub(crate) fn refresh_permissions(&mut self, index: ConnectionIndex) {
        let Some(session) = self.state.connections[index].session() else { return };
        let client_id = self.state.sessions[session].client_id();
        let Some(permissions) = self.state.permissions_of(index, client_id) else { return };
        let auth_state = self.state.connections[index].auth_state_or_new();
        auth_state.set_gate(Some(PublishCache::new(permissions.clone())));
        auth_state.require_queue_recheck();
        self.review_will(session);
        self.review_subscriptions(session, index, permissions);
    }
}
