//! The memory budget of the process.

use std::fs;
use std::path::Path;

use super::cgroup;
use crate::config::Config;

const MACHINE: &str = "/proc/meminfo";
/// Assumed if nothing reports the amount of memory.
const UNKNOWN_BYTES: u64 = 4 << 30;

/// The division of `memory.limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// Limit for everything held on behalf of clients.
    pub(crate) memory_bytes: usize,
    /// Limit for retained messages.
    pub(crate) retained_bytes: usize,
}

impl MemoryPlan {
    /// Half is for data held on behalf of clients, and a quarter for retained messages if they stay in memory. The rest covers what is not
    /// accounted: the program, its threads, and freed memory that the allocator keeps.
    pub(crate) fn of(config: &Config) -> MemoryPlan {
        let limit_bytes = match config.memory.limit {
            0 => available_bytes(|path| fs::read_to_string(path).ok()) / 4 * 3,
            bytes => bytes,
        };
        let part = |of: u64| usize::try_from(limit_bytes / of).unwrap_or(usize::MAX);
        let limits = &config.limits;
        let retained_bytes =
            if config.data.path.is_none() { limits.retained_bytes.min(part(4)) } else { limits.retained_bytes };
        MemoryPlan { memory_bytes: limits.memory_bytes.min(part(2)), retained_bytes }
    }
}

/// The memory that the control groups or the machine allow.
pub(crate) fn available_bytes(read: impl Fn(&Path) -> Option<String>) -> u64 {
    let group = cgroup::memory_limit_bytes(&read);
    let machine = read(Path::new(MACHINE)).and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kilobytes * 1024)
    });
    group.into_iter().chain(machine).min().unwrap_or(UNKNOWN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Override;

    fn available(files: &[(&str, &str)]) -> u64 {
        available_bytes(|path| {
            files.iter().find(|(name, _)| path == Path::new(name)).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_group_limit_applies_if_it_is_below_the_machines() {
        let machine = (MACHINE, "MemTotal:        2048 kB\nMemFree: 1 kB\n");
        assert_eq!(available(&[machine]), 2 << 20);
        let group = ("/proc/self/cgroup", "0::/a.service\n");
        let mount = ("/proc/self/mountinfo", "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        for (limit, expected) in [("1048576\n", 1 << 20), ("max\n", 2 << 20), ("9223372036854771712\n", 2 << 20)] {
            assert_eq!(available(&[machine, group, mount, ("/sys/fs/cgroup/a.service/memory.max", limit)]), expected);
        }
        assert_eq!(available(&[]), UNKNOWN_BYTES);
    }

    #[test]
    fn a_limit_lowers_the_others_and_never_raises_them() {
        let mut config = Config::default();
        let (buffered, retained) = (config.limits.memory_bytes, config.limits.retained_bytes);
        config.memory.limit = 64 << 20;
        assert_eq!(MemoryPlan::of(&config), MemoryPlan { memory_bytes: 32 << 20, retained_bytes: retained });
        let in_memory = Override::from_option("--memory", "data.path", String::new());
        let mut config = Config::load(None, &[in_memory]).expect("a valid configuration");
        config.memory.limit = 64 << 20;
        assert_eq!(MemoryPlan::of(&config).retained_bytes, 16 << 20);
        config.memory.limit = 1 << 50;
        assert_eq!(MemoryPlan::of(&config), MemoryPlan { memory_bytes: buffered, retained_bytes: retained });
    }
}
