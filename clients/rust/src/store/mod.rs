//! A file store for QoS 1 and 2 messages that outlives the process: queued messages, unacknowledged messages, and the identifiers of
//! received ones.
//!
//! Records are collected in memory, and a thread of the store writes them: one write and one sync for all that arrived meanwhile. A packet
//! that depends on a record is sent when the record is on disk.

mod disk;
mod ledger;
mod record;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tautwire_protocol::{PacketId, ProtocolVersion};

pub(crate) use record::Record;

use crate::Error;
use crate::sync::{add_waker, lock};
use disk::{Disk, Snapshot};
use ledger::{Ledger, Place};

/// The file is compacted when so many of its bytes are dead, and more are dead than live.
const COMPACT_BYTES: u64 = 1 << 20;
/// The capacity above which an emptied record buffer is freed.
const BUFFER_KEPT_BYTES: usize = 1 << 20;
/// The maximum time that a record on which nothing depends stays only in memory.
const LAZY_SYNC: Duration = Duration::from_millis(100);

/// A session in a file, safe against a crash of the process or the machine at any time. Pass it to [`crate::Options::store`].
///
/// It holds QoS 1 and 2 messages until they are acknowledged. Messages that were not acknowledged when a process ended are sent by the
/// next one, with the same packet identifiers, so that a QoS 2 message is still delivered once. Only one client of one process may have it
/// open.
///
/// The format is that of the Go client's store.
pub struct FileStore {
    inner: Arc<Inner>,
    found: Option<RestoredSession>,
    dropped_bytes: u64,
}

/// The session of an earlier process.
pub(crate) struct RestoredSession {
    pub(crate) client_id: Option<String>,
    /// In the order of publication.
    pub(crate) outgoing: Vec<RestoredMessage>,
    pub(crate) received: Vec<PacketId>,
}

pub(crate) struct RestoredMessage {
    pub(crate) sequence: u64,
    pub(crate) packet_id: Option<PacketId>,
    /// The PUBLISH packet and its version; `None` once PUBREC has arrived.
    pub(crate) packet: Option<(ProtocolVersion, Vec<u8>)>,
}

struct Inner {
    path: PathBuf,
    /// Held during I/O, and taken before the state. `None` once it is closed.
    disk: Mutex<Option<Disk>>,
    state: Mutex<StoreState>,
    /// Signals that there is something to write.
    wake: Condvar,
}

#[derive(Debug)]
struct StoreState {
    ledger: Ledger,
    /// Records that are not written yet.
    pending: Vec<u8>,
    spare: Vec<u8>,
    /// The size of the file once they are written.
    file_bytes: u64,
    /// The number of records so far.
    recorded: u64,
    /// The last record on which a packet depends.
    urgent: u64,
    /// When pending records are written although nothing depends on them.
    lazy_due: Option<Instant>,
    /// The number of records on disk.
    synced: u64,
    waiters: Vec<Waker>,
    failure: Option<Error>,
    is_closed: bool,
}

impl FileStore {
    /// Opens the session at `path`, or creates an empty one. It also uses a file with the suffix `.lock` beside it, and at times one with
    /// `.new`.
    ///
    /// # Errors
    /// [`Error::Store`]: the file cannot be read or written, is open elsewhere, or is not a session file. It is left unchanged then.
    pub fn open(path: impl AsRef<Path>) -> Result<FileStore, Error> {
        let path = path.as_ref();
        let disk::OpenedFile { disk, ledger, file_bytes, dropped_bytes, content } =
            Disk::open(path).map_err(|error| failed(path, error))?;
        let outgoing = ledger.outgoing.iter().map(|(sequence, outgoing)| RestoredMessage {
            sequence: *sequence,
            packet_id: outgoing.packet_id,
            packet: outgoing.place.and_then(|place| packet_at(&content, place)),
        });
        let found = RestoredSession {
            client_id: ledger.client_id.clone(),
            outgoing: outgoing.collect(),
            received: ledger.received.iter().copied().collect(),
        };
        let state = StoreState {
            ledger,
            pending: Vec::new(),
            spare: Vec::new(),
            file_bytes,
            recorded: 0,
            urgent: 0,
            lazy_due: None,
            synced: 0,
            waiters: Vec::new(),
            failure: None,
            is_closed: false,
        };
        let (disk, state) = (Mutex::new(Some(disk)), Mutex::new(state));
        let inner = Arc::new(Inner { path: path.to_owned(), disk, state, wake: Condvar::new() });
        let writing = inner.clone();
        let started = std::thread::Builder::new().name("tautwire-store".into()).spawn(move || writing.run());
        started.map_err(|error| failed(path, error))?;
        Ok(FileStore { inner, found: Some(found), dropped_bytes })
    }

    /// The client identifier of the session, if it has one.
    pub fn client_id(&self) -> Option<String> {
        lock(&self.inner.state).ledger.client_id.clone()
    }

    /// The bytes of an incomplete record that opening has cut off, left by a crash.
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    pub(crate) fn take_restored(&mut self) -> Option<RestoredSession> {
        self.found.take()
    }

    /// A handle to wait for this store.
    pub(crate) fn watch(&self) -> StoreWatch {
        StoreWatch(self.inner.clone())
    }

    /// Adds a record to the next write.
    pub(crate) fn record(&self, record: &Record<'_>) {
        let mut state = lock(&self.inner.state);
        if state.is_closed || state.failure.is_some() {
            return;
        }
        let bytes = record.append_to(&mut state.pending) as u64;
        let place = Place { offset: state.file_bytes, bytes };
        let follows = state.ledger.apply(record, place);
        debug_assert!(follows, "{record:?}");
        state.file_bytes += bytes;
        state.recorded += 1;
        if record.is_urgent() {
            state.urgent = state.recorded;
            self.inner.wake.notify_one();
        } else if state.lazy_due.is_none() {
            state.lazy_due = Some(Instant::now() + LAZY_SYNC);
            self.inner.wake.notify_one();
        }
    }
}

/// Waits for a store.
#[derive(Clone)]
pub(crate) struct StoreWatch(Arc<Inner>);

impl StoreWatch {
    /// The position that must be on disk before anything more is sent.
    pub(crate) fn ticket(&self) -> Option<u64> {
        let state = lock(&self.0.state);
        (state.urgent > state.synced || state.failure.is_some()).then_some(state.urgent)
    }

    pub(crate) fn poll_synced(&self, ticket: u64, cx: &Context<'_>) -> Poll<Result<(), Error>> {
        let mut state = lock(&self.0.state);
        match &state.failure {
            Some(error) => Poll::Ready(Err(error.clone())),
            None if state.synced >= ticket || state.is_closed => Poll::Ready(Ok(())),
            None => {
                add_waker(&mut state.waiters, cx);
                Poll::Pending
            }
        }
    }

    /// Writes the pending records, and unlocks the file.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

impl Inner {
    /// Writes at once if a packet may depend on it, and otherwise a little later.
    fn run(&self) {
        while self.wait() {
            self.sync(&mut lock(&self.disk));
        }
    }

    /// Waits until there is something to write; returns `false` if the store is closed.
    fn wait(&self) -> bool {
        let mut state = lock(&self.state);
        loop {
            if state.is_closed || state.failure.is_some() {
                return false;
            }
            if state.urgent > state.synced {
                return true;
            }
            state = match state.lazy_due {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(due) => match due.checked_duration_since(Instant::now()) {
                    None => return true,
                    Some(left) => self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                },
            };
        }
    }

    fn sync(&self, disk: &mut Option<Disk>) {
        let Some(disk) = disk else { return };
        let (batch, recorded) = {
            let mut state = lock(&self.state);
            if state.failure.is_some() {
                return;
            }
            state.lazy_due = None;
            let spare = std::mem::take(&mut state.spare);
            (std::mem::replace(&mut state.pending, spare), state.recorded)
        };
        let written = if batch.is_empty() { Ok(()) } else { disk.append(&batch) };
        let (woken, snapshot) = {
            let mut state = lock(&self.state);
            match written {
                Ok(()) => state.synced = recorded,
                // It is unknown which data is lost.
                Err(error) => state.failure = Some(failed(&self.path, error)),
            }
            if batch.capacity() <= BUFFER_KEPT_BYTES {
                state.spare = batch;
                state.spare.clear();
            }
            (std::mem::take(&mut state.waiters), state.snapshot_if_due())
        };
        woken.into_iter().for_each(Waker::wake);
        if let Some((snapshot, end)) = snapshot {
            self.compact(disk, &snapshot, end);
        }
    }

    /// Compacts the file. New records may arrive meanwhile; they follow `end`.
    fn compact(&self, disk: &mut Disk, snapshot: &Snapshot, end: u64) {
        let rewritten = disk.rewrite(snapshot);
        let mut state = lock(&self.state);
        match rewritten {
            Ok(rewritten) => {
                for (sequence, outgoing) in &mut state.ledger.outgoing {
                    let Some(place) = &mut outgoing.place else { continue };
                    place.offset = match rewritten.moved.get(sequence) {
                        Some(offset) if place.offset < end => *offset,
                        _ => place.offset - end + rewritten.file_bytes,
                    };
                }
                state.file_bytes = state.file_bytes - end + rewritten.file_bytes;
            }
            Err(error) => {
                state.failure = Some(failed(&self.path, error));
                let woken = std::mem::take(&mut state.waiters);
                drop(state);
                woken.into_iter().for_each(Waker::wake);
            }
        }
    }

    fn close(&self) {
        let mut disk = lock(&self.disk);
        self.sync(&mut disk);
        *disk = None;
        let woken = {
            let mut state = lock(&self.state);
            state.is_closed = true;
            std::mem::take(&mut state.waiters)
        };
        self.wake.notify_all();
        woken.into_iter().for_each(Waker::wake);
    }
}

impl StoreState {
    fn snapshot_if_due(&self) -> Option<(Snapshot, u64)> {
        let useless_bytes = self.file_bytes.saturating_sub(self.ledger.live_bytes);
        let is_due = useless_bytes > COMPACT_BYTES && useless_bytes > self.ledger.live_bytes;
        // The ledger includes pending records. While there are any it differs from the file, and the next sync tries again.
        let is_settled = self.pending.is_empty() && self.failure.is_none();
        (is_due && is_settled).then(|| (Snapshot::of(&self.ledger), self.file_bytes))
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        self.inner.close();
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for StoreWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreWatch").field(&self.0.path).finish()
    }
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::Store { path: path.display().to_string().into(), error: Arc::new(error) }
}

fn packet_at(content: &[u8], place: Place) -> Option<(ProtocolVersion, Vec<u8>)> {
    match Record::read(content.get(place.offset as usize..)?)? {
        (Record::Queued { version, packet, .. }, _) => Some((version, packet.to_vec())),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
