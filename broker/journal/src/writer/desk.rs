//! Where the log is written: by one thread at a time, mostly by the writer's.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::disk::Disk;
use crate::writer::RUNNING;
use crate::writer::thread::Writer;

/// A shard's thread writes no more than this at once.
pub(super) const AT_ONCE_MAX_BYTES: usize = 64 << 10;

/// The log and its sources, whatever the disk. Empty once the log is closed.
pub(super) type WriterDesk<D> = Mutex<Option<Writer<D>>>;

/// Where a shard's thread may write instead of the writer.
pub(super) trait Desk: Send + Sync {
    /// See [`Port::write_at_once`](crate::Port::write_at_once).
    fn write_at_once(&self) -> bool;
}

impl<D: Disk> Desk for WriterDesk<D>
where
    Writer<D>: Send,
{
    fn write_at_once(&self) -> bool {
        let mut desk = match self.try_lock() {
            Ok(desk) => desk,
            // The writer's thread has failed with it.
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => return false,
        };
        desk.as_mut().is_some_and(Writer::write_at_once)
    }
}

pub(super) fn sit_down<D: Disk>(desk: &WriterDesk<D>) -> MutexGuard<'_, Option<Writer<D>>> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Disk> Writer<D> {
    /// Writes all that waits, where that is little and takes little time: whoever comes meanwhile waits for it.
    fn write_at_once(&mut self) -> bool {
        let (frames, bytes) = self.waiting();
        let may_write = self.shared.state() == RUNNING
            && frames > 0
            && bytes <= AT_ONCE_MAX_BYTES
            && self.is_quick()
            && self.log.is_ready_for(frames, bytes);
        // What goes wrong is for the writer's thread to find and to tell.
        may_write && self.write_frames().is_ok()
    }
}
