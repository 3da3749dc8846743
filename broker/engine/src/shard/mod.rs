//! One shard of the broker: its state.

mod receive;
mod state;
mod steps;

use tautwire_router::Batch;

use crate::connection::connections::Connections;
use crate::connection::paused_readers::PausedReaders;
use crate::connection::quota_state::QuotaState;
use crate::mode::Mode;
use crate::operations::latency::LatencyRecorder;
use crate::operations::state::OperationsState;
use crate::routing::route::SubscriptionTable;
use crate::routing::shard_outbox::ShardOutboxes;
use crate::routing::state::RoutingState;
use crate::scheduling::clock::Clock;
use crate::scheduling::jobs::Jobs;
use crate::scheduling::work_budget::WorkBudget;
use crate::session::message_loss::LossLog;
use crate::session::sessions::Sessions;
use crate::session::throttled::ThrottledSessions;
use crate::settings::config::ConfigReader;
use crate::settings::current_config::CurrentConfig;
use crate::shard_context::ShardContext;
use crate::storage::journal_writer::JournalWriter;
use crate::storage::memory_budget::MemoryBudget;
use crate::storage::spill::SpillState;

/// One shard: the connections and sessions of a part of the clients.
///
/// It owns no socket and reads no clock: its caller brings bytes and the time, and takes away output, actions and batches for other shards,
/// in the order of [`turn`](crate::scheduling::turn()). It is deterministic: the same calls give the same results.
///
/// Time is in milliseconds since the Unix epoch and must not go back.
pub struct Shard<M: Mode> {
    pub(crate) state: ShardState<M>,
    pub(crate) table: SubscriptionTable,
    pub(crate) config_cell: ConfigReader,
    next_retained_expiry_ms: u64,
    /// For each shard, a batch that is not fully processed, with the number of processed entries.
    pub(crate) partial_batches: Vec<Option<(Batch, usize)>>,
}

/// The state of a shard except its subscriptions.
///
/// Each field is a type with private fields, which only its methods change. Steps that need one of these types are its methods; steps that
/// need several are methods of `ShardState`.
pub(crate) struct ShardState<M: Mode> {
    /// The current settings, contracts and access rules.
    pub(crate) config: CurrentConfig,
    /// The quotas of clients and users, and their usage.
    pub(crate) quota_state: QuotaState,
    /// State shared with the other shards: the exchange, counters, message identifiers.
    pub(crate) context: ShardContext,
    pub(crate) clock: Clock,
    pub(crate) connections: Connections,
    pub(crate) sessions: Sessions,
    /// Messages to send to other shards.
    pub(crate) outboxes: ShardOutboxes,
    /// Connections from which reading is paused until something happens elsewhere.
    pub(crate) paused_readers: PausedReaders,
    /// The journal, and the acknowledgements that wait for it.
    pub(crate) log: JournalWriter<M::Journal>,
    /// The memory that this shard's clients use, and the limits.
    pub(crate) memory: MemoryBudget,
    /// The work done in this turn, so that it ends.
    pub(crate) work_budget: WorkBudget,
    /// Measures the latency of messages and acknowledgements.
    pub(crate) latency_recorder: LatencyRecorder,
    /// Work that takes several turns.
    pub(crate) jobs: Jobs,
    pub(crate) routing: RoutingState,
    pub(crate) operations: OperationsState,
    /// Messages that are spilled to disk.
    pub(crate) spill: SpillState,
    /// The sessions that block filters on all shards until they have caught up.
    pub(crate) throttled: ThrottledSessions,
    /// Sessions that are losing messages.
    pub(crate) loss_log: LossLog,
    /// The state of the mode.
    pub(crate) mode: M::State,
}

/// How a packet was handled.
pub(crate) enum Handled {
    /// It was processed.
    Done,
    /// It must be processed again after [`Action::Resume`](crate::Action::Resume).
    Later,
    /// The connection is being closed or moved; nothing more is read from it.
    Ended,
}
