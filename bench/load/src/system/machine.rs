//! The description of the machine in every result.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

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
    /// The CPU frequency governor, or "none" if the machine does not show one (most virtual machines).
    pub governor: String,
    pub loopback_mtu_bytes: u64,
    /// The congestion control, which paces large sends: with bbr, a receiver that was not scheduled lowers the rate for a long time.
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
            cores: cores(),
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

    /// The folder name for results of this class of machine: processor, cores, memory.
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

/// The load average of the last minute: how busy the machine was with other processes.
pub(crate) fn load_average() -> f64 {
    read("/proc/loadavg").split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(-1.0)
}

/// The revision of the result, with `+changes` if the tree differs from it; "none" outside a repository.
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

/// CPUs that are online.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| count_processors(&read("/proc/cpuinfo")).max(1))
}

fn count_processors(cpuinfo: &str) -> usize {
    cpuinfo.lines().filter(|line| line.starts_with("processor")).count()
}

/// The current time, as `2026-01-31T12:34:56Z`.
pub(crate) fn date() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    iso_date(since_epoch)
}

/// Calendar arithmetic from 1 March of the year 0, so that a leap day is the last of its year.
fn iso_date(seconds_since_epoch: u64) -> String {
    const DAYS_TO_EPOCH: u64 = 719_468;
    let (days, seconds) = (seconds_since_epoch / 86_400 + DAYS_TO_EPOCH, seconds_since_epoch % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
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
    fn dates_are_correct_over_leap_years() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_772_323_200, "2026-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso_date(seconds), date);
        }
    }

    #[test]
    fn pretty_name_is_read_without_quotes() {
        assert_eq!(operating_system("ID=x\nPRETTY_NAME=\"Some OS 12\"\n"), "Some OS 12");
        assert_eq!(operating_system(""), "none");
    }
}
