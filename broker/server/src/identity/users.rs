//! A password file on disk.

use std::io;
use std::path::Path;

use tautwire_identity::edit::EditError;
use tautwire_identity::limits::PASSWORD_FILE_BYTES_MAX;

use crate::file_edit::{self, FileEditError};
use crate::files::{self, ReadError};

/// Why a file has not been changed.
#[derive(Debug)]
pub(crate) enum UsersError {
    Edit(EditError),
    File(String),
}

impl std::fmt::Display for UsersError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UsersError::Edit(error) => error.fmt(f),
            UsersError::File(error) => error.fmt(f),
        }
    }
}

/// The text of a password file.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    files::text(path, PASSWORD_FILE_BYTES_MAX).map_err(|why| match why {
        ReadError::Read(error) => format!("the password file {} cannot be read: {error}", path.display()),
        why => format!("the password file {} {why}", path.display()),
    })
}

/// Changes a password file, as [`file_edit::change`] does.
///
/// # Errors
/// The change is refused, or the file cannot be read or written; then it is as it was.
pub(crate) fn edit(
    path: &Path,
    makes: bool,
    change: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<(), UsersError> {
    file_edit::change(path, makes, PASSWORD_FILE_BYTES_MAX, change).map_err(|why| match why {
        FileEditError::Refused(error) => UsersError::Edit(error),
        FileEditError::File(error) => {
            let hint = if error.kind() == io::ErrorKind::NotFound { "; tautwire user add makes it" } else { "" };
            UsersError::File(format!("the password file {} cannot be changed: {error}{hint}", path.display()))
        }
    })
}
