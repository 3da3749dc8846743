//! Atomic changes of files that both people and commands edit: no reader sees a partial file, and no change is lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::files;

/// Mode of files that only the owner may read and write.
const OWNER_ONLY: u32 = 0o600;
/// Mask for the mode of an existing file: its group may keep read access.
const MODE_MASK: u32 = 0o640;

/// Why a file was not changed.
#[derive(Debug)]
pub(crate) enum FileEditError<E> {
    /// The change was refused.
    Refused(E),
    /// The file cannot be read or written.
    File(io::Error),
}

/// Changes a file atomically: after a crash it has its old text or the new one.
///
/// Other processes that use this function on the same file wait. With `creates`, a missing file is created with access for its owner only.
///
/// # Errors
/// The change is refused, or the file cannot be read or written; the file is then unchanged.
pub(crate) fn change<E>(
    path: &Path,
    creates: bool,
    bytes_max: usize,
    change: impl FnOnce(&str) -> Result<String, E>,
) -> Result<(), FileEditError<E>> {
    let (path, file) = locked(path, creates).map_err(FileEditError::File)?;
    let text = files::text_of(&file, bytes_max).map_err(|why| FileEditError::File(io::Error::other(why)))?;
    let changed = change(&text).map_err(FileEditError::Refused)?;
    replace(&path, &file, &changed).map_err(FileEditError::File)
}

/// Opens and locks the file, and returns its real path.
fn locked(path: &Path, creates: bool) -> io::Result<(PathBuf, File)> {
    loop {
        let file = OpenOptions::new().read(true).write(true).create(creates).mode(OWNER_ONLY).open(path)?;
        file.lock()?;
        // Symbolic links are kept. Another process may have replaced the file before it was locked.
        let place = path.canonicalize()?;
        let (locked, current) = (file.metadata()?, fs::metadata(&place)?);
        if (locked.dev(), locked.ino()) == (current.dev(), current.ino()) {
            return Ok((place, file));
        }
    }
}

/// Replaces `old` by a file with this text and the same owner.
fn replace(path: &Path, old: &File, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    let temporary = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    // Left behind by a crashed process with the same identifier.
    let _ = fs::remove_file(&temporary);
    let written = write(&temporary, old, text).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(folder)?.sync_all()
}

fn write(path: &Path, old: &File, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path)?;
    let (owner, now) = (old.metadata()?, file.metadata()?);
    if (owner.uid(), owner.gid()) != (now.uid(), now.gid()) {
        // Otherwise the broker could not read a file that root has changed.
        fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(owner.mode() & MODE_MASK | OWNER_ONLY))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
