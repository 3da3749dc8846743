//! The contracts of a running broker: its folder, and the ways to change them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tautwire_contracts::{Catalogue, LoadError};
use tautwire_reactor::Control;

use super::change::Change;
use super::entry::Entry;
use super::folder;

/// A change comes from the API or from a signal; one is done after the other.
pub(crate) struct Store {
    folder: PathBuf,
    control: Control,
    changing: Mutex<()>,
    changes: AtomicU64,
    changes_refused: AtomicU64,
}

/// Why the contracts have not been changed.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// There would be something wrong with them.
    Wrong(Vec<LoadError>),
    /// The folder could not be written.
    Write(io::Error),
    /// There is no contract of that name.
    Unknown,
}

impl From<Vec<LoadError>> for StoreError {
    fn from(errors: Vec<LoadError>) -> StoreError {
        StoreError::Wrong(errors)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Wrong(errors) => {
                let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            StoreError::Write(error) => write!(f, "the folder of contracts cannot be written: {error}"),
            StoreError::Unknown => f.write_str("there is no contract of that name"),
        }
    }
}

impl Store {
    pub(crate) fn new(folder: &Path, control: Control) -> Store {
        Store {
            folder: folder.to_owned(),
            control,
            changing: Mutex::default(),
            changes: AtomicU64::new(0),
            changes_refused: AtomicU64::new(0),
        }
    }

    /// How often the contracts have been changed, and how often that was refused.
    pub(crate) fn changes(&self) -> (u64, u64) {
        (self.changes.load(Ordering::Relaxed), self.changes_refused.load(Ordering::Relaxed))
    }

    /// Reads the folder again, and changes nothing.
    ///
    /// # Errors
    /// What is wrong with the contracts.
    pub(crate) fn read_again(&self) -> Result<Arc<Catalogue>, Vec<String>> {
        folder::load(&self.folder).map(Arc::new).map_err(|errors| folder::told(&self.folder, &errors))
    }

    /// Reads the folder again and has `adopt` take on what is there, while nobody else makes a change.
    ///
    /// # Errors
    /// What is wrong with the contracts, or what `adopt` finds wrong.
    pub(crate) fn reload<T>(
        &self,
        adopt: impl FnOnce(Result<Arc<Catalogue>, Vec<String>>) -> Result<T, Vec<String>>,
    ) -> Result<T, Vec<String>> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let result = adopt(self.read_again());
        self.count(result.is_ok());
        result
    }

    /// Adds a contract, or replaces the one of that name; gives what holds then, and whether it is new.
    pub(crate) fn put(&self, name: &str, entry: &Entry) -> Result<(Arc<Catalogue>, bool), StoreError> {
        self.alone(|| {
            let is_new = self.control.contracts().named(name).is_none();
            let change = Change::put(folder::read(&self.folder)?, name, entry)?;
            Ok((self.apply(change)?, is_new))
        })
    }

    /// Takes a contract away.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.alone(|| {
            let change = Change::remove(folder::read(&self.folder)?, name)?.ok_or(StoreError::Unknown)?;
            self.apply(change).map(|_| ())
        })
    }

    /// What has been written holds, and only that: after a restart there are the same contracts.
    fn apply(&self, change: Change) -> Result<Arc<Catalogue>, StoreError> {
        change.apply(&self.folder).map_err(StoreError::Write)?;
        let catalogue = Arc::new(change.catalogue);
        self.control.set_contracts(catalogue.clone());
        Ok(catalogue)
    }

    /// Makes a change while nobody else makes one, and counts what came of it.
    fn alone<T>(&self, change: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change();
        self.count(result.is_ok());
        result
    }

    fn count(&self, is_changed: bool) {
        let counter = if is_changed { &self.changes } else { &self.changes_refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
