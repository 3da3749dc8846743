//! Reads files with a limit on their size.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Why a file could not be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// An I/O error.
    Read(io::Error),
    /// The file is larger than this many bytes.
    TooLarge(usize),
    /// The file is not UTF-8 from this byte on.
    NotUtf8(usize),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Read(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "cannot be read: {error}; give user ID {} read access", rustix::process::geteuid().as_raw())
            }
            ReadError::Read(error) => write!(f, "cannot be read: {error}"),
            ReadError::TooLarge(bytes_max) => write!(f, "is larger than the maximum of {bytes_max} bytes"),
            ReadError::NotUtf8(at) => write!(f, "is not UTF-8 at byte {at}"),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads a text file.
///
/// # Errors
/// The file cannot be read, is larger than `bytes_max` bytes, or is not UTF-8.
pub(crate) fn text(path: &Path, bytes_max: usize) -> Result<String, ReadError> {
    text_of(File::open(path).map_err(ReadError::Read)?, bytes_max)
}

/// Reads text from an open file.
///
/// # Errors
/// Those of [`text`].
pub(crate) fn text_of(file: impl Read, bytes_max: usize) -> Result<String, ReadError> {
    let bytes = bytes_of(file, bytes_max)?;
    String::from_utf8(bytes).map_err(|error| ReadError::NotUtf8(error.utf8_error().valid_up_to()))
}

/// Reads a file.
///
/// # Errors
/// The file cannot be read, or is larger than `bytes_max` bytes.
pub(crate) fn bytes(path: &Path, bytes_max: usize) -> Result<Vec<u8>, ReadError> {
    bytes_of(File::open(path).map_err(ReadError::Read)?, bytes_max)
}

/// Quotes a path for a shell.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Whether any user of this machine can read or change the file.
///
/// Group access is fine: packages and clusters use it to pass secrets to a service.
pub(crate) fn is_world_accessible(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0)
}

/// Whether a file is readable and contains only comments and empty lines.
pub(crate) fn has_no_entries(path: &Path) -> bool {
    const BYTES_MAX: usize = 1 << 20;
    let is_entry = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
    text(path, BYTES_MAX).is_ok_and(|text| !text.lines().any(is_entry))
}

fn bytes_of(file: impl Read, bytes_max: usize) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    // Read one byte more than allowed to detect larger files; they are refused, never truncated.
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(ReadError::Read)?;
    if bytes.len() > bytes_max { Err(ReadError::TooLarge(bytes_max)) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_files_are_refused_and_not_truncated() {
        assert_eq!(text_of(&b"1234"[..], 4).expect("it fits"), "1234");
        let error = text_of(&b"12345"[..], 4).expect_err("it is larger");
        assert_eq!(error.to_string(), "is larger than the maximum of 4 bytes");
        // The input may be infinite.
        assert!(matches!(text_of(io::repeat(b'x'), 4), Err(ReadError::TooLarge(4))));
    }

    #[test]
    fn errors_state_the_cause() {
        let error = text_of(&b"ab\xff"[..], 4).expect_err("not UTF-8");
        assert_eq!(error.to_string(), "is not UTF-8 at byte 2");
        let error = text(Path::new("/nowhere/at/all"), 4).expect_err("missing file");
        assert!(error.to_string().starts_with("cannot be read: "), "{error}");
        let error = bytes(Path::new("/"), 4).expect_err("a directory");
        assert!(error.to_string().starts_with("cannot be read: "), "{error}");
    }
}
