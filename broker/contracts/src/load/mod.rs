//! Loads a catalogue from the files of a folder; any error rejects all of them.

mod contract;
mod draft;
mod error;
mod folder;
mod managed;
mod manifest;
mod options;
mod schemas;

use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::contract::Contract;

pub use error::{ErrorCode, LoadError};
pub use folder::{Files, LoadLimits, MANAGED, MANIFEST};
use schemas::Schemas;

impl Catalogue {
    /// Loads the contracts of `contracts.toml`, of options in `.proto` files, and of files in `managed/`.
    ///
    /// # Errors
    /// All errors, with file, line and column.
    pub fn load(files: &Files, limits: &LoadLimits) -> Result<Catalogue, Vec<LoadError>> {
        let mut errors = folder::within_limits(files, limits);
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
