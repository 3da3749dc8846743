//! A page of a shard's clients, searched and in an order.

mod steps;

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tautwire_router::SessionKey;

use super::client::ClientSummary;
use super::page::PAGE_MAX;

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
