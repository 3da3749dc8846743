//! Limits on the size of a session's state, which the cluster stores in one piece.
//!
//! Half of it is for subscriptions, a quarter for in-flight messages by their places in the log, and a quarter for in-flight messages that
//! are not in the log and are stored whole. A will is stored beside the state.

use tautwire_cluster::Refusal;
use tautwire_cluster::names::ClientKey;
use tautwire_protocol::{DisconnectReason, Will};
use tautwire_session::Change;

use super::cluster_state::LogPlace;
use super::session_state::subscription_bytes;
use crate::connection::will::will_bytes;
use crate::index::SessionIndex;
use crate::mode::{Clustered, Fit};
use crate::shard::Shard;
use crate::shard::ShardState;

/// Bytes of an in-flight message that is stored by its place: the entry with some Subscription Identifiers, and its place among the open
/// ones.
const WINDOW_MESSAGE_BYTES: usize = 64;
const STATE_TOO_LARGE: &str = "the state of the session is larger than the cluster can store";

impl Shard<Clustered> {
    /// Ends a session whose state is too large to be saved. It loses what happened since the last save; other sessions are not affected.
    pub(super) fn end_too_large(&mut self, client: ClientKey) {
        self.state.counters().session_states_too_large.add(1);
        if let Some(session) = self.stop_serving(client, Refusal::TooMany.into()) {
            self.end_for_cluster(session, DisconnectReason::QuotaExceeded, STATE_TOO_LARGE);
        }
    }
}

impl ShardState<Clustered> {
    /// Whether the state of a session has room for one more filter.
    #[cold]
    pub(crate) fn has_state_room_for(&mut self, session: SessionIndex, filter: &str) -> bool {
        let ShardState { mode, sessions, .. } = self;
        let cluster = &mut mode.cluster;
        if !cluster.is_persisted(session) {
            return true;
        }
        let count = || sessions[session].subscriptions().iter().map(|(filter, _)| subscription_bytes(filter)).sum();
        let held_bytes = cluster.filter_bytes(session, count);
        let has_room = held_bytes + subscription_bytes(filter) <= cluster.state_max_bytes() / 2;
        if !has_room {
            self.counters().subscriptions_refused_state_size.add(1);
        }
        has_room
    }

    /// Counts the bytes of filters before a session's subscriptions change.
    pub(super) fn count_filters(&mut self, session: SessionIndex, change: &Change) {
        let cluster = &mut self.mode.cluster;
        let has = |filter: &str| self.sessions[session].subscriptions().get(filter).is_some();
        match change {
            Change::Subscribed(filter, _) if !has(filter) => {
                cluster.count_filter(session, subscription_bytes(filter), true);
            }
            Change::Unsubscribed(filter) if has(filter) => {
                cluster.count_filter(session, subscription_bytes(filter), false);
            }
            _ => {}
        }
    }

    /// Whether the record of a session has room for a will: two fifths of the maximum size of the state. CONNECT with a larger will is
    /// refused.
    pub(crate) fn fits_into_record(&self, will: &Will<'_>) -> bool {
        let most_bytes = self.mode.cluster.state_max_bytes() / 5 * 2;
        // The topic is stored beside the message and in it.
        will.topic.as_str().len() + will_bytes(will) <= most_bytes
    }

    /// How many messages a client may have in flight.
    pub(crate) fn window_max(&self) -> u16 {
        let most = self.mode.cluster.state_max_bytes() / 4 / WINDOW_MESSAGE_BYTES;
        u16::try_from(most).unwrap_or(u16::MAX).max(1)
    }

    /// Whether a message of this size that is not in the log can be sent at QoS 1 or 2: the state of its session stores it until it is
    /// acknowledged.
    #[cold]
    pub(crate) fn fits_into_state(&self, session: SessionIndex, bytes: usize) -> Fit {
        let cluster = &self.mode.cluster;
        if !cluster.is_persisted(session) {
            return Fit::Now;
        }
        let most = cluster.state_max_bytes();
        let held_bytes = self.sessions[session].outbound().map_or(0, |outbound| outbound.counted_bytes());
        if held_bytes.saturating_add(bytes) <= most / 4 {
            return Fit::Now;
        }
        let mut carried_bytes = 0;
        self.sessions[session].describe(|change, _| {
            if let Change::Started(delivery) = change
                && LogPlace::of(delivery.message.id()).is_none()
            {
                carried_bytes += delivery.message.allocated_bytes();
            }
        });
        if carried_bytes + bytes <= most / 4 {
            Fit::Now
        } else if carried_bytes > 0 {
            Fit::Later
        } else if self.state_of(session, None).len() + bytes <= most {
            Fit::Now
        } else {
            Fit::Never
        }
    }
}
