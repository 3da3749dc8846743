//! What the store needs of a disk.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[cfg(any(test, feature = "faulty-files"))]
mod faulty;

#[cfg(any(test, feature = "faulty-files"))]
pub use faulty::{Faults, FaultyFiles};

/// What clients publish is nobody else's business.
const PRIVATE: u32 = 0o600;

/// Where the store has its files.
pub trait Files: Send + 'static {
    /// An open file.
    type File: ReadWrite;

    /// Makes an empty file.
    ///
    /// # Errors
    /// Those of the disk, as everywhere here.
    fn create(&self, number: u32) -> io::Result<Self::File>;

    /// Removes a file.
    fn remove(&self, number: u32) -> io::Result<()>;
}

/// An open file.
pub trait ReadWrite: Send + 'static {
    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    /// Those of the disk; `UnexpectedEof` where the file is shorter.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Those of the disk. A part may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

const PREFIX: &str = "cold-";

/// Files in a folder of their own.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes the folder, if need be, and removes what an earlier run has left in it. Other files stay.
    ///
    /// # Errors
    /// The folder cannot be made, read or emptied.
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
