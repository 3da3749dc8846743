//! Returns freed memory to the system.
#![allow(unsafe_code, reason = "calls into the C library, which the standard library does not wrap")]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::thread;

/// Less freed memory than this is kept for reuse.
const TRIM_MIN_BYTES: u64 = 1 << 20;
/// The heap is trimmed after less than half of the peak was in use for this long: while clients connect and disconnect in bulk, memory is
/// reused, and a trim takes the time of walking the heap.
const QUIET_MS: u64 = 2_000;
/// The interval and number of repeated trims. Some memory of connections that no ledger counts is freed later, such as timers and pending
/// authentication requests.
const RETRIM_DELAY_MS: u64 = 4_000;
const RETRIMS_MAX: u32 = 2;
/// This many clients count as churn, however little memory each of them needs.
const CHURN_MIN_CLIENTS: u32 = 500;
/// Churn continues while this many connect within [`QUIET_MS`]. A lower rate is normal operation.
const CHURN_ONGOING_MIN_CLIENTS: u32 = 50;
/// The memory that one client may leave behind. If more is in use than all of them may leave, the heap is large, and walking it is not
/// worth the time.
const LEFTOVER_PER_CLIENT_BYTES: u64 = 16 << 10;

/// Watches the memory in use and decides when to trim, because glibc itself returns only memory at the end of its heap.
#[derive(Debug, Default)]
pub(crate) struct HeapTrimmer {
    peak_bytes: u64,
    /// The time of the trim, if memory use stays low until then.
    quiet_until_ms: Option<u64>,
    /// The number of clients that connected in quick succession.
    connects: u32,
    /// The number of those since the last check.
    recent_connects: u32,
    /// The time of the next check whether they continue.
    churn_check_ms: Option<u64>,
    /// The time of the next repeated trim, and the number left after it.
    next_retrim: Option<(u64, u32)>,
}

impl HeapTrimmer {
    /// Records that a client has connected.
    #[inline]
    pub(crate) fn record_connect(&mut self) {
        self.connects = self.connects.saturating_add(1);
        self.recent_connects = self.recent_connects.saturating_add(1);
    }

    /// Returns the time of the next required call.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let churn_check_ms = self.churn_check_ms.filter(|_| self.connects >= CHURN_MIN_CLIENTS);
        let aftermath_ms = self.next_retrim.map(|(at_ms, _)| at_ms);
        [self.quiet_until_ms, churn_check_ms, aftermath_ms].into_iter().flatten().min()
    }

    /// Whether churn has ended, or more of what it left was freed since. Call it after every turn.
    pub(crate) fn is_due(&mut self, held_bytes: u64, now_ms: u64) -> bool {
        let (was_freed, is_over) = (self.has_freed_much(held_bytes, now_ms), self.is_churn_over(held_bytes, now_ms));
        if was_freed || is_over {
            *self = HeapTrimmer { peak_bytes: held_bytes, ..HeapTrimmer::default() };
            self.next_retrim = Some((now_ms + RETRIM_DELAY_MS, RETRIMS_MAX - 1));
            return true;
        }
        // If there is churn again, its end triggers a trim.
        let Some((_, left)) = self.next_retrim.take_if(|(at_ms, _)| now_ms >= *at_ms) else { return false };
        self.next_retrim = left.checked_sub(1).map(|left| (now_ms + RETRIM_DELAY_MS, left));
        true
    }

    fn has_freed_much(&mut self, held_bytes: u64, now_ms: u64) -> bool {
        self.peak_bytes = self.peak_bytes.max(held_bytes);
        let freed_bytes = self.peak_bytes - held_bytes;
        if freed_bytes < TRIM_MIN_BYTES.max(self.peak_bytes / 2) {
            self.quiet_until_ms = None;
            return false;
        }
        now_ms >= *self.quiet_until_ms.get_or_insert(now_ms + QUIET_MS)
    }

    fn is_churn_over(&mut self, held_bytes: u64, now_ms: u64) -> bool {
        if self.connects == 0 || now_ms < *self.churn_check_ms.get_or_insert(now_ms + QUIET_MS) {
            return false;
        }
        if std::mem::take(&mut self.recent_connects) >= CHURN_ONGOING_MIN_CLIENTS {
            self.churn_check_ms = Some(now_ms + QUIET_MS);
            return false;
        }
        self.churn_check_ms = None;
        let connects = std::mem::take(&mut self.connects);
        connects >= CHURN_MIN_CLIENTS && held_bytes <= u64::from(connects) * LEFTOVER_PER_CLIENT_BYTES
    }
}

/// Returns this thread's cached free blocks to the heap. If `trims_all`, also trims the heaps for all threads and drops code pages that
/// only churn needs. Uses separate threads, because the cache of a thread is flushed only when it ends, and trimming takes long.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn return_free_memory(trims_all: bool) {
    let blocks = take_thread_cache();
    let emptied = thread::Builder::new().name("trim".to_owned()).spawn(move || {
        // The thread's own cache goes to the heap when it ends.
        let dropped = thread::Builder::new().name("trim".to_owned()).spawn(move || drop(blocks));
        let _ = dropped.map(thread::JoinHandle::join);
        if trims_all {
            trim();
            release_code_pages();
        }
    });
    // If no thread can be started, trim without it.
    if emptied.is_err() && trims_all {
        trim();
    }
}

/// With other allocators there is nothing to do.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn return_free_memory(_trims_all: bool) {}

/// Takes the freed blocks that glibc caches for this thread: up to seven of each size. A trim does not see them, and after churn there are
/// hundreds, each on an otherwise unused page.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn take_thread_cache() -> Vec<Vec<u8>> {
    /// By the documentation of `glibc.malloc.tcache_count` and `glibc.malloc.tcache_max`: blocks from 24 to 1,032 bytes.
    const BLOCKS_PER_SIZE: usize = 7;
    const SIZES: std::ops::RangeInclusive<usize> = 24..=1_032;
    const STEP: usize = 16;
    let mut blocks = Vec::with_capacity(BLOCKS_PER_SIZE * (SIZES.end() / STEP));
    for bytes in SIZES.step_by(STEP) {
        blocks.extend((0..BLOCKS_PER_SIZE).map(|_| std::hint::black_box(Vec::with_capacity(bytes))));
    }
    blocks
}

/// Trims the heap. Takes the time of walking it, during which other threads may wait for the allocator.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn trim() {
    // SAFETY: malloc_trim takes the allocator's own locks, may be called at any time from any thread, and touches no
    // memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// With other allocators there is nothing to do.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn trim() {}

/// Makes large blocks come from `mmap`, so that they are returned when freed. Call it before threads exist.
///
/// Otherwise, glibc raises its threshold when the first such block is freed, and takes the next ones from the heap. There a password hash
/// of 19 MiB leaves a hole as soon as a small block follows it, and the next hash is placed after that.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn set_mmap_threshold() {
    /// Larger than all blocks that are allocated and freed often.
    const LARGE_BYTES: libc::c_int = 4 << 20;
    // SAFETY: mallopt sets two numbers of the allocator, under its own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        // Setting the former makes this one static, with a default so low that the heap would shrink and grow all the time.
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * LARGE_BYTES);
    }
}

/// Other allocators need no setting.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn set_mmap_threshold() {}

/// Releases the code pages of the program, because some were needed only at start, such as the configuration parser, or only during churn.
/// The pages are mapped again from the file when needed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn release_code_pages() {
    unsafe extern "C" {
        // The linker defines these symbols: the start of the program's first page, and the end of its code.
        static __executable_start: u8;
        static etext: u8;
    }
    let (start, end) = (&raw const __executable_start as usize, &raw const etext as usize);
    // sysconf only returns a value.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    // The last page may contain data after the code.
    let len = (end - start) / page_bytes * page_bytes;
    // SAFETY: these pages are mapped privately from the file, never written, and come back from it with what they held.
    unsafe {
        libc::madvise(start as *mut libc::c_void, len, libc::MADV_DONTNEED);
    }
}

/// Other systems need no call.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn release_code_pages() {}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_heap_is_trimmed_after_a_large_disconnect() {
        let mut trimmer = HeapTrimmer::default();
        // Churn in quick succession.
        for number in 0..10 {
            assert!(!trimmer.is_due(40 * MIB, number * 1_500));
            assert!(!trimmer.is_due(2 * MIB, number * 1_500 + 500));
        }
        assert_eq!(trimmer.next_ms(), Some(14_000 + QUIET_MS));
        assert!(!trimmer.is_due(2 * MIB, 15_999) && trimmer.is_due(2 * MIB, 16_000));
        assert_eq!(trimmer.next_ms(), Some(20_000));
        assert!(!trimmer.is_due(2 * MIB, 19_999) && trimmer.is_due(2 * MIB, 20_000));
        assert!(trimmer.is_due(2 * MIB, 24_000), "and once more");
        assert_eq!(trimmer.next_ms(), None);
        assert!(!trimmer.is_due(3 * MIB / 2, 30_000), "too little to trim");
    }

    fn connect(trimmer: &mut HeapTrimmer, count: u32) {
        (0..count).for_each(|_| trimmer.record_connect());
    }

    #[test]
    fn many_small_clients_count_as_a_large_disconnect() {
        let mut trimmer = HeapTrimmer::default();
        connect(&mut trimmer, CHURN_MIN_CLIENTS - 1);
        assert!(!trimmer.is_due(0, 10) && trimmer.next_ms().is_none());
        connect(&mut trimmer, 1);
        assert_eq!(trimmer.next_ms(), Some(10 + QUIET_MS));
        assert!(!trimmer.is_due(0, 10 + QUIET_MS), "clients connected within this time");
        connect(&mut trimmer, CHURN_ONGOING_MIN_CLIENTS);
        assert!(!trimmer.is_due(0, 10 + 2 * QUIET_MS), "clients still connect");
        connect(&mut trimmer, CHURN_ONGOING_MIN_CLIENTS - 1);
        assert_eq!(trimmer.next_ms(), Some(10 + 3 * QUIET_MS));
        assert!(trimmer.is_due(0, 10 + 3 * QUIET_MS), "a few connections are normal");
        assert_eq!(trimmer.next_ms(), Some(10 + 3 * QUIET_MS + RETRIM_DELAY_MS));
    }

    #[test]
    fn constant_reconnects_do_not_trim_the_heap() {
        for each_time in [CHURN_ONGOING_MIN_CLIENTS - 1, CHURN_ONGOING_MIN_CLIENTS] {
            let mut trimmer = HeapTrimmer::default();
            for number in 0..100 {
                connect(&mut trimmer, each_time);
                assert!(!trimmer.is_due(0, number * QUIET_MS) && !trimmer.is_due(0, number * QUIET_MS + 1));
            }
        }
    }

    #[test]
    fn the_heap_is_not_trimmed_if_much_of_it_is_in_use() {
        let worthwhile = u64::from(CHURN_MIN_CLIENTS) * LEFTOVER_PER_CLIENT_BYTES;
        for (held_bytes, is_trimmed) in [(worthwhile, true), (worthwhile + 1, false)] {
            let mut trimmer = HeapTrimmer::default();
            connect(&mut trimmer, CHURN_MIN_CLIENTS);
            assert!(!trimmer.is_due(held_bytes, 0) && !trimmer.is_due(held_bytes, QUIET_MS));
            assert_eq!(trimmer.is_due(held_bytes, 2 * QUIET_MS), is_trimmed);
        }
    }
}
