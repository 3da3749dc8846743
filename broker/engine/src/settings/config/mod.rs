//! The configuration: settings, access rules and contracts, which change together in one step.

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

/// A configuration. It is immutable: a change makes a new one, which a shard applies as a whole between two packets.
#[derive(Clone)]
pub struct ConfigSnapshot {
    /// The settings of the operator.
    pub settings: Arc<Settings>,
    /// The access rules. Access that they no longer allow is revoked.
    pub policy: Arc<Policy>,
    /// The contracts of payloads.
    pub contracts: Arc<Catalogue>,
    /// Whether clients must authenticate, by [`Action::Authenticate`](crate::Action::Authenticate). Clients that are already connected are not asked.
    pub requires_auth: bool,
    /// Counts the steps of authentications.
    pub auth_progress: Arc<AuthProgress>,
    /// The taps on published messages.
    pub taps: Arc<[Arc<Tap>]>,
    /// Receives traces.
    pub tracer: Option<Arc<Tracer>>,
    /// Rechecks connected clients; `None` if that was never needed.
    client_check: Option<ClientCheck>,
    /// The number of this configuration; the first is 0.
    number: u64,
    /// The number of the configuration that set `policy`.
    policy_version: u64,
    /// The number of the configuration that set `contracts`.
    contracts_version: u64,
    /// The number of the configuration that set `client_check`.
    client_check_version: u64,
    /// The topic filters by which messages are counted.
    metered: MeteredFilters,
    /// The number of shards.
    shards: usize,
}

impl ConfigSnapshot {
    /// A configuration without access rules, authentication and contracts.
    fn open(settings: Settings, shards: usize) -> ConfigSnapshot {
        ConfigSnapshot {
            metered: MeteredFilters::default().with_filters(&settings.metered_filters, shards),
            shards,
            settings: Arc::new(settings),
            policy: Arc::new(Policy::open()),
            contracts: Arc::default(),
            requires_auth: false,
            auth_progress: Arc::default(),
            taps: Arc::default(),
            tracer: None,
            client_check: None,
            number: 0,
            policy_version: 0,
            contracts_version: 0,
            client_check_version: 0,
        }
    }

    /// Rechecks each connected client; those that are no longer accepted are disconnected.
    pub fn recheck_clients(&mut self, client_check: ClientCheck) {
        self.client_check = Some(client_check);
        self.client_check_version = self.number;
    }

    pub(crate) fn metered(&self) -> &MeteredFilters {
        &self.metered
    }

    /// The counts by topic filter, in the order of the settings.
    pub fn topic_totals(&self) -> Vec<TopicTotals> {
        self.metered.totals()
    }

    pub(crate) fn client_check(&self) -> Option<&ClientCheck> {
        self.client_check.as_ref()
    }

    pub(crate) fn policy_version(&self) -> u64 {
        self.policy_version
    }

    pub(crate) fn contracts_version(&self) -> u64 {
        self.contracts_version
    }

    pub(crate) fn client_check_version(&self) -> u64 {
        self.client_check_version
    }
}

impl fmt::Debug for ConfigSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigSnapshot")
            .field("number", &self.number)
            .field("requires_auth", &self.requires_auth)
            .finish_non_exhaustive()
    }
}

/// The current configuration of all shards. Each shard holds a reference to it, and reads this only after a change.
#[derive(Debug)]
pub struct ConfigCell {
    current: RwLock<Arc<ConfigSnapshot>>,
    /// The number of `current`, so that a turn only reads this.
    number: AtomicU64,
}

impl ConfigCell {
    pub(crate) fn new(settings: Settings, shards: usize) -> ConfigCell {
        ConfigCell { current: RwLock::new(Arc::new(ConfigSnapshot::open(settings, shards))), number: AtomicU64::new(0) }
    }

    /// The current configuration.
    pub fn current(&self) -> Arc<ConfigSnapshot> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the configuration; a shard applies the change as a whole between two packets. Returns the previous configuration, which
    /// shards may still use; the last reference frees it.
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
            next.contracts_version = next.number;
        }
        self.number.store(next.number, Ordering::Release);
        std::mem::replace(&mut *current, Arc::new(next))
    }

    #[inline]
    fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }
}

/// The configuration that one shard has applied.
#[derive(Debug)]
pub(crate) struct ConfigReader {
    config_cell: Arc<ConfigCell>,
    /// Held until it is replaced, so that the author of a change can see when every shard has applied it.
    config: Arc<ConfigSnapshot>,
    seen: u64,
}

impl ConfigReader {
    /// A reader for which the configuration of the first turn is an update.
    pub(crate) fn new(config_cell: Arc<ConfigCell>) -> ConfigReader {
        ConfigReader { config: config_cell.current(), config_cell, seen: u64::MAX }
    }

    /// Whether the configuration has changed since it was applied.
    #[inline]
    pub(crate) fn has_update(&self) -> bool {
        self.config_cell.number() != self.seen
    }

    /// Returns the current and the previous configuration.
    fn take(&mut self) -> (Arc<ConfigSnapshot>, Arc<ConfigSnapshot>) {
        let config = self.config_cell.current();
        self.seen = config.number;
        (config.clone(), std::mem::replace(&mut self.config, config))
    }
}
