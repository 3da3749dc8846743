//! Reading and editing a password file.

use std::io;
use std::path::Path;

use tautwire_identity::edit::EditError;
use tautwire_identity::limits::PASSWORD_FILE_BYTES_MAX;

use crate::file_edit::{self, FileEditError};
use crate::files::{self, ReadError};

/// Why a file was not changed.
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

/// Reads the text of a password file.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    files::text(path, PASSWORD_FILE_BYTES_MAX).map_err(|why| match why {
        ReadError::Read(error) => format!("cannot read the password file {}: {error}", path.display()),
        why => format!("the password file {} {why}", path.display()),
    })
}

/// Edits a password file with [`file_edit::change`].
///
/// # Errors
/// The change is refused, or the file cannot be read or written; the file is unchanged then.
pub(crate) fn edit(
    path: &Path,
    creates: bool,
    change: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<(), UsersError> {
    file_edit::change(path, creates, PASSWORD_FILE_BYTES_MAX, change).map_err(|why| match why {
        FileEditError::Refused(error) => UsersError::Edit(error),
        FileEditError::File(error) => {
            let hint = if error.kind() == io::ErrorKind::NotFound { "; create it with tautwire user add" } else { "" };
            UsersError::File(format!("cannot change the password file {}: {error}{hint}", path.display()))
        }
    })
}
