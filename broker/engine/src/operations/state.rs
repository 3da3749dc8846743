//! What only operations know of a shard.

use tautwire_router::ShardIndex;

use crate::operations::admin_query::AdminQueries;
use crate::operations::sys::SysTopics;
use crate::operations::tap::TapState;
use crate::settings::config::ConfigSnapshot;
use crate::settings::values::Settings;

/// The state of operations. Its parts are visible to operations only.
pub(crate) struct OperationsState {
    /// Queries of operators.
    pub(super) admin_queries: AdminQueries,
    /// The taps on published messages, and the traces of them.
    pub(super) tap: TapState,
    pub(super) sys: SysTopics,
}

impl OperationsState {
    pub(crate) fn new(shard: ShardIndex, settings: &Settings, now_ms: u64) -> OperationsState {
        OperationsState {
            admin_queries: AdminQueries::default(),
            tap: TapState::default(),
            sys: SysTopics::new(shard, settings, now_ms),
        }
    }

    /// Applies the taps and the tracer of a new configuration.
    pub(crate) fn apply_config(&mut self, config: &ConfigSnapshot) {
        self.tap.apply(&config.taps, config.tracer.clone());
    }

    /// Applies the interval of `$SYS`.
    pub(crate) fn apply_settings(&mut self, shard: ShardIndex, settings: &Settings, now_ms: u64) {
        self.sys.change(shard, settings, now_ms);
    }

    /// Whether messages have an observer: a tap or a tracer.
    #[inline]
    pub(crate) fn has_observers(&self) -> bool {
        self.tap.is_open()
    }

    /// Whether spans wait for the acknowledgement of their message.
    #[inline]
    pub(crate) fn has_open_spans(&self) -> bool {
        self.tap.traces.has_open()
    }

    /// When `$SYS` is published next.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.sys.next_ms()
    }
}
