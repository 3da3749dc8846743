//! The session file: opening, reading, appending, compacting.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use tautwire_protocol::ProtocolVersion;

use super::ledger::{Ledger, Place};
use super::record::{HEADER_BYTES, Record, header};

/// An open and locked session file.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    file: File,
    written_bytes: u64,
    _lock: Lock,
}

/// The lock on a session file; it is released on drop.
#[derive(Debug)]
struct Lock(File);

/// The result of opening a file.
pub(super) struct OpenedFile {
    pub(super) disk: Disk,
    pub(super) ledger: Ledger,
    pub(super) file_bytes: u64,
    /// The bytes of an incomplete record at the end, left by a crash.
    pub(super) dropped_bytes: u64,
    /// The whole file, from which packets are read.
    pub(super) content: Vec<u8>,
}

/// The part of a ledger that goes into a new file.
pub(super) struct Snapshot {
    /// Records without packets.
    state: Vec<u8>,
    kept: Vec<(u64, Place)>,
}

/// A compacted file.
pub(super) struct Rewritten {
    pub(super) moved: BTreeMap<u64, u64>,
    pub(super) file_bytes: u64,
}

impl Lock {
    /// # Errors
    /// `ResourceBusy`: the session file is open elsewhere.
    fn of(path: &Path) -> io::Result<Lock> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(beside(path, ".lock"))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::new(io::ErrorKind::ResourceBusy, "it is open elsewhere"),
            TryLockError::Error(error) => error,
        })?;
        Ok(Lock(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child process that is being started inherits the descriptor until it executes its program, so closing ours would leave
        // the file locked.
        let _ = self.0.unlock();
    }
}

impl Disk {
    pub(super) fn open(path: &Path) -> io::Result<OpenedFile> {
        let lock = Lock::of(path)?;
        // A crash during compaction leaves this file.
        match fs::remove_file(beside(path, ".new")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        let mut disk = Disk { path: path.to_owned(), file, written_bytes: HEADER_BYTES as u64, _lock: lock };
        if content.len() < HEADER_BYTES {
            let dropped_bytes = content.len() as u64;
            disk.begin()?;
            let (ledger, file_bytes) = (Ledger::default(), HEADER_BYTES as u64);
            return Ok(OpenedFile { disk, ledger, file_bytes, dropped_bytes, content: header().to_vec() });
        }
        if content[..HEADER_BYTES] != header() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a session file of version 1"));
        }
        let mut ledger = Ledger::default();
        let mut at = HEADER_BYTES;
        while let Some((record, bytes)) = Record::read(&content[at..])
            && ledger.apply(&record, Place { offset: at as u64, bytes: bytes as u64 })
        {
            at += bytes;
        }
        let dropped_bytes = (content.len() - at) as u64;
        if dropped_bytes > 0 {
            disk.file.set_len(at as u64)?;
        }
        disk.file.seek(SeekFrom::Start(at as u64))?;
        disk.written_bytes = at as u64;
        Ok(OpenedFile { disk, ledger, file_bytes: at as u64, dropped_bytes, content })
    }

    fn begin(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header())?;
        self.file.sync_all()?;
        sync_folder(&self.path)
    }

    /// Appends records, and returns when they are on disk.
    pub(super) fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.written_bytes))?;
        self.file.write_all(records)?;
        self.file.sync_data()?;
        self.written_bytes += records.len() as u64;
        Ok(())
    }

    /// Replaces the file with a new one that has only the live records.
    pub(super) fn rewrite(&mut self, snapshot: &Snapshot) -> io::Result<Rewritten> {
        let path = beside(&self.path, ".new");
        let mut file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path)?;
        let mut out = header().to_vec();
        let mut moved = BTreeMap::new();
        let mut written_bytes = 0;
        for (sequence, place) in &snapshot.kept {
            moved.insert(*sequence, written_bytes + out.len() as u64);
            self.read_at(*place, &mut out)?;
            if out.len() >= 1 << 20 {
                file.write_all(&out)?;
                written_bytes += out.len() as u64;
                out.clear();
            }
        }
        out.extend_from_slice(&snapshot.state);
        file.write_all(&out)?;
        written_bytes += out.len() as u64;
        file.sync_all()?;
        fs::rename(&path, &self.path)?;
        self.file = file;
        self.written_bytes = written_bytes;
        sync_folder(&self.path)?;
        Ok(Rewritten { moved, file_bytes: written_bytes })
    }

    /// Appends the record at `place` to `out`.
    fn read_at(&mut self, place: Place, out: &mut Vec<u8>) -> io::Result<()> {
        let start = out.len();
        out.resize(start + place.bytes as usize, 0);
        self.file.seek(SeekFrom::Start(place.offset))?;
        self.file.read_exact(&mut out[start..])?;
        match Record::read(&out[start..]) {
            Some(_) => Ok(()),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the file was changed by another program while it was open",
            )),
        }
    }
}

impl Snapshot {
    pub(super) fn of(ledger: &Ledger) -> Snapshot {
        let mut state = Vec::new();
        if let Some(client_id) = &ledger.client_id {
            Record::Began { client_id }.append_to(&mut state);
        }
        for packet_id in &ledger.received {
            Record::Received { packet_id: *packet_id }.append_to(&mut state);
        }
        let mut kept = Vec::new();
        let mut released = Vec::new();
        for (sequence, outgoing) in &ledger.outgoing {
            let sequence = *sequence;
            match outgoing.place {
                Some(place) => kept.push((sequence, place)),
                None => {
                    released.push((outgoing.release, sequence));
                    // The packet is no longer needed; a record of another kind cannot introduce the message.
                    Record::Queued { sequence, version: ProtocolVersion::V5, packet: &[] }.append_to(&mut state);
                }
            }
            if let Some(packet_id) = outgoing.packet_id {
                Record::Sent { sequence, packet_id }.append_to(&mut state);
            }
        }
        released.sort_unstable();
        for (_, sequence) in released {
            Record::Released { sequence }.append_to(&mut state);
        }
        Snapshot { state, kept }
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// A new file survives a crash only after its folder is synced.
fn sync_folder(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starting_process_does_not_keep_the_file_locked() {
        let path = std::env::temp_dir().join(format!("tautwire-lock-{}", std::process::id()));
        let lock = Lock::of(&path).expect("nobody has it");
        assert_eq!(Lock::of(&path).expect_err("it is ours").kind(), io::ErrorKind::ResourceBusy);
        let inherited = lock.0.try_clone().expect("a second descriptor");
        drop(lock);
        drop(Lock::of(&path).expect("it is free again"));
        drop(inherited);
        fs::remove_file(beside(&path, ".lock")).expect("it is there");
    }
}
