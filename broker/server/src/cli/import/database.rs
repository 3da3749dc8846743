//! The file mosquitto.db, made into a data directory.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use tautwire_durable::create_log_with;
use tautwire_journal::{Directory, LogId};
use tautwire_mosquitto::{Database, Import, ImportTime, MountPoints, Report, import_database, is_database, is_sqlite};

use super::super::data::compact::epoch;
use super::super::data::directory_copy::{is_free, put};
use super::super::data::grouped::grouped;
use super::super::data::source::failed;
use super::super::{CommandExit, Exit};
use crate::files;
use crate::time::{UtcTime, since_epoch};

/// Largest file that is read. All of it is in memory meanwhile, and so is what comes of it.
const FILE_MAX_BYTES: usize = 16 << 30;
/// So many bytes tell what a file is.
const BEGINNING_BYTES: u64 = 16;

/// A file that has been read.
pub(super) struct ImportedDatabase {
    state: Import,
    now_ms: u64,
    /// Where Mosquitto has not been stopped in order, when it has saved the file.
    saved: Option<UtcTime>,
}

/// Whether it is a database rather than a configuration. A file that cannot be read is none; whoever reads it says so.
pub(super) fn is_one(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(BEGINNING_BYTES).read_to_end(&mut beginning));
    read.is_ok() && (is_database(&beginning) || is_sqlite(&beginning))
}

/// Reads a file, and says what of it can be taken over.
pub(super) fn read(path: &Path, mount_points: &MountPoints) -> Result<ImportedDatabase, String> {
    let shown = path.display();
    let bytes = files::bytes(path, FILE_MAX_BYTES).map_err(|why| format!("{shown} {why}"))?;
    let database = Database::read(&bytes).map_err(|error| format!("{shown} {error} [{}]", error.code()))?;
    let now = since_epoch();
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let written = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or(now);
    let moment = ImportTime { now_ms: ms(now), written_at_ms: ms(written.min(now)), run: tautwire_router::random() };
    let saved = (!database.is_final).then(|| UtcTime::from_unix(written.as_secs(), 0));
    Ok(ImportedDatabase { state: import_database(&database, moment, mount_points), now_ms: moment.now_ms, saved })
}

/// That a data directory can be made at a path.
pub(super) fn expect_free(folder: &Path) -> Result<(), CommandExit> {
    if is_free(folder)? {
        return Ok(());
    }
    Err(CommandExit::failure(
        Exit::Usage,
        format!("{}: is not empty; name a new directory with --data", folder.display()),
    ))
}

/// Writes a data directory, as a whole or not at all.
pub(super) fn write(taken: &ImportedDatabase, folder: &Path) -> Result<(), CommandExit> {
    let ((), _) = put(folder, |made| {
        let disk = Directory::open(made).map_err(|error| failed(made, &error.into()))?;
        let id = LogId(tautwire_router::random());
        create_log_with(&disk, &taken.state.state, id, [epoch(), epoch()], taken.now_ms)
            .map_err(|error| failed(made, &error))
    })?;
    Ok(())
}

/// What has been taken over, in a line.
pub(super) fn summary(taken: &ImportedDatabase) -> String {
    let Report { sessions, subscriptions, queued, in_flight, unreleased, retained, .. } = taken.state.report;
    let counted = [
        (sessions, "session", ""),
        (subscriptions, "subscription", ""),
        (queued, "message", " that waited"),
        (in_flight, "message", " sent and not acknowledged"),
        (unreleased, "QoS 2 message", " received and not released"),
        (retained, "retained message", ""),
    ];
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    counted.map(|(count, what, how)| format!("  {:>12} {what}{}{how}\n", grouped(count), plural(count))).concat()
}

/// What stays behind, one reason in a line.
pub(super) fn notes(taken: &ImportedDatabase, path: &Path) -> Vec<String> {
    let shown = path.display();
    let saved = taken.saved.as_ref().map(|at| {
        format!(
            "{shown}: Mosquitto was not stopped in order. What came after {at}Z, when it saved the file, is not there"
        )
    });
    let left = taken.state.report.skipped().map(|(reason, count, examples)| {
        let mut names: Vec<String> = examples.iter().map(|name| format!("{name:?}")).collect();
        if count > names.len() as u64 && !names.is_empty() {
            names.push("…".to_owned());
        }
        let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        format!("{shown}: {} {reason}{names}", grouped(count))
    });
    saved.into_iter().chain(left).collect()
}

fn ms(since_epoch: Duration) -> u64 {
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
