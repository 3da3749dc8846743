//! The audit log: who came, who was refused, who was denied what, and what operators have done, as lines of JSON in a file.
//!
//! Whoever has something to tell says it by the `log` facade, with the target `audit` and pairs of names and values.

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

/// The target of records that belong here.
pub(crate) const TARGET: &str = "audit";

/// The lines of the process on their way to the file.
static QUEUE: OnceLock<Audit> = OnceLock::new();
/// By which lines are counted that are lost, as soon as there is a broker.
static CONTROL: OnceLock<Control> = OnceLock::new();

struct Audit {
    queue: Arc<Queue>,
    next: Arc<ReplacementFile>,
    /// Of lines about those who are turned away, which come as often as strangers want.
    unauthenticated: Mutex<ByteRateLimiter>,
    /// There is a file.
    is_on: AtomicBool,
}

/// Where the lines that are written next go.
struct AuditFile {
    file: File,
    next: Arc<ReplacementFile>,
}

/// A file that takes the place of the one that is written to.
#[derive(Default)]
struct ReplacementFile {
    is_there: AtomicBool,
    file: Mutex<Option<File>>,
    /// Where the file is.
    path: Mutex<PathBuf>,
}

impl ReplacementFile {
    fn put(&self, path: PathBuf, file: File) {
        *locked(&self.path) = path;
        *locked(&self.file) = Some(file);
        self.is_there.store(true, Ordering::Release);
    }
}

/// A file that is open, to be written to from now on; or that there is to be none.
#[derive(Debug)]
pub(crate) struct OpenAuditFile(Option<(PathBuf, File)>);

/// Writes what belongs to the audit log to this file from now on, behind what is there. The file is made over to `owner`, by numbers of user
/// and group, where the broker is about to become somebody else: it is opened anew as that user.
///
/// # Errors
/// The file cannot be opened, or the thread that writes cannot be started.
pub(crate) fn start(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    let opened = open(path)?;
    if let Some((uid, gid)) = owner.filter(|(uid, _)| opened.metadata().is_ok_and(|file| file.uid() != *uid)) {
        fchown(&opened, Some(uid), Some(gid))?;
    }
    begin(path.to_owned(), opened)
}

fn begin(path: PathBuf, file: File) -> io::Result<()> {
    let next = Arc::new(ReplacementFile { path: Mutex::new(path), ..ReplacementFile::default() });
    let queue = Queue::start(Box::new(AuditFile { file, next: next.clone() }), lost)?;
    let unauthenticated = Mutex::new(ByteRateLimiter::new(Instant::now()));
    let _ = QUEUE.set(Audit { queue, next, unauthenticated, is_on: AtomicBool::new(true) });
    start_counting();
    Ok(())
}

/// Opens the file anew: it may have been moved away. What is written next is in the new one.
pub(crate) fn reopen() {
    let Some(audit) = QUEUE.get().filter(|audit| audit.is_on.load(Ordering::Acquire)) else { return };
    let path = locked(&audit.next.path).clone();
    match open(&path) {
        Ok(file) => audit.next.put(path, file),
        Err(error) => log::error!("the audit log {} cannot be opened anew: {error}", path.display()),
    }
}

/// Opens the file that is to be written to next; `None`: there is to be none.
///
/// # Errors
/// It cannot be opened. Nothing has changed then.
pub(crate) fn open_next(path: Option<&Path>) -> Result<OpenAuditFile, String> {
    let opened = path.map(|path| open(path).map(|file| (path.to_owned(), file)).map_err(|error| (path, error)));
    let opened = opened.transpose().map_err(|(path, error)| format!("audit.file: {}: {error}", path.display()))?;
    Ok(OpenAuditFile(opened))
}

/// From now on this file is written to.
pub(crate) fn adopt(next: OpenAuditFile) {
    match (next.0, QUEUE.get()) {
        (Some((path, file)), Some(audit)) => {
            audit.next.put(path, file);
            audit.is_on.store(true, Ordering::Release);
        }
        (Some((path, file)), None) => {
            if let Err(error) = begin(path, file) {
                log::error!("there is no audit log: its thread cannot be started: {error}");
            }
        }
        (None, Some(audit)) => audit.is_on.store(false, Ordering::Release),
        (None, None) => {}
    }
}

/// Takes a record, if there is a file.
pub(super) fn take(record: &Record<'_>) {
    let Some(audit) = QUEUE.get().filter(|audit| audit.is_on.load(Ordering::Acquire)) else { return };
    let mut lines = line(&UtcTime::now(), |out| {
        // The visitor fails never.
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

/// Whether it says that somebody was turned away. The others come no more often than clients are served, or operators act.
fn is_unauthenticated(record: &Record<'_>) -> bool {
    let event = record.key_values().get(Key::from_str("event"));
    event
        .is_some_and(|event| matches!(event.to_borrowed_str(), Some("refused" | "denied" | "reauthentication_refused")))
}

/// The line that says how many were held back, if any were.
fn suppressed(mut rate: MutexGuard<'_, ByteRateLimiter>) -> String {
    let count = rate.take_suppressed();
    if count > 0 { lost(count) } else { String::new() }
}

/// Waits a moment for all lines to be written.
pub(super) fn flush() {
    if let Some(audit) = QUEUE.get() {
        audit.queue.push(suppressed(locked(&audit.unauthenticated)));
        audit.queue.wait_until_written(super::FLUSH_TIMEOUT);
    }
}

/// Counts the lines that are lost, and those that have been lost already, with the broker's counters.
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
    line(&UtcTime::now(), |out| out.push_str(&format!(",\"event\":\"lost\",\"lines\":{count}")))
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

/// Pairs of a record, as members of an object.
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
        if self.next.is_there.swap(false, Ordering::AcqRel)
            && let Some(file) = locked(&self.next.file).take()
        {
            self.file = file;
        }
        let written = self.file.write(bytes);
        if let Err(error) = &written {
            log::error!("the audit log {} cannot be written: {error}", locked(&self.next.path).display());
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
    fn a_line_is_an_object_whatever_strangers_are_called() {
        let pairs = [("event", "connect"), ("client_id", "a\"\n{\u{7}")];
        let written = line(&UtcTime::from_unix(1_700_000_000, 0), |out| {
            let record = Record::builder().key_values(&pairs).target(TARGET).args(format_args!("")).build();
            record.key_values().visit(&mut Pairs(out)).expect("it is taken");
        });
        assert_eq!(
            written,
            "{\"time\":\"2023-11-14T22:13:20.000Z\",\"event\":\"connect\",\"client_id\":\"a\\\"\\n{\\u0007\"}\n"
        );
        assert!(json::is_json(written.as_bytes()));
    }
}
