//! What a shard has done, by which a turn, and one client's share of it, is held to a measure.

/// Steps in one turn, of all jobs together and of what is done at once. A step is a filter, a part of its check by the access rules, or a
/// message that is let go: each takes about a microsecond, and some of them several.
pub(crate) const STEPS_MAX: usize = 1_024;

/// Steps of one job before another has its turn.
pub(crate) const JOB_SLICE_STEPS: usize = 256;

/// Packets taken in one turn, so that those who are read from last do not wait long.
const PACKETS_MAX: usize = 16 << 10;
/// Bytes of payloads that each part of a turn turns into other formats: what other shards have sent, what clients send, and what goes on
/// over several turns. The last payload may be more.
const TRANSCODED_MAX_BYTES: usize = 64 << 10;
/// What a form counts as beside its payload: to make one of a small payload takes about as long as so many bytes of a large one.
const TRANSCODING_COST_BYTES: usize = 256;
/// Bytes written in one turn.
const WRITTEN_MAX_BYTES: usize = 8 << 20;

/// What has been done so far, and in this turn.
#[derive(Debug, Default)]
pub(crate) struct WorkBudget {
    /// Messages given so far: to connections to write, and to sessions to keep.
    deliveries: u64,
    /// Subscriptions looked at so far.
    visits: u64,
    /// Packets taken in this turn.
    packets: usize,
    /// What has been turned into other formats in this part of the turn.
    transcoded_bytes: usize,
    /// Bytes written in this turn.
    written_bytes: usize,
}

impl WorkBudget {
    /// So many messages have been given to connections or sessions.
    #[inline]
    pub(crate) fn count_deliveries(&mut self, messages: u64) {
        self.deliveries += messages;
    }

    /// Messages given so far. Only the difference between two moments means something.
    #[inline]
    pub(crate) fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// So many subscriptions have been looked at, or what takes as long has been done.
    #[inline]
    pub(crate) fn count_visits(&mut self, visits: u64) {
        self.visits += visits;
    }

    /// Subscriptions looked at so far. Only the difference between two moments means something.
    #[inline]
    pub(crate) fn visits(&self) -> u64 {
        self.visits
    }

    /// A part of the turn begins that has time of its own for other formats, so that none takes the time of another.
    #[inline]
    pub(crate) fn begin_phase(&mut self) {
        self.transcoded_bytes = 0;
    }

    /// The turn begins to read from clients.
    #[inline]
    pub(crate) fn begin_reading(&mut self) {
        self.begin_phase();
        self.packets = 0;
    }

    /// A payload of so many bytes has been turned into another format, or something done that takes as long.
    pub(crate) fn count_transcoding(&mut self, payload_bytes: usize) {
        self.transcoded_bytes =
            self.transcoded_bytes.saturating_add(TRANSCODING_COST_BYTES).saturating_add(payload_bytes);
        self.visits += payload_bytes as u64;
    }

    /// Whether this part of the turn has time for one more form.
    #[inline]
    pub(crate) fn can_transcode(&self) -> bool {
        self.transcoded_bytes < TRANSCODED_MAX_BYTES
    }

    /// A packet has been taken.
    #[inline]
    pub(crate) fn count_packet(&mut self) {
        self.packets += 1;
    }

    /// Whether the turn may take more packets.
    #[inline]
    pub(crate) fn can_read(&self) -> bool {
        self.packets < PACKETS_MAX
    }

    /// So many bytes have been written.
    #[inline]
    pub(crate) fn count_written(&mut self, bytes: usize) {
        self.written_bytes += bytes;
    }

    /// Whether the turn has written so much that the rest is left for the next one.
    #[inline]
    pub(crate) fn is_write_budget_spent(&self) -> bool {
        self.written_bytes > WRITTEN_MAX_BYTES
    }

    /// The turn has written what it writes.
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
        let mut effort = WorkBudget::default();
        for payload_bytes in [0, 1_000, TRANSCODED_MAX_BYTES] {
            effort.begin_phase();
            let mut made = 0;
            while effort.can_transcode() {
                effort.count_transcoding(payload_bytes);
                made += 1;
            }
            assert_eq!(made, TRANSCODED_MAX_BYTES.div_ceil(TRANSCODING_COST_BYTES + payload_bytes));
        }
    }

    #[test]
    fn each_turn_is_limited_in_packets_and_written_bytes() {
        let mut effort = WorkBudget::default();
        for _turn in 0..2 {
            effort.begin_reading();
            for _ in 0..PACKETS_MAX {
                assert!(effort.can_read());
                effort.count_packet();
            }
            assert!(!effort.can_read());
            effort.count_written(WRITTEN_MAX_BYTES);
            assert!(!effort.is_write_budget_spent());
            effort.count_written(1);
            assert!(effort.is_write_budget_spent());
            effort.end_writing();
        }
    }
}
