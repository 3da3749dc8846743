//! Reads, validates and changes the contracts folder.

mod append;
mod change;
mod entry;
mod folder;
mod observing;
mod store;

pub(crate) use append::{AppendError, append};
pub(crate) use change::Change;
pub(crate) use entry::Entry;
pub(crate) use folder::{format_errors, is_file, load, load_catalogue, read, write as write_file};
pub(crate) use observing::{observe_warning, observing, warn_of_observe_mode};
pub(crate) use store::{Store, StoreError, StoreLocation};
