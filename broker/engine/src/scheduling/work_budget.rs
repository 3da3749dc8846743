//! The work of a shard, and its limits for one turn and for one client's share of it.

/// Steps in one turn, of all jobs and of inline work. A step is a filter, a part of its access check, or a message that is freed: each
/// takes about a microsecond, some take several.
pub(crate) const STEPS_MAX: usize = 1_024;

/// Steps of one job before another has its turn.
pub(crate) const JOB_SLICE_STEPS: usize = 256;

/// Packets read in one turn. Bounds the delay for the connections that are read last.
const PACKETS_MAX: usize = 16 << 10;
/// Bytes of payloads that are transcoded in each phase of a turn: batches of other shards, input of clients, and jobs. The last payload
/// may exceed it.
const TRANSCODED_MAX_BYTES: usize = 64 << 10;
/// The fixed cost of a transcoding: a small payload takes about as long as this many bytes of a large one.
const TRANSCODING_COST_BYTES: usize = 256;
/// Bytes written in one turn.
const WRITTEN_MAX_BYTES: usize = 8 << 20;

/// The work done so far, and in this turn.
#[derive(Debug, Default)]
pub(crate) struct WorkBudget {
    /// Messages delivered so far, to connections and to sessions.
    deliveries: u64,
    /// Subscriptions visited so far.
    visits: u64,
    /// Packets read in this turn.
    packets: usize,
    /// Bytes transcoded in this phase of the turn.
    transcoded_bytes: usize,
    /// Bytes written in this turn.
    written_bytes: usize,
}

impl WorkBudget {
    /// Counts messages that were delivered to connections or sessions.
    #[inline]
    pub(crate) fn count_deliveries(&mut self, messages: u64) {
        self.deliveries += messages;
    }

    /// Messages delivered so far. Only the difference between two calls is meaningful.
    #[inline]
    pub(crate) fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// Counts visited subscriptions, or other work that takes as long.
    #[inline]
    pub(crate) fn count_visits(&mut self, visits: u64) {
        self.visits += visits;
    }

    /// Subscriptions visited so far. Only the difference between two calls is meaningful.
    #[inline]
    pub(crate) fn visits(&self) -> u64 {
        self.visits
    }

    /// Begins a phase of the turn. Each phase has its own transcoding budget.
    #[inline]
    pub(crate) fn begin_phase(&mut self) {
        self.transcoded_bytes = 0;
    }

    /// Begins the phase of reading from clients.
    #[inline]
    pub(crate) fn begin_reading(&mut self) {
        self.begin_phase();
        self.packets = 0;
    }

    /// Counts the transcoding of a payload, or other work that takes as long.
    pub(crate) fn count_transcoding(&mut self, payload_bytes: usize) {
        self.transcoded_bytes =
            self.transcoded_bytes.saturating_add(TRANSCODING_COST_BYTES).saturating_add(payload_bytes);
        self.visits += payload_bytes as u64;
    }

    /// Whether this phase of the turn has budget for one more transcoding.
    #[inline]
    pub(crate) fn can_transcode(&self) -> bool {
        self.transcoded_bytes < TRANSCODED_MAX_BYTES
    }

    /// Counts a packet that was read.
    #[inline]
    pub(crate) fn count_packet(&mut self) {
        self.packets += 1;
    }

    /// Whether the turn can read more packets.
    #[inline]
    pub(crate) fn can_read(&self) -> bool {
        self.packets < PACKETS_MAX
    }

    /// Counts written bytes.
    #[inline]
    pub(crate) fn count_written(&mut self, bytes: usize) {
        self.written_bytes += bytes;
    }

    /// Whether the write budget is spent, so that the rest is left for the next turn.
    #[inline]
    pub(crate) fn is_write_budget_spent(&self) -> bool {
        self.written_bytes > WRITTEN_MAX_BYTES
    }

    /// Ends the phase of writing.
    #[inline]
    pub(crate) fn end_writing(&mut self) {
        self.written_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_a_transcoding_budget_and_each_payload_a_minimum_cost() {
        let mut budget = WorkBudget::default();
        for payload_bytes in [0, 1_000, TRANSCODED_MAX_BYTES] {
            budget.begin_phase();
            let mut made = 0;
            while budget.can_transcode() {
                budget.count_transcoding(payload_bytes);
                made += 1;
            }
            assert_eq!(made, TRANSCODED_MAX_BYTES.div_ceil(TRANSCODING_COST_BYTES + payload_bytes));
        }
    }

    #[test]
    fn each_turn_is_limited_in_packets_and_written_bytes() {
        let mut budget = WorkBudget::default();
        for _turn in 0..2 {
            budget.begin_reading();
            for _ in 0..PACKETS_MAX {
                assert!(budget.can_read());
                budget.count_packet();
            }
            assert!(!budget.can_read());
            budget.count_written(WRITTEN_MAX_BYTES);
            assert!(!budget.is_write_budget_spent());
            budget.count_written(1);
            assert!(budget.is_write_budget_spent());
            budget.end_writing();
        }
    }
}
