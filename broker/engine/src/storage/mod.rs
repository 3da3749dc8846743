//! Limits of memory and disk: the memory budget, the log, and messages spilled to disk.

pub(crate) mod journal_writer;
pub(crate) mod log_state;
pub(crate) mod memory_budget;
pub(crate) mod spill;
