//! Converts mosquitto.db to a data directory.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use tautwire_durable::create_log_with;
use tautwire_journal::{Directory, LogId};
use tautwire_mosquitto::{
    BridgeSessions, Database, Import, ImportTime, MountPoints, Report, import_database, is_database, is_sqlite,
};

use super::super::data::compact::epoch;
use super::super::data::directory_copy::{is_free, replace_with};
use super::super::data::grouped::grouped;
use super::super::data::source::failed;
use super::super::{CommandExit, Exit};
use crate::files;
use crate::time::{UtcTime, since_epoch};

/// Largest file that is read. The file and the imported state are in memory at the same time.
const FILE_MAX_BYTES: usize = 16 << 30;
/// Bytes needed to detect the type of a file.
const HEADER_BYTES: u64 = 16;

/// An imported mosquitto.db.
pub(super) struct ImportedDatabase {
    state: Import,
    now_ms: u64,
    /// When Mosquitto last saved the file, if it was not shut down cleanly.
    saved: Option<UtcTime>,
}

/// Whether it is a database rather than a configuration. Returns false for an unreadable file; reading it reports the error.
pub(super) fn is_one(path: &Path) -> bool {
    let mut header = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(HEADER_BYTES).read_to_end(&mut header));
    read.is_ok() && (is_database(&header) || is_sqlite(&header))
}

/// Reads a file and converts its state.
pub(super) fn read(
    path: &Path,
    mount_points: &MountPoints,
    bridges: &BridgeSessions,
) -> Result<ImportedDatabase, String> {
    let shown = path.display();
    let bytes = files::bytes(path, FILE_MAX_BYTES).map_err(|why| format!("{shown} {why}"))?;
    let database = Database::read(&bytes).map_err(|error| format!("{shown} {error} [{}]", error.code()))?;
    let now = since_epoch();
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let written = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or(now);
    let moment = ImportTime { now_ms: ms(now), written_at_ms: ms(written.min(now)), run: tautwire_router::random() };
    let saved = (!database.is_final).then(|| UtcTime::from_unix(written.as_secs(), 0));
    Ok(ImportedDatabase {
        state: import_database(&database, moment, mount_points, bridges),
        now_ms: moment.now_ms,
        saved,
    })
}

/// Fails unless a data directory can be created at the path.
pub(super) fn expect_free(folder: &Path) -> Result<(), CommandExit> {
    if is_free(folder)? {
        return Ok(());
    }
    Err(CommandExit::failure(Exit::Usage, format!("{}: not empty; use --data with a new directory", folder.display())))
}

/// Writes a data directory atomically.
pub(super) fn write(imported: &ImportedDatabase, folder: &Path) -> Result<(), CommandExit> {
    let ((), _) = replace_with(folder, |staged| {
        let disk = Directory::open(staged).map_err(|error| failed(staged, &error.into()))?;
        let id = LogId(tautwire_router::random());
        create_log_with(&disk, &imported.state.state, id, [epoch(), epoch()], imported.now_ms)
            .map_err(|error| failed(staged, &error))
    })?;
    Ok(())
}

/// Describes the imported state, one line for each kind.
pub(super) fn summary(imported: &ImportedDatabase) -> String {
    let Report { sessions, subscriptions, queued, in_flight, unreleased, retained, .. } = imported.state.report;
    let counted = [
        (sessions, "session", ""),
        (subscriptions, "subscription", ""),
        (queued, "queued message", ""),
        (in_flight, "message", " in flight"),
        (unreleased, "QoS 2 message", " received and not released"),
        (retained, "retained message", ""),
    ];
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    counted.map(|(count, noun, detail)| format!("  {:>12} {noun}{}{detail}\n", grouped(count), plural(count))).concat()
}

/// Describes what was not imported, one reason per line.
pub(super) fn notes(imported: &ImportedDatabase, path: &Path) -> Vec<String> {
    let shown = path.display();
    let saved = imported.saved.as_ref().map(|at| {
        format!(
            "{shown}: Mosquitto was not shut down cleanly. Changes after {at}Z, when it saved the file, are missing"
        )
    });
    let skipped = imported.state.report.skipped().map(|(reason, count, examples)| {
        let mut names: Vec<String> = examples.iter().map(|name| format!("{name:?}")).collect();
        if count > names.len() as u64 && !names.is_empty() {
            names.push("…".to_owned());
        }
        let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        format!("{shown}: {} {reason}{names}", grouped(count))
    });
    saved.into_iter().chain(skipped).collect()
}

fn ms(since_epoch: Duration) -> u64 {
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
