//! A contracts folder: its files, and the limits on them.

use std::collections::BTreeMap;

use super::error::{ErrorCode, LoadError};
use crate::plan::PlanLimits;

/// The file that defines the contracts.
pub const MANIFEST: &str = "contracts.toml";

/// The folder where the broker stores contracts that are added and changed while it runs: `managed/NAME.toml` replaces a contract of that
/// name elsewhere.
pub const MANAGED: &str = "managed/";

/// Limits on a contracts folder.
#[derive(Debug, Clone, Copy)]
pub struct LoadLimits {
    /// Number of files.
    pub files: usize,
    /// Bytes of one file.
    pub file_bytes: usize,
    /// Number of contracts.
    pub contracts: usize,
    /// Nesting of braces in the text of a schema.
    pub nesting: usize,
    /// Limits on the types of a schema.
    pub plan: PlanLimits,
}

impl Default for LoadLimits {
    fn default() -> LoadLimits {
        LoadLimits { files: 200, file_bytes: 1024 * 1024, contracts: 1_000, nesting: 64, plan: PlanLimits::default() }
    }
}

/// The files of a folder, by their paths in it, with `/` as the separator.
pub type Files = BTreeMap<String, String>;

/// Reports files that exceed the limits.
pub(super) fn within_limits(files: &Files, limits: &LoadLimits) -> Vec<LoadError> {
    let mut errors = Vec::new();
    if files.len() > limits.files {
        let message = format!("the folder has {} files; the maximum is {}", files.len(), limits.files);
        errors.push(LoadError::of_file(ErrorCode::Limit, MANIFEST, message));
    }
    for (name, text) in files {
        if text.len() > limits.file_bytes {
            let message = format!("the file has {} bytes; the maximum is {}", text.len(), limits.file_bytes);
            errors.push(LoadError::of_file(ErrorCode::Limit, name, message));
        }
    }
    errors
}
