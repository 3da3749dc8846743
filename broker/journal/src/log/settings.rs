//! The settings of a log.

use crate::error::LogError;
use crate::format::BLOCK_BYTES;

/// The default size of a segment in bytes.
pub const SEGMENT_DEFAULT_BYTES: u64 = 16 << 20;
/// The smallest segment in bytes.
pub const SEGMENT_MIN_BYTES: u64 = 64 << 10;
/// The largest segment in bytes. It can hold the largest frame.
pub const SEGMENT_MAX_BYTES: u64 = 1 << 30;
/// The number of spare files that are kept for reuse. Others are removed.
pub const SPARE_SEGMENTS_MAX: usize = 2;

/// The settings of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Size of new segments in bytes: a multiple of 4096 from [`SEGMENT_MIN_BYTES`] to [`SEGMENT_MAX_BYTES`].
    pub segment_bytes: u64,
    /// How to handle lost durable data.
    pub on_damage: OnDamage,
    /// Writes a group first and syncs it in a second step, for callers that wait for the write only. A single step is faster.
    pub write_before_sync: bool,
    /// Keeps [`RESERVE_BYTES`](crate::RESERVE_BYTES) reserved for a start on a full disk, see
    /// [`release_reserve`](crate::LockedDirectory::release_reserve).
    pub has_reserve: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            segment_bytes: SEGMENT_DEFAULT_BYTES,
            on_damage: OnDamage::Refuse,
            write_before_sync: false,
            has_reserve: false,
        }
    }
}

impl Settings {
    /// Checks the segment size.
    ///
    /// # Errors
    /// [`LogError::Settings`].
    pub(super) fn check(&self) -> Result<(), LogError> {
        let in_range = (SEGMENT_MIN_BYTES..=SEGMENT_MAX_BYTES).contains(&self.segment_bytes);
        if in_range && self.segment_bytes.is_multiple_of(BLOCK_BYTES as u64) {
            return Ok(());
        }
        Err(LogError::Settings("the segment size must be a multiple of 4,096 from 65,536 to 1,073,741,824 bytes"))
    }
}

/// How to handle lost durable data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// Refuse to open the log, and change nothing.
    #[default]
    Refuse,
    /// Skip the damage and list it.
    Skip,
}
