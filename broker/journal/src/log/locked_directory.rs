//! The lock of a log's directory.

use crate::check::lock_directory;
use crate::disk::Disk;
use crate::error::LogError;

/// A directory that is locked for this process.
#[derive(Debug)]
pub struct LockedDirectory<D: Disk> {
    pub(super) disk: D,
    pub(super) lock: D::Lock,
}

impl<D: Disk> LockedDirectory<D> {
    /// Locks the directory, so that no other process changes it before the log is opened.
    ///
    /// # Errors
    /// [`LogError::Locked`], and disk errors.
    pub fn take(disk: &D) -> Result<Self, LogError> {
        Ok(LockedDirectory { lock: lock_directory(disk)?, disk: disk.clone() })
    }
}
