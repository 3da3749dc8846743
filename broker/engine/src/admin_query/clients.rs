//! A page of a shard's clients, searched and in an order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tautwire_router::SessionKey;
use tautwire_session::{Session, split_session_name};

use super::PAGE_MAX;
use super::client::ClientSummary;
use crate::drops::Drops;
use crate::index::SessionIndex;
use crate::jobs::JOB_SLICE_STEPS;
use crate::mode::Mode;
use crate::state::ShardState;

/// By what clients are sorted. Those that are alike are sorted by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientOrder {
    /// Client Identifier.
    #[default]
    ClientId,
    /// User name; those without one first.
    User,
    /// Messages that wait for them.
    QueuedMessages,
    /// Bytes of these.
    QueuedBytes,
    /// Messages sent to them and not acknowledged.
    InFlight,
    /// Subscriptions.
    Subscriptions,
    /// Memory that is held for their sessions.
    HeldBytes,
    /// Messages that were dropped for them because their queues were full.
    DroppedMessages,
}

/// Which clients are wanted.
#[derive(Debug, Clone, Default)]
pub struct ClientsQuery {
    /// What their Client Identifier or user name contains, whatever the case of ASCII letters.
    pub text: Box<str>,
    /// Whether they are connected.
    pub connected: Option<bool>,
    /// Whether messages have waited for them for too long.
    pub neglected: Option<bool>,
    /// The listener that they have come by; only who is connected has one.
    pub listener: Option<Box<str>>,
    /// How they are sorted.
    pub order: ClientOrder,
    /// The largest first.
    pub descending: bool,
    /// Only those behind this one.
    pub after: Option<Rank>,
    /// So many, at most [`PAGE_MAX`].
    pub limit: usize,
}

/// Where a client stands in an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// What is counted; 0 where clients are sorted by text.
    pub number: u64,
    /// The text; empty where they are sorted by number.
    pub text: Box<str>,
    /// The name of the session.
    pub name: Box<str>,
}

/// Some clients of one shard, or of several.
#[derive(Debug, Default)]
pub struct ClientsPage {
    /// How many there are in all, before and behind these as well.
    pub matched: u64,
    /// In the order that was asked for.
    pub clients: Vec<(Rank, ClientSummary)>,
}

impl ClientsPage {
    /// The first of the clients on several pages, which answer the same query.
    pub fn merge(pages: impl IntoIterator<Item = ClientsPage>, query: &ClientsQuery) -> ClientsPage {
        let mut all = ClientsPage::default();
        for page in pages {
            all.matched += page.matched;
            all.clients.extend(page.clients);
        }
        all.clients.sort_by(|(a, _), (b, _)| in_order(a.cmp(b), query.descending));
        all.clients.truncate(query.limit.min(PAGE_MAX));
        all
    }
}

fn in_order(order: Ordering, descending: bool) -> Ordering {
    if descending { order.reverse() } else { order }
}

/// A client that may be on the page.
#[derive(Debug)]
struct Candidate {
    rank: Rank,
    descending: bool,
    key: SessionKey,
}

/// The greatest is the last of the page.
impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        in_order(self.rank.cmp(&other.rank), self.descending)
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// A walk over all sessions that keeps the first ones of the order.
#[derive(Debug)]
pub(crate) struct Search {
    query: ClientsQuery,
    next: usize,
    is_done: bool,
    matched: u64,
    best: BinaryHeap<Candidate>,
}

impl Search {
    pub(crate) fn new(query: ClientsQuery) -> Search {
        let query = ClientsQuery { limit: query.limit.clamp(1, PAGE_MAX), ..query };
        Search { query, next: 0, is_done: false, matched: 0, best: BinaryHeap::new() }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Looks at some more sessions; says at how many places.
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
        let ClientsQuery { connected, neglected, listener, text, order, descending, after, limit } = &self.query;
        let connection = state.sessions.connection(session);
        let came_by =
            || connection.and_then(|index| state.connections[index].origin()).map(|origin| &**origin.listener());
        if connected.is_some_and(|connected| connected != connection.is_some())
            || neglected.is_some_and(|neglected| neglected != state.sessions.offline(session).is_neglected)
            || listener.as_ref().is_some_and(|listener| came_by() != Some(listener))
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
            sorted_by(*order, session_state, state.sessions.drops(session).map_or(0, Drops::lost), user);
        let order_to = |rank: &Rank| {
            let own = (number, text, session_state.name());
            in_order(own.cmp(&(rank.number, &*rank.text, &*rank.name)), *descending)
        };
        if after.as_ref().is_some_and(|after| order_to(after) != Ordering::Greater) {
            return;
        }
        if self.best.len() == *limit {
            if self.best.peek().is_none_or(|last| order_to(&last.rank) != Ordering::Less) {
                return;
            }
            self.best.pop();
        }
        let rank = Rank { number, text: text.into(), name: session_state.name().into() };
        self.best.push(Candidate { rank, descending: *descending, key: state.sessions.key(session) });
    }

    /// The page. Sessions that have ended meanwhile are not on it.
    pub(crate) fn finish<M: Mode>(self, state: &ShardState<M>) -> ClientsPage {
        let sorted = self.best.into_sorted_vec();
        let there = sorted.into_iter().filter_map(|Candidate { rank, key, .. }| {
            let session = state.sessions.at(&key)?;
            Some((rank, state.client_summary(session)))
        });
        ClientsPage { matched: self.matched, clients: there.collect() }
    }
}

fn sorted_by<'s>(order: ClientOrder, session_state: &'s Session, dropped: u64, user: &'s str) -> (u64, &'s str) {
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

fn contains(text: &str, part: &str) -> bool {
    text.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_whatever_the_case_of_its_letters() {
        assert!(contains("Sensor-17", "SOR-1"));
        assert!(contains("é", "é") && !contains("é", "É"));
        assert!(!contains("ab", "abc"));
    }
}
