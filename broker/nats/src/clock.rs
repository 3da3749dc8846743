//! The clock that leases are measured with.

use rustix::time::{ClockId, clock_gettime};

/// It also counts while the machine is suspended, so that a lease expires meanwhile.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
/// On other systems, the monotonic clock may or may not count a suspension.
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Returns milliseconds since some time before this process started. Never decreases. Makes no system call on Linux.
pub fn now_ms() -> u64 {
    let now = clock_gettime(CLOCK);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}
