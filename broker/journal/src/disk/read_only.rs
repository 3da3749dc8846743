//! A directory that is only read, even while a broker writes to it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;

use crate::disk::directory::{DirectoryLock, list_names};
use crate::disk::{Disk, DiskError, DiskFile, Operation};
use crate::format::LOCK_NAME;

/// A read-only view of a directory of the file system. Operations that would change it fail.
#[derive(Debug, Clone)]
pub struct ReadOnlyDirectory {
    path: Arc<Path>,
}

impl ReadOnlyDirectory {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// File system errors, if `path` is not a directory that can be listed.
    pub fn open(path: impl Into<PathBuf>) -> Result<ReadOnlyDirectory, DiskError> {
        let path: PathBuf = path.into();
        fs::read_dir(&path).map_err(|error| DiskError::new(Operation::List, "", &error))?;
        Ok(ReadOnlyDirectory { path: path.into() })
    }

    /// Whether a process has the directory open for writing. The check holds the lock for a moment if it is free.
    ///
    /// # Errors
    /// File system errors.
    pub fn is_in_use(&self) -> Result<bool, DiskError> {
        match self.lock(LOCK_NAME) {
            Ok(_) => Ok(false),
            Err(error) if error.kind == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }
}

fn refused(operation: Operation, name: &str) -> DiskError {
    let error = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the directory is opened read-only");
    DiskError::new(operation, name, &error)
}

impl Disk for ReadOnlyDirectory {
    type File = ReadOnlyFile;
    type Lock = Option<DirectoryLock>;

    /// Takes a shared lock, so that several readers can coexist. Returns `None` if there is no lock file.
    fn lock(&self, name: &str) -> Result<Option<DirectoryLock>, DiskError> {
        let failed = |error: io::Error| DiskError::new(Operation::Lock, name, &error);
        let file = match File::open(self.path.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        DirectoryLock::take(file, FlockOperation::NonBlockingLockShared).map(Some).map_err(failed)
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        list_names(&self.path)
    }

    fn create(&self, name: &str, _bytes: u64) -> Result<ReadOnlyFile, DiskError> {
        Err(refused(Operation::Create, name))
    }

    /// The data read may not be durable yet; that is the writer's concern.
    fn open(&self, name: &str) -> Result<ReadOnlyFile, DiskError> {
        let opened = File::open(self.path.join(name));
        let file = opened.map_err(|error| DiskError::new(Operation::Open, name, &error))?;
        Ok(ReadOnlyFile { name: name.into(), file })
    }

    fn rename(&self, from: &str, _to: &str) -> Result<(), DiskError> {
        Err(refused(Operation::Rename, from))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        Err(refused(Operation::Remove, name))
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        Ok(0)
    }
}

/// A file of a [`ReadOnlyDirectory`].
#[derive(Debug)]
pub struct ReadOnlyFile {
    name: Box<str>,
    file: File,
}

impl DiskFile for ReadOnlyFile {
    fn size_bytes(&self) -> Result<u64, DiskError> {
        let size = self.file.metadata().map(|data| data.len());
        size.map_err(|error| DiskError::new(Operation::Size, &self.name, &error))
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        let read = self.file.read_exact_at(bytes, offset);
        read.map_err(|error| DiskError::new(Operation::Read, &self.name, &error))
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> Result<(), DiskError> {
        Err(refused(Operation::Write, &self.name))
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        Ok(())
    }
}
