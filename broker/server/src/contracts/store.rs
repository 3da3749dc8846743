//! The contracts of a running broker and the changes to them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tautwire_contracts::{Catalogue, LoadError};
use tautwire_reactor::Control;

use super::change::Change;
use super::entry::Entry;
use super::folder;

/// The contracts of a running broker. Changes from the API and from signals are serialized.
pub(crate) struct Store {
    /// Locked during a change.
    location: Mutex<StoreLocation>,
    control: Control,
    changes: AtomicU64,
    changes_refused: AtomicU64,
}

/// The location of the contracts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    /// No contracts, and none can be added.
    Disabled,
    Folder(PathBuf),
    /// The cluster shares them: a change is a new revision.
    Cluster,
}

/// Why the contracts were not changed.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// They would contain errors.
    Wrong(Vec<LoadError>),
    /// The folder could not be written.
    Write(io::Error),
    /// There is no contract of that name.
    Unknown,
    /// The broker has no folder for contracts.
    NoFolder,
    /// The cluster shares them.
    Shared,
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
            StoreError::Write(error) => write!(f, "the contracts folder cannot be written: {error}"),
            StoreError::Unknown => f.write_str("there is no contract with that name"),
            StoreError::Shared => {
                f.write_str("the cluster shares the contracts; change them with `tautwire cluster config push`")
            }
            StoreError::NoFolder => f.write_str("the broker has no contracts folder: set contracts.path"),
        }
    }
}

impl Store {
    pub(crate) fn new(folder: Option<&Path>, control: Control) -> Store {
        Store {
            location: Mutex::new(
                folder.map_or(StoreLocation::Disabled, |folder| StoreLocation::Folder(folder.to_owned())),
            ),
            control,
            changes: AtomicU64::new(0),
            changes_refused: AtomicU64::new(0),
        }
    }

    /// Number of changes of the contracts, and of refused ones.
    pub(crate) fn changes(&self) -> (u64, u64) {
        (self.changes.load(Ordering::Relaxed), self.changes_refused.load(Ordering::Relaxed))
    }

    /// Runs `apply` with the lock held; it applies contracts and returns their new location.
    ///
    /// # Errors
    /// The errors of `apply`; nothing has changed then.
    pub(crate) fn reload<T>(
        &self,
        apply: impl FnOnce() -> Result<(StoreLocation, T), Vec<String>>,
    ) -> Result<T, Vec<String>> {
        let mut location = self.lock_location();
        let result = apply();
        let is_about_contracts = *location != StoreLocation::Disabled
            || result.as_ref().is_ok_and(|(next, _)| *next != StoreLocation::Disabled);
        if is_about_contracts {
            self.count(result.is_ok());
        }
        result.map(|(next, done)| {
            *location = next;
            done
        })
    }

    /// Adds or replaces a contract; returns the new contracts, and whether this one is new.
    pub(crate) fn put(&self, name: &str, entry: &Entry) -> Result<(Arc<Catalogue>, bool), StoreError> {
        self.with_lock(|folder| {
            let is_new = self.control.contracts().named(name).is_none();
            let change = Change::put(folder::read(folder)?, name, entry)?;
            Ok((self.apply(change, folder)?, is_new))
        })
    }

    /// Removes a contract.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.with_lock(|folder| {
            let change = Change::remove(folder::read(folder)?, name)?.ok_or(StoreError::Unknown)?;
            self.apply(change, folder).map(|_| ())
        })
    }

    /// Writes a change and then applies it, so that a restart gives the same contracts.
    fn apply(&self, change: Change, folder: &Path) -> Result<Arc<Catalogue>, StoreError> {
        change.apply(folder).map_err(StoreError::Write)?;
        let catalogue = Arc::new(change.catalogue);
        self.control.set_contracts(catalogue.clone());
        Ok(catalogue)
    }

    /// Makes a change with the lock held, and counts it.
    fn with_lock<T>(&self, change: impl FnOnce(&Path) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let location = self.lock_location();
        let result = change(match &*location {
            StoreLocation::Folder(folder) => folder,
            StoreLocation::Disabled => return Err(StoreError::NoFolder),
            StoreLocation::Cluster => return Err(StoreError::Shared),
        });
        self.count(result.is_ok());
        result
    }

    fn lock_location(&self) -> MutexGuard<'_, StoreLocation> {
        self.location.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, is_changed: bool) {
        let counter = if is_changed { &self.changes } else { &self.changes_refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
