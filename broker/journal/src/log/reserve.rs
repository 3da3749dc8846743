//! Reserved disk space, so that a log can be opened when the disk is full.

use std::io::ErrorKind;

use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::format::{NEW_SUFFIX, Name, RESERVE_NAME};
use crate::log::locked_directory::LockedDirectory;

/// The size of the reserve in bytes: a few segments of the smallest size that a broker starts with.
pub const RESERVE_BYTES: u64 = 4 << 20;

impl<D: Disk> LockedDirectory<D> {
    /// Returns the bytes that a log may still use: free space and spare files.
    ///
    /// # Errors
    /// Disk errors.
    pub fn available_bytes(&self) -> Result<u64, LogError> {
        let mut bytes = self.disk.free_bytes()?;
        for name in self.disk.list()? {
            if let Some(Name::Spare(_)) = Name::parse(&name) {
                bytes = bytes.saturating_add(self.disk.open(&name)?.size_bytes()?);
            }
        }
        Ok(bytes)
    }

    /// Removes the reserve. Returns whether there was one. The log creates it again once there is space.
    ///
    /// # Errors
    /// Disk errors.
    pub fn release_reserve(&self) -> Result<bool, LogError> {
        match self.disk.remove(RESERVE_NAME) {
            Ok(()) => self.disk.sync_directory()?,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }
}

/// Creates the reserve if there is much more free space than its size. Returns whether it exists now. Nothing depends on it, so a failure
/// is retried with the next segment.
pub(super) fn create_reserve<D: Disk>(disk: &D) -> bool {
    let unfinished = format!("{RESERVE_NAME}{NEW_SUFFIX}");
    let make = || {
        disk.create(&unfinished, RESERVE_BYTES)?;
        disk.rename(&unfinished, RESERVE_NAME)?;
        disk.sync_directory()
    };
    if !disk.free_bytes().is_ok_and(|free| free / 4 >= RESERVE_BYTES) {
        return false;
    }
    let is_made = make().is_ok();
    if !is_made {
        let _ = disk.remove(&unfinished);
    }
    is_made
}
