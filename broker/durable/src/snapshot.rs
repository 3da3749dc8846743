//! The present state in one file, so that the log before it is not needed any more.

use tautwire_journal::{Disk, Epoch, LogError, LogId, Position, SnapshotWriter};
use tautwire_session::Replay;

use crate::frame_writer::FrameWriter;

/// A frame of a snapshot ends once it has so much.
const FRAME_BYTES: usize = 1 << 20;

/// Writes down what `replay` has come to after the frame at `covered`. It is durable when this returns. `epoch` was drawn at random;
/// `now_ms`: Unix time.
///
/// # Errors
/// Those of the disk. There is no new snapshot then.
pub fn write_snapshot<D: Disk>(
    replay: &Replay,
    disk: &D,
    log: LogId,
    epoch: Epoch,
    covered: Position,
    now_ms: u64,
) -> Result<(), LogError> {
    let mut writer = SnapshotWriter::begin(disk, log, epoch, covered, now_ms)?;
    let mut frame = FrameWriter::default();
    let mut result = Ok(());
    replay.describe(|record| {
        frame.add(record);
        if frame.bytes() > FRAME_BYTES && result.is_ok() {
            result = writer.append(&frame.take(Vec::new()));
        }
    });
    result?;
    if !frame.is_empty() {
        writer.append(&frame.take(Vec::new()))?;
    }
    writer.finish().map(|_| ())
}
