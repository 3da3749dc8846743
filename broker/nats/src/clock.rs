//! The clock that leases are measured by.

use rustix::time::{ClockId, clock_gettime};

/// It also counts while the machine is suspended: a lease runs out meanwhile.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
/// Elsewhere the monotonic clock may or may not count a suspension.
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Milliseconds since some moment before this process; never less than before. It costs no system call on Linux.
pub fn now_ms() -> u64 {
    let now = clock_gettime(CLOCK);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}
