//! What has been granted is looked at again: when the rules have changed, and when a client comes back to its session.

use core::net::IpAddr;
use std::sync::Arc;

use tautwire_access::{AccessDecision, Changes, Permissions, Policy, PublishCache};
use tautwire_protocol::{DisconnectReason, TopicFilter};
use tautwire_router::SessionKey;
use tautwire_session::{Change, Journal};

use super::{Checks, Fate, Known, Visitor};
use crate::admission::identity_of;
use crate::connections::{Phase, Reason, Standing};
use crate::jobs::Job;
use crate::origin::Peer;
use crate::place::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::shard::Shard;
use crate::turn::Surroundings;

/// A session with more subscriptions is looked at over several turns.
const FILTERS_AT_ONCE: usize = 64;
/// Connections or filters that are looked at in one slice; fewer where the rules take long to tell.
const SLICE_STEPS: usize = 256;

/// What has to be looked at again because something else holds now.
pub(crate) struct Reviews {
    /// What has been granted: the rules of before.
    pub(super) rules: Option<Arc<Policy>>,
    /// Clients that have been let in: who says whether they are known.
    pub(super) clients: Option<Known>,
}

/// Something that is looked at again, over several turns.
pub(crate) enum Review {
    /// All clients that have been let in, from this place on: some may not be known any more.
    Identities { next: usize, known: Known },
    /// All connections, from this place on: the rules have changed.
    Connections { next: usize, was: Arc<Policy>, changes: Box<Changes> },
    /// The subscriptions of one session, from the one behind this filter on.
    Session { key: SessionKey, connection: ConnectionId, permissions: Permissions, after: Box<str>, checks: Checks },
}

impl<J: Journal> Shard<J> {
    /// Begins to look at what has been granted by rules of before, and at clients that have been let in.
    pub(crate) fn begin_reviews(&mut self, reviews: Reviews) {
        let Reviews { rules, clients } = reviews;
        if let Some(was) = rules {
            let changes = Box::new(Changes::between(&was, &self.hub.regime.access().policy));
            self.begin(Job::Review(Review::Connections { next: 0, was, changes }));
        }
        if let Some(known) = clients {
            self.begin(Job::Review(Review::Identities { next: 0, known }));
        }
    }

    fn review_identities(&mut self, mut next: usize, known: Known) -> (Option<Review>, usize) {
        let mut places = self.hub.connections.indices().skip(next);
        let mut steps = 0;
        while steps < SLICE_STEPS
            && let Some(index) = places.next()
        {
            next += 1;
            steps += 1;
            if self.has_left_with_listener(index) {
                continue;
            }
            self.review_identity(index, &known, self.remembered_address(index));
        }
        (places.next().map(|_| Review::Identities { next, known }), steps)
    }

    fn review_identity(&mut self, index: ConnectionIndex, known: &Known, address: Option<IpAddr>) {
        let connection = &self.hub.connections[index];
        let Some(session) = connection.session().filter(|_| connection.is_open()) else { return };
        let visitor = self.visitor(index, self.hub.sessions[session].client_id(), address);
        let (reason, why) = match known(&visitor) {
            Fate::Stays => return,
            Fate::DependsOnAddress => {
                let id = self.hub.id(index);
                return self.hub.regime.access_mut().addressless.push(id);
            }
            Fate::Unknown => (DisconnectReason::NotAuthorized, "the client is not known any more"),
            // DISCONNECT has no Banned (0x8A), which CONNACK has [MQTT 5.0 section 3.14.2.1].
            Fate::Banned => (DisconnectReason::AdministrativeAction, "the client has been banned"),
        };
        self.hub.counters().identities_ended.add(1);
        self.disconnect(index, reason, why);
    }

    fn visitor<'v>(&'v self, index: ConnectionIndex, client_id: &'v str, address: Option<IpAddr>) -> Visitor<'v> {
        let connection = &self.hub.connections[index];
        let identity = identity_of(connection.standing()).map(|identity| &**identity);
        let listener = connection.origin().map_or("", |origin| origin.listener());
        Visitor { identity, client_id, listener, address }
    }

    fn remembered_address(&self, index: ConnectionIndex) -> Option<IpAddr> {
        self.hub.connections[index].origin()?.peer().and_then(Peer::ip)
    }

    /// Asks the surroundings for addresses that have been forgotten, and on which it depends whether clients stay.
    #[inline]
    pub(crate) fn review_addresses(&mut self, surroundings: &mut impl Surroundings<J>) {
        while let Some(id) = self.hub.regime.access_mut().addressless.pop() {
            let address = surroundings.peer(id).and_then(Peer::ip);
            if let (Some(index), Some(address), Some(known)) =
                (self.hub.connections.find(id), address, self.hub.regime.access().known.clone())
            {
                self.review_identity(index, &known, Some(address));
            }
        }
    }

    /// Whether somebody whose CONNECT is about to be accepted was let in before others were looked at, and would not be now.
    pub(crate) fn is_expelled(&self, index: ConnectionIndex, client_id: &str) -> bool {
        let Some(known) = &self.hub.regime.access().known else { return false };
        let visitor = self.visitor(index, client_id, self.remembered_address(index));
        matches!(known(&visitor), Fate::Unknown | Fate::Banned)
    }

    /// Ends a connection whose listener has been taken away; says whether it has.
    fn has_left_with_listener(&mut self, index: ConnectionIndex) -> bool {
        let connection = &self.hub.connections[index];
        if !connection.origin().is_some_and(|origin| origin.is_shut()) {
            return false;
        }
        match connection.phase() {
            Phase::Open => {
                self.disconnect(index, DisconnectReason::AdministrativeAction, "the listener has been taken away");
            }
            Phase::AwaitingConnect => self.close(index),
            Phase::Vacant | Phase::Closing => return false,
        }
        self.hub.counters().listener_removed_disconnects.add(1);
        true
    }

    /// One slice; gives what is left of it, and how many steps it took.
    pub(crate) fn review(&mut self, review: Review) -> (Option<Review>, usize) {
        match review {
            Review::Identities { next, known } => self.review_identities(next, known),
            Review::Connections { next, was, changes } => self.review_connections(next, was, changes),
            Review::Session { key, connection, permissions, after, checks } => {
                self.review_slice(key, connection, permissions, after, checks)
            }
        }
    }

    fn review_connections(
        &mut self,
        mut next: usize,
        was: Arc<Policy>,
        changes: Box<Changes>,
    ) -> (Option<Review>, usize) {
        let mut steps = 0;
        let mut places = self.hub.connections.indices().skip(next);
        while steps < SLICE_STEPS
            && let Some(index) = places.next()
        {
            next += 1;
            steps += 1 + self.review_connection(index, &was, &changes);
        }
        let left = places.next().map(|_| Review::Connections { next, was, changes });
        (left, steps)
    }

    /// Looks at what a client has been granted by the rules of before; says how many steps that took.
    fn review_connection(&mut self, index: ConnectionIndex, was: &Arc<Policy>, changes: &Changes) -> usize {
        let connection = &self.hub.connections[index];
        let Some(session) = connection.session().filter(|_| connection.is_open()) else { return 0 };
        let client_id = self.hub.sessions[session].client_id();
        let Some(permissions) = self.hub.permissions_of(index, client_id) else {
            if let Some(standing) = self.hub.connections[index].standing_mut() {
                standing.set_gate(None);
            }
            return 0;
        };
        let held = connection.standing().and_then(Standing::gate).map(PublishCache::permissions);
        // A gate that is newer than the rules of before says nothing of them.
        let concerns = held
            .filter(|held| Arc::ptr_eq(held.policy(), was))
            .is_none_or(|held| changes.can_affect(held, &permissions));
        let standing = self.hub.connections[index].standing_or_new();
        standing.set_gate(Some(PublishCache::new(permissions.clone())));
        if !concerns {
            return 0;
        }
        standing.doubt_queue();
        self.review_will(session);
        self.review_subscriptions(session, index, permissions).1
    }

    fn review_will(&mut self, session: SessionIndex) {
        if let Some(will) = self.hub.sessions[session].will().cloned()
            && !self.hub.may_leave_will(session, &will)
        {
            self.hub.commit(session, Change::Will(None));
        }
    }

    /// Takes away the subscriptions that are not allowed, at once where there is little to do; says whether that is done, and how many
    /// steps it took.
    fn review_subscriptions(
        &mut self,
        session: SessionIndex,
        index: ConnectionIndex,
        permissions: Permissions,
    ) -> (bool, usize) {
        let (key, connection) = (self.hub.sessions.key(session), self.hub.id(index));
        let review = Review::Session { key, connection, permissions, after: "".into(), checks: Checks::with_steps(0) };
        let count = self.hub.sessions[session].subscriptions().len();
        let (left, steps) = if count > FILTERS_AT_ONCE { (Some(review), 0) } else { self.review(review) };
        let is_done = left.is_none();
        if let Some(left) = left {
            self.hub.jobs.push(Job::Review(left));
        }
        (is_done, steps)
    }

    /// Looks at the subscriptions of a session to which a client comes back; false where that goes on over several turns, and the
    /// client is not heard meanwhile.
    pub(crate) fn has_reviewed(&mut self, index: ConnectionIndex, session: SessionIndex) -> bool {
        let client_id = self.hub.sessions[session].client_id();
        let Some(permissions) = self.hub.permissions_of(index, client_id) else { return true };
        let since = self.hub.regime.access().policy_since;
        let standing = self.hub.connections[index].standing_or_new();
        if standing.is_reviewed_by(since) {
            return true;
        }
        standing.doubt_queue();
        let (is_done, _) = self.review_subscriptions(session, index, permissions);
        if is_done {
            self.hub.connections[index].standing_or_new().note_reviewed_by(since);
        } else {
            self.hub.connections[index].hold(Reason::Job);
        }
        is_done
    }

    fn review_slice(
        &mut self,
        key: SessionKey,
        connection: ConnectionId,
        permissions: Permissions,
        mut after: Box<str>,
        mut checks: Checks,
    ) -> (Option<Review>, usize) {
        let Some(session) = self.hub.sessions.at(&key) else {
            self.end_review(connection, &permissions);
            return (None, 1);
        };
        let mut denied = Vec::new();
        let mut filters = 0;
        let mut is_last = true;
        let mut last = None;
        checks.give(SLICE_STEPS);
        for (filter, record) in self.hub.sessions[session].subscriptions().after(&after) {
            let has_steps = filters + checks.steps_taken() < SLICE_STEPS;
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
        let index = self.hub.connections.find(connection);
        for (filter, format) in denied {
            if let Ok(filter) = TopicFilter::new(&filter) {
                self.hub.counters().subscriptions_taken_away.add(1);
                self.end_subscription(session, index, filter, format);
            }
        }
        if is_last {
            self.end_review(connection, &permissions);
            return (None, steps);
        }
        (Some(Review::Session { key, connection, permissions, after, checks }), steps)
    }

    /// The session that a connection is to serve has been looked at. Where the rules have changed meanwhile, that begins anew when
    /// CONNECT is brought again.
    fn end_review(&mut self, connection: ConnectionId, permissions: &Permissions) {
        let is_current = Arc::ptr_eq(permissions.policy(), &self.hub.regime.access().policy);
        let since = self.hub.regime.access().policy_since;
        let Some(found) = self.hub.connections.get(connection) else { return };
        if found.is_held_for(Reason::Job) && found.session().is_none() {
            if is_current {
                found.standing_or_new().note_reviewed_by(since);
            }
            self.hub.hear_again(connection, Reason::Job);
        }
    }

    /// What a client may do has changed because it has authenticated again.
    pub(crate) fn resolve_again(&mut self, index: ConnectionIndex) {
        let Some(session) = self.hub.connections[index].session() else { return };
        let client_id = self.hub.sessions[session].client_id();
        let Some(permissions) = self.hub.permissions_of(index, client_id) else { return };
        let standing = self.hub.connections[index].standing_or_new();
        standing.set_gate(Some(PublishCache::new(permissions.clone())));
        standing.doubt_queue();
        self.review_will(session);
        self.review_subscriptions(session, index, permissions);
    }
}

impl std::fmt::Debug for Review {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Review::Identities { .. } => "Identities",
            Review::Connections { .. } => "Connections",
            Review::Session { .. } => "Session",
        })
    }
}
