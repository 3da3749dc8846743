//! What memory and the disk have room for: the account of memory, the log, messages on disk.

pub(crate) mod journal_writer;
pub(crate) mod log_state;
pub(crate) mod memory_budget;
pub(crate) mod spill;
