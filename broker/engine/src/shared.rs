//! The state that all shards of a broker share.

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

/// The state that all shards of a broker share.
#[derive(Clone)]
pub struct Shared {
    /// Settings, access rules and contracts.
    pub config_cell: Arc<ConfigCell>,
    /// Interest, shared subscriptions and retained messages.
    pub exchange: Arc<Exchange>,
    /// The counters of each shard by its index, then one set for events that belong to no shard.
    pub counters: Arc<[Counters]>,
    /// The latencies of messages and acknowledgements on each shard, by its index.
    pub latencies: Arc<[LatencyCounts]>,
    /// The memory that the clients of each shard use, and its limits.
    pub memory: Arc<Memory>,
    /// Filters that are blocked because a session is full.
    pub(crate) throttle: Arc<Throttle>,
    /// The usage of each user, over all of the user's clients.
    pub(crate) users: Arc<UserUsageTable>,
    /// Whether any client has ever requested a payload format.
    pub(crate) requested_formats: Arc<RequestedFormats>,
    /// The bytes queued for the spill store to write.
    pub(crate) backlog: Arc<Backlog>,
    /// Distinguishes the messages of this run of the broker from those of other runs.
    pub(crate) run: u64,
}

impl Shared {
    /// Creates the shared state for the shards of `exchange`.
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

    /// Sets the run number in message identifiers, which is random otherwise. For simulations that must be repeatable. The number must
    /// differ from that of any run whose messages may still exist by more than the number of shards.
    #[must_use]
    pub fn with_run(self, run: u64) -> Shared {
        Shared { run, ..self }
    }
}
