//! Refreshing the memory budget, and the memory usage of clients.

use crate::connection::connections::PauseReason;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// Reads the usage of all shards, at the beginning of each turn.
    #[inline]
    pub(crate) fn refresh_memory_budget(&mut self) {
        self.connections.settle_output_pool();
        let output_max_bytes = self.config.settings().connection_output_bytes;
        self.memory.refresh(self.context.exchange().retained_message_bytes(), output_max_bytes);
    }

    /// The memory of a session and its connection.
    pub(crate) fn client_bytes(&self, session: SessionIndex) -> usize {
        let connection = self.sessions.connection(session);
        self.sessions[session].memory_bytes() + connection.map_or(0, |index| self.connection_bytes(index))
    }

    /// The memory of a connection.
    pub(crate) fn connection_bytes(&self, index: ConnectionIndex) -> usize {
        self.connections[index].held_bytes()
    }

    /// Whether a session stays within its share of memory with `more_bytes` added.
    #[inline]
    pub(crate) fn is_within_memory_limit(&self, session: SessionIndex, more_bytes: usize) -> bool {
        let held_bytes = self.sessions[session].outbound().map_or(0, |outbound| outbound.memory_bytes()) as u64;
        held_bytes + more_bytes as u64 <= self.memory.client_max_bytes()
    }

    /// Resumes reading from publishers of 3.1.1 that were paused for memory. Called once per turn.
    #[inline]
    pub(crate) fn resume_after_memory(&mut self) {
        for id in self.paused_readers.retries(self.clock.now_ms()) {
            self.resume_reading(id, PauseReason::Memory);
        }
    }
}
