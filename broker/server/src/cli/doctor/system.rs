//! The kernel's limits, the memory, the processors, the clock.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};

use super::super::data::grouped::grouped;
use super::CheckResult;
use crate::config::Config;
use crate::serve::descriptors::RESERVED_DESCRIPTORS;
use crate::serve::memory::{MemoryPlan, available_bytes};
use crate::time::since_epoch;

/// As many connections as the broker lets wait.
const BACKLOG: u64 = 4_096;
/// What belongs to the service of the packages.
const DROP_IN: &str = "/etc/systemd/system/tautwire.service.d";
/// Settings of the kernel that were made for the broker.
const SYSCTL_FILE: &str = "/etc/sysctl.d/60-tautwire.conf";
/// Files that say that a service of time has set the clock.
const SYNCHRONISED: &str = "/run/systemd/timesync/synchronized";
/// Services of time that leave no such file.
const TIME_SERVICES: [&str; 3] = ["chronyd", "ntpd", "openntpd"];
/// Nobody runs this before it was written: 2026-01-01.
const EARLIEST_UNIX_S: u64 = 1_767_225_600;

pub(super) fn descriptors(config: &Config) -> CheckResult {
    let needed = config.limits.connections as u64 + RESERVED_DESCRIPTORS;
    // The broker raises the soft limit to the hard one.
    match getrlimit(Resource::Nofile).maximum {
        Some(allowed) if allowed < needed => CheckResult::warning(
            "descriptors",
            format!(
                "{} may be open, and limits.connections is {}",
                grouped(allowed),
                grouped(config.limits.connections as u64)
            ),
            format!(
                "mkdir -p {DROP_IN} && printf '[Service]\\nLimitNOFILE={needed}\\n' > {DROP_IN}/descriptors.conf && systemctl daemon-reload && systemctl restart tautwire"
            ),
        ),
        allowed => {
            let shown = allowed.map_or_else(|| "as many as there are".to_owned(), grouped);
            CheckResult::passed("descriptors", format!("{shown} may be open"))
        }
    }
}

pub(super) fn backlog() -> CheckResult {
    match number("/proc/sys/net/core/somaxconn") {
        Some(allowed) if allowed < BACKLOG => CheckResult::warning(
            "backlog",
            format!(
                "{} connections may wait to be accepted; of a fleet that comes back at once, others are turned away",
                grouped(allowed)
            ),
            sysctl("net.core.somaxconn", &BACKLOG.to_string()),
        ),
        Some(allowed) => {
            CheckResult::passed("backlog", format!("{} connections may wait to be accepted", grouped(allowed)))
        }
        None => CheckResult::passed("backlog", "the system does not say how many connections may wait".to_owned()),
    }
}

/// What the sockets of all connections may hold together: beyond it, the kernel drops what comes.
pub(super) fn buffers(config: &Config) -> CheckResult {
    let needed = config.limits.connections as u64 * page_size() as u64;
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_mem").unwrap_or_default();
    let Some(allowed) = text.split_whitespace().nth(2).and_then(|pages| pages.parse::<u64>().ok()) else {
        return CheckResult::passed("buffers", "the system does not say what sockets may hold".to_owned());
    };
    let allowed = allowed.saturating_mul(page_size() as u64);
    let shown = format!("sockets may hold {} bytes together", grouped(allowed));
    if allowed >= needed {
        return CheckResult::passed("buffers", shown);
    }
    let pages = config.limits.connections;
    let fix = sysctl("net.ipv4.tcp_mem", &format!("{} {} {pages}", pages / 2, pages / 4 * 3));
    let text = format!(
        "{shown}, and limits.connections ({}) with one packet each need {}",
        grouped(config.limits.connections as u64),
        grouped(needed)
    );
    CheckResult::warning("buffers", text, fix)
}

/// A firewall that follows connections drops the packets of those for which it has no room.
pub(super) fn tracked(config: &Config) -> Option<CheckResult> {
    let allowed = number("/proc/sys/net/netfilter/nf_conntrack_max")?;
    let needed = config.limits.connections as u64 * 2;
    if allowed >= needed / 2 {
        return Some(CheckResult::passed("firewall", format!("{} connections may be followed", grouped(allowed))));
    }
    let text = format!(
        "{} connections may be followed, and limits.connections is {}: packets of others are dropped",
        grouped(allowed),
        grouped(config.limits.connections as u64)
    );
    Some(CheckResult::warning("firewall", text, sysctl("net.netfilter.nf_conntrack_max", &needed.to_string())))
}

/// The command that changes a setting of the kernel, now and at each start.
fn sysctl(name: &str, value: &str) -> String {
    format!("echo '{name} = {value}' >> {SYSCTL_FILE} && sysctl -p {SYSCTL_FILE}")
}

pub(super) fn memory(config: &Config) -> CheckResult {
    let there = available_bytes(|path| fs::read_to_string(path).ok());
    let budget = MemoryPlan::of(config);
    let shown = format!(
        "{} bytes, of which clients may make the broker hold {}",
        grouped(there),
        grouped(budget.buffered_bytes as u64)
    );
    if config.memory.limit > there {
        let text = format!("memory.limit is {}, and there are {} bytes", grouped(config.memory.limit), grouped(there));
        return CheckResult::warning(
            "memory",
            text,
            "set memory.limit = 0, which takes three quarters of what there is",
        );
    }
    CheckResult::passed("memory", shown)
}

pub(super) fn threads(config: &Config) -> CheckResult {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if config.threads > cores {
        let text = format!(
            "threads is {}, and there are {cores} cores: threads that share a core wait for each other",
            config.threads
        );
        return CheckResult::warning("threads", text, "set threads = 0, which leaves a core to the kernel");
    }
    CheckResult::passed("threads", format!("{cores} cores"))
}

pub(super) fn clock() -> CheckResult {
    let now_s = since_epoch().as_secs();
    let fix = "timedatectl set-ntp true";
    if now_s < EARLIEST_UNIX_S {
        let text =
            "it stands before this program was written: certificates are not valid yet, and messages expire late";
        return CheckResult::failed("clock", text.to_owned(), fix);
    }
    if Path::new(SYNCHRONISED).exists() || is_time_service_running() {
        return CheckResult::passed("clock", "a service of time sets it".to_owned());
    }
    let text = "no service of time was found: expiry of sessions, messages, tokens and certificates goes by it";
    CheckResult::warning("clock", text.to_owned(), fix)
}

/// Whether one of the services of time runs.
fn is_time_service_running() -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let name = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("comm")).ok();
    processes.flatten().filter_map(name).any(|name| TIME_SERVICES.contains(&name.trim()))
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Times as people read them.
pub(super) fn shown(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..=9_999 => format!("{micros} µs"),
        micros => format!("{} ms", micros / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckStatus;
    use super::*;

    #[test]
    fn more_connections_than_descriptors_are_a_warning_that_says_how_many_are_needed() {
        let mut config = Config::default();
        assert_eq!(getrlimit(Resource::Nofile).maximum.is_some(), descriptors(&config).text.contains("may be open"));
        config.limits.connections = 2_000_000_000;
        let found = descriptors(&config);
        if getrlimit(Resource::Nofile).maximum.is_some() {
            assert_eq!(found.verdict, CheckStatus::Warning);
            assert!(found.fix.is_some_and(|fix| fix.contains("LimitNOFILE=2000000256")));
        }
    }

    /// What is between the words that a shell takes for its own is as it is meant.
    #[test]
    fn what_changes_the_kernel_is_a_command() {
        let mut config = Config::default();
        config.limits.connections = 2_000_000_000;
        let found = buffers(&config);
        if found.verdict == CheckStatus::Warning {
            let fix = found.fix.expect("it says what to do");
            assert!(
                fix.starts_with("echo 'net.ipv4.tcp_mem = 1000000000 1500000000 2000000000' >> /etc/sysctl.d/"),
                "{fix}"
            );
        }
        assert_eq!(
            sysctl("net.core.somaxconn", "4096"),
            "echo 'net.core.somaxconn = 4096' >> /etc/sysctl.d/60-tautwire.conf && sysctl -p /etc/sysctl.d/60-tautwire.conf"
        );
        config.limits.connections = 1;
        assert_eq!(buffers(&config).verdict, CheckStatus::Passed);
    }

    #[test]
    fn more_threads_than_cores_and_more_memory_than_there_is_are_warnings() {
        let mut config = Config { threads: 64, ..Config::default() };
        assert_eq!(threads(&config).verdict, CheckStatus::Warning);
        assert_eq!(memory(&config).verdict, CheckStatus::Passed);
        config.memory.limit = 1 << 60;
        assert_eq!(memory(&config).verdict, CheckStatus::Warning);
    }
}
