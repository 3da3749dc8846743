//! The folder of contracts: how it is read, checked and changed.

mod append;
mod change;
mod entry;
mod folder;
mod observing;
mod store;

pub(crate) use append::{AppendError, append};
pub(crate) use change::Change;
pub(crate) use entry::Entry;
pub(crate) use folder::{is_file, load, read, told, write as write_file};
pub(crate) use observing::{observing, warn_of_observing};
pub(crate) use store::{Place, Store, StoreError};
