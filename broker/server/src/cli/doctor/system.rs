//! Checks limits of the kernel, memory, processors and the clock.

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

/// Accept backlog of the broker.
const BACKLOG: u64 = 4_096;
/// Directory for overrides of the packaged service.
const DROP_IN: &str = "/etc/systemd/system/tautwire.service.d";
/// Kernel settings for the broker.
const SYSCTL_FILE: &str = "/etc/sysctl.d/60-tautwire.conf";
/// File that systemd-timesyncd creates once the clock is synchronized.
const SYNCHRONIZED_FILE: &str = "/run/systemd/timesync/synchronized";
/// Time services that create no such file.
const TIME_SERVICES: [&str; 3] = ["chronyd", "ntpd", "openntpd"];
/// This program was written after this time: 2026-01-01.
const EARLIEST_UNIX_S: u64 = 1_767_225_600;

pub(super) fn descriptors(config: &Config) -> CheckResult {
    let needed = config.limits.connections as u64 + RESERVED_DESCRIPTORS;
    // The broker raises the soft limit to the hard one.
    match getrlimit(Resource::Nofile).maximum {
        Some(allowed) if allowed < needed => CheckResult::warning(
            "descriptors",
            format!(
                "{} descriptors are allowed, but limits.connections is {}",
                grouped(allowed),
                grouped(config.limits.connections as u64)
            ),
            format!(
                "mkdir -p {DROP_IN} && printf '[Service]\\nLimitNOFILE={needed}\\n' > {DROP_IN}/descriptors.conf && systemctl daemon-reload && systemctl restart tautwire"
            ),
        ),
        allowed => {
            let shown = allowed.map_or_else(|| "unlimited".to_owned(), grouped);
            CheckResult::passed("descriptors", format!("{shown} descriptors are allowed"))
        }
    }
}

pub(super) fn backlog() -> CheckResult {
    match number("/proc/sys/net/core/somaxconn") {
        Some(allowed) if allowed < BACKLOG => CheckResult::warning(
            "backlog",
            format!(
                "the accept backlog is {} connections; if many clients reconnect at once, further ones are rejected",
                grouped(allowed)
            ),
            sysctl("net.core.somaxconn", &BACKLOG.to_string()),
        ),
        Some(allowed) => {
            CheckResult::passed("backlog", format!("the accept backlog is {} connections", grouped(allowed)))
        }
        None => CheckResult::passed("backlog", "the size of the accept backlog is unknown".to_owned()),
    }
}

/// Memory of all TCP sockets: beyond it, the kernel drops packets.
pub(super) fn buffers(config: &Config) -> CheckResult {
    let needed = config.limits.connections as u64 * page_size() as u64;
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_mem").unwrap_or_default();
    let Some(allowed) = text.split_whitespace().nth(2).and_then(|pages| pages.parse::<u64>().ok()) else {
        return CheckResult::passed("buffers", "the memory limit of sockets is unknown".to_owned());
    };
    let allowed = allowed.saturating_mul(page_size() as u64);
    let shown = format!("the memory limit of sockets is {} bytes", grouped(allowed));
    if allowed >= needed {
        return CheckResult::passed("buffers", shown);
    }
    let pages = config.limits.connections;
    let fix = sysctl("net.ipv4.tcp_mem", &format!("{} {} {pages}", pages / 2, pages / 4 * 3));
    let text = format!(
        "{shown}, but limits.connections ({}) with one packet each need {}",
        grouped(config.limits.connections as u64),
        grouped(needed)
    );
    CheckResult::warning("buffers", text, fix)
}

/// Size of the connection tracking table: a full one drops packets.
pub(super) fn connection_tracking(config: &Config) -> Option<CheckResult> {
    let allowed = number("/proc/sys/net/netfilter/nf_conntrack_max")?;
    let needed = config.limits.connections as u64 * 2;
    if allowed >= needed / 2 {
        return Some(CheckResult::passed(
            "firewall",
            format!("the firewall can track {} connections", grouped(allowed)),
        ));
    }
    let text = format!(
        "the firewall can track {} connections, but limits.connections is {}: packets of other connections are dropped",
        grouped(allowed),
        grouped(config.limits.connections as u64)
    );
    Some(CheckResult::warning("firewall", text, sysctl("net.netfilter.nf_conntrack_max", &needed.to_string())))
}

/// A command that changes a kernel setting, now and at each boot.
fn sysctl(name: &str, value: &str) -> String {
    format!("echo '{name} = {value}' >> {SYSCTL_FILE} && sysctl -p {SYSCTL_FILE}")
}

pub(super) fn memory(config: &Config) -> CheckResult {
    let available = available_bytes(|path| fs::read_to_string(path).ok());
    let budget = MemoryPlan::of(config);
    let shown =
        format!("{} bytes, of which clients may use {}", grouped(available), grouped(budget.memory_bytes as u64));
    if config.memory.limit > available {
        let text =
            format!("memory.limit is {}, but only {} bytes exist", grouped(config.memory.limit), grouped(available));
        return CheckResult::warning("memory", text, "set memory.limit = 0, which means three quarters of the memory");
    }
    CheckResult::passed("memory", shown)
}

pub(super) fn threads(config: &Config) -> CheckResult {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if config.threads > cores {
        let text = format!(
            "threads is {}, but there are only {cores} cores: threads that share a core wait for each other",
            config.threads
        );
        return CheckResult::warning("threads", text, "set threads = 0, which leaves one core for the kernel");
    }
    CheckResult::passed("threads", format!("{cores} cores"))
}

pub(super) fn clock() -> CheckResult {
    let now_s = since_epoch().as_secs();
    let fix = "timedatectl set-ntp true";
    if now_s < EARLIEST_UNIX_S {
        let text =
            "the time is before this program was written: certificates are not valid yet, and messages expire late";
        return CheckResult::failed("clock", text.to_owned(), fix);
    }
    if Path::new(SYNCHRONIZED_FILE).exists() || is_time_service_running() {
        return CheckResult::passed("clock", "a time service is running".to_owned());
    }
    let text =
        "no time service was found: the expiry of sessions, messages, tokens and certificates depends on the clock";
    CheckResult::warning("clock", text.to_owned(), fix)
}

/// Whether one of the time services runs.
fn is_time_service_running() -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let name = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("comm")).ok();
    processes.flatten().filter_map(name).any(|name| TIME_SERVICES.contains(&name.trim()))
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Formats a duration.
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
    fn too_few_descriptors_are_a_warning_with_the_required_number() {
        let mut config = Config::default();
        assert_eq!(
            getrlimit(Resource::Nofile).maximum.is_some(),
            descriptors(&config).text.contains("descriptors are allowed")
        );
        config.limits.connections = 2_000_000_000;
        let found = descriptors(&config);
        if getrlimit(Resource::Nofile).maximum.is_some() {
            assert_eq!(found.status, CheckStatus::Warning);
            assert!(found.fix.is_some_and(|fix| fix.contains("LimitNOFILE=2000000256")));
        }
    }

    /// The quoted part of the command is passed to the shell unchanged.
    #[test]
    fn advice_that_changes_the_kernel_is_a_command() {
        let mut config = Config::default();
        config.limits.connections = 2_000_000_000;
        let found = buffers(&config);
        if found.status == CheckStatus::Warning {
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
        assert_eq!(buffers(&config).status, CheckStatus::Passed);
    }

    #[test]
    fn too_many_threads_and_too_much_memory_are_warnings() {
        let mut config = Config { threads: 64, ..Config::default() };
        assert_eq!(threads(&config).status, CheckStatus::Warning);
        assert_eq!(memory(&config).status, CheckStatus::Passed);
        config.memory.limit = 1 << 60;
        assert_eq!(memory(&config).status, CheckStatus::Warning);
    }
}
