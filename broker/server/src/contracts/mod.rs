//! The folder of contracts: how it is read, checked and changed.

mod change;
mod entry;
mod folder;
mod store;

pub(crate) use change::Change;
pub(crate) use entry::Entry;
pub(crate) use folder::{load, read, told};
pub(crate) use store::{Store, StoreError};
