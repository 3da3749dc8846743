//! Between the engine and the log on disk.
//!
//! The engine tells its [`Journal`](tautwire_session::Journal) what changes. A [`FrameWriter`] puts that into the bytes of a
//! frame; [`ShardLog`] posts frames to the thread that makes them durable. At the next start, [`Recovery`] takes the frames and
//! gives sessions and retained messages.

#![forbid(unsafe_code)]

mod frame_writer;
mod recovery;
mod shard_log;
mod snapshot;

pub use frame_writer::FrameWriter;
pub use recovery::{Recovery, RecoveryError};
pub use shard_log::{SessionNumbers, ShardLog};
pub use snapshot::write_snapshot;
