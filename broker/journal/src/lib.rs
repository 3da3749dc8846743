//! A durable log on disk, which all shards share.
//!
//! A shard builds one frame for each turn that changes persistent state ([`record`]), and posts it through its [`FrameSender`] to the
//! [`WriterThread`]. The thread writes all pending frames with one write and one sync, and notifies each shard of its last durable turn.
//! [`Log`] is the same without threads. [`Reader`] reads a log and distinguishes a torn tail from damage.
//! `docs/internals/journal-format.md` describes the format.
//!
//! All input and output goes through [`Disk`]. [`Directory`] is a directory of the file system; the feature `faulty-disk` adds a disk in
//! memory that loses unsynced data.

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
#[cfg(feature = "faulty-disk")]
pub use writer::SteppedWriter;
pub use writer::{
    FrameSender, GROUP_COMMIT_DELAY_MS, PostError, RING_FRAMES, RING_MAX_BYTES, SEAL_IDLE_MS, WriterHandle,
    WriterThread,
};
