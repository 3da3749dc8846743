//! Memory of a process.

use std::fs;

use crate::failure::{Failure, Result};

/// User-space memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    pub rss_bytes: u64,
    /// Shared pages count by the share of this process; equal to `rss_bytes` if the kernel does not report it.
    pub pss_bytes: u64,
    /// The highest RSS so far.
    pub peak_rss_bytes: u64,
}

impl Memory {
    /// The exact sums of `/proc/PID/smaps_rollup`, or the approximate VmRSS of `/proc/PID/status` if that is not
    /// readable.
    pub(crate) fn read(pid: u32) -> Result<Self> {
        let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let (rollup, status) = (file("smaps_rollup"), file("status"));
        let rss = parse_kib_field(&rollup, "Rss:").or_else(|| parse_kib_field(&status, "VmRSS:"));
        let rss = rss.ok_or_else(|| Failure::new(format!("resident memory of process {pid} is not readable")))?;
        let pss = parse_kib_field(&rollup, "Pss:").unwrap_or(rss);
        let peak = parse_kib_field(&status, "VmHWM:").unwrap_or(rss).max(rss);
        Ok(Self { rss_bytes: rss * 1024, pss_bytes: pss * 1024, peak_rss_bytes: peak * 1024 })
    }
}

/// Resident bytes (user space) of `pid`.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    Ok(Memory::read(pid)?.rss_bytes)
}

/// The value of a `Name:   123 kB` line.
pub(super) fn parse_kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let mut words = line[name.len()..].split_ascii_whitespace();
    let value = words.next()?.parse().ok()?;
    (words.next() == Some("kB")).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollup_and_status_lines_are_read() {
        let rollup = "5600-7fff ---p 00000000 00:00 0    [rollup]\nRss:                3140 kB\nPss:      820 kB\n";
        assert_eq!(parse_kib_field(rollup, "Rss:"), Some(3140));
        assert_eq!(parse_kib_field(rollup, "Pss:"), Some(820));
        let status = "Name:\tx\nVmHWM:\t    9000 kB\nVmRSS:\t    8000 kB\n";
        assert_eq!(parse_kib_field(status, "VmRSS:"), Some(8000));
        assert_eq!(parse_kib_field(status, "Rss:"), None);
        assert_eq!(parse_kib_field("Rss: many kB", "Rss:"), None);
    }

    #[test]
    fn own_memory_is_plausible() {
        let memory = Memory::read(std::process::id()).expect("own process is readable");
        assert!((100_000..10_000_000_000).contains(&memory.rss_bytes), "{memory:?}");
        assert!(memory.pss_bytes > 0 && memory.peak_rss_bytes >= memory.rss_bytes, "{memory:?}");
    }
}
