//! Connects the engine to the log on disk.
//!
//! The engine passes changes to its [`Journal`](tautwire_session::Journal). A [`FrameWriter`] encodes them as a frame; [`ShardLog`] posts
//! frames to the thread that makes them durable. At the next start, [`Recovery`] turns frames back into sessions and retained messages.
//! [`Inspection`], [`Stats`], [`compact_offline`] and [`create_log_with`] serve the command line.

#![forbid(unsafe_code)]

mod compactor;
mod error;
mod frame_writer;
mod inspection;
mod last_changes;
mod merge;
pub mod mutant;
mod offline;
mod recovery;
mod salvage;
mod shard_log;
mod skipped_records;
mod snapshot;
mod spill_queue;
mod stats;

pub use compactor::{CompactionTarget, Compactor, LOG_MIN_BYTES, is_overdue};
pub use error::{CompactError, RecoveryError};
pub use frame_writer::FrameWriter;
pub use inspection::{Inspection, SnapshotInfo, read_snapshot};
pub use merge::compact;
pub use offline::{CompactReport, compact_offline, create_log_with};
pub use recovery::Recovery;
pub use shard_log::{SessionNumbers, ShardLog};
pub use skipped_records::{LISTED_MAX, SkippedRecords};
pub use snapshot::{SnapshotHead, write_snapshot};
pub use spill_queue::{NoSpillStore, SpillStore};
pub use stats::{LargeQueue, QUEUES_LISTED, Stats};
