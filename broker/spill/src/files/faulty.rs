//! Files in memory that fail on demand, for tests.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Files, ReadWrite};

/// The faults that are active.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Creating a file fails.
    pub creating: bool,
    /// A write stores half of its bytes and then fails.
    pub writing: bool,
    /// Reading fails.
    pub reading: bool,
    /// Each read has one wrong bit.
    pub flipping: bool,
}

/// Files in memory. Clones share the same files.
#[derive(Debug, Clone, Default)]
pub struct FaultyFiles(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<u32, Vec<u8>>,
    faults: Faults,
}

/// A file of [`FaultyFiles`].
#[derive(Debug)]
pub struct FaultyFile {
    files: FaultyFiles,
    number: u32,
}

impl FaultyFiles {
    /// Replaces the active faults.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Returns the number of files and their total size in bytes.
    pub fn count_and_bytes(&self) -> (usize, u64) {
        let state = self.state();
        (state.files.len(), state.files.values().map(|bytes| bytes.len() as u64).sum())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fault(what: &str) -> io::Error {
    io::Error::other(what)
}

impl Files for FaultyFiles {
    type File = FaultyFile;

    fn create(&self, number: u32) -> io::Result<FaultyFile> {
        let mut state = self.state();
        if state.faults.creating {
            return Err(fault("the file cannot be created"));
        }
        state.files.insert(number, Vec::new());
        Ok(FaultyFile { files: self.clone(), number })
    }

    fn remove(&self, number: u32) -> io::Result<()> {
        self.state().files.remove(&number).map(|_| ()).ok_or_else(|| fault("the file does not exist"))
    }
}

impl ReadWrite for FaultyFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.files.state();
        if state.faults.reading {
            return Err(fault("the file cannot be read"));
        }
        let offset = offset as usize;
        let found = state.files.get(&self.number).and_then(|file| file.get(offset..offset + bytes.len()));
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        if state.faults.flipping
            && let Some(last) = bytes.last_mut()
        {
            *last ^= 0x10;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.files.state();
        let is_failing = state.faults.writing;
        let file = state.files.get_mut(&self.number).ok_or_else(|| fault("the file was removed"))?;
        let offset = offset as usize;
        let arriving = if is_failing { &bytes[..bytes.len() / 2] } else { bytes };
        file.resize(file.len().max(offset + arriving.len()), 0);
        file[offset..offset + arriving.len()].copy_from_slice(arriving);
        if is_failing { Err(fault("the disk is full")) } else { Ok(()) }
    }
}
