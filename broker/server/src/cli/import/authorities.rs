//! The certificate authorities of a directory.

use std::fs;
use std::path::{Path, PathBuf};

use super::output_text::relative_to;

/// Maximum number of files of a directory.
const AUTHORITIES_MAX: usize = 1_024;

/// The files of a `capath`, found like OpenSSL does: by the hash of the name.
pub(super) fn authority_files(authority_folder: Option<&str>, folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let path = authority_folder.map(|path| relative_to(folder, path));
    let entries = path.and_then(|path| fs::read_dir(path).ok()).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_hash = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('.'));
        name.is_some_and(|(hash, number)| {
            hash.len() == 8
                && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let mut found: Vec<PathBuf> = paths.filter(is_hash).take(AUTHORITIES_MAX).collect();
    found.sort();
    found.into_iter()
}
