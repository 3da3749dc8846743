//! Reading and editing a password file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tautwire_identity::PasswordFile;
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

/// Reads a password file; `named`: the setting that names it.
///
/// # Errors
/// All errors, one per line.
pub(crate) fn password_file(path: &Path, named: impl Fn() -> String) -> Result<Arc<PasswordFile>, Vec<String>> {
    let text = files::text(path, PASSWORD_FILE_BYTES_MAX).map_err(|why| {
        let hint = if path.exists() { "" } else { "; create it with: tautwire user add --file FILE NAME" };
        vec![format!("{}: {} {why}{hint}", named(), path.display())]
    })?;
    parse_users(&path.display().to_string(), &text)
}

/// Parses the text of a password file, called `name` in messages.
///
/// # Errors
/// All errors, one per line.
pub(crate) fn parse_users(name: &str, text: &str) -> Result<Arc<PasswordFile>, Vec<String>> {
    let file = PasswordFile::parse(name, text);
    file.map(Arc::new).map_err(|errors| errors.iter().map(ToString::to_string).collect())
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
