//! The disk interface of the store.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[cfg(any(test, feature = "faulty-files"))]
mod faulty;

#[cfg(any(test, feature = "faulty-files"))]
pub use faulty::{Faults, FaultyFiles};

/// Only this user may read the files: they hold what clients publish.
const PRIVATE: u32 = 0o600;

/// A directory in which the store keeps its files.
pub trait Files: Send + 'static {
    /// An open file.
    type File: ReadWrite;

    /// Creates an empty file.
    ///
    /// # Errors
    /// Disk errors, for all methods of this trait.
    fn create(&self, number: u32) -> io::Result<Self::File>;

    /// Removes a file.
    fn remove(&self, number: u32) -> io::Result<()>;
}

/// An open file.
pub trait ReadWrite: Send + 'static {
    /// Fills `bytes` with the content of the file from `offset` on.
    ///
    /// # Errors
    /// Disk errors; `UnexpectedEof` if the file is shorter.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Disk errors. A part may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

const PREFIX: &str = "spill-";

/// Files in a directory of the file system.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the directory if it does not exist and removes the store's files of an earlier run. Other files stay.
    ///
    /// # Errors
    /// The directory cannot be created, read or emptied.
    pub fn emptied(path: &Path) -> io::Result<Folder> {
        fs::create_dir_all(path)?;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(Folder(path.to_owned()))
    }

    fn path(&self, number: u32) -> PathBuf {
        self.0.join(format!("{PREFIX}{number:08x}"))
    }
}

impl Files for Folder {
    type File = File;

    fn create(&self, number: u32) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(PRIVATE).open(self.path(number))
    }

    fn remove(&self, number: u32) -> io::Result<()> {
        fs::remove_file(self.path(number))
    }
}

impl ReadWrite for File {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }
}
