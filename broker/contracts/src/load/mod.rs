//! Loads a catalogue from the files of a folder; any error rejects all of them.

mod contract;
mod error;
mod managed;
mod manifest;
mod options;
mod schemas;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::contract::Contract;
use crate::plan::PlanLimits;

pub use error::{ErrorCode, LoadError};
use schemas::Schemas;

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

impl Catalogue {
    /// Loads the contracts of `contracts.toml`, of options in `.proto` files, and of files in `managed/`.
    ///
    /// # Errors
    /// All errors, with file, line and column.
    pub fn load(files: &Files, limits: &LoadLimits) -> Result<Catalogue, Vec<LoadError>> {
        let mut errors = within_limits(files, limits);
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut drafts = match files.get(MANIFEST) {
            Some(text) => manifest::read(MANIFEST, text, &mut errors),
            None => Vec::new(),
        };
        let managed = managed::read(files, &mut errors);
        let schemas = Schemas::new(files, |file| managed::is_used(&managed, file), limits, &mut errors);
        drafts.extend(schemas.drafts_in_options(&drafts, &mut errors));
        managed::override_drafts(managed, &mut drafts);
        if drafts.len() > limits.contracts {
            let message = format!("there are {} contracts; the maximum is {}", drafts.len(), limits.contracts);
            errors.push(LoadError::of_file(ErrorCode::Limit, MANIFEST, message));
            return Err(errors);
        }
        let mut contracts: Vec<(Arc<Contract>, error::SourcePosition)> = Vec::new();
        for draft in drafts {
            match contract::make(&draft, &schemas, limits) {
                Ok(contract) => contracts.push((Arc::new(contract), draft.place)),
                Err(error) => errors.push(error),
            }
        }
        errors.extend(overlaps(&contracts));
        if errors.is_empty() {
            Ok(Catalogue::new(contracts.into_iter().map(|(contract, _)| contract).collect()))
        } else {
            Err(errors)
        }
    }
}

fn within_limits(files: &Files, limits: &LoadLimits) -> Vec<LoadError> {
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

/// Reports contracts that share a name or a topic.
fn overlaps(contracts: &[(Arc<Contract>, error::SourcePosition)]) -> Vec<LoadError> {
    let mut errors = Vec::new();
    for (at, (contract, place)) in contracts.iter().enumerate() {
        for (earlier, _) in &contracts[..at] {
            if contract.name() == earlier.name() {
                let message = format!("there are two contracts with the name {}", contract.name());
                errors.push(LoadError::at(ErrorCode::Duplicate, place.clone(), message));
            } else if contract.topics().overlaps(earlier.topics()) {
                let (topics, others) = (contract.topics().as_str(), earlier.topics().as_str());
                let message = format!(
                    "the contracts {} ({topics}) and {} ({others}) overlap in some topics; change their topics so that only one applies",
                    contract.name(),
                    earlier.name(),
                );
                errors.push(LoadError::at(ErrorCode::Overlap, place.clone(), message));
            }
        }
    }
    errors
}
