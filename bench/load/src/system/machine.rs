//! The description of the machine that stands beside every result.

use std::fs;
use std::process::Command;

use serde::Serialize;

use super::memory::parse_kib_field;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    pub cpu_model: String,
    pub cores: usize,
    pub virtualised: bool,
    pub memory_mib: u64,
    pub kernel: String,
    pub operating_system: String,
    /// CPU frequency governor, or "none" where the machine does not show one (most virtual machines).
    pub governor: String,
    pub loopback_mtu_bytes: u64,
    /// Paces large sends: with bbr, a receiver that is kept from running lowers the rate long after.
    pub tcp_congestion_control: String,
    pub open_files_limit: u64,
}

impl Machine {
    pub(crate) fn describe(open_files_limit: u64) -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let field = |name: &str| -> String {
            let line = cpuinfo.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        Self {
            cpu_model: field("model name"),
            cores: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            virtualised: field("flags").split(' ').any(|flag| flag == "hypervisor"),
            memory_mib: parse_kib_field(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0) / 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            operating_system: operating_system(&read("/etc/os-release")),
            governor: or_none(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim()),
            loopback_mtu_bytes: read("/sys/class/net/lo/mtu").trim().parse().unwrap_or(0),
            tcp_congestion_control: or_none(read("/proc/sys/net/ipv4/tcp_congestion_control").trim()),
            open_files_limit,
        }
    }

    /// The folder name of results taken on this class of machine: processor, cores, memory.
    pub(crate) fn slug(&self) -> String {
        let mut slug = String::new();
        for character in self.cpu_model.chars() {
            if character.is_ascii_alphanumeric() {
                slug.push(character.to_ascii_lowercase());
            } else if !slug.ends_with('-') && !slug.is_empty() {
                slug.push('-');
            }
        }
        let memory_gib = self.memory_mib.div_ceil(1024);
        format!("{}-{}c-{memory_gib}g", slug.trim_matches('-'), self.cores)
    }
}

/// The load average of the last minute: how busy the machine was with other things.
pub(crate) fn load_average() -> f64 {
    read("/proc/loadavg").split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(-1.0)
}

/// The revision the result was taken at, with `+changes` when the tree differs from it; "none" outside a repository.
pub(crate) fn revision() -> String {
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(head) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "none".to_owned();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => head,
        _ => format!("{head}+changes"),
    }
}

fn operating_system(os_release: &str) -> String {
    let line = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    or_none(line.unwrap_or_default().trim_matches('"'))
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "none".to_owned() } else { text.to_owned() }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slug_is_a_plain_folder_name() {
        let mut machine = Machine::describe(20_000);
        machine.cpu_model = "AMD EPYC (TM) 9B14 @ 2.6GHz".to_owned();
        machine.cores = 2;
        machine.memory_mib = 24_000;
        assert_eq!(machine.slug(), "amd-epyc-tm-9b14-2-6ghz-2c-24g");
    }

    #[test]
    fn pretty_name_is_read_without_quotes() {
        assert_eq!(operating_system("ID=x\nPRETTY_NAME=\"Some OS 12\"\n"), "Some OS 12");
        assert_eq!(operating_system(""), "none");
    }
}
