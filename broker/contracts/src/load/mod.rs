//! From the files of a folder to a catalogue: all of them are right, or none is taken.

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

/// The file that says which contracts there are.
pub const MANIFEST: &str = "contracts.toml";

/// Where the broker keeps the contracts that are added and changed while it runs: `managed/NAME.toml` goes over a contract
/// of that name elsewhere.
pub const MANAGED: &str = "managed/";

/// How much a folder of contracts may hold.
#[derive(Debug, Clone, Copy)]
pub struct LoadLimits {
    /// Files.
    pub files: usize,
    /// Bytes of one file.
    pub file_bytes: usize,
    /// Contracts.
    pub contracts: usize,
    /// Braces within braces of a schema's text.
    pub nesting: usize,
    /// Sizes of a schema's types.
    pub plan: PlanLimits,
}

impl Default for LoadLimits {
    fn default() -> LoadLimits {
        LoadLimits { files: 200, file_bytes: 1024 * 1024, contracts: 1_000, nesting: 64, plan: PlanLimits::default() }
    }
}

/// The files of a folder, by their paths in it, with `/` between the parts.
pub type Files = BTreeMap<String, String>;

impl Catalogue {
    /// The contracts that `contracts.toml`, the options in `.proto` files and the files in `managed/` name.
    ///
    /// # Errors
    /// Everything that is wrong, with file, line and column.
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
            let message = format!("there are {} contracts, at most {} may be", drafts.len(), limits.contracts);
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
        let message = format!("the folder has {} files, at most {} are read", files.len(), limits.files);
        errors.push(LoadError::of_file(ErrorCode::Limit, MANIFEST, message));
    }
    for (name, text) in files {
        if text.len() > limits.file_bytes {
            let message = format!("the file has {} bytes, at most {} are read", text.len(), limits.file_bytes);
            errors.push(LoadError::of_file(ErrorCode::Limit, name, message));
        }
    }
    errors
}

/// Names and topics that two contracts share.
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
                    "the contracts {} ({topics}) and {} ({others}) would both hold for some topic; let only one cover it",
                    contract.name(),
                    earlier.name(),
                );
                errors.push(LoadError::at(ErrorCode::Overlap, place.clone(), message));
            }
        }
    }
    errors
}
