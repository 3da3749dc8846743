//! What a shard has done, by which a turn, and one client's share of it, is held to a measure.

/// Packets taken in one turn, so that those who are read from last do not wait long.
const PACKETS_MAX: usize = 16 << 10;
/// Bytes of payloads that each part of a turn turns into other formats: what other shards have sent, what clients send, and what goes on
/// over several turns. The last payload may be more.
const FORMS_MAX_BYTES: usize = 64 << 10;
/// What a form counts as beside its payload: to make one of a small payload takes about as long as so many bytes of a large one.
const FORM_BYTES: usize = 256;
/// Bytes written in one turn.
const WRITTEN_MAX_BYTES: usize = 8 << 20;

/// What has been done so far, and in this turn.
#[derive(Debug, Default)]
pub(crate) struct Effort {
    /// Messages given so far: to connections to write, and to sessions to keep.
    given: u64,
    /// Subscriptions looked at so far.
    visited: u64,
    /// Packets taken in this turn.
    packets: usize,
    /// What has been turned into other formats in this part of the turn.
    forms_bytes: usize,
    /// Bytes written in this turn.
    written_bytes: usize,
}

impl Effort {
    /// So many messages have been given to connections or sessions.
    #[inline]
    pub(crate) fn note_given(&mut self, messages: u64) {
        self.given += messages;
    }

    /// Messages given so far. Only the difference between two moments means something.
    #[inline]
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// So many subscriptions have been looked at, or what takes as long has been done.
    #[inline]
    pub(crate) fn note_visits(&mut self, visits: u64) {
        self.visited += visits;
    }

    /// Subscriptions looked at so far. Only the difference between two moments means something.
    #[inline]
    pub(crate) fn visited(&self) -> u64 {
        self.visited
    }

    /// A part of the turn begins that has time of its own for other formats, so that none takes the time of another.
    #[inline]
    pub(crate) fn begin_part(&mut self) {
        self.forms_bytes = 0;
    }

    /// The turn begins to read from clients.
    #[inline]
    pub(crate) fn begin_reading(&mut self) {
        self.begin_part();
        self.packets = 0;
    }

    /// A payload of so many bytes has been turned into another format, or something done that takes as long.
    pub(crate) fn note_form(&mut self, payload_bytes: usize) {
        self.forms_bytes = self.forms_bytes.saturating_add(FORM_BYTES).saturating_add(payload_bytes);
        self.visited += payload_bytes as u64;
    }

    /// Whether this part of the turn has time for one more form.
    #[inline]
    pub(crate) fn may_form(&self) -> bool {
        self.forms_bytes < FORMS_MAX_BYTES
    }

    /// A packet has been taken.
    #[inline]
    pub(crate) fn note_packet(&mut self) {
        self.packets += 1;
    }

    /// Whether the turn may take more packets.
    #[inline]
    pub(crate) fn may_read(&self) -> bool {
        self.packets < PACKETS_MAX
    }

    /// So many bytes have been written.
    #[inline]
    pub(crate) fn note_written(&mut self, bytes: usize) {
        self.written_bytes += bytes;
    }

    /// Whether the turn has written so much that the rest is left for the next one.
    #[inline]
    pub(crate) fn has_written_enough(&self) -> bool {
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
    fn each_part_of_a_turn_makes_so_many_forms_and_each_takes_time_however_small() {
        let mut effort = Effort::default();
        for payload_bytes in [0, 1_000, FORMS_MAX_BYTES] {
            effort.begin_part();
            let mut made = 0;
            while effort.may_form() {
                effort.note_form(payload_bytes);
                made += 1;
            }
            assert_eq!(made, FORMS_MAX_BYTES.div_ceil(FORM_BYTES + payload_bytes));
        }
    }

    #[test]
    fn each_turn_takes_so_many_packets_and_writes_so_many_bytes() {
        let mut effort = Effort::default();
        for _turn in 0..2 {
            effort.begin_reading();
            for _ in 0..PACKETS_MAX {
                assert!(effort.may_read());
                effort.note_packet();
            }
            assert!(!effort.may_read());
            effort.note_written(WRITTEN_MAX_BYTES);
            assert!(!effort.has_written_enough());
            effort.note_written(1);
            assert!(effort.has_written_enough());
            effort.end_writing();
        }
    }
}
