//! Retained messages: a page of them, one of them, and their removal by filter.

mod steps;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tautwire_message::{Body, Message, Spilled};
use tautwire_router::{Exchange, RetainedListing};

use super::page::PAGE_MAX;
use crate::connection::connections::LoadQueue;
use crate::operations::operator::PublishConfirm;
use crate::scheduling::work_budget::JOB_SLICE_STEPS;

/// Which retained messages are wanted.
#[derive(Debug, Clone)]
pub struct RetainedQuery {
    /// The filter that covers their topics.
    pub filter: Box<str>,
    /// Only topics behind this one, in the order of their bytes.
    pub after: Option<Box<str>>,
    /// So many, at most [`PAGE_MAX`].
    pub limit: usize,
}

/// Some retained messages, in the order of their topics.
#[derive(Debug, Default)]
pub struct RetainedPage {
    /// How many the filter covers in all, before and behind these as well.
    pub matched: u64,
    /// Topics with their messages.
    pub messages: Vec<(Box<str>, Body)>,
}

/// What a topic retains.
#[derive(Debug)]
pub enum FetchedMessage {
    /// Nothing.
    Nothing,
    /// This.
    Message(Message),
    /// A message that could not be read back from the disk.
    Unreadable,
}

/// What has come of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemovalResult {
    /// Messages that have gone.
    pub removed: u64,
    /// Messages that may not be removed: those of the broker itself, and what the access rules keep from operators.
    pub refused: u64,
    /// There may be more: so many have gone as one request removes, or the log or another thread is behind.
    pub has_more: bool,
    /// What has been written down because of it. It is to be kept before anybody is told.
    pub promise: Option<PublishConfirm>,
}

/// A look at all that a filter covers, which keeps the first messages of the order.
#[derive(Debug)]
pub(crate) struct RetainedSearch {
    query: RetainedQuery,
    look: Option<RetainedListing>,
    page: BTreeMap<Box<str>, Body>,
    matched: u64,
}

impl RetainedSearch {
    pub(crate) fn new(exchange: &Exchange, query: RetainedQuery) -> RetainedSearch {
        let query = RetainedQuery { limit: query.limit.clamp(1, PAGE_MAX), ..query };
        let look = exchange.list_retained(Some(&query.filter));
        RetainedSearch { query, look, page: BTreeMap::new(), matched: 0 }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.look.as_ref().is_none_or(RetainedListing::is_done)
    }

    /// Looks at some more messages; says how many steps that took.
    pub(crate) fn advance(&mut self, exchange: &Exchange, now_ms: u64) -> usize {
        let RetainedSearch { query: RetainedQuery { after, limit, .. }, look, page, matched } = self;
        let Some(look) = look else { return 1 };
        let mut left = JOB_SLICE_STEPS as u64;
        exchange.continue_listing(look, &mut left, |topic, body| {
            if !body.is_expired(now_ms) {
                *matched += 1;
                keep_first(page, *limit, topic, after.as_deref(), || body.clone());
            }
            ControlFlow::Continue(())
        });
        (JOB_SLICE_STEPS - left as usize).max(1)
    }

    pub(crate) fn finish(self) -> RetainedPage {
        RetainedPage { matched: self.matched, messages: self.page.into_iter().collect() }
    }
}

/// Keeps an entry if it is among the first `limit` behind `after`; gives it where it is kept.
pub(super) fn keep_first<'p, V>(
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

/// A message that somebody wants to see, and that may have to be read back first.
#[derive(Debug)]
pub(crate) struct Fetch {
    topic: Box<str>,
    pub(crate) load_queue: LoadQueue,
    /// It has been asked for.
    cold: Option<Spilled>,
}

/// A removal of all that a filter covers.
#[derive(Debug)]
pub(crate) struct Removal {
    look: Option<RetainedListing>,
    outcome: RemovalResult,
}

impl Removal {
    pub(crate) fn new(exchange: &Exchange, filter: &str) -> Removal {
        Removal { look: exchange.list_retained(Some(filter)), outcome: RemovalResult::default() }
    }

    /// Whether there is nothing more to do for this request.
    pub(crate) fn is_done(&self) -> bool {
        self.outcome.has_more || self.look.as_ref().is_none_or(RetainedListing::is_done)
    }

    pub(crate) fn finish(self) -> RemovalResult {
        self.outcome
    }
}
