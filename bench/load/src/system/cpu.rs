//! CPU time of a process, all threads, user and kernel.

use std::collections::BTreeMap;
use std::fs;

use crate::failure::{ErrorContext, Failure, Result};

/// A reading of the CPU time of every thread of a process.
///
/// `/proc/PID/task/TID/schedstat` has the nanoseconds of each living thread. The figure of a thread that ended between two readings is
/// lost; then the difference falls back to utime + stime of `/proc/PID/stat`, which includes
/// ended threads but counts in ticks.
#[derive(Debug, Clone)]
pub(crate) struct CpuClock {
    thread_ns: BTreeMap<u32, u64>,
    process_ns: u64,
}

impl CpuClock {
    pub(crate) fn read(pid: u32) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).during(|| format!("CPU time of process {pid}"))?;
        let process_ns = parse_stat_ticks(&stat)
            .ok_or_else(|| Failure::new(format!("/proc/{pid}/stat is not understood")))?
            .saturating_mul(1_000_000_000 / rustix::param::clock_ticks_per_second());
        let mut thread_ns = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            let name = entry?.file_name();
            let Some(tid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // A thread may end between the listing and the reading.
            let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).unwrap_or_default();
            if let Some(ns) = parse_schedstat_ns(&text) {
                thread_ns.insert(tid, ns);
            }
        }
        Ok(Self { thread_ns, process_ns })
    }

    /// CPU seconds spent from `earlier` to `self`.
    pub(crate) fn seconds_since(&self, earlier: &CpuClock) -> f64 {
        let all_alive = earlier.thread_ns.keys().all(|tid| self.thread_ns.contains_key(tid));
        let spent_ns = if all_alive && !self.thread_ns.is_empty() {
            self.thread_ns
                .iter()
                .map(|(tid, ns)| ns.saturating_sub(earlier.thread_ns.get(tid).copied().unwrap_or(0)))
                .sum()
        } else {
            self.process_ns.saturating_sub(earlier.process_ns)
        };
        spent_ns as f64 / 1e9
    }
}

/// First field of schedstat: nanoseconds spent on a CPU.
fn parse_schedstat_ns(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// utime + stime, in ticks. The command name (second field) may contain spaces and brackets, so counting starts after the
/// last closing bracket.
fn parse_stat_ticks(text: &str) -> Option<u64> {
    let after_name = &text[text.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let utime: u64 = fields.next()?.parse().ok()?;
    let stime: u64 = fields.next()?.parse().ok()?;
    Some(utime + stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_parsed_after_a_name_with_brackets_and_spaces() {
        let text = "77 (a) b (c)) S 1 77 77 0 -1 4194304 100 0 0 0 250 50 3 4 20 0 1 0 5 1000 200 18446744073709551615";
        assert_eq!(parse_stat_ticks(text), Some(300));
        assert_eq!(parse_stat_ticks("77 nothing"), None);
        assert_eq!(parse_stat_ticks("77 (short) S 1 2"), None);
    }

    #[test]
    fn schedstat_first_field_is_cpu_time() {
        assert_eq!(parse_schedstat_ns("123456789 42 7\n"), Some(123_456_789));
        assert_eq!(parse_schedstat_ns(""), None);
    }

    fn clock(threads: &[(u32, u64)], process_ns: u64) -> CpuClock {
        CpuClock { thread_ns: threads.iter().copied().collect(), process_ns }
    }

    #[test]
    fn new_threads_count_in_full_and_an_ended_thread_falls_back_to_ticks() {
        let earlier = clock(&[(1, 1_000_000_000), (2, 500_000_000)], 1_400_000_000);
        let grown = clock(&[(1, 1_500_000_000), (2, 500_000_000), (3, 250_000_000)], 2_400_000_000);
        assert_eq!(grown.seconds_since(&earlier), 0.75);
        let shrunk = clock(&[(1, 1_500_000_000)], 2_400_000_000);
        assert_eq!(shrunk.seconds_since(&earlier), 1.0);
    }

    #[test]
    fn own_clock_moves_with_work() {
        let pid = std::process::id();
        let before = CpuClock::read(pid).expect("own process is readable");
        let moves = || CpuClock::read(pid).expect("own process is readable").seconds_since(&before) > 0.0;
        // If threads of other tests end, the clock advances in steps of 10 ms of work, however long that takes on a busy machine.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !moves() {
            assert!(std::time::Instant::now() < deadline, "the clock stands still");
            std::hint::black_box(
                (0..1_000_000u64).fold(0, |sum: u64, number| sum.wrapping_mul(31).wrapping_add(number)),
            );
        }
    }
}
