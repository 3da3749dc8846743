//! Checks the disk of the data directory: free space, type, and sync latency.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{statfs, statvfs};
use rustix::process::geteuid;

use super::super::data::grouped::grouped;
use super::CheckResult;
use super::system::shown;
use crate::config::Config;
use crate::files;
use crate::serve::settings;

const SYNCS: usize = 50;
const BLOCK: [u8; 4096] = [0; 4096];
/// Acknowledgements wait for a sync: a higher median or 99th percentile is slow.
const MEDIAN_MAX: Duration = Duration::from_millis(10);
const P99_MAX: Duration = Duration::from_millis(100);
/// Below this, free space is low: the broker keeps a reserve, and refuses messages that must be stored.
const FREE_MIN_BYTES: u64 = 1 << 30;
/// File systems in memory and on other machines, by their magic number.
const KINDS: [(u64, &str, &str); 4] = [
    (0x0102_1994, "tmpfs", "it is in memory: a restart of the machine loses all data"),
    (0x8584_58F6, "ramfs", "it is in memory: a restart of the machine loses all data"),
    (0x6969, "NFS", "it is on another machine: locks and syncs depend on its server"),
    (0xFF53_4D42, "SMB", "it is on another machine: locks and syncs depend on its server"),
];

pub(super) fn all(config: &Config) -> Vec<CheckResult> {
    let path = match config.data.path.directory() {
        Ok(Some(path)) => path,
        Ok(None) => {
            let text = "all data is in memory: a restart loses it".to_owned();
            return vec![CheckResult::passed("disk", text)];
        }
        Err(why) => return vec![CheckResult::failed("disk", why.to_owned(), "set data.path")],
    };
    let folder = nearest_folder(&path);
    let mut findings = Vec::new();
    findings.extend(kind(&folder));
    findings.extend(free_space(config, &path, &folder));
    findings.push(match sync_times(&folder) {
        Ok(times) => check_result(&folder, times),
        Err(error) => CheckResult::failed(
            "disk",
            format!("{}: cannot be written: {error}", folder.display()),
            format!("install -d -o {} -m 700 {}", owner(config), files::quoted(&path)),
        ),
    });
    findings
}

/// The user of the broker: the configured one, or else the current one.
fn owner(config: &Config) -> String {
    match &*config.user.0 {
        "" => geteuid().as_raw().to_string(),
        user => user.split(':').next().unwrap_or(user).to_owned(),
    }
}

/// The directory, or its nearest existing ancestor.
fn nearest_folder(path: &Path) -> PathBuf {
    path.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn kind(folder: &Path) -> Option<CheckResult> {
    let kind = statfs(folder).ok()?.f_type as u64;
    let (_, name, why) = KINDS.iter().find(|(number, ..)| *number == kind)?;
    let text = format!("{} is {name}: {why}", folder.display());
    Some(CheckResult::warning("disk", text, "set data.path to a directory on a disk of this machine"))
}

fn free_space(config: &Config, path: &Path, folder: &Path) -> Option<CheckResult> {
    let system = statvfs(folder).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let limit = settings::disk_limit(config);
    let shown = format!("{} bytes free in {}", grouped(free), folder.display());
    if free < FREE_MIN_BYTES {
        let text = format!("{shown}: when the disk is full, messages that must be stored are refused");
        let fix = match path == folder {
            true => format!("tautwire data stats --data {}", files::quoted(path)),
            false => "set data.path to a directory on a larger disk".to_owned(),
        };
        return Some(CheckResult::warning("disk", text, fix));
    }
    match limit.filter(|limit| *limit > free) {
        Some(limit) => {
            let text = format!("{shown}, but disk.limit is {}", grouped(limit));
            Some(CheckResult::warning("disk", text, "set disk.limit = 0, which uses the free space"))
        }
        None => Some(CheckResult::passed("disk", shown)),
    }
}

fn check_result(folder: &Path, mut times: Vec<Duration>) -> CheckResult {
    times.sort_unstable();
    let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let text = format!("a sync in {} takes {} (median), {} (p99)", folder.display(), shown(median), shown(p99));
    if median > MEDIAN_MAX || p99 > P99_MAX {
        let fix = "acknowledgements of QoS 1 and 2 take as long: use another disk, or data.ack = \"os\" if a power failure may lose messages";
        return CheckResult::warning("disk", text, fix);
    }
    CheckResult::passed("disk", text)
}

fn sync_times(folder: &Path) -> io::Result<Vec<Duration>> {
    let path = folder.join(format!(".tautwire-doctor-{}", std::process::id()));
    let times = File::options().write(true).create_new(true).open(&path).and_then(|mut file| {
        (0..SYNCS)
            .map(|_| {
                file.write_all(&BLOCK)?;
                let started = Instant::now();
                file.sync_data().map(|()| started.elapsed())
            })
            .collect()
    });
    let removed = fs::remove_file(&path);
    times.and_then(|times| removed.map(|()| times))
}

#[cfg(test)]
mod tests {
    use super::super::CheckStatus;
    use super::*;

    #[test]
    fn slow_syncs_are_a_warning() {
        let status = |slow: usize, took_ms| {
            let mut times = vec![Duration::from_micros(100); 100];
            times[..slow].fill(Duration::from_millis(took_ms));
            check_result(Path::new("/x"), times).status
        };
        assert_eq!(
            (status(0, 0), status(1, 50), status(1, 200), status(60, 11)),
            (CheckStatus::Passed, CheckStatus::Passed, CheckStatus::Warning, CheckStatus::Warning)
        );
    }

    #[test]
    fn a_missing_directory_is_checked_at_its_parent() {
        let folder = std::env::temp_dir();
        assert_eq!(nearest_folder(&folder.join("not/there/yet")), folder);
        assert_eq!(sync_times(&folder).expect("it can be written").len(), SYNCS);
        assert!(sync_times(Path::new("/proc")).is_err());
    }
}
