//! What all shards of a broker have in common.

use std::sync::Arc;

use tautwire_memory::Memory;
use tautwire_router::{Exchange, random};

use crate::connection::quotas::UserUsageTable;
use crate::counters::Counters;
use crate::operations::latency::LatencyCounts;
use crate::routing::transcoding::RequestedFormats;
use crate::session::throttle::Throttle;
use crate::settings::config::ConfigCell;
use crate::settings::values::Settings;
use crate::storage::spill::Backlog;

/// What all shards of a broker have in common.
#[derive(Clone)]
pub struct Shared {
    /// Settings, access rules and contracts.
    pub config_cell: Arc<ConfigCell>,
    /// Interest, shared subscriptions, retained messages.
    pub exchange: Arc<Exchange>,
    /// The counters of each shard, by its number, and behind them others for what no shard counts.
    pub counters: Arc<[Counters]>,
    /// How long messages and acknowledgements take on each shard, by its number.
    pub latencies: Arc<[LatencyCounts]>,
    /// What the clients of each shard hold, and what they may hold.
    pub memory: Arc<Memory>,
    /// Filters that are closed for the sake of sessions that hold too much.
    pub(crate) throttle: Arc<Throttle>,
    /// What the clients of each user hold together.
    pub(crate) users: Arc<UserUsageTable>,
    /// Whether anybody has wanted payloads in a format of their own.
    pub(crate) requested_formats: Arc<RequestedFormats>,
    /// What the store of cold messages has been given to write.
    pub(crate) backlog: Arc<Backlog>,
    /// Tells messages of this run of the broker from those of others.
    pub(crate) run: u64,
}

impl Shared {
    /// What the shards of `exchange` have in common at the start.
    pub fn new(settings: Settings, exchange: Exchange) -> Shared {
        let exchange = Arc::new(exchange);
        let shards = exchange.shards();
        let limits = settings.memory_limits();
        Shared {
            config_cell: Arc::new(ConfigCell::new(settings, shards)),
            users: Arc::default(),
            requested_formats: Arc::default(),
            backlog: Arc::default(),
            exchange,
            counters: (0..=shards).map(|_| Counters::default()).collect(),
            latencies: (0..shards).map(|_| LatencyCounts::default()).collect(),
            memory: Arc::new(Memory::new(shards, limits)),
            throttle: Arc::default(),
            run: random(),
        }
    }

    /// Has messages numbered as those of this run, instead of one drawn at random: for simulations that are to be repeated. Other runs
    /// whose messages may still be there have numbers that differ by more than there are shards.
    #[must_use]
    pub fn of_run(self, run: u64) -> Shared {
        Shared { run, ..self }
    }
}
