//! What the log needs of a disk.

mod blocks;
mod directory;
#[cfg(any(test, feature = "lying-disk"))]
mod faulty;
mod read_only;

use std::fmt;
use std::io;

pub(crate) use blocks::BlockBuffer;
pub use directory::{Directory, replace_directory};
#[cfg(any(test, feature = "lying-disk"))]
pub use faulty::{Faults, FaultyDisk, Random};
pub use read_only::ReadOnlyDirectory;

/// One directory of files. Clones are the same directory, and may be used by several threads.
pub trait Disk: Clone + Send + 'static {
    /// An open file.
    type File: DiskFile;
    /// Holds the directory for this process until it is dropped.
    type Lock: Send + 'static;

    /// Takes the directory for this process.
    ///
    /// # Errors
    /// `WouldBlock` where another process has it.
    fn lock(&self, name: &str) -> Result<Self::Lock, DiskError>;

    /// The names of all files.
    ///
    /// # Errors
    /// Those of the disk, as everywhere here.
    fn list(&self) -> Result<Vec<String>, DiskError>;

    /// Makes a file of `bytes` bytes whose blocks have all been written and are durable, as its size is. Its name is not,
    /// before [`Disk::sync_directory`]. A file of that name is replaced.
    fn create(&self, name: &str, bytes: u64) -> Result<Self::File, DiskError>;

    /// Opens a file to read and write. What is read from it is durable: what the system still held has been written out
    /// before, and what it could not write out has been forgotten.
    fn open(&self, name: &str) -> Result<Self::File, DiskError>;

    /// Renames a file, and replaces what had the name. Durable after [`Disk::sync_directory`].
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file. Durable after [`Disk::sync_directory`].
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Makes the names durable.
    fn sync_directory(&self) -> Result<(), DiskError>;

    /// Bytes that this process may still write.
    fn free_bytes(&self) -> Result<u64, DiskError>;
}

/// An open file. Nothing that fails may be tried again as if nothing had happened.
pub trait DiskFile: Send + 'static {
    /// Size of the file in bytes.
    ///
    /// # Errors
    /// Those of the disk, as everywhere here.
    fn size_bytes(&self) -> Result<u64, DiskError>;

    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file is shorter.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiskError>;

    /// Writes all of `bytes` at `offset`. Durable after [`DiskFile::sync_data`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Makes all that was written durable.
    fn sync_data(&self) -> Result<(), DiskError>;

    /// Writes all of `bytes` at `offset` and makes it durable. It is fastest where both are multiples of a block, and the
    /// memory begins at one.
    fn write_durably(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.write_at(offset, bytes)?;
        self.sync_data()
    }
}

/// Something that a disk did not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskError {
    /// What it was asked for.
    pub operation: Operation,
    /// The name of the file; empty for the directory.
    pub file: Box<str>,
    /// Why, for programs.
    pub kind: io::ErrorKind,
    /// Why, in the system's words.
    pub cause: Box<str>,
}

/// What a disk is asked for.
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

    /// What whoever runs the program can do about it.
    pub fn advice(&self) -> &'static str {
        use io::ErrorKind;

        match self.kind {
            ErrorKind::PermissionDenied => {
                "the user that runs this program must own the directory and all that is in it; give it to that user, or name another directory"
            }
            ErrorKind::ReadOnlyFilesystem => {
                "have the file system mounted so that it can be written, or name another directory"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "make room there and try again; what was acknowledged before is not lost"
            }
            ErrorKind::NotADirectory | ErrorKind::NotFound => "name a directory that is there, or that can be made",
            _ => "look at the disk, and at what the kernel says of it",
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
            Operation::SyncDirectory => "make the names durable in",
            Operation::FreeBytes => "see how much is free in",
            Operation::Size => "see the size of",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "make durable what was written to",
        };
        let file = if self.file.is_empty() { "the directory" } else { &self.file };
        write!(f, "cannot {what} {file}: {}", self.cause)
    }
}

impl std::error::Error for DiskError {}
