//! Durations as the numbers of packets and deadlines.

use std::time::Duration;

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Rounded up; limited to a four-byte field.
pub(crate) fn whole_seconds(duration: Duration) -> u32 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    u32::try_from(seconds).unwrap_or(u32::MAX)
}
