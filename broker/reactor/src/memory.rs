//! Giving freed memory back to the system.
#![allow(unsafe_code, reason = "one call into the C library, which the standard library does not wrap")]

/// Less than this is kept for reuse.
const WORTHWHILE_BYTES: u64 = 16 << 20;
/// At most how often, since it takes the time of going through the heap.
const PAUSE_MS: u64 = 1_000;

/// Watches how much is held, and trims the heap when much of it has been freed: glibc gives back only what lies at its end.
#[derive(Debug, Default)]
pub(crate) struct Trimmer {
    peak_bytes: u64,
    next_ms: u64,
    /// There is something to trim at `next_ms`.
    due: bool,
}

impl Trimmer {
    /// When it wants to be called at the latest.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.due.then_some(self.next_ms)
    }

    /// To be called after every turn.
    pub(crate) fn look(&mut self, held_bytes: u64, now_ms: u64) {
        self.peak_bytes = self.peak_bytes.max(held_bytes);
        let freed_bytes = self.peak_bytes - held_bytes;
        self.due = freed_bytes >= WORTHWHILE_BYTES.max(self.peak_bytes / 2);
        if self.due && now_ms >= self.next_ms {
            self.due = false;
            self.peak_bytes = held_bytes;
            self.next_ms = now_ms + PAUSE_MS;
            trim();
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: malloc_trim takes the allocator's own locks, may be called at any time from any thread, and touches no
    // memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
