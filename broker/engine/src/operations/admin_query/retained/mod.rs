//! Queries for retained messages: a page, a single message, and removal by filter.

mod steps;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tautwire_message::{Body, Message, Spilled};
use tautwire_router::{Exchange, RetainedListing};

use super::page::PAGE_MAX;
use crate::connection::connections::LoadQueue;
use crate::operations::operator::PublishConfirm;
use crate::scheduling::work_budget::JOB_SLICE_STEPS;

/// Selects retained messages.
#[derive(Debug, Clone)]
pub struct RetainedQuery {
    /// The filter that covers their topics.
    pub filter: Box<str>,
    /// Only topics after this one, in byte order.
    pub after: Option<Box<str>>,
    /// The maximum number of messages, up to [`PAGE_MAX`].
    pub limit: usize,
}

/// A page of retained messages, ordered by topic.
#[derive(Debug, Default)]
pub struct RetainedPage {
    /// The number of all messages that the filter covers.
    pub matched: u64,
    /// Topics with their messages.
    pub messages: Vec<(Box<str>, Body)>,
}

/// The retained message of a topic.
#[derive(Debug)]
pub enum FetchedMessage {
    /// The topic has none.
    Nothing,
    /// The message.
    Message(Message),
    /// A message that could not be loaded from disk.
    Unreadable,
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemovalResult {
    /// Removed messages.
    pub removed: u64,
    /// Messages that must not be removed: those of the broker itself, and those that the access rules deny to operators.
    pub refused: u64,
    /// More messages may be left: the limit of one request was reached, or the log or another thread lags.
    pub has_more: bool,
    /// The condition for confirming the removal to the operator.
    pub confirm: Option<PublishConfirm>,
}

/// A search over all messages that a filter covers, which collects the first ones after the start.
#[derive(Debug)]
pub(crate) struct RetainedSearch {
    query: RetainedQuery,
    listing: Option<RetainedListing>,
    page: BTreeMap<Box<str>, Body>,
    matched: u64,
}

impl RetainedSearch {
    pub(crate) fn new(exchange: &Exchange, query: RetainedQuery) -> RetainedSearch {
        let query = RetainedQuery { limit: query.limit.clamp(1, PAGE_MAX), ..query };
        let listing = exchange.list_retained(Some(&query.filter));
        RetainedSearch { query, listing, page: BTreeMap::new(), matched: 0 }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.listing.as_ref().is_none_or(RetainedListing::is_done)
    }

    /// Scans more messages; returns the number of steps.
    pub(crate) fn advance(&mut self, exchange: &Exchange, now_ms: u64) -> usize {
        let RetainedSearch { query: RetainedQuery { after, limit, .. }, listing, page, matched } = self;
        let Some(listing) = listing else { return 1 };
        let mut left = JOB_SLICE_STEPS as u64;
        exchange.continue_listing(listing, &mut left, |topic, body| {
            if !body.is_expired(now_ms) {
                *matched += 1;
                insert_if_first(page, *limit, topic, after.as_deref(), || body.clone());
            }
            ControlFlow::Continue(())
        });
        (JOB_SLICE_STEPS - left as usize).max(1)
    }

    pub(crate) fn finish(self) -> RetainedPage {
        RetainedPage { matched: self.matched, messages: self.page.into_iter().collect() }
    }
}

/// Inserts an entry if it is among the first `limit` after `after`; returns it then.
pub(super) fn insert_if_first<'p, V>(
    page: &'p mut BTreeMap<Box<str>, V>,
    limit: usize,
    key: &str,
    after: Option<&str>,
    make: impl FnOnce() -> V,
) -> Option<&'p mut V> {
    if after.is_some_and(|after| key <= after) {
        return None;
    }
    if !page.contains_key(key) {
        if page.len() == limit {
            if page.last_key_value().is_some_and(|(last, _)| &**last < key) {
                return None;
            }
            page.pop_last();
        }
        page.insert(key.into(), make());
    }
    page.get_mut(key)
}

/// A query for one message, which may have to be loaded from disk.
#[derive(Debug)]
pub(crate) struct Fetch {
    topic: Box<str>,
    pub(crate) load_queue: LoadQueue,
    /// The spilled message that was requested.
    spilled: Option<Spilled>,
}

/// A removal of all messages that a filter covers.
#[derive(Debug)]
pub(crate) struct Removal {
    listing: Option<RetainedListing>,
    outcome: RemovalResult,
}

impl Removal {
    pub(crate) fn new(exchange: &Exchange, filter: &str) -> Removal {
        Removal { listing: exchange.list_retained(Some(filter)), outcome: RemovalResult::default() }
    }

    /// Whether this request is done.
    pub(crate) fn is_done(&self) -> bool {
        self.outcome.has_more || self.listing.as_ref().is_none_or(RetainedListing::is_done)
    }

    pub(crate) fn finish(self) -> RemovalResult {
        self.outcome
    }
}
