//! The contracts of a running broker: its folder, if it has one, and the ways to change them.

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

/// A change comes from the API or from a signal; one is done after the other.
pub(crate) struct Store {
    /// Held while a change is made.
    lock_location: Mutex<StoreLocation>,
    control: Control,
    changes: AtomicU64,
    changes_refused: AtomicU64,
}

/// Where the contracts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    /// There are none, and none can be added.
    Disabled,
    Folder(PathBuf),
    /// The nodes of the cluster share them: a change is a new revision.
    Cluster,
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
    /// The broker has no folder for contracts.
    NoFolder,
    /// The nodes of the cluster share them.
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
            StoreError::Write(error) => write!(f, "the folder of contracts cannot be written: {error}"),
            StoreError::Unknown => f.write_str("there is no contract of that name"),
            StoreError::Shared => {
                f.write_str("the contracts are shared by the cluster, and change with its configuration")
            }
            StoreError::NoFolder => f.write_str("the broker has no folder for contracts: set contracts.path"),
        }
    }
}

impl Store {
    pub(crate) fn new(folder: Option<&Path>, control: Control) -> Store {
        Store {
            lock_location: Mutex::new(
                folder.map_or(StoreLocation::Disabled, |folder| StoreLocation::Folder(folder.to_owned())),
            ),
            control,
            changes: AtomicU64::new(0),
            changes_refused: AtomicU64::new(0),
        }
    }

    /// How often the contracts have been changed, and how often that was refused.
    pub(crate) fn changes(&self) -> (u64, u64) {
        (self.changes.load(Ordering::Relaxed), self.changes_refused.load(Ordering::Relaxed))
    }

    /// Has `adopt` take on contracts while nobody else makes a change. It gives the place that holds from now on.
    ///
    /// # Errors
    /// What `adopt` finds wrong; nothing has changed then.
    pub(crate) fn reload<T>(
        &self,
        adopt: impl FnOnce() -> Result<(StoreLocation, T), Vec<String>>,
    ) -> Result<T, Vec<String>> {
        let mut lock_location = self.lock_location();
        let result = adopt();
        let is_about_contracts = *lock_location != StoreLocation::Disabled
            || result.as_ref().is_ok_and(|(next, _)| *next != StoreLocation::Disabled);
        if is_about_contracts {
            self.count(result.is_ok());
        }
        result.map(|(next, done)| {
            *lock_location = next;
            done
        })
    }

    /// Adds a contract, or replaces the one of that name; gives what holds then, and whether it is new.
    pub(crate) fn put(&self, name: &str, entry: &Entry) -> Result<(Arc<Catalogue>, bool), StoreError> {
        self.with_lock(|folder| {
            let is_new = self.control.contracts().named(name).is_none();
            let change = Change::put(folder::read(folder)?, name, entry)?;
            Ok((self.apply(change, folder)?, is_new))
        })
    }

    /// Takes a contract away.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.with_lock(|folder| {
            let change = Change::remove(folder::read(folder)?, name)?.ok_or(StoreError::Unknown)?;
            self.apply(change, folder).map(|_| ())
        })
    }

    /// What has been written holds, and only that: after a restart there are the same contracts.
    fn apply(&self, change: Change, folder: &Path) -> Result<Arc<Catalogue>, StoreError> {
        change.apply(folder).map_err(StoreError::Write)?;
        let catalogue = Arc::new(change.catalogue);
        self.control.set_contracts(catalogue.clone());
        Ok(catalogue)
    }

    /// Makes a change while nobody else makes one, and counts what came of it.
    fn with_lock<T>(&self, change: impl FnOnce(&Path) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let lock_location = self.lock_location();
        let result = change(match &*lock_location {
            StoreLocation::Folder(folder) => folder,
            StoreLocation::Disabled => return Err(StoreError::NoFolder),
            StoreLocation::Cluster => return Err(StoreError::Shared),
        });
        self.count(result.is_ok());
        result
    }

    fn lock_location(&self) -> MutexGuard<'_, StoreLocation> {
        self.lock_location.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, is_changed: bool) {
        let counter = if is_changed { &self.changes } else { &self.changes_refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
