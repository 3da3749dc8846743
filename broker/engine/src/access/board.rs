//! The access rules that hold now, for all shards.

use core::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tautwire_access::{Identity, Policy};

use crate::news::News;

/// The policy, and whether clients are asked who they are. Each shard has the policy itself and looks here only when it has
/// changed.
pub struct AccessBoard {
    policy: RwLock<Arc<Policy>>,
    changes: AtomicU64,
    asks: AtomicBool,
    known: RwLock<Option<Known>>,
    reviews: AtomicU64,
    news: Arc<News>,
}

/// Says whether somebody who has been let in is still to be.
pub type Known = Arc<dyn Fn(&Visitor<'_>) -> Fate + Send + Sync>;

/// Somebody who has been let in.
#[derive(Debug, Clone, Copy)]
pub struct Visitor<'v> {
    /// Nothing is known of those who came before anybody was asked.
    pub identity: Option<&'v Identity>,
    /// The Client Identifier.
    pub client_id: &'v str,
    /// The listener by which it has come; empty where that is not known.
    pub listener: &'v str,
    /// Its address, where that has not been forgotten.
    pub address: Option<IpAddr>,
}

/// What becomes of somebody who has been let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It stays.
    Stays,
    /// It depends on the address, which has been forgotten. The surroundings are asked for it.
    DependsOnAddress,
    /// It is not known any more.
    Unknown,
    /// It has been banned.
    Banned,
}

impl AccessBoard {
    /// Everybody may do everything, and nobody is asked.
    pub(crate) fn new(news: Arc<News>) -> AccessBoard {
        AccessBoard {
            policy: RwLock::new(Arc::new(Policy::open())),
            changes: AtomicU64::new(0),
            asks: AtomicBool::new(false),
            known: RwLock::new(None),
            reviews: AtomicU64::new(0),
            news,
        }
    }

    /// The policy that holds now.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on `policy` holds. Each shard changes over between two packets, and takes away what is not allowed any more.
    pub fn set(&self, policy: Arc<Policy>) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.news.announce();
    }

    /// Whether each client is asked who it is, by [`Action::Ask`](crate::Action::Ask). Connections that are there already are not
    /// asked.
    pub fn set_asks(&self, asks: bool) {
        self.asks.store(asks, Ordering::Release);
    }

    /// Whether clients are asked.
    #[inline]
    pub fn asks(&self) -> bool {
        self.asks.load(Ordering::Acquire)
    }

    /// Each client that has been let in is looked at again; those who are not known any more are disconnected.
    pub fn review(&self, known: Known) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
        self.reviews.fetch_add(1, Ordering::AcqRel);
        self.news.announce();
    }

    /// What says whether clients are known, where that has ever changed.
    pub(crate) fn known(&self) -> Option<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often clients were to be looked at again.
    #[inline]
    pub(crate) fn reviews(&self) -> u64 {
        self.reviews.load(Ordering::Acquire)
    }

    /// How often the policy has been changed.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for AccessBoard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessBoard")
            .field("asks", &self.asks())
            .field("changes", &self.changes())
            .finish_non_exhaustive()
    }
}
