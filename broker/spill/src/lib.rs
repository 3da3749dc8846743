//! Messages that are spilled from memory to disk.
//!
//! A [`Store`] keeps the stored form of messages in files that are emptied at each start: nothing in them is needed after a crash, so
//! nothing is ever synced, and their format may change with each version. [`SpillThread`] reads and writes for all shards, each of which
//! has a [`ShardPort`].

#![forbid(unsafe_code)]

mod files;
mod store;
mod thread;
mod waker;

#[cfg(any(test, feature = "faulty-files"))]
pub use files::{Faults, FaultyFiles};
pub use files::{Files, Folder, ReadWrite};
pub use store::{Settings, Stats, Store};
pub use thread::{ShardPort, SpillThread};
