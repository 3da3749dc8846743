//! The audit log: connections, refusals, denials and operator actions as JSON lines in a file.
//!
//! Records are written with the `log` facade, with the target `audit` and key-value pairs.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use log::Record;
use log::kv::{Error, Key, Value, VisitSource};
use tautwire_reactor::Control;

use super::queue::Queue;
use super::rate::ByteRateLimiter;
use crate::json::push_string;
use crate::time::UtcTime;

/// The log target of audit records.
pub(crate) const TARGET: &str = "audit";

/// Lines waiting to be written to the file.
static QUEUE: OnceLock<Audit> = OnceLock::new();
/// Counts lost lines, once the broker runs.
static CONTROL: OnceLock<Control> = OnceLock::new();

struct Audit {
    queue: Arc<Queue>,
    next: Arc<ReplacementFile>,
    /// The rate limit for events of unauthenticated clients, which they can cause at will.
    unauthenticated: Mutex<ByteRateLimiter>,
    /// Whether a file is open.
    is_on: AtomicBool,
}

/// The file that the writer thread writes to.
struct AuditFile {
    file: File,
    next: Arc<ReplacementFile>,
}

/// A file that replaces the current one at the next write.
#[derive(Default)]
struct ReplacementFile {
    is_ready: AtomicBool,
    file: Mutex<Option<File>>,
    /// The path of the file.
    path: Mutex<PathBuf>,
}

impl ReplacementFile {
    fn put(&self, path: PathBuf, file: File) {
        *locked(&self.path) = path;
        *locked(&self.file) = Some(file);
        self.is_ready.store(true, Ordering::Release);
    }
}

/// A file opened in advance, or `None` to turn the audit log off.
#[derive(Debug)]
pub(crate) struct OpenAuditFile(Option<(PathBuf, File)>);

/// Starts the audit log, appending to this file. Before the broker switches to another user, the file is given to `owner` (UID and GID),
/// which must be able to reopen it.
///
/// # Errors
/// The file cannot be opened, or the writer thread cannot be started.
pub(crate) fn start(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    let opened = open(path)?;
    if let Some((uid, gid)) = owner.filter(|(uid, _)| opened.metadata().is_ok_and(|file| file.uid() != *uid)) {
        fchown(&opened, Some(uid), Some(gid))?;
    }
    start_writer(path.to_owned(), opened)
}

fn start_writer(path: PathBuf, file: File) -> io::Result<()> {
    let next = Arc::new(ReplacementFile { path: Mutex::new(path), ..ReplacementFile::default() });
    let queue = Queue::start(Box::new(AuditFile { file, next: next.clone() }), lost)?;
    let unauthenticated = Mutex::new(ByteRateLimiter::new(Instant::now()));
    let _ = QUEUE.set(Audit { queue, next, unauthenticated, is_on: AtomicBool::new(true) });
    start_counting();
    Ok(())
}

/// Reopens the file after log rotation. Later lines go to the new file.
pub(crate) fn reopen() {
    let Some(audit) = QUEUE.get().filter(|audit| audit.is_on.load(Ordering::Acquire)) else { return };
    let path = locked(&audit.next.path).clone();
    match open(&path) {
        Ok(file) => audit.next.put(path, file),
        Err(error) => log::error!("cannot reopen the audit log {}: {error}", path.display()),
    }
}

/// Opens the file for a later switch; `None` turns the audit log off.
///
/// # Errors
/// The file cannot be opened. Nothing is changed then.
pub(crate) fn open_next(path: Option<&Path>) -> Result<OpenAuditFile, String> {
    let opened = path.map(|path| open(path).map(|file| (path.to_owned(), file)).map_err(|error| (path, error)));
    let opened = opened.transpose().map_err(|(path, error)| format!("audit.file: {}: {error}", path.display()))?;
    Ok(OpenAuditFile(opened))
}

/// Switches to a file opened before.
pub(crate) fn apply(next: OpenAuditFile) {
    match (next.0, QUEUE.get()) {
        (Some((path, file)), Some(audit)) => {
            audit.next.put(path, file);
            audit.is_on.store(true, Ordering::Release);
        }
        (Some((path, file)), None) => {
            if let Err(error) = start_writer(path, file) {
                log::error!("the audit log is disabled: cannot start its thread: {error}");
            }
        }
        (None, Some(audit)) => audit.is_on.store(false, Ordering::Release),
        (None, None) => {}
    }
}

/// Writes a record, if a file is open.
pub(super) fn take(record: &Record<'_>) {
    let Some(audit) = QUEUE.get().filter(|audit| audit.is_on.load(Ordering::Acquire)) else { return };
    let mut lines = line(&UtcTime::now(), |out| {
        // The visitor never fails.
        let _ = record.key_values().visit(&mut Pairs(out));
    });
    let mut rate = locked(&audit.unauthenticated);
    if is_unauthenticated(record) && !rate.admit(lines.len(), Instant::now()) {
        drop(rate);
        return audit.queue.count_lost(1);
    }
    lines.insert_str(0, &suppressed(rate));
    audit.queue.push(lines);
}

/// Whether an unauthenticated client caused the event. Other events are bounded by the clients served and by what operators do.
fn is_unauthenticated(record: &Record<'_>) -> bool {
    let event = record.key_values().get(Key::from_str("event"));
    event
        .is_some_and(|event| matches!(event.to_borrowed_str(), Some("refused" | "denied" | "reauthentication_refused")))
}

/// The line with the number of suppressed lines, if there are any.
fn suppressed(mut rate: MutexGuard<'_, ByteRateLimiter>) -> String {
    let count = rate.take_suppressed();
    if count > 0 { lost(count) } else { String::new() }
}

/// Waits briefly until all lines are written.
pub(super) fn flush() {
    if let Some(audit) = QUEUE.get() {
        audit.queue.push(suppressed(locked(&audit.unauthenticated)));
        audit.queue.wait_until_written(super::FLUSH_TIMEOUT);
    }
}

/// Reports lost lines, including earlier ones, to the broker's counters.
pub(super) fn count_losses(control: &Control) {
    let _ = CONTROL.set(control.clone());
    start_counting();
}

fn start_counting() {
    if let (Some(audit), Some(control)) = (QUEUE.get(), CONTROL.get()) {
        audit.queue.count_losses(Box::new(|lines| control.count_lost_audit_lines(lines)));
    }
}

fn lost(count: u64) -> String {
    line(&UtcTime::now(), |out| out.push_str(&format!(",\"event\":\"lines_dropped\",\"lines\":{count}")))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn line(now: &UtcTime, push: impl FnOnce(&mut String)) -> String {
    let mut out = String::from("{\"time\":\"");
    now.push_rfc3339(&mut out, 3);
    out.push('"');
    push(&mut out);
    out.push_str("}\n");
    out
}

/// The key-value pairs of a record as members of a JSON object.
struct Pairs<'o>(&'o mut String);

impl<'kvs> VisitSource<'kvs> for Pairs<'_> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        self.0.push(',');
        push_string(self.0, key.as_str());
        self.0.push(':');
        match (value.to_u64(), value.to_borrowed_str()) {
            (Some(number), _) => self.0.push_str(&number.to_string()),
            (None, Some(text)) => push_string(self.0, text),
            (None, None) => push_string(self.0, &value.to_string()),
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

impl Write for AuditFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.next.is_ready.swap(false, Ordering::AcqRel)
            && let Some(file) = locked(&self.next.file).take()
        {
            self.file = file;
        }
        let written = self.file.write(bytes);
        if let Err(error) = &written {
            log::error!("cannot write the audit log {}: {error}", locked(&self.next.path).display());
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn a_line_is_an_object_with_any_names() {
        let pairs = [("event", "connect"), ("client_id", "a\"\n{\u{7}")];
        let written = line(&UtcTime::from_unix(1_700_000_000, 0), |out| {
            let record = Record::builder().key_values(&pairs).target(TARGET).args(format_args!("")).build();
            record.key_values().visit(&mut Pairs(out)).expect("the visitor never fails");
        });
        assert_eq!(
            written,
            "{\"time\":\"2023-11-14T22:13:20.000Z\",\"event\":\"connect\",\"client_id\":\"a\\\"\\n{\\u0007\"}\n"
        );
        assert!(json::is_json(written.as_bytes()));
    }
}
