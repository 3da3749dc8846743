//! Incomplete packets of MQTT 3.1.1 clients that wait for memory.
//!
//! Such a client cannot be notified that there is no memory for its packet, so reading from it is paused until there is some. If several
//! clients have sent parts of packets and none can continue, the one that has waited longest may exceed the input budget.

use tautwire_protocol::{DecodeOptions, FixedHeader};

use crate::connection::connections::{PauseReason, Phase};
use crate::connection::paused_readers::PartialPacket;
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// Whether a connection may buffer `rest` of a packet, which takes `held_bytes`, although there is no room for it. Reading is paused
    /// then, unless this connection may exceed the budget.
    #[cold]
    pub(crate) fn pause_for_input(&mut self, index: ConnectionIndex, rest: &[u8], held_bytes: usize) -> bool {
        let connection = &self.connections[index];
        if connection.is_v5() || connection.phase() != Phase::Open || connection.is_reading_paused() {
            return false;
        }
        let Some(header) = self.fixed_header(index, rest) else { return false };
        let Some(missing_bytes) = header.total_len().checked_sub(rest.len()) else { return true };
        let Some(since) = connection.deadlines().incomplete_since_ms else { return false };
        if header.total_len() as u64 > self.memory.share().limits().all_bytes / 2 {
            return false;
        }
        let wanted_bytes = missing_bytes.max(held_bytes);
        let partial = PartialPacket { id: self.id(index), since_ms: since.get(), wanted_bytes };
        if self.paused_readers.has_priority(&partial) && self.memory.share().extra_input_bytes() > 0 {
            return true;
        }
        self.counters().publishers_paused_for_memory.add(1);
        self.connections[index].pause_reading(PauseReason::Input);
        self.paused_readers.wait_for_input(partial);
        true
    }

    /// Resumes reading incomplete packets for which there is room now. Call it once a turn.
    #[inline]
    pub(crate) fn resume_for_input(&mut self) {
        if self.paused_readers.any_for_input() {
            self.resume_all_for_input();
        }
    }

    #[cold]
    fn resume_all_for_input(&mut self) {
        let free_bytes = usize::try_from(self.memory.share().input_bytes()).unwrap_or(usize::MAX);
        for id in self.paused_readers.input_retries(self.clock.now_ms(), free_bytes) {
            self.resume_reading(id, PauseReason::Input);
        }
        if self.memory.share().extra_input_bytes() > 0 {
            let first = self.paused_readers.priority().filter(|first| self.is_still_pending(first));
            if let Some(id) = self.paused_readers.next_priority(first) {
                self.resume_reading(id, PauseReason::Input);
            }
        }
    }

    /// Whether the same packet is still unprocessed: incomplete, or waiting for memory as a message.
    fn is_still_pending(&self, partial: &PartialPacket) -> bool {
        let Some(index) = self.connections.find(partial.id) else { return false };
        let connection = &self.connections[index];
        let since_ms = connection.deadlines().incomplete_since_ms.map(|since| since.get());
        connection.phase() == Phase::Open && since_ms == Some(partial.since_ms)
    }

    /// Decodes the Fixed Header at the start of a connection's input.
    pub(crate) fn fixed_header(&self, index: ConnectionIndex, bytes: &[u8]) -> Option<FixedHeader> {
        let connection = &self.connections[index];
        let version = connection.version();
        let max_packet_size = connection.packet_max_bytes(self.config.settings().maximum_packet_size_bytes);
        FixedHeader::decode(bytes, &DecodeOptions { version, max_packet_size })
            .or_else(|error| self.decode_with_connack_limits(index, bytes, &error).ok_or(error))
            .ok()
    }
}
