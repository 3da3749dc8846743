//! Steps of [`super`] that need several states of a shard.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tautwire_session::{Session, split_session_name};

use super::{Candidate, ClientOrder, ClientsPage, ClientsQuery, Rank, Search, contains, in_order};
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::operations::admin_query::PAGE_MAX;
use crate::scheduling::work_budget::JOB_SLICE_STEPS;
use crate::session::drops::Drops;
use crate::shard::ShardState;

impl Search {
    pub(crate) fn new(query: ClientsQuery) -> Search {
        let query = ClientsQuery { limit: query.limit.clamp(1, PAGE_MAX), ..query };
        Search { query, next: 0, is_done: false, matched: 0, best: BinaryHeap::new() }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Scans more sessions; returns the number of slots.
    pub(crate) fn advance<M: Mode>(&mut self, state: &ShardState<M>) -> usize {
        let from = self.next;
        let end = state.sessions.entries().min(from + JOB_SLICE_STEPS);
        for number in from..end {
            if let Some(session) =
                SessionIndex::new(number).filter(|session| state.sessions.is_client_session(*session))
            {
                self.visit(state, session);
            }
        }
        self.next = end;
        self.is_done = end == state.sessions.entries();
        (end - from).max(1)
    }

    fn visit<M: Mode>(&mut self, state: &ShardState<M>, session: SessionIndex) {
        let ClientsQuery { connected, is_stale, listener, text, order, descending, after, limit } = &self.query;
        let connection = state.sessions.connection(session);
        let listener_of_client =
            || connection.and_then(|index| state.connections[index].origin()).map(|origin| &**origin.listener());
        if connected.is_some_and(|connected| connected != connection.is_some())
            || is_stale.is_some_and(|is_stale| is_stale != state.sessions.offline(session).is_stale)
            || listener.as_ref().is_some_and(|listener| listener_of_client() != Some(listener))
        {
            return;
        }
        let session_state = &state.sessions[session];
        let user = state.user_of(session).map_or("", |user| user);
        if !text.is_empty() && !contains(session_state.client_id(), text) && !contains(user, text) {
            return;
        }
        self.matched += 1;
        let (number, text) =
            sort_key(*order, session_state, state.sessions.drops(session).map_or(0, Drops::lost), user);
        let compare_to = |rank: &Rank| {
            let own = (number, text, session_state.name());
            in_order(own.cmp(&(rank.number, &*rank.text, &*rank.name)), *descending)
        };
        if after.as_ref().is_some_and(|after| compare_to(after) != Ordering::Greater) {
            return;
        }
        if self.best.len() == *limit {
            if self.best.peek().is_none_or(|last| compare_to(&last.rank) != Ordering::Less) {
                return;
            }
            self.best.pop();
        }
        let rank = Rank { number, text: text.into(), name: session_state.name().into() };
        self.best.push(Candidate { rank, descending: *descending, key: state.sessions.key(session) });
    }

    /// Returns the page, without sessions that have ended in the meantime.
    pub(crate) fn finish<M: Mode>(self, state: &ShardState<M>) -> ClientsPage {
        let sorted = self.best.into_sorted_vec();
        let clients = sorted.into_iter().filter_map(|Candidate { rank, key, .. }| {
            let session = state.sessions.at(&key)?;
            Some((rank, state.client_summary(session)))
        });
        ClientsPage { matched: self.matched, clients: clients.collect() }
    }
}

fn sort_key<'s>(order: ClientOrder, session_state: &'s Session, dropped: u64, user: &'s str) -> (u64, &'s str) {
    let outbound = session_state.outbound();
    let count = |number: usize| (number as u64, "");
    match order {
        ClientOrder::ClientId => (0, split_session_name(session_state.name()).1),
        ClientOrder::User => (0, user),
        ClientOrder::QueuedMessages => count(outbound.map_or(0, |outbound| outbound.queued())),
        ClientOrder::QueuedBytes => count(outbound.map_or(0, |outbound| outbound.queued_bytes())),
        ClientOrder::InFlight => count(outbound.map_or(0, |outbound| outbound.in_flight())),
        ClientOrder::Subscriptions => count(session_state.subscriptions().len()),
        ClientOrder::HeldBytes => count(session_state.memory_bytes()),
        ClientOrder::DroppedMessages => (dropped, ""),
    }
}
