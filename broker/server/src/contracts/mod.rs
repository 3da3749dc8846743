//! The folder of contracts: how it is read, checked and changed.

mod append;
mod change;
mod entry;
mod folder;
mod store;

pub(crate) use append::{AppendError, append};
pub(crate) use entry::Entry;
pub(crate) use folder::{load, told, write as write_file};
pub(crate) use store::{Store, StoreError};
