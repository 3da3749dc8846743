//! The disk interface of the log.

mod blocks;
mod directory;
#[cfg(any(test, feature = "faulty-disk"))]
mod faulty;
mod read_only;

use std::fmt;
use std::io;

pub(crate) use blocks::BlockBuffer;
pub use directory::{Directory, replace_directory};
#[cfg(any(test, feature = "faulty-disk"))]
pub use faulty::{Faults, FaultyDisk, Random};
pub use read_only::ReadOnlyDirectory;

/// A directory of files. Clones are the same directory and may be used by several threads.
pub trait Disk: Clone + Send + 'static {
    /// An open file.
    type File: DiskFile;
    /// A lock on the directory, held until dropped.
    type Lock: Send + 'static;

    /// Locks the directory for this process.
    ///
    /// # Errors
    /// `WouldBlock` if another process holds the lock.
    fn lock(&self, name: &str) -> Result<Self::Lock, DiskError>;

    /// Lists the names of all files.
    ///
    /// # Errors
    /// Disk errors, for all methods of this trait.
    fn list(&self) -> Result<Vec<String>, DiskError>;

    /// Creates a file of `bytes` bytes, replacing a file of that name. All its blocks are written and durable, as is its size; its name is
    /// durable only after [`Disk::sync_directory`].
    fn create(&self, name: &str, bytes: u64) -> Result<Self::File, DiskError>;

    /// Opens a file to read and write. Everything read from it is durable: unwritten cached pages are written back first, and pages that
    /// could not be written back are dropped.
    fn open(&self, name: &str) -> Result<Self::File, DiskError>;

    /// Renames a file, replacing an existing one. Durable after [`Disk::sync_directory`].
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file. Durable after [`Disk::sync_directory`].
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Makes created, renamed and removed names durable.
    fn sync_directory(&self) -> Result<(), DiskError>;

    /// Returns the bytes that this process may still write.
    fn free_bytes(&self) -> Result<u64, DiskError>;
}

/// An open file. After a failed operation, callers must not retry it as if nothing had happened.
pub trait DiskFile: Send + 'static {
    /// Returns the size of the file in bytes.
    ///
    /// # Errors
    /// Disk errors, for all methods of this trait.
    fn size_bytes(&self) -> Result<u64, DiskError>;

    /// Fills `bytes` with the content of the file from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is shorter.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiskError>;

    /// Writes all of `bytes` at `offset`. Durable after [`DiskFile::sync_data`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Makes all writes durable.
    fn sync_data(&self) -> Result<(), DiskError>;

    /// Writes all of `bytes` at `offset` and makes them durable. Fastest if `offset` and length are multiples of a block and the memory is
    /// block-aligned.
    fn write_durably(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.write_at(offset, bytes)?;
        self.sync_data()
    }
}

/// A failed disk operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskError {
    /// The operation.
    pub operation: Operation,
    /// The name of the file; empty for the directory.
    pub file: Box<str>,
    /// The cause, for programs.
    pub kind: io::ErrorKind,
    /// The cause, as the system describes it.
    pub cause: Box<str>,
}

/// An operation of [`Disk`] or [`DiskFile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the methods of Disk and DiskFile")]
pub enum Operation {
    Lock,
    List,
    Create,
    Open,
    Rename,
    Remove,
    SyncDirectory,
    FreeBytes,
    Size,
    Read,
    Write,
    Sync,
}

impl DiskError {
    pub(crate) fn new(operation: Operation, file: &str, error: &io::Error) -> DiskError {
        DiskError { operation, file: file.into(), kind: error.kind(), cause: error.to_string().into() }
    }

    /// Returns what an operator can do about the error.
    pub fn advice(&self) -> &'static str {
        use io::ErrorKind;

        match self.kind {
            ErrorKind::PermissionDenied => {
                "make the user that runs this program the owner of the directory and of its files, or use another directory"
            }
            ErrorKind::ReadOnlyFilesystem => "mount the file system read-write, or use another directory",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "make room on the disk and try again; acknowledged data is not lost"
            }
            ErrorKind::NotADirectory | ErrorKind::NotFound => "use a directory that exists or can be created",
            _ => "check the disk and the kernel log",
        }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.operation {
            Operation::Lock => "lock",
            Operation::List => "list",
            Operation::Create => "create",
            Operation::Open => "open",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
            Operation::SyncDirectory => "sync",
            Operation::FreeBytes => "determine the free space of",
            Operation::Size => "determine the size of",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
        };
        let file = if self.file.is_empty() { "the directory" } else { &self.file };
        write!(f, "cannot {what} {file}: {}", self.cause)
    }
}

impl std::error::Error for DiskError {}
