//! What holds for every message: settings, access rules and contracts. They change together, in one step.

mod steps;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tautwire_access::Policy;
use tautwire_contracts::Catalogue;

use crate::access::ClientCheck;
use crate::connection::auth_progress::AuthProgress;
use crate::operations::tap::Tap;
use crate::operations::trace::Tracer;
use crate::routing::metered::{MeteredFilters, TopicTotals};
use crate::settings::values::Settings;

/// What holds now. It never changes: a change makes another one, which a shard takes on as a whole between two packets.
#[derive(Clone)]
pub struct ConfigSnapshot {
    /// What an operator has set.
    pub settings: Arc<Settings>,
    /// What clients may do. What is not allowed any more is taken away.
    pub policy: Arc<Policy>,
    /// The contracts that messages must keep to.
    pub contracts: Arc<Catalogue>,
    /// Whether each client is asked who it is, by [`Action::Ask`](crate::Action::Ask). Clients that are connected already are not asked.
    pub asks: bool,
    /// Counts what is done to answer.
    pub auth_progress: Arc<AuthProgress>,
    /// Who watches what is published.
    pub taps: Arc<[Arc<Tap>]>,
    /// Who wants traces.
    pub tracer: Option<Arc<Tracer>>,
    /// Says whether clients are known, where that has ever changed.
    known: Option<ClientCheck>,
    /// Counts the changes. That of the start is 0.
    number: u64,
    /// The number of the config with which `policy` came.
    policy_version: u64,
    /// The number of the config with which `contracts` came.
    contracts_since: u64,
    /// The number of the config with which `known` came.
    client_check_version: u64,
    /// The topic filters by which messages are counted.
    metered: MeteredFilters,
    /// How many shards there are.
    shards: usize,
}

impl ConfigSnapshot {
    /// Everybody may do everything, nobody is asked, and there are no contracts.
    fn open(settings: Settings, shards: usize) -> ConfigSnapshot {
        ConfigSnapshot {
            metered: MeteredFilters::default().with_filters(&settings.metered_filters, shards),
            shards,
            settings: Arc::new(settings),
            policy: Arc::new(Policy::open()),
            contracts: Arc::default(),
            asks: false,
            auth_progress: Arc::default(),
            taps: Arc::default(),
            tracer: None,
            known: None,
            number: 0,
            policy_version: 0,
            contracts_since: 0,
            client_check_version: 0,
        }
    }

    /// Each client that has been let in is looked at again; those who are not known any more are disconnected.
    pub fn review(&mut self, known: ClientCheck) {
        self.known = Some(known);
        self.client_check_version = self.number;
    }

    pub(crate) fn metered(&self) -> &MeteredFilters {
        &self.metered
    }

    /// What has been counted by topic filters, in the order in which they were named.
    pub fn topic_totals(&self) -> Vec<TopicTotals> {
        self.metered.totals()
    }

    pub(crate) fn known(&self) -> Option<&ClientCheck> {
        self.known.as_ref()
    }

    pub(crate) fn policy_version(&self) -> u64 {
        self.policy_version
    }

    pub(crate) fn contracts_since(&self) -> u64 {
        self.contracts_since
    }

    pub(crate) fn client_check_version(&self) -> u64 {
        self.client_check_version
    }
}

impl fmt::Debug for ConfigSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigSnapshot").field("number", &self.number).field("asks", &self.asks).finish_non_exhaustive()
    }
}

/// The config of all shards. Each of them has it itself, and looks here only when it has changed.
#[derive(Debug)]
pub struct ConfigCell {
    current: RwLock<Arc<ConfigSnapshot>>,
    /// That of `current`, so that a turn looks at one number.
    number: AtomicU64,
}

impl ConfigCell {
    pub(crate) fn new(settings: Settings, shards: usize) -> ConfigCell {
        ConfigCell { current: RwLock::new(Arc::new(ConfigSnapshot::open(settings, shards))), number: AtomicU64::new(0) }
    }

    /// What holds now.
    pub fn current(&self) -> Arc<ConfigSnapshot> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a change. All of it holds at once: a shard takes it on between two packets. Gives the config of before, which shards may
    /// still have: whoever drops it last frees it.
    pub fn change(&self, change: impl FnOnce(&mut ConfigSnapshot)) -> Arc<ConfigSnapshot> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = ConfigSnapshot::clone(&current);
        next.number += 1;
        change(&mut next);
        if !next.metered.has_filters(&next.settings.metered_filters) {
            next.metered = current.metered.with_filters(&next.settings.metered_filters, current.shards);
        }
        if !Arc::ptr_eq(&next.policy, &current.policy) {
            next.policy_version = next.number;
        }
        if !Arc::ptr_eq(&next.contracts, &current.contracts) {
            next.contracts_since = next.number;
        }
        self.number.store(next.number, Ordering::Release);
        std::mem::replace(&mut *current, Arc::new(next))
    }

    #[inline]
    fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }
}

/// What one shard has taken on.
#[derive(Debug)]
pub(crate) struct ConfigReader {
    config_cell: Arc<ConfigCell>,
    /// Held until it is replaced, so that whoever made a change can see that every shard has taken it on.
    config: Arc<ConfigSnapshot>,
    seen: u64,
}

impl ConfigReader {
    /// One for which whatever holds at the first turn is new.
    pub(crate) fn new(config_cell: Arc<ConfigCell>) -> ConfigReader {
        ConfigReader { config: config_cell.current(), config_cell, seen: u64::MAX }
    }

    /// Whether something else holds than what has been taken on.
    #[inline]
    pub(crate) fn has_update(&self) -> bool {
        self.config_cell.number() != self.seen
    }

    /// Gives what holds now, and what has held so far.
    fn take(&mut self) -> (Arc<ConfigSnapshot>, Arc<ConfigSnapshot>) {
        let config = self.config_cell.current();
        self.seen = config.number;
        (config.clone(), std::mem::replace(&mut self.config, config))
    }
}
