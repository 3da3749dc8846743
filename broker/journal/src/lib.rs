//! The log on disk: what shards write down, made durable together.
//!
//! A shard puts together a frame for each turn in which something lasting has changed ([`record`]), and posts it through its
//! [`FrameSender`] to the [`WriterThread`]. The thread writes all frames that wait with one write and one sync, and tells each shard
//! up to which turn it is durable. [`Log`] is the same without threads. [`Reader`] reads a log back, and tells a torn tail
//! from damage. The bytes are described in `docs/internals/journal-format.md`.
//!
//! All input and output goes through [`Disk`]. [`Directory`] is a real one; with the feature `lying-disk` there is one
//! in memory that loses what was not synced.

#![forbid(unsafe_code)]

mod check;
mod copy;
pub mod disk;
mod error;
mod format;
mod log;
pub mod mutant;
mod numbers;
mod reader;
pub mod record;
mod snapshot;
mod writer;

pub use check::{
    DirectoryUsage, LogSummary, READ_ATTEMPTS, UNDECODABLE_LISTED_MAX, check, lock_directory, read_consistently,
    read_format_version,
};
pub use copy::{COPY_ATTEMPTS, CopyError, CopySummary, copy, verify};
pub use disk::{Directory, Disk, DiskError, DiskFile, ReadOnlyDirectory, replace_directory};
pub use error::LogError;
pub use format::{BLOCK_BYTES, FORMAT_VERSION, FRAME_BODY_MAX_BYTES, Frame, LOCK_NAME, RESERVE_NAME};
pub use log::{
    AppendError, GROUP_MAX_BYTES, LockedDirectory, Log, OnDamage, OpenReport, PreparedSegment, RESERVE_BYTES,
    SEGMENT_DEFAULT_BYTES, SEGMENT_MAX_BYTES, SEGMENT_MIN_BYTES, SPARE_SEGMENTS_MAX, SegmentRequest, Settings,
};
pub use numbers::{Epoch, LogId, Position, SegmentNumber, SessionId, ShardNumber, TurnNumber};
pub use reader::{Damage, DamageKind, DurableFrames, LogEnd, PossiblyAffected, Reader, Step, TornWrite};
pub use snapshot::{NamedSnapshot, SnapshotCandidates, SnapshotReader, SnapshotWriter, Snapshots};
#[cfg(feature = "lying-disk")]
pub use writer::SteppedWriter;
pub use writer::{
    FrameSender, GROUP_COMMIT_DELAY_MS, PostError, RING_FRAMES, RING_MAX_BYTES, SEAL_IDLE_MS, WriterHandle,
    WriterThread,
};
