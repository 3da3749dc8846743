//! The contracts that hold now, for all shards.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tautwire_contracts::{Catalogue, Contract};
use tautwire_router::Exchange;

use crate::news::News;

/// The catalogue of contracts, and whether anybody wants payloads in other formats. What a shard has found here it remembers
/// by the exchange's generation, together with its routes, so a message whose topic is in its shard's cache takes no lock.
pub struct ContractBoard {
    exchange: Arc<Exchange>,
    catalogue: RwLock<Arc<Catalogue>>,
    changes: AtomicU64,
    formats_wanted: AtomicBool,
    news: Arc<News>,
}

impl ContractBoard {
    /// A board without contracts. `exchange` is that of the shards which look at it.
    pub(crate) fn new(exchange: Arc<Exchange>, news: Arc<News>) -> ContractBoard {
        ContractBoard {
            exchange,
            catalogue: RwLock::default(),
            changes: AtomicU64::new(0),
            formats_wanted: AtomicBool::new(false),
            news,
        }
    }

    /// The contracts that hold now.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on `catalogue` holds. Each thread changes over between two messages.
    pub fn set(&self, catalogue: Arc<Catalogue>) {
        let replaced = {
            let mut held = self.catalogue.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *held, catalogue)
        };
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.exchange.advance();
        self.news.announce();
        drop(replaced);
    }

    /// The contract for a topic.
    pub fn find(&self, topic: &str) -> Option<Arc<Contract>> {
        self.catalogue.read().unwrap_or_else(PoisonError::into_inner).find(topic).cloned()
    }

    /// How often the contracts have been changed.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// A subscription wants payloads in a format of its own.
    pub fn want_formats(&self) {
        self.formats_wanted.store(true, Ordering::Release);
    }

    /// Whether any subscription has wanted that since the start.
    #[inline]
    pub fn formats_are_wanted(&self) -> bool {
        self.formats_wanted.load(Ordering::Acquire)
    }
}
