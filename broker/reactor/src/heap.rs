//! How memory is had from the system, and given back.
#![allow(unsafe_code, reason = "calls into the C library, which the standard library does not wrap")]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::thread;

/// Less than this is kept for reuse.
const TRIM_MIN_BYTES: u64 = 1 << 20;
/// So long less than half of the peak has been held before the heap is trimmed: while clients come and go in crowds, what one of them leaves is
/// used by the next, and a trim takes the time of going through the heap.
const QUIET_MS: u64 = 2_000;
/// After it has been trimmed, so long until it is trimmed once more, and so often: what goes with connections and stands in no account is freed
/// a little later, such as their timers, and what waits for a thread that finds out who clients are.
const RETRIM_DELAY_MS: u64 = 4_000;
const RETRIMS_MAX: u32 = 2;
/// So many clients are a crowd, however little each of them makes the broker hold.
const CHURN_MIN_CLIENTS: u32 = 500;
/// While so many come within [`QUIET_MS`], the crowd is not over. Where fewer come all the time, there is none.
const CHURN_ONGOING_MIN_CLIENTS: u32 = 50;
/// What one of a crowd may leave. Where more is held than all of them may leave, the heap is large, and going through it is not worth the time.
const LEFTOVER_PER_CLIENT_BYTES: u64 = 16 << 10;

/// Watches how much is held, and says when memory is to be given back because much has been freed: glibc gives back only what lies at the
/// end of its heap.
#[derive(Debug, Default)]
pub(crate) struct HeapTrimmer {
    peak_bytes: u64,
    /// When it is trimmed, if as little is held until then.
    quiet_until_ms: Option<u64>,
    /// How many clients have come one soon after the other.
    connects: u32,
    /// How many of them have come since it was last looked at.
    recent_connects: u32,
    /// When it is looked at whether they still come.
    churn_check_ms: Option<u64>,
    /// When it is trimmed once more, and how often then.
    next_retrim: Option<(u64, u32)>,
}

impl HeapTrimmer {
    /// A client has come.
    #[inline]
    pub(crate) fn record_connect(&mut self) {
        self.connects = self.connects.saturating_add(1);
        self.recent_connects = self.recent_connects.saturating_add(1);
    }

    /// When it wants to be called at the latest.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let churn_check_ms = self.churn_check_ms.filter(|_| self.connects >= CHURN_MIN_CLIENTS);
        let aftermath_ms = self.next_retrim.map(|(at_ms, _)| at_ms);
        [self.quiet_until_ms, churn_check_ms, aftermath_ms].into_iter().flatten().min()
    }

    /// Whether a crowd has gone, or a part of what it has left has been freed since. To be called after every turn.
    pub(crate) fn is_due(&mut self, held_bytes: u64, now_ms: u64) -> bool {
        let (was_freed, is_over) = (self.has_freed_much(held_bytes, now_ms), self.is_churn_over(held_bytes, now_ms));
        if was_freed || is_over {
            *self = HeapTrimmer { peak_bytes: held_bytes, ..HeapTrimmer::default() };
            self.next_retrim = Some((now_ms + RETRIM_DELAY_MS, RETRIMS_MAX - 1));
            return true;
        }
        // A crowd that comes meanwhile leaves something itself.
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

/// Gives back to its heap what this thread keeps of what it has freed, and then, where it does so for all threads, trims the heaps and lets go of
/// code that only a crowd has needed. Threads of their own do it, because what a thread keeps comes back only when it ends, and trimming takes long.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn give_back(is_of_all: bool) {
    let blocks = take_thread_cache();
    let emptied = thread::Builder::new().name("trim".to_owned()).spawn(move || {
        // What it would keep of them itself goes to the heap when it ends.
        let dropped = thread::Builder::new().name("trim".to_owned()).spawn(move || drop(blocks));
        let _ = dropped.map(thread::JoinHandle::join);
        if is_of_all {
            trim();
            release_code_pages();
        }
    });
    // Without threads there is less to give back.
    if emptied.is_err() && is_of_all {
        trim();
    }
}

/// Elsewhere the allocator decides alone.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back(_is_of_all: bool) {}

/// The freed blocks that glibc keeps for this thread alone, taken out: up to seven of each size. No trim looks at them, and after
/// a crowd there are hundreds, each on a page that nothing else needs.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn take_thread_cache() -> Vec<Vec<u8>> {
    /// As its manual says of `glibc.malloc.tcache_count` and `glibc.malloc.tcache_max`: it has a block from 24 to 1,032 bytes, in steps.
    const BLOCKS_PER_SIZE: usize = 7;
    const SIZES: std::ops::RangeInclusive<usize> = 24..=1_032;
    const STEP: usize = 16;
    let mut blocks = Vec::with_capacity(BLOCKS_PER_SIZE * (SIZES.end() / STEP));
    for bytes in SIZES.step_by(STEP) {
        blocks.extend((0..BLOCKS_PER_SIZE).map(|_| std::hint::black_box(Vec::with_capacity(bytes))));
    }
    blocks
}

/// Gives back what is free. It takes the time of going through the heap, in which other threads may wait for memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn trim() {
    // SAFETY: malloc_trim takes the allocator's own locks, may be called at any time from any thread, and touches no
    // memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Elsewhere the allocator decides alone.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn trim() {}

/// Has what is large come from the system by itself, and go back at once. To be called before there are threads.
///
/// glibc would learn from the first such block that is freed to take the next ones from the heap of their thread. There a hash of a
/// password, 19 MiB, leaves a hole as soon as something small lies behind it, and the next hash takes the place behind that.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn set_mmap_threshold() {
    /// Larger than all that is made and freed often.
    const LARGE_BYTES: libc::c_int = 4 << 20;
    // SAFETY: mallopt sets two numbers of the allocator, under its own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        // With the former set, this stays as it is set; by default it is so low that the heap would shrink and grow all the time.
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * LARGE_BYTES);
    }
}

/// Other allocators do as they think best.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn set_mmap_threshold() {}

/// Lets the pages of the program go, for those that only starting needed, such as what reads the configuration, or only a crowd. Whatever
/// is called again is mapped again from the file.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn release_code_pages() {
    unsafe extern "C" {
        // The linker sets these around the code: before the first page of the program, and behind its last instruction.
        static __executable_start: u8;
        static etext: u8;
    }
    let (start, end) = (&raw const __executable_start as usize, &raw const etext as usize);
    // SAFETY: sysconf only answers.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    // The page with the end may have data behind the code.
    let len = (end - start) / page_bytes * page_bytes;
    // SAFETY: these pages are mapped privately from the file, never written, and come back from it with what they held.
    unsafe {
        libc::madvise(start as *mut libc::c_void, len, libc::MADV_DONTNEED);
    }
}

/// Elsewhere the system decides alone.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn release_code_pages() {}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_heap_is_trimmed_when_a_crowd_has_gone_and_none_follows() {
        let mut trimmer = HeapTrimmer::default();
        // Crowds that follow each other.
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
        assert!(!trimmer.is_due(3 * MIB / 2, 30_000), "it is little");
    }

    fn come(trimmer: &mut HeapTrimmer, count: u32) {
        (0..count).for_each(|_| trimmer.record_connect());
    }

    #[test]
    fn a_crowd_of_whom_each_holds_little_is_one_too() {
        let mut trimmer = HeapTrimmer::default();
        come(&mut trimmer, CHURN_MIN_CLIENTS - 1);
        assert!(!trimmer.is_due(0, 10) && trimmer.next_ms().is_none());
        come(&mut trimmer, 1);
        assert_eq!(trimmer.next_ms(), Some(10 + QUIET_MS));
        assert!(!trimmer.is_due(0, 10 + QUIET_MS), "they came within this time");
        come(&mut trimmer, CHURN_ONGOING_MIN_CLIENTS);
        assert!(!trimmer.is_due(0, 10 + 2 * QUIET_MS), "they still come");
        come(&mut trimmer, CHURN_ONGOING_MIN_CLIENTS - 1);
        assert_eq!(trimmer.next_ms(), Some(10 + 3 * QUIET_MS));
        assert!(trimmer.is_due(0, 10 + 3 * QUIET_MS), "a few always come");
        assert_eq!(trimmer.next_ms(), Some(10 + 3 * QUIET_MS + RETRIM_DELAY_MS));
    }

    #[test]
    fn those_who_come_all_the_time_are_no_crowd() {
        for each_time in [CHURN_ONGOING_MIN_CLIENTS - 1, CHURN_ONGOING_MIN_CLIENTS] {
            let mut trimmer = HeapTrimmer::default();
            for number in 0..100 {
                come(&mut trimmer, each_time);
                assert!(!trimmer.is_due(0, number * QUIET_MS) && !trimmer.is_due(0, number * QUIET_MS + 1));
            }
        }
    }

    #[test]
    fn a_crowd_is_passed_over_where_much_is_held_beside_what_it_may_leave() {
        let worthwhile = u64::from(CHURN_MIN_CLIENTS) * LEFTOVER_PER_CLIENT_BYTES;
        for (held_bytes, is_trimmed) in [(worthwhile, true), (worthwhile + 1, false)] {
            let mut trimmer = HeapTrimmer::default();
            come(&mut trimmer, CHURN_MIN_CLIENTS);
            assert!(!trimmer.is_due(held_bytes, 0) && !trimmer.is_due(held_bytes, QUIET_MS));
            assert_eq!(trimmer.is_due(held_bytes, 2 * QUIET_MS), is_trimmed);
        }
    }
}
