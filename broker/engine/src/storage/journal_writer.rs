//! The log as a shard sees it: what the packet at hand has brought about in it, and which connections wait for it.

use tautwire_message::MessageId;
use tautwire_session::{AckLevel, Journal, LogPosition, LogState, Record, SessionNumber};

use crate::index::ConnectionIndex;

/// A larger frame is closed before the turn ends. The log takes a frame of 512 MiB at most, and a packet has half of that.
const LARGE_FRAME_BYTES: usize = 4 << 20;

/// A shard's journal, and who waits for it. Where the journal keeps nothing, nobody ever waits.
#[derive(Debug)]
pub(crate) struct JournalWriter<J> {
    journal: J,
    /// The last frame with a record of what the packet at hand has brought about.
    packet_position: LogPosition,
    /// Connections with acknowledgements that wait, each once.
    delayed_acks: Vec<ConnectionIndex>,
    /// Connections all of whose output waits, each once.
    paused_output: Vec<ConnectionIndex>,
    /// How far the log was when those who waited for it were last told.
    released: u64,
    /// How the log was when the turn began.
    state: LogState,
    /// The log has failed, and those who relied on it have been told.
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

    // What is written.

    /// Writes down that a session is in the log from now on, and gives what it is called there. Nobody is promised that alone.
    pub(crate) fn open(&mut self, client_id: &str, at_ms: u64) -> (SessionNumber, LogPosition) {
        let session = self.journal.next_session();
        (session, self.journal.record(Record::Opened { session, client_id, at_ms }))
    }

    /// Writes down what the packet at hand has brought about: what its sender is told waits for this.
    pub(crate) fn record_for_packet(&mut self, record: Record<'_>) -> LogPosition {
        self.packet_position = self.journal.record(record);
        self.packet_position
    }

    /// Writes down what nobody is promised.
    pub(crate) fn record(&mut self, record: Record<'_>) {
        self.journal.record(record);
    }

    /// The message is being taken from another shard, in whose frame it stands.
    pub(crate) fn mark_forwarded(&mut self, message: MessageId) {
        self.journal.mark_forwarded(message);
    }

    /// Nothing that has been written so far is what the packet at hand has brought about: another one is about to be handled.
    #[inline]
    pub(crate) fn begin_packet(&mut self) {
        if J::PERSISTENT {
            self.packet_position = LogPosition::default();
        }
    }

    /// The last frame with a record of what the packet at hand has brought about; the default where there is none.
    pub(crate) fn packet_position(&self) -> LogPosition {
        self.packet_position
    }

    /// Closes the frame. To be called only between packets.
    #[inline]
    pub(crate) fn end_frame(&mut self) {
        if J::PERSISTENT {
            self.journal.end_frame();
        }
    }

    /// Closes the frame if it has become large, however many packets and deadlines a turn has. To be called where none is halfway done.
    #[inline]
    pub(crate) fn end_large_frame(&mut self) {
        if J::PERSISTENT && self.journal.frame_bytes() > LARGE_FRAME_BYTES {
            self.journal.end_frame();
        }
    }

    // How the log is.

    /// Looks how the log is, for the turn that begins. Says whether it has failed and nobody has been told, once: whoever is told so
    /// tells all others.
    #[inline]
    pub(crate) fn check_failure(&mut self) -> bool {
        if !J::PERSISTENT {
            return false;
        }
        let is_news = self.has_unreported_failure();
        self.is_failure_reported |= is_news;
        self.state = self.journal.state();
        is_news
    }

    /// Whether the log takes more. It is the same for the whole turn: a message that is taken since the log is open must not be
    /// acknowledged as one that need not be kept since the log has failed.
    #[inline]
    pub(crate) fn state(&self) -> LogState {
        if J::PERSISTENT { self.state } else { LogState::Open }
    }

    /// Whether the log is too far behind to take much more.
    #[inline]
    pub(crate) fn is_lagging(&self) -> bool {
        J::PERSISTENT && self.journal.is_lagging()
    }

    /// Whether all frames that are complete have their place in the log, before all that any shard completes from now on.
    #[inline]
    pub(crate) fn has_submitted_all(&self) -> bool {
        !J::PERSISTENT || self.journal.has_submitted_all()
    }

    /// How far the log is safe enough.
    #[inline]
    pub(crate) fn reached(&self, level: AckLevel) -> LogPosition {
        self.journal.reached(level)
    }

    /// Whether the log has failed and nobody has been told.
    #[inline]
    pub(crate) fn has_unreported_failure(&self) -> bool {
        J::PERSISTENT && !self.is_failure_reported && self.journal.state() == LogState::Failed
    }

    // Who waits.

    /// A connection has acknowledgements that wait, and had none.
    pub(crate) fn queue_delayed_acks(&mut self, index: ConnectionIndex) {
        self.delayed_acks.push(index);
    }

    /// Those with acknowledgements that wait. Whoever still has some is to be given back to [`JournalWriter::queue_delayed_acks`].
    pub(crate) fn take_delayed_acks(&mut self) -> Vec<ConnectionIndex> {
        std::mem::take(&mut self.delayed_acks)
    }

    /// All output of a connection waits.
    pub(crate) fn pause_output(&mut self, index: ConnectionIndex) {
        self.paused_output.push(index);
    }

    /// Those all of whose output waits.
    #[inline]
    pub(crate) fn paused_output(&self) -> &[ConnectionIndex] {
        &self.paused_output
    }

    /// The same. Whoever still waits is to be given back to [`JournalWriter::gate`].
    pub(crate) fn take_paused_output(&mut self) -> Vec<ConnectionIndex> {
        std::mem::take(&mut self.paused_output)
    }

    /// Whether somebody waits, and the log has come further since those who wait were last told.
    #[inline]
    pub(crate) fn has_durable_progress(&self) -> bool {
        let any_waits = !self.paused_output.is_empty() || !self.delayed_acks.is_empty();
        J::PERSISTENT && any_waits && self.progress() > self.released
    }

    /// Those who wait are about to be told how far the log is.
    pub(crate) fn record_release(&mut self) {
        self.released = self.progress();
    }

    /// Grows whenever somebody who waits for the log may have waited enough.
    fn progress(&self) -> u64 {
        self.journal.durable().0 + self.journal.written().0
    }
}

impl<J> JournalWriter<J> {
    /// Each writes in the other's journal from now on.
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
    fn a_sender_is_promised_what_its_packet_has_brought_about_alone() {
        let mut log = JournalWriter::new(Frames::default());
        assert_eq!(log.record_for_packet(Record::Ended(SessionNumber(1))), LogPosition(1));
        log.record(Record::Ended(SessionNumber(2)));
        log.open("c", 0);
        assert_eq!(log.packet_position(), LogPosition(1));
        log.begin_packet();
        assert_eq!(log.packet_position(), LogPosition::default());
    }

    #[test]
    fn those_who_wait_are_told_once_for_each_step_of_the_log() {
        let mut log = JournalWriter::new(Frames::default());
        log.journal.durable = 1;
        assert!(!log.has_durable_progress(), "nobody waits");
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
    fn a_failure_is_news_once() {
        let mut log = JournalWriter::new(Frames::default());
        assert!(!log.check_failure());
        log.journal.has_failed = true;
        assert!(log.has_unreported_failure() && log.check_failure());
        assert!(!log.has_unreported_failure() && !log.check_failure());
    }

    #[test]
    fn the_log_is_the_same_for_the_whole_turn() {
        let mut log = JournalWriter::new(Frames::default());
        log.check_failure();
        log.journal.has_failed = true;
        assert_eq!(log.state(), LogState::Open);
        log.check_failure();
        assert_eq!(log.state(), LogState::Failed);
    }
}
