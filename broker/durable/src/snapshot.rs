//! Writes the current state to one file, which replaces the log before it.

use tautwire_journal::{Disk, Epoch, LogError, LogId, Position, SnapshotWriter};
use tautwire_message::{Message, MessageRef, Spilled};
use tautwire_session::{Record, Replay};

use crate::frame_writer::FrameWriter;
use crate::mutant::{Mutant, is};

/// A frame of a snapshot ends at this size.
const FRAME_BYTES: usize = 1 << 20;

/// The header data of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotHead {
    /// The log to which it belongs.
    pub log: LogId,
    /// A random number.
    pub epoch: Epoch,
    /// The last frame of the log that it covers.
    pub covered: Position,
    /// Unix time.
    pub now_ms: u64,
}

/// Writes the state of `replay` after the frame that `head` names, unless `should_continue` returns false.
///
/// The snapshot is durable when this returns its size in bytes; `None` if it was aborted. `read` loads messages that are not in memory.
///
/// # Errors
/// Disk errors, and [`LogError::Refused`] if a message cannot be read. No snapshot was made.
pub fn write_snapshot<D: Disk>(
    replay: &Replay,
    disk: &D,
    head: SnapshotHead,
    read: impl FnMut(&Spilled) -> Option<Message>,
    should_continue: impl Fn() -> bool,
) -> Result<Option<u64>, LogError> {
    let mut snapshot = SnapshotBuilder::begin(disk, head)?;
    let added = snapshot.add_all(replay, read, should_continue);
    snapshot.end(added)
}

/// Writes records to a snapshot.
pub(crate) struct SnapshotBuilder<D: Disk> {
    writer: SnapshotWriter<D>,
    frame: FrameWriter,
    /// The buffer of the previous frame, for reuse.
    written: Vec<u8>,
    covered: Position,
}

impl<D: Disk> SnapshotBuilder<D> {
    pub(crate) fn begin(disk: &D, head: SnapshotHead) -> Result<Self, LogError> {
        let SnapshotHead { log, epoch, covered, now_ms } = head;
        let writer = SnapshotWriter::begin(disk, log, epoch, covered, now_ms)?;
        Ok(SnapshotBuilder { writer, frame: FrameWriter::default(), written: Vec::new(), covered })
    }

    /// Adds a record. Returns whether data was written, which is a good time to check for an abort.
    pub(crate) fn add(&mut self, record: &Record<'_>) -> Result<bool, LogError> {
        self.frame.add(record);
        self.flush_if_full()
    }

    /// Adds a retained message without copying it first.
    pub(crate) fn add_retained(&mut self, sequence: u64, message: &MessageRef<'_>) -> Result<bool, LogError> {
        self.frame.add_retained(sequence, message);
        self.flush_if_full()
    }

    /// Adds the records that lead to `replay`. Returns whether all were added, which is false if `should_continue` returned false.
    pub(crate) fn add_all(
        &mut self,
        replay: &Replay,
        read: impl FnMut(&Spilled) -> Option<Message>,
        should_continue: impl Fn() -> bool,
    ) -> Result<bool, LogError> {
        let (mut result, mut is_given_up) = (Ok(()), false);
        let described = replay.describe(read, |record| {
            let is_left_out = is(Mutant::SnapshotOmitsForwards) && matches!(record, Record::Forwarded { .. });
            if result.is_err() || is_given_up || is_left_out {
                return;
            }
            match self.add(record) {
                Ok(has_written) => is_given_up = has_written && !should_continue(),
                Err(error) => result = Err(error),
            }
        });
        result?;
        if is_given_up {
            return Ok(false);
        }
        described.map_err(|error| LogError::Refused { at: self.covered, cause: error.to_string().into() })?;
        Ok(true)
    }

    /// Finishes the snapshot if `added` is true, and discards it otherwise. Returns its size in bytes, or `None` if it was discarded.
    pub(crate) fn end<E: From<LogError>>(mut self, added: Result<bool, E>) -> Result<Option<u64>, E> {
        let written = added.and_then(|is_all| if is_all { Ok(self.write().map(|()| true)?) } else { Ok(false) });
        match written {
            Ok(true) => Ok(self.writer.finish().map(Some)?),
            not => {
                self.writer.discard();
                not.map(|_| None)
            }
        }
    }

    fn flush_if_full(&mut self) -> Result<bool, LogError> {
        if self.frame.bytes() <= FRAME_BYTES {
            return Ok(false);
        }
        self.write()?;
        Ok(true)
    }

    fn write(&mut self) -> Result<(), LogError> {
        if self.frame.is_empty() {
            return Ok(());
        }
        let body = self.frame.take(std::mem::take(&mut self.written));
        self.writer.append(&body)?;
        self.written = body;
        self.written.clear();
        Ok(())
    }
}
