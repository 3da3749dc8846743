//! One shard of the broker: what it has.

mod state;
mod steps;

use tautwire_router::Batch;

use crate::connection::connections::Connections;
use crate::connection::paused_readers::PausedReaders;
use crate::connection::quota_state::QuotaState;
use crate::mode::Mode;
use crate::operations::admin_query::AdminQueries;
use crate::operations::latency::LatencyRecorder;
use crate::operations::sys::SysTopics;
use crate::operations::tap::TapState;
use crate::routing::discovery::PublishedContracts;
use crate::routing::metered::MeteredFilters;
use crate::routing::publish_packets::PublishPackets;
use crate::routing::route::SubscriptionTable;
use crate::routing::scans::Scans;
use crate::routing::shard_outbox::ShardOutboxes;
use crate::routing::share_queue::ShareQueues;
use crate::scheduling::clock::Clock;
use crate::scheduling::jobs::Jobs;
use crate::scheduling::work_budget::WorkBudget;
use crate::session::message_loss::LossLog;
use crate::session::sessions::Sessions;
use crate::settings::config::ConfigReader;
use crate::settings::current_config::CurrentConfig;
use crate::shard_context::ShardContext;
use crate::storage::journal_writer::JournalWriter;
use crate::storage::memory_budget::MemoryBudget;
use crate::storage::spill::SpillState;

/// One shard: the connections and sessions of a part of the clients. It owns no socket and reads no clock; its
/// surroundings bring bytes and the time, and carry away output, actions and batches for other shards, in the order of
/// [`turn`](crate::scheduling::turn()). The same calls give the same results.
///
/// Time is in milliseconds since the Unix epoch and must not go back.
pub struct Shard<M: Mode> {
    pub(crate) state: ShardState<M>,
    pub(crate) table: SubscriptionTable,
    pub(crate) sys: SysTopics,
    pub(crate) told: PublishedContracts,
    pub(crate) config_cell: ConfigReader,
    next_retained_expiry_ms: u64,
    /// By shard, a batch of which only so many entries have been taken.
    pub(crate) partial_batches: Vec<Option<(Batch, usize)>>,
}

/// All of a shard but its subscriptions: rooms, and the steps that need several of them.
///
/// A room is a type whose fields nobody else sees: only its verbs change it. What needs one room is a verb of it, what needs several
/// is one of the hub.
pub(crate) struct ShardState<M: Mode> {
    /// What holds for each packet: settings, contracts, access rules.
    pub(crate) config: CurrentConfig,
    /// What clients may do, and how much of it they have done.
    pub(crate) quota_state: QuotaState,
    /// What all shards have: the exchange, counters, identities of messages.
    pub(crate) context: ShardContext,
    pub(crate) clock: Clock,
    pub(crate) connections: Connections,
    pub(crate) sessions: Sessions,
    /// What waits to be sent to other shards.
    pub(crate) outboxes: ShardOutboxes,
    /// Who is not heard until something happens elsewhere.
    pub(crate) paused_readers: PausedReaders,
    /// What is written down, and who waits for it to be safe.
    pub(crate) log: JournalWriter<M::Journal>,
    /// What this shard's clients hold, and what still fits.
    pub(crate) memory: MemoryBudget,
    /// What has been done, so that a turn ends.
    pub(crate) work_budget: WorkBudget,
    /// How long it takes.
    pub(crate) latency_recorder: LatencyRecorder,
    /// The packets of the message at hand.
    pub(crate) packets: PublishPackets,
    /// Work that goes on over several turns.
    pub(crate) jobs: Jobs,
    /// Searches for retained messages.
    pub(crate) scans: Scans,
    /// Queues of shared subscriptions.
    pub(crate) share_queues: ShareQueues,
    /// What operators want to know.
    pub(crate) admin_queries: AdminQueries,
    /// Messages that are not in memory.
    pub(crate) spill: SpillState,
    /// Which sessions lose messages.
    pub(crate) episodes: LossLog,
    /// Who watches what is published.
    pub(crate) tap: TapState,
    /// By which topic filters messages are counted.
    pub(crate) metered: MeteredFilters,
    /// What the mode knows.
    pub(crate) mode: M::State,
}

/// What came of a packet.
pub(crate) enum Handled {
    /// It was taken in.
    Done,
    /// It must be brought again after [`Action::Resume`](crate::Action::Resume).
    Later,
    /// The connection is being closed or moved; nothing more is read from it.
    Ended,
}
