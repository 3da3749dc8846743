//! Whether anything that a shard knows of its broker is out of date: settings, access rules, contracts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tautwire_session::Journal;

use crate::shard::Shard;

/// Counts the changes on all boards together, so that a turn looks at one number instead of at every board.
#[derive(Debug, Default)]
pub(crate) struct News(AtomicU64);

impl News {
    /// A board has changed. What is new stands on it already.
    pub(crate) fn announce(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    #[inline]
    fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What one shard has seen of the news.
#[derive(Debug)]
pub(crate) struct NewsReader {
    news: Arc<News>,
    seen: u64,
}

impl NewsReader {
    /// One that has seen nothing: what stands on the boards before the first turn is news.
    pub(crate) fn new(news: Arc<News>) -> NewsReader {
        NewsReader { news, seen: u64::MAX }
    }

    /// Whether a board has changed since the last look.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.news.count() != self.seen
    }
}

impl<J: Journal> Shard<J> {
    /// Looks at the boards, if one of them has changed.
    #[inline]
    pub(crate) fn look_at_news(&mut self) {
        if self.news.has_news() {
            self.take_news();
        }
    }

    #[cold]
    fn take_news(&mut self) {
        // In this order: where a board changes meanwhile, all are looked at again.
        self.news.seen = self.news.news.count();
        self.look_at_settings();
        self.look_at_access();
        self.look_at_contracts();
    }
}
