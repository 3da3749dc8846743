//! A directory of the file system.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;

use crate::disk::{Disk, DiskError, DiskFile, Operation};
use crate::format::BLOCK_BYTES;

/// Bytes per write when a new file is filled. The allocator keeps them for the thread, so larger writes cost memory and save little time.
const FILL_BYTES: usize = 64 << 10;
/// Only this user may read the files, which hold what clients publish, even if others may list the directory.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A directory of the file system.
#[derive(Debug, Clone)]
pub struct Directory {
    path: Arc<Path>,
}

impl Directory {
    /// Opens the directory at `path`. Creates it and its parents, for this user only, if it does not exist.
    ///
    /// # Errors
    /// File system errors.
    pub fn open(path: impl Into<PathBuf>) -> Result<Directory, DiskError> {
        let path: PathBuf = path.into();
        let failed = |error: io::Error| DiskError::new(Operation::Create, &path.to_string_lossy(), &error);
        make(&path).map_err(failed)?;
        Ok(Directory { path: path.into() })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file of this directory with its cached pages dropped.
    fn file(&self, name: &str, file: File) -> io::Result<DirectoryFile> {
        evict_page_cache(&file)?;
        Ok(DirectoryFile { name: name.into(), direct: direct(&self.at(name)), file })
    }
}

/// Puts the directory `new` in the place of `place`, atomically if the system can, and moves the previous content of `place` to `old`. All
/// three have the same parent; `place` differs from `new` or does not exist; `old` does not exist. The renames are durable when this
/// returns.
///
/// # Errors
/// File system errors. The previous content of `place` is then at `place` or at `old`, never at `new`. If the system cannot exchange two
/// names atomically, a crash may leave nothing at `place` and both others.
pub fn replace_directory(new: &Path, place: &Path, old: &Path) -> Result<(), DiskError> {
    let replace = || {
        let is_empty = match fs::read_dir(place) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        if is_empty {
            fs::rename(new, place)?;
        } else if fs::symlink_metadata(old).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} already exists", old.display())));
        } else {
            // If this is interrupted between two steps, the old content never has the name of an unfinished directory.
            fs::rename(new, old)?;
            if !exchange(old, place) {
                fs::rename(old, new)?;
                fs::rename(place, old)?;
                fs::rename(new, place).or_else(|error| fs::rename(old, place).and(Err(error)))?;
            }
        }
        let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    };
    replace().map_err(|error| DiskError::new(Operation::Rename, &place.to_string_lossy(), &error))
}

/// Exchanges the two names atomically. Returns whether the system could.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn exchange(_one: &Path, _other: &Path) -> bool {
    false
}

/// Creates a directory and its parents if they do not exist. Their names are durable when this returns.
fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        make(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        // Another process may have created it in the meantime.
        Err(_) if !path.is_dir() => return Err(rustix::io::Errno::NOTDIR.into()),
        _ => {}
    }
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Options for a file that is created if missing, for this user only.
fn create_private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(FILE_MODE);
    options
}

/// Opens a second descriptor for direct, synchronous writes, or returns `None` if the file system does not support it.
#[cfg(target_os = "linux")]
fn direct(path: &Path) -> Option<File> {
    use crate::disk::BlockBuffer;
    use rustix::fs::OFlags;

    let flags = (OFlags::DIRECT | OFlags::DSYNC).bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()?;
    // Some file systems open such a file but reject the write.
    let mut block = BlockBuffer::default();
    block.fill_to(BLOCK_BYTES);
    file.read_exact_at(block.bytes_mut(), 0).ok().map(|()| file)
}

#[cfg(not(target_os = "linux"))]
fn direct(_path: &Path) -> Option<File> {
    None
}

/// Drops cached pages: a page whose write-back failed counts as clean and exists only in memory, so read from the disk itself.
#[cfg(target_os = "linux")]
fn evict_page_cache(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

#[cfg(not(target_os = "linux"))]
fn evict_page_cache(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Lists the names of all files of a directory.
pub(super) fn list_names(path: &Path) -> Result<Vec<String>, DiskError> {
    let failed = |error: io::Error| DiskError::new(Operation::List, "", &error);
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        // The log has no file whose name is not UTF-8.
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}

/// A file lock, held until dropped.
#[derive(Debug)]
pub struct DirectoryLock(File);

impl DirectoryLock {
    pub(super) fn take(file: File, how: FlockOperation) -> io::Result<DirectoryLock> {
        rustix::fs::flock(&file, how)?;
        Ok(DirectoryLock(file))
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // A child process between fork and exec still holds the file, so closing ours would leave it locked.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl Disk for Directory {
    type File = DirectoryFile;
    type Lock = DirectoryLock;

    fn lock(&self, name: &str) -> Result<DirectoryLock, DiskError> {
        let failed = |error: io::Error| DiskError::new(Operation::Lock, name, &error);
        let file = create_private().write(true).truncate(false).open(self.at(name)).map_err(failed)?;
        DirectoryLock::take(file, FlockOperation::NonBlockingLockExclusive).map_err(failed)
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        list_names(&self.path)
    }

    fn create(&self, name: &str, bytes: u64) -> Result<DirectoryFile, DiskError> {
        let failed = |error: io::Error| DiskError::new(Operation::Create, name, &error);
        let mut options = create_private();
        let file = options.read(true).write(true).truncate(true).open(self.at(name)).map_err(failed)?;
        // Filling the remaining space only to find that it is too small would take it from other processes meanwhile.
        if bytes > 0 && self.free_bytes()? < bytes {
            return Err(failed(rustix::io::Errno::NOSPC.into()));
        }
        let zeros = vec![0; FILL_BYTES];
        let mut at = 0;
        while at < bytes {
            let len = (bytes - at).min(FILL_BYTES as u64);
            file.write_all_at(&zeros[..len as usize], at).map_err(failed)?;
            at += len;
        }
        file.sync_all().map_err(failed)?;
        self.file(name, file).map_err(failed)
    }

    fn open(&self, name: &str) -> Result<DirectoryFile, DiskError> {
        let failed = |error: io::Error| DiskError::new(Operation::Open, name, &error);
        let file = OpenOptions::new().read(true).write(true).open(self.at(name)).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        self.file(name, file).map_err(failed)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        fs::rename(self.at(from), self.at(to)).map_err(|error| DiskError::new(Operation::Rename, from, &error))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        fs::remove_file(self.at(name)).map_err(|error| DiskError::new(Operation::Remove, name, &error))
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        let sync = || File::open(&self.path)?.sync_all();
        sync().map_err(|error| DiskError::new(Operation::SyncDirectory, "", &error))
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let free = rustix::fs::statvfs(&*self.path)
            .map_err(|errno| DiskError::new(Operation::FreeBytes, "", &errno.into()))?;
        // A file system without a size, such as one in memory without a limit, reports 0 for everything.
        let has_size = free.f_blocks > 0;
        Ok(if has_size { free.f_bavail.saturating_mul(free.f_frsize) } else { u64::MAX })
    }
}

/// A file of a [`Directory`].
#[derive(Debug)]
pub struct DirectoryFile {
    name: Box<str>,
    file: File,
    direct: Option<File>,
}

impl DirectoryFile {
    fn failed(&self, operation: Operation) -> impl Fn(io::Error) -> DiskError {
        move |error| DiskError::new(operation, &self.name, &error)
    }
}

impl DiskFile for DirectoryFile {
    fn size_bytes(&self) -> Result<u64, DiskError> {
        self.file.metadata().map(|data| data.len()).map_err(self.failed(Operation::Size))
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        self.file.read_exact_at(bytes, offset).map_err(self.failed(Operation::Read))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.write_all_at(bytes, offset).map_err(self.failed(Operation::Write))
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(self.failed(Operation::Sync))
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let at_blocks = bytes.as_ptr().align_offset(BLOCK_BYTES) == 0
            && bytes.len().is_multiple_of(BLOCK_BYTES)
            && offset.is_multiple_of(BLOCK_BYTES as u64);
        if let Some(direct) = self.direct.as_ref().filter(|_| at_blocks) {
            return direct.write_all_at(bytes, offset).map_err(self.failed(Operation::Write));
        }
        self.write_at(offset, bytes)?;
        self.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starting_process_does_not_keep_the_directory_locked() {
        let path = std::env::temp_dir().join(format!("tautwire-directory-lock-{}", std::process::id()));
        let directory = Directory::open(&path).expect("the directory can be created");
        let lock = directory.lock("lock").expect("not locked");
        assert_eq!(directory.lock("lock").expect_err("locked by this process").kind, io::ErrorKind::WouldBlock);
        let inherited = lock.0.try_clone().expect("a second descriptor");
        drop(lock);
        drop(directory.lock("lock").expect("unlocked"));
        drop(inherited);
        fs::remove_dir_all(&path).expect("the directory exists");
    }
}
