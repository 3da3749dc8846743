//! A simulated disk in memory that keeps synced data; a seed decides about the rest.

mod file;
mod random;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskError, DiskFile, Operation};
use file::FileContent;
pub use random::Random;

/// The faults before the next crash. Operations are counted from the last crash, or from the creation of the disk.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The power fails at the operation with this number; it and all later ones fail.
    pub power_lost_at: Option<u64>,
    /// The operation with this number fails once if it writes, syncs, creates, renames or removes.
    pub fails_at: Option<u64>,
    /// The capacity of the disk in bytes. Exceeding it gives `StorageFull`.
    pub capacity_bytes: Option<u64>,
    /// Reading these bytes of this file fails.
    pub unreadable: Option<(String, std::ops::Range<u64>)>,
}

/// A disk for tests. The same seed and the same calls give the same disk.
///
/// Clones share the disk. A write is durable when the file is synced, a name when the directory is synced. After [`FaultyDisk::crash`],
/// each unsynced sector of 512 bytes is old, new, torn in the middle, or has a flipped bit; and each unsynced creation, rename or removal
/// of a name happened or did not. After a failed sync the disk reports success and has lost the data.
#[derive(Debug, Clone)]
pub struct FaultyDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: Random,
    faults: Faults,
    operations: u64,
    syncs: u64,
    files: BTreeMap<u64, FileContent>,
    next_file: u64,
    /// The names that programs see.
    names: BTreeMap<String, u64>,
    /// The names that survive a crash.
    durable_names: BTreeMap<String, u64>,
    /// Changes of names since the last directory sync.
    renamed: Vec<DirectoryChange>,
    locked: bool,
}

#[derive(Debug)]
enum DirectoryChange {
    Set(String, u64),
    Moved(String, String, u64),
    Removed(String),
}

impl FaultyDisk {
    /// Creates an empty disk.
    pub fn new(seed: u64) -> FaultyDisk {
        FaultyDisk(Arc::new(Mutex::new(State {
            random: Random::new(seed),
            faults: Faults::default(),
            operations: 0,
            syncs: 0,
            files: BTreeMap::new(),
            next_file: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            renamed: Vec::new(),
            locked: false,
        })))
    }

    /// Replaces the faults.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Returns the number of operations since the last crash.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Returns the number of file syncs so far.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Simulates a power failure and restart. Open files become invalid.
    pub fn crash(&self) {
        let mut state = self.state();
        let State { random, files, names, durable_names, renamed, .. } = &mut *state;
        for change in renamed.drain(..) {
            if random.one_in(2) {
                change.apply(durable_names);
            }
        }
        *names = durable_names.clone();
        files.retain(|id, _| names.values().any(|named| named == id));
        for content in files.values_mut() {
            content.crash(random);
        }
        state.restart();
    }

    /// Simulates the end of the process while the machine keeps running: all written data survives, synced or not.
    pub fn end_process(&self) {
        self.state().restart();
    }

    /// Flips one bit of the durable data, like bit rot.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) {
        let mut state = self.state();
        if let Some(id) = state.names.get(name).copied()
            && let Some(content) = state.files.get_mut(&id)
        {
            content.flip_bit(offset, bit);
        }
    }

    /// Overwrites a range of a file with zeros, or truncates the file at its beginning, like a failing disk or an operator's mistake.
    pub fn clear(&self, name: &str, bytes: std::ops::Range<u64>, cuts: bool) {
        let mut state = self.state();
        if let Some(id) = state.names.get(name).copied()
            && let Some(content) = state.files.get_mut(&id)
        {
            content.clear(bytes, cuts);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(
        &self,
        operation: Operation,
        file: &str,
        change: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        let mut state = self.state();
        state.operations += 1;
        let is_this = |at: Option<u64>| at == Some(state.operations);
        let result = if state.faults.power_lost_at.is_some_and(|at| state.operations >= at) {
            Err(io::Error::new(io::ErrorKind::BrokenPipe, "the power has failed"))
        } else if is_this(state.faults.fails_at) && operation != Operation::Sync {
            Err(io::Error::other("simulated disk failure"))
        } else {
            change(&mut state)
        };
        result.map_err(|error| DiskError::new(operation, file, &error))
    }
}

impl State {
    fn restart(&mut self) {
        self.operations = 0;
        self.faults = Faults::default();
        self.locked = false;
    }

    fn id(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn content(&mut self, id: u64) -> io::Result<&mut FileContent> {
        self.files.get_mut(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change_names(&mut self, change: DirectoryChange) {
        change.apply(&mut self.names);
        self.renamed.push(change);
    }
}

impl DirectoryChange {
    /// Does nothing if an earlier change that it depends on was lost.
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            DirectoryChange::Set(name, id) => {
                names.insert(name.clone(), *id);
            }
            DirectoryChange::Moved(from, to, id) => {
                names.remove(from);
                names.insert(to.clone(), *id);
            }
            DirectoryChange::Removed(name) => {
                names.remove(name);
            }
        }
    }
}

impl Disk for FaultyDisk {
    type File = FaultyDiskFile;
    type Lock = FaultyDiskLock;

    fn lock(&self, name: &str) -> Result<FaultyDiskLock, DiskError> {
        self.change(Operation::Lock, name, |state| {
            if std::mem::replace(&mut state.locked, true) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        })?;
        Ok(FaultyDiskLock(self.clone()))
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.change(Operation::List, "", |state| Ok(state.names.keys().cloned().collect()))
    }

    fn create(&self, name: &str, bytes: u64) -> Result<FaultyDiskFile, DiskError> {
        let id = self.change(Operation::Create, name, |state| {
            let used: u64 = state.files.values().map(FileContent::len).sum();
            if state.faults.capacity_bytes.is_some_and(|capacity| used + bytes > capacity) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let id = state.next_file;
            state.next_file += 1;
            state.files.insert(id, FileContent::zeros(bytes));
            state.change_names(DirectoryChange::Set(name.to_owned(), id));
            Ok(id)
        })?;
        Ok(FaultyDiskFile { disk: self.clone(), name: name.into(), id })
    }

    fn open(&self, name: &str) -> Result<FaultyDiskFile, DiskError> {
        let id = self.change(Operation::Open, name, |state| {
            let id = state.id(name)?;
            let content = state.content(id)?;
            content.sync();
            content.drop_unsynced();
            Ok(id)
        })?;
        Ok(FaultyDiskFile { disk: self.clone(), name: name.into(), id })
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.change(Operation::Rename, from, |state| {
            let id = state.id(from)?;
            state.change_names(DirectoryChange::Moved(from.to_owned(), to.to_owned(), id));
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.change(Operation::Remove, name, |state| {
            state.id(name)?;
            state.change_names(DirectoryChange::Removed(name.to_owned()));
            Ok(())
        })
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        self.change(Operation::SyncDirectory, "", |state| {
            state.durable_names = state.names.clone();
            state.renamed.clear();
            Ok(())
        })
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.change(Operation::FreeBytes, "", |state| {
            let used: u64 = state.files.values().map(FileContent::len).sum();
            Ok(state.faults.capacity_bytes.map_or(u64::MAX, |capacity| capacity.saturating_sub(used)))
        })
    }
}

/// The lock of a [`FaultyDisk`], held until dropped.
#[derive(Debug)]
pub struct FaultyDiskLock(FaultyDisk);

impl Drop for FaultyDiskLock {
    fn drop(&mut self) {
        self.0.state().locked = false;
    }
}

/// A file of a [`FaultyDisk`].
#[derive(Debug)]
pub struct FaultyDiskFile {
    disk: FaultyDisk,
    name: Box<str>,
    id: u64,
}

impl DiskFile for FaultyDiskFile {
    fn size_bytes(&self) -> Result<u64, DiskError> {
        self.disk.change(Operation::Size, &self.name, |state| Ok(state.content(self.id)?.len()))
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        self.disk.change(Operation::Read, &self.name, |state| {
            if let Some((name, range)) = &state.faults.unreadable
                && **name == *self.name
                && offset < range.end
                && range.start < offset + bytes.len() as u64
            {
                return Err(io::Error::other("simulated read failure"));
            }
            state.content(self.id)?.read(offset, bytes)
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let reached = {
            let mut state = self.disk.state();
            let next = Some(state.operations + 1);
            let State { faults, random, .. } = &mut *state;
            // A failed write may be partial; a write during a power failure is complete in memory and subject to the crash.
            let torn = (faults.fails_at == next).then(|| random.below(bytes.len() as u64 + 1) as usize);
            torn.or((faults.power_lost_at == next).then_some(bytes.len()))
        };
        if let Some(len) = reached {
            let _ = self.disk.state().content(self.id).and_then(|content| content.write(offset, &bytes[..len]));
        }
        self.disk.change(Operation::Write, &self.name, |state| state.content(self.id)?.write(offset, bytes))
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.disk.change(Operation::Sync, &self.name, |state| {
            state.syncs += 1;
            if state.faults.fails_at == Some(state.operations) {
                state.content(self.id)?.forget();
                return Err(io::Error::other("simulated disk failure"));
            }
            state.content(self.id)?.sync();
            Ok(())
        })
    }
}
