//! Texts and paths as the new file has them.

use std::path::{Path, PathBuf};

use crate::json::push_string;

/// Paths in the new file are absolute, because it may be in another directory.
pub(super) fn relative_to(folder: &Path, file: &str) -> PathBuf {
    absolute(folder.join(file))
}

pub(super) fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    push_string(&mut quoted, text);
    quoted
}
