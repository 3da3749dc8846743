//! Resident memory of a process.

use std::fs;

use crate::failure::{Failure, Result};

/// Resident bytes (user space) of `pid`: the exact sum of `/proc/PID/smaps_rollup`, or VmRSS of `/proc/PID/status`,
/// which the kernel keeps approximately, where that is not readable.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    ["smaps_rollup", "status"]
        .iter()
        .find_map(|file| {
            let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
            parse_kib_field(&text, "Rss:").or_else(|| parse_kib_field(&text, "VmRSS:"))
        })
        .map(|kib| kib * 1024)
        .ok_or_else(|| Failure::new(format!("resident memory of process {pid} is not readable")))
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
        let status = "Name:\tx\nVmHWM:\t    9000 kB\nVmRSS:\t    8000 kB\n";
        assert_eq!(parse_kib_field(status, "VmRSS:"), Some(8000));
        assert_eq!(parse_kib_field(status, "Rss:"), None);
        assert_eq!(parse_kib_field("Rss: many kB", "Rss:"), None);
    }

    #[test]
    fn own_memory_is_plausible() {
        let bytes = resident_bytes(std::process::id()).expect("own process is readable");
        assert!((100_000..10_000_000_000).contains(&bytes), "{bytes}");
    }
}
