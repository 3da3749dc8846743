//! Queries for a page of a shard's clients, filtered and sorted.

mod steps;

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tautwire_router::SessionKey;

use super::client::ClientSummary;
use super::page::PAGE_MAX;

/// The sort order of clients. Ties are sorted by session name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientOrder {
    /// Client Identifier.
    #[default]
    ClientId,
    /// User name; clients without one first.
    User,
    /// Queued messages.
    QueuedMessages,
    /// Bytes of queued messages.
    QueuedBytes,
    /// Unacknowledged messages that were sent to them.
    InFlight,
    /// Subscriptions.
    Subscriptions,
    /// Memory held for their sessions.
    HeldBytes,
    /// Messages that were dropped for them because their queues were full.
    DroppedMessages,
}

/// Selects clients.
#[derive(Debug, Clone, Default)]
pub struct ClientsQuery {
    /// A substring of their Client Identifier or user name, ignoring the case of ASCII letters.
    pub text: Box<str>,
    /// Whether they are connected.
    pub connected: Option<bool>,
    /// Whether messages have been queued for them for too long.
    pub is_stale: Option<bool>,
    /// The listener of their connection; only connected clients have one.
    pub listener: Option<Box<str>>,
    /// The sort order.
    pub order: ClientOrder,
    /// Sorts in descending order.
    pub descending: bool,
    /// Only clients after this one.
    pub after: Option<Rank>,
    /// The maximum number of clients, up to [`PAGE_MAX`].
    pub limit: usize,
}

/// The sort key of a client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// The number; 0 if clients are sorted by text.
    pub number: u64,
    /// The text; empty if they are sorted by number.
    pub text: Box<str>,
    /// The name of the session.
    pub name: Box<str>,
}

/// A page of clients of one shard, or of several.
#[derive(Debug, Default)]
pub struct ClientsPage {
    /// The number of all matching clients.
    pub matched: u64,
    /// The clients, in the requested order.
    pub clients: Vec<(Rank, ClientSummary)>,
}

impl ClientsPage {
    /// Merges pages that answer the same query.
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

/// A candidate for the page.
#[derive(Debug)]
struct Candidate {
    rank: Rank,
    descending: bool,
    key: SessionKey,
}

/// The greatest candidate is the last of the page.
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

/// A scan of all sessions that collects the first ones of the order.
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
    fn a_substring_is_found_case_insensitively() {
        assert!(contains("Sensor-17", "SOR-1"));
        assert!(contains("é", "é") && !contains("é", "É"));
        assert!(!contains("ab", "abc"));
    }
}
