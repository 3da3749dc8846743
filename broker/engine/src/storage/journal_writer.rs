//! The log as seen by a shard: the records of the current packet, and the connections that wait for the log.

use tautwire_message::MessageId;
use tautwire_session::{AckLevel, Journal, LogPosition, LogState, Record, SessionNumber};

use crate::index::ConnectionIndex;

/// A larger frame is closed before the turn ends. The log accepts frames of at most 512 MiB, and a packet has at most half of that.
const LARGE_FRAME_BYTES: usize = 4 << 20;

/// A shard's journal, and the connections that wait for it. Without a persistent journal, none ever waits.
///
/// `J::PERSISTENT` is checked only where a field is written in every packet or turn, or read in every PUBLISH, so that a broker without a
/// log does not touch that memory. The methods of a journal that persists nothing do nothing.
#[derive(Debug)]
pub(crate) struct JournalWriter<J> {
    journal: J,
    /// The last frame with a record of the current packet.
    packet_position: LogPosition,
    /// Connections with delayed acknowledgements, without duplicates.
    delayed_acks: Vec<ConnectionIndex>,
    /// Connections whose whole output waits for the log, without duplicates.
    paused_output: Vec<ConnectionIndex>,
    /// The progress of the log when waiting connections were last released.
    released: u64,
    /// The state of the log when the turn began.
    state: LogState,
    /// The log has failed, and this was reported.
    is_failure_reported: bool,
}

impl<J: Journal> JournalWriter<J> {
    pub(crate) fn new(journal: J) -> JournalWriter<J> {
        JournalWriter {
            journal,
            packet_position: LogPosition::default(),
            delayed_acks: Vec::new(),
            paused_output: Vec::new(),
            released: 0,
            state: LogState::Open,
            is_failure_reported: false,
        }
    }

    // Writing records.

    /// Records a new session. Returns its number and position. No acknowledgement depends on this record alone.
    pub(crate) fn open(&mut self, client_id: &str, at_ms: u64) -> (SessionNumber, LogPosition) {
        let session = self.journal.next_session();
        (session, self.journal.record(Record::Opened { session, client_id, at_ms }))
    }

    /// Writes a record of the current packet. Its acknowledgement waits for this record.
    pub(crate) fn record_for_packet(&mut self, record: Record<'_>) -> LogPosition {
        self.packet_position = self.journal.record(record);
        self.packet_position
    }

    /// Writes a record on which no acknowledgement depends.
    pub(crate) fn record(&mut self, record: Record<'_>) {
        self.journal.record(record);
    }

    /// Notes that the message is received from another shard, whose frame has its record.
    pub(crate) fn mark_forwarded(&mut self, message: MessageId) {
        self.journal.mark_forwarded(message);
    }

    /// Begins a new packet. Earlier records do not belong to it.
    #[inline]
    pub(crate) fn begin_packet(&mut self) {
        if J::PERSISTENT {
            self.packet_position = LogPosition::default();
        }
    }

    /// The last frame with a record of the current packet; the default if there is none.
    pub(crate) fn packet_position(&self) -> LogPosition {
        self.packet_position
    }

    /// Closes the frame. Call it only between packets.
    #[inline]
    pub(crate) fn end_frame(&mut self) {
        self.journal.end_frame();
    }

    /// Closes the frame if it has become large. Call it only between packets and deadlines.
    #[inline]
    pub(crate) fn end_large_frame(&mut self) {
        if self.journal.frame_bytes() > LARGE_FRAME_BYTES {
            self.journal.end_frame();
        }
    }

    // The state of the log.

    /// Reads the state of the log for this turn. Returns true once after a failure; the caller then reports it to all clients.
    #[inline]
    pub(crate) fn check_failure(&mut self) -> bool {
        if !J::PERSISTENT {
            return false;
        }
        let is_new = self.has_unreported_failure();
        self.is_failure_reported |= is_new;
        self.state = self.journal.state();
        is_new
    }

    /// Whether the log accepts records. It is constant during a turn: a message accepted because the log is open must not be
    /// acknowledged as if it needed no record because the log has failed.
    #[inline]
    pub(crate) fn state(&self) -> LogState {
        if J::PERSISTENT { self.state } else { LogState::Open }
    }

    /// Whether the log is lagging, so that input must be limited.
    #[inline]
    pub(crate) fn is_lagging(&self) -> bool {
        self.journal.is_lagging()
    }

    /// Whether all complete frames have their position in the log, before all frames that any shard completes later.
    #[inline]
    pub(crate) fn has_submitted_all(&self) -> bool {
        self.journal.has_submitted_all()
    }

    /// The position up to which the log satisfies `level`.
    #[inline]
    pub(crate) fn reached(&self, level: AckLevel) -> LogPosition {
        self.journal.reached(level)
    }

    /// Whether the log has failed and this was not reported yet.
    #[inline]
    pub(crate) fn has_unreported_failure(&self) -> bool {
        !self.is_failure_reported && self.journal.state() == LogState::Failed
    }

    // Waiting connections.

    /// Adds a connection that now has delayed acknowledgements.
    pub(crate) fn queue_delayed_acks(&mut self, index: ConnectionIndex) {
        self.delayed_acks.push(index);
    }

    /// Takes the connections with delayed acknowledgements. Return those that still have some to [`JournalWriter::queue_delayed_acks`].
    pub(crate) fn take_delayed_acks(&mut self) -> Vec<ConnectionIndex> {
        std::mem::take(&mut self.delayed_acks)
    }

    /// Pauses the whole output of a connection.
    pub(crate) fn pause_output(&mut self, index: ConnectionIndex) {
        self.paused_output.push(index);
    }

    /// The connections whose output is paused.
    #[inline]
    pub(crate) fn paused_output(&self) -> &[ConnectionIndex] {
        &self.paused_output
    }

    /// Takes the connections whose output is paused. Return those that still wait to [`JournalWriter::pause_output`].
    pub(crate) fn take_paused_output(&mut self) -> Vec<ConnectionIndex> {
        std::mem::take(&mut self.paused_output)
    }

    /// Whether connections wait, and the log has progressed since they were last released.
    #[inline]
    pub(crate) fn has_durable_progress(&self) -> bool {
        let has_waiting = !self.paused_output.is_empty() || !self.delayed_acks.is_empty();
        has_waiting && self.progress() > self.released
    }

    /// Notes the progress of the log, just before waiting connections are released.
    pub(crate) fn record_release(&mut self) {
        self.released = self.progress();
    }

    /// A number that grows whenever waiting connections may be released.
    fn progress(&self) -> u64 {
        self.journal.durable().0 + self.journal.written().0
    }
}

impl<J> JournalWriter<J> {
    /// Swaps the journals of two writers.
    pub(crate) fn swap_journals(&mut self, other: &mut JournalWriter<J>) {
        std::mem::swap(&mut self.journal, &mut other.journal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each record is a frame of its own.
    #[derive(Default)]
    struct Frames {
        written: u64,
        durable: u64,
        has_failed: bool,
    }

    impl Journal for Frames {
        const PERSISTENT: bool = true;

        fn next_session(&mut self) -> SessionNumber {
            SessionNumber(7)
        }

        fn record(&mut self, _: Record<'_>) -> LogPosition {
            self.written += 1;
            LogPosition(self.written)
        }

        fn mark_forwarded(&mut self, _: MessageId) {}

        fn end_frame(&mut self) {}

        fn has_submitted_all(&self) -> bool {
            true
        }

        fn durable(&self) -> LogPosition {
            LogPosition(self.durable)
        }

        fn is_lagging(&self) -> bool {
            false
        }

        fn state(&self) -> LogState {
            if self.has_failed { LogState::Failed } else { LogState::Open }
        }
    }

    fn index() -> ConnectionIndex {
        ConnectionIndex::new(0).expect("a place")
    }

    #[test]
    fn a_sender_waits_only_for_the_records_of_its_packet() {
        let mut log = JournalWriter::new(Frames::default());
        assert_eq!(log.record_for_packet(Record::Ended(SessionNumber(1))), LogPosition(1));
        log.record(Record::Ended(SessionNumber(2)));
        log.open("c", 0);
        assert_eq!(log.packet_position(), LogPosition(1));
        log.begin_packet();
        assert_eq!(log.packet_position(), LogPosition::default());
    }

    #[test]
    fn waiters_are_notified_once_for_each_step_of_the_log() {
        let mut log = JournalWriter::new(Frames::default());
        log.journal.durable = 1;
        assert!(!log.has_durable_progress(), "no connection waits");
        log.queue_delayed_acks(index());
        assert!(log.has_durable_progress());
        log.record_release();
        assert!(!log.has_durable_progress());
        log.journal.durable = 2;
        assert!(log.has_durable_progress());
        assert_eq!(log.take_delayed_acks(), [index()]);
        assert!(!log.has_durable_progress());
        log.pause_output(index());
        assert!(log.has_durable_progress());
    }

    #[test]
    fn a_failure_is_reported_once() {
        let mut log = JournalWriter::new(Frames::default());
        assert!(!log.check_failure());
        log.journal.has_failed = true;
        assert!(log.has_unreported_failure() && log.check_failure());
        assert!(!log.has_unreported_failure() && !log.check_failure());
    }

    #[test]
    fn the_state_of_the_log_is_constant_during_a_turn() {
        let mut log = JournalWriter::new(Frames::default());
        log.check_failure();
        log.journal.has_failed = true;
        assert_eq!(log.state(), LogState::Open);
        log.check_failure();
        assert_eq!(log.state(), LogState::Failed);
    }
}
