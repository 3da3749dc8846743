//! Space that is held back on the disk, so that a log can be opened when the disk is full.

use std::io::ErrorKind;

use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::format::{NEW_SUFFIX, Name, RESERVE_NAME};
use crate::log::open::LockedDirectory;

/// The size of the reserve in bytes: some of the smallest segments that a broker begins with.
pub const RESERVE_BYTES: u64 = 4 << 20;

impl<D: Disk> LockedDirectory<D> {
    /// Bytes that a log may still take here: those that are free, and those of files that would be used again.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn available_bytes(&self) -> Result<u64, LogError> {
        let mut bytes = self.disk.free_bytes()?;
        for name in self.disk.list()? {
            if let Some(Name::Spare(_)) = Name::parse(&name) {
                bytes = bytes.saturating_add(self.disk.open(&name)?.size_bytes()?);
            }
        }
        Ok(bytes)
    }

    /// Removes the reserve; says whether there was one. The log makes it anew once there is space.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn release_reserve(&self) -> Result<bool, LogError> {
        match self.disk.remove(RESERVE_NAME) {
            Ok(()) => self.disk.sync_directory()?,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }
}

/// Makes the reserve where there is much more space than that; says whether it is there now. Nothing depends on it, so what fails is tried
/// again with the next segment.
pub(super) fn create_reserve<D: Disk>(disk: &D) -> bool {
    let half_made = format!("{RESERVE_NAME}{NEW_SUFFIX}");
    let make = || {
        disk.create(&half_made, RESERVE_BYTES)?;
        disk.rename(&half_made, RESERVE_NAME)?;
        disk.sync_directory()
    };
    if !disk.free_bytes().is_ok_and(|free| free / 4 >= RESERVE_BYTES) {
        return false;
    }
    let is_made = make().is_ok();
    if !is_made {
        let _ = disk.remove(&half_made);
    }
    is_made
}
