//! Copies a data directory atomically: the copy appears complete or not at all.

use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tautwire_journal::{CopyError, CopySummary, Directory, ReadOnlyDirectory, copy, replace_directory};

use super::super::{CommandExit, Exit};
use super::source::failed;
use crate::contracts::write_file;
use crate::identity::ban_file;

/// Whether a path does not exist or is an empty directory.
pub(in crate::cli) fn is_free(path: &Path) -> Result<bool, CommandExit> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(CommandExit::failure(Exit::Usage, format!("{}: {error}", path.display()))),
    }
}

/// The result of a copy.
pub(super) struct CopyReport {
    pub(super) copied: CopySummary,
    /// The path of the replaced directory.
    pub(super) replaced: Option<PathBuf>,
}

/// Copies `from` to a directory next to `to` and renames it to `to`.
///
/// It is renamed once it is complete and durable. An existing directory is renamed.
pub(super) fn directory_copy(from_path: &Path, from: &ReadOnlyDirectory, to: &Path) -> Result<CopyReport, CommandExit> {
    let (copied, replaced) = replace_with(to, |staged| copy_into(from_path, from, staged))?;
    Ok(CopyReport { copied, replaced })
}

/// Fills a directory next to `to` and renames it to `to`. An existing directory is renamed; returns its new path.
pub(in crate::cli) fn replace_with<T>(
    to: &Path,
    mut fill: impl FnMut(&Path) -> Result<T, CommandExit>,
) -> Result<(T, Option<PathBuf>), CommandExit> {
    let is_free = is_free(to)?;
    let staged = sibling_path(to, "new")?;
    let filled = match fill(&staged) {
        Ok(filled) => filled,
        Err(stop) => {
            discard(&staged);
            return Err(stop);
        }
    };
    let old = sibling_path(to, "replaced")?;
    match replace_directory(&staged, to, &old) {
        Ok(()) => Ok((filled, (!is_free).then_some(old))),
        Err(error) if is_free && to.is_dir() => {
            // A directory that cannot be renamed, such as a mount point, is filled in place. `VERSION` is written last: without it the
            // files are not recognized as a log.
            log::debug!("{}: {error}; writing the files into it", to.display());
            discard(&staged);
            Ok((fill(to)?, None))
        }
        Err(error) => {
            discard(&staged);
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

/// Copies the ban file. It comes first: `VERSION`, the last file, marks the copy as complete.
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

/// An unused path next to `path`. Process identifiers repeat, for example in containers, so an earlier process may have left a file with
/// the same name.
fn sibling_path(path: &Path, suffix: &str) -> Result<PathBuf, CommandExit> {
    let name = path.file_name();
    let name =
        name.ok_or_else(|| CommandExit::failure(Exit::Usage, format!("{}: not a directory name", path.display())))?;
    let mut sibling_path = PathBuf::new();
    for number in 0u32.. {
        let mut name = name.to_owned();
        name.push(format!(".{suffix}-{}", std::process::id()));
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

/// Removes an unwanted copy. If that fails, its name shows what it is.
fn discard(path: &Path) {
    let _ = fs::remove_dir_all(path);
}
