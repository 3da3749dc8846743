//! The present state in one file, so that the log before it is not needed any more.

use tautwire_journal::{Disk, Epoch, LogError, LogId, Position, SnapshotWriter};
use tautwire_message::{Cold, Message};
use tautwire_session::{Record, Replay};

use crate::frame_writer::FrameWriter;
use crate::mutant::{Mutant, is};

/// A frame of a snapshot ends once it has so much.
const FRAME_BYTES: usize = 1 << 20;

/// What a snapshot says of itself.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotHead {
    /// Of which log it is.
    pub log: LogId,
    /// Drawn at random.
    pub epoch: Epoch,
    /// The last frame of the log that it covers.
    pub covered: Position,
    /// Unix time.
    pub now_ms: u64,
}

/// Writes down what `replay` has come to after the frame that `head` names, as long as `goes_on` says so. It is durable when this
/// returns, which gives its size in bytes; `None` where it was given up. `read` gives messages that are not in memory.
///
/// # Errors
/// Those of the disk, and [`LogError::Refused`] where a message cannot be read. There is no new snapshot then.
pub fn write_snapshot<D: Disk>(
    replay: &Replay,
    disk: &D,
    head: SnapshotHead,
    read: impl FnMut(&Cold) -> Option<Message>,
    goes_on: impl Fn() -> bool,
) -> Result<Option<u64>, LogError> {
    let SnapshotHead { log, epoch, covered, now_ms } = head;
    let mut writer = SnapshotWriter::begin(disk, log, epoch, covered, now_ms)?;
    let mut frame = FrameWriter::default();
    let (mut result, mut is_given_up) = (Ok(()), false);
    let described = replay.describe(read, |record| {
        let is_left_out = is(Mutant::SnapshotForgetsHandovers) && matches!(record, Record::Handed { .. });
        if result.is_err() || is_given_up || is_left_out {
            return;
        }
        frame.add(record);
        if frame.bytes() > FRAME_BYTES {
            is_given_up = !goes_on();
            result = writer.append(&frame.take(Vec::new()));
        }
    });
    if result.is_ok() && !is_given_up {
        result = described.map_err(|error| LogError::Refused { at: covered, cause: error.to_string().into() });
    }
    if result.is_ok() && !is_given_up && !frame.is_empty() {
        result = writer.append(&frame.take(Vec::new()));
    }
    match result {
        Ok(()) if !is_given_up => writer.finish().map(Some),
        result => {
            writer.discard();
            result.map(|()| None)
        }
    }
}
