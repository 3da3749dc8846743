//! Files that people and commands change: nobody sees half of one, and no change is lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::files;

/// What only the owner may read and write.
const OWNER_ONLY: u32 = 0o600;
/// What remains of the rights of a file that is there: its group may read it if it might before.
const RIGHTS_KEPT: u32 = 0o640;

/// Why a file has not been changed.
#[derive(Debug)]
pub(crate) enum FileEditError<E> {
    /// The text cannot be changed like this.
    Refused(E),
    /// The file cannot be read or written.
    File(io::Error),
}

/// Changes a file: after a crash it has its old text or the new one. Other programs that change it at the same time by this
/// function wait. `makes`: one that is not there is made, and only its owner may read it.
///
/// # Errors
/// The change is refused, or the file cannot be read or written; then it is as it was.
pub(crate) fn change<E>(
    path: &Path,
    makes: bool,
    bytes_max: usize,
    change: impl FnOnce(&str) -> Result<String, E>,
) -> Result<(), FileEditError<E>> {
    let (path, file) = locked(path, makes).map_err(FileEditError::File)?;
    let text = files::text_of(&file, bytes_max).map_err(|why| FileEditError::File(io::Error::other(why)))?;
    let changed = change(&text).map_err(FileEditError::Refused)?;
    replace(&path, &file, &changed).map_err(FileEditError::File)
}

/// The file, locked against others that change it, and where it really is.
fn locked(path: &Path, makes: bool) -> io::Result<(PathBuf, File)> {
    loop {
        let file = OpenOptions::new().read(true).write(true).create(makes).mode(OWNER_ONLY).open(path)?;
        file.lock()?;
        // Links stay links. Another program may have put a new file in its place before the lock was there.
        let place = path.canonicalize()?;
        let (held, there) = (file.metadata()?, fs::metadata(&place)?);
        if (held.dev(), held.ino()) == (there.dev(), there.ino()) {
            return Ok((place, file));
        }
    }
}

/// Puts a file with this text in the place of `old`, for the same owner.
fn replace(path: &Path, old: &File, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    let temporary = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    // What a process of this number has left behind.
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
        // Else the broker could no longer read what an administrator has changed.
        fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(owner.mode() & RIGHTS_KEPT | OWNER_ONLY))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
