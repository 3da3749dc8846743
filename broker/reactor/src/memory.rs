//! How memory is had from the system, and given back.
#![allow(unsafe_code, reason = "calls into the C library, which the standard library does not wrap")]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::thread;

/// Less than this is kept for reuse.
const WORTHWHILE_BYTES: u64 = 1 << 20;
/// So long less than half of the peak has been held before the heap is trimmed: while clients come and go in crowds, what one of them leaves is
/// used by the next, and a trim takes the time of going through the heap.
const CALM_MS: u64 = 2_000;
/// After it has been trimmed, so long until it is trimmed once more, and so often: what goes with connections and stands in no account is freed
/// a little later, such as their timers, and what waits for a thread that finds out who clients are.
const AFTERMATH_MS: u64 = 4_000;
const AFTERMATHS: u32 = 2;
/// So many clients are a crowd, however little each of them makes the broker hold.
const CROWD: u32 = 500;
/// While so many come within [`CALM_MS`], the crowd is not over. Where fewer come all the time, there is none.
const STILL_COME: u32 = 50;
/// What one of a crowd may leave. Where more is held than all of them may leave, the heap is large, and going through it is not worth the time.
const LEFT_BY_EACH_BYTES: u64 = 16 << 10;

/// Watches how much is held, and says when memory is to be given back because much has been freed: glibc gives back only what lies at the
/// end of its heap.
#[derive(Debug, Default)]
pub(crate) struct Trimmer {
    peak_bytes: u64,
    /// When it is trimmed, if as little is held until then.
    calm_ms: Option<u64>,
    /// How many clients have come one soon after the other.
    came: u32,
    /// How many of them have come since it was last looked at.
    came_lately: u32,
    /// When it is looked at whether they still come.
    over_ms: Option<u64>,
    /// When it is trimmed once more, and how often then.
    aftermath: Option<(u64, u32)>,
}

impl Trimmer {
    /// A client has come.
    #[inline]
    pub(crate) fn note_one_who_comes(&mut self) {
        self.came = self.came.saturating_add(1);
        self.came_lately = self.came_lately.saturating_add(1);
    }

    /// When it wants to be called at the latest.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let over_ms = self.over_ms.filter(|_| self.came >= CROWD);
        let aftermath_ms = self.aftermath.map(|(at_ms, _)| at_ms);
        [self.calm_ms, over_ms, aftermath_ms].into_iter().flatten().min()
    }

    /// Whether a crowd has gone, or a part of what it has left has been freed since. To be called after every turn.
    pub(crate) fn is_due(&mut self, held_bytes: u64, now_ms: u64) -> bool {
        let (was_freed, is_over) = (self.much_was_freed(held_bytes, now_ms), self.crowd_is_over(held_bytes, now_ms));
        if was_freed || is_over {
            *self = Trimmer { peak_bytes: held_bytes, ..Trimmer::default() };
            self.aftermath = Some((now_ms + AFTERMATH_MS, AFTERMATHS - 1));
            return true;
        }
        // A crowd that comes meanwhile leaves something itself.
        let Some((_, left)) = self.aftermath.take_if(|(at_ms, _)| now_ms >= *at_ms) else { return false };
        self.aftermath = left.checked_sub(1).map(|left| (now_ms + AFTERMATH_MS, left));
        true
    }

    fn much_was_freed(&mut self, held_bytes: u64, now_ms: u64) -> bool {
        self.peak_bytes = self.peak_bytes.max(held_bytes);
        let freed_bytes = self.peak_bytes - held_bytes;
        if freed_bytes < WORTHWHILE_BYTES.max(self.peak_bytes / 2) {
            self.calm_ms = None;
            return false;
        }
        now_ms >= *self.calm_ms.get_or_insert(now_ms + CALM_MS)
    }

    fn crowd_is_over(&mut self, held_bytes: u64, now_ms: u64) -> bool {
        if self.came == 0 || now_ms < *self.over_ms.get_or_insert(now_ms + CALM_MS) {
            return false;
        }
        if std::mem::take(&mut self.came_lately) >= STILL_COME {
            self.over_ms = Some(now_ms + CALM_MS);
            return false;
        }
        self.over_ms = None;
        let came = std::mem::take(&mut self.came);
        came >= CROWD && held_bytes <= u64::from(came) * LEFT_BY_EACH_BYTES
    }
}

/// Gives back to its heap what this thread keeps of what it has freed, and then, where it does so for all threads, trims the heaps and lets go of
/// code that only a crowd has needed. Threads of their own do it, because what a thread keeps comes back only when it ends, and trimming takes long.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn give_back(is_of_all: bool) {
    let blocks = kept_by_this_thread();
    let emptied = thread::Builder::new().name("trim".to_owned()).spawn(move || {
        // What it would keep of them itself goes to the heap when it ends.
        let dropped = thread::Builder::new().name("trim".to_owned()).spawn(move || drop(blocks));
        let _ = dropped.map(thread::JoinHandle::join);
        if is_of_all {
            trim();
            forget_code();
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
fn kept_by_this_thread() -> Vec<Vec<u8>> {
    /// As its manual says of `glibc.malloc.tcache_count` and `glibc.malloc.tcache_max`: it has a block from 24 to 1,032 bytes, in steps.
    const KEPT_OF_EACH: usize = 7;
    const SIZES: std::ops::RangeInclusive<usize> = 24..=1_032;
    const STEP: usize = 16;
    let mut blocks = Vec::with_capacity(KEPT_OF_EACH * (SIZES.end() / STEP));
    for bytes in SIZES.step_by(STEP) {
        blocks.extend((0..KEPT_OF_EACH).map(|_| std::hint::black_box(Vec::with_capacity(bytes))));
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
pub fn keep_large_apart() {
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
pub fn keep_large_apart() {}

/// Lets the pages of the program go, for those that only starting needed, such as what reads the configuration, or only a crowd. Whatever
/// is called again is mapped again from the file.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn forget_code() {
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
pub fn forget_code() {}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_heap_is_trimmed_when_a_crowd_has_gone_and_none_follows() {
        let mut trimmer = Trimmer::default();
        // Crowds that follow each other.
        for number in 0..10 {
            assert!(!trimmer.is_due(40 * MIB, number * 1_500));
            assert!(!trimmer.is_due(2 * MIB, number * 1_500 + 500));
        }
        assert_eq!(trimmer.next_ms(), Some(14_000 + CALM_MS));
        assert!(!trimmer.is_due(2 * MIB, 15_999) && trimmer.is_due(2 * MIB, 16_000));
        assert_eq!(trimmer.next_ms(), Some(20_000));
        assert!(!trimmer.is_due(2 * MIB, 19_999) && trimmer.is_due(2 * MIB, 20_000));
        assert!(trimmer.is_due(2 * MIB, 24_000), "and once more");
        assert_eq!(trimmer.next_ms(), None);
        assert!(!trimmer.is_due(3 * MIB / 2, 30_000), "it is little");
    }

    fn come(trimmer: &mut Trimmer, count: u32) {
        (0..count).for_each(|_| trimmer.note_one_who_comes());
    }

    #[test]
    fn a_crowd_of_whom_each_holds_little_is_one_too() {
        let mut trimmer = Trimmer::default();
        come(&mut trimmer, CROWD - 1);
        assert!(!trimmer.is_due(0, 10) && trimmer.next_ms().is_none());
        come(&mut trimmer, 1);
        assert_eq!(trimmer.next_ms(), Some(10 + CALM_MS));
        assert!(!trimmer.is_due(0, 10 + CALM_MS), "they came within this time");
        come(&mut trimmer, STILL_COME);
        assert!(!trimmer.is_due(0, 10 + 2 * CALM_MS), "they still come");
        come(&mut trimmer, STILL_COME - 1);
        assert_eq!(trimmer.next_ms(), Some(10 + 3 * CALM_MS));
        assert!(trimmer.is_due(0, 10 + 3 * CALM_MS), "a few always come");
        assert_eq!(trimmer.next_ms(), Some(10 + 3 * CALM_MS + AFTERMATH_MS));
    }

    #[test]
    fn those_who_come_all_the_time_are_no_crowd() {
        for each_time in [STILL_COME - 1, STILL_COME] {
            let mut trimmer = Trimmer::default();
            for number in 0..100 {
                come(&mut trimmer, each_time);
                assert!(!trimmer.is_due(0, number * CALM_MS) && !trimmer.is_due(0, number * CALM_MS + 1));
            }
        }
    }

    #[test]
    fn a_crowd_is_passed_over_where_much_is_held_beside_what_it_may_leave() {
        let worthwhile = u64::from(CROWD) * LEFT_BY_EACH_BYTES;
        for (held_bytes, is_trimmed) in [(worthwhile, true), (worthwhile + 1, false)] {
            let mut trimmer = Trimmer::default();
            come(&mut trimmer, CROWD);
            assert!(!trimmer.is_due(held_bytes, 0) && !trimmer.is_due(held_bytes, CALM_MS));
            assert_eq!(trimmer.is_due(held_bytes, 2 * CALM_MS), is_trimmed);
        }
    }
}
