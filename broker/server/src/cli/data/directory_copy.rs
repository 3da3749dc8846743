//! A copy of a data directory, in its place as a whole or not at all.

use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tautwire_journal::{CopyError, CopySummary, Directory, ReadOnlyDirectory, copy, replace_directory};

use super::super::{CommandExit, Exit};
use super::source::failed;
use crate::contracts::write_file;
use crate::identity::ban_file;

/// Whether there is nothing at a path, or a directory without anything in it.
pub(in crate::cli) fn is_free(path: &Path) -> Result<bool, CommandExit> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(CommandExit::failure(Exit::Usage, format!("{}: {error}", path.display()))),
    }
}

/// What has become of a copy.
pub(super) struct CopyReport {
    pub(super) copied: CopySummary,
    /// Where that is which was there before.
    pub(super) replaced: Option<PathBuf>,
}

/// Copies `from` beside `to`, and gives the copy the name `to` when it is whole and durable. What was there is put aside.
pub(super) fn directory_copy(from_path: &Path, from: &ReadOnlyDirectory, to: &Path) -> Result<CopyReport, CommandExit> {
    let (copied, replaced) = put(to, |made| copy_into(from_path, from, made))?;
    Ok(CopyReport { copied, replaced })
}

/// Has a directory beside `to` filled, and gives it the name `to` when it is. What was there is put aside; gives where that is.
pub(in crate::cli) fn put<T>(
    to: &Path,
    mut fill: impl FnMut(&Path) -> Result<T, CommandExit>,
) -> Result<(T, Option<PathBuf>), CommandExit> {
    let is_free = is_free(to)?;
    let made = sibling_path(to, "new")?;
    let filled = match fill(&made) {
        Ok(filled) => filled,
        Err(stop) => {
            discard(&made);
            return Err(stop);
        }
    };
    let old = sibling_path(to, "replaced")?;
    match replace_directory(&made, to, &old) {
        Ok(()) => Ok((filled, (!is_free).then_some(old))),
        Err(error) if is_free && to.is_dir() => {
            // A directory that cannot be renamed, such as one on which a disk is mounted, is filled where it is. `VERSION` comes last:
            // without it nobody takes the rest for a log.
            log::debug!("{}: {error}; the files are written into it", to.display());
            discard(&made);
            Ok((fill(to)?, None))
        }
        Err(error) => {
            discard(&made);
            Err(failed(to, &error.into()))
        }
    }
}

/// Copies `from` to the directory `to`.
fn copy_into(from_path: &Path, from: &ReadOnlyDirectory, to: &Path) -> Result<CopySummary, CommandExit> {
    let directory = Directory::open(to).map_err(|error| failed(to, &error.into()))?;
    copy_bans(from_path, to)?;
    copy(from, &directory).map_err(|error| match error {
        CopyError::Source(error) => failed(from_path, &error),
        CopyError::Target(error) => failed(to, &error),
    })
}

/// The file of bans, which lies beside the log. It comes first: `VERSION`, the last file of all, says that the rest is there.
fn copy_bans(from: &Path, to: &Path) -> Result<(), CommandExit> {
    let wrong = |path: &Path, error: &dyn Display| {
        CommandExit::failure(Exit::Usage, format!("{}: {error}", path.join(ban_file::NAME).display()))
    };
    match fs::read_to_string(from.join(ban_file::NAME)) {
        Ok(bans) => write_file(&to.join(ban_file::NAME), &bans).map_err(|error| wrong(to, &error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(wrong(from, &error)),
    }
}

/// A path beside another one at which there is nothing. Where processes have few numbers, as in containers, an earlier one may have
/// left something under the number of this one.
fn sibling_path(path: &Path, what: &str) -> Result<PathBuf, CommandExit> {
    let name = path.file_name();
    let name = name
        .ok_or_else(|| CommandExit::failure(Exit::Usage, format!("{}: is no name of a directory", path.display())))?;
    let mut sibling_path = PathBuf::new();
    for number in 0u32.. {
        let mut name = name.to_owned();
        name.push(format!(".{what}-{}", std::process::id()));
        if number > 0 {
            name.push(format!("-{number}"));
        }
        sibling_path = path.with_file_name(name);
        if fs::symlink_metadata(&sibling_path).is_err() {
            break;
        }
    }
    Ok(sibling_path)
}

/// What is left of a copy that is not wanted. Where that fails, it has a name that says what it is.
fn discard(path: &Path) {
    let _ = fs::remove_dir_all(path);
}
