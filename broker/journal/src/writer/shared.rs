//! The state that the writer shares with other threads.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};

use tautwire_message::DurationCounts;

use super::waker::Waker;
use crate::disk::Disk;
use crate::error::LogError;
use crate::log::Log;
use crate::numbers::{ShardNumber, TurnNumber};

pub(super) const RUNNING: u8 = 0;
pub(super) const CLOSED: u8 = 1;
pub(super) const FAILED: u8 = 2;

/// The state that the writer shares with other threads.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) waker: Waker,
    pub(super) state: AtomicU8,
    pub(super) failure: OnceLock<LogError>,
    pub(super) closing: AtomicBool,
    pub(super) durable: AtomicU64,
    /// Groups made durable so far.
    pub(super) groups: AtomicU64,
    /// How long each of them took.
    pub(super) sync_times: DurationCounts,
    /// Bytes of all segments that hold frames.
    pub(super) held_bytes: AtomicU64,
    /// The next frame's place in the order of all shards.
    pub(super) next_ticket: AtomicU64,
    /// Frames before this one are not delayed.
    pub(super) flush_up_to: AtomicU64,
    /// The writer sleeps for a short time and then writes the pending frames.
    pub(super) is_delaying_flush: AtomicBool,
    /// Deferred frames have been posted since the writer last had none.
    pub(super) has_deferred_frames: AtomicBool,
    /// Bytes of the last snapshot.
    pub(super) snapshot_bytes: AtomicU64,
    /// The number of failed snapshots.
    pub(super) snapshot_failures: AtomicU64,
    /// The size limit of log and snapshot together.
    pub(super) limit_bytes: AtomicU64,
    /// There was no space for the next segment.
    pub(super) is_disk_full: AtomicBool,
    /// Segments up to this position may be released.
    pub(super) covered: AtomicU64,
    pub(super) shards: Box<[ShardState]>,
}

/// Aligned to a cache line, because both the shard and the writer write to it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct ShardState {
    /// The last turn that was written.
    pub(super) written: AtomicU64,
    /// The last durable turn.
    pub(super) durable: AtomicU64,
    /// Bytes in the ring.
    pub(super) waiting_bytes: AtomicUsize,
}

impl Shared {
    pub(super) fn of<D: Disk>(log: &Log<D>, shards: u16) -> Shared {
        Shared {
            waker: Waker::default(),
            state: AtomicU8::new(RUNNING),
            failure: OnceLock::new(),
            closing: AtomicBool::new(false),
            durable: AtomicU64::new(log.durable().0),
            groups: AtomicU64::new(0),
            sync_times: DurationCounts::default(),
            held_bytes: AtomicU64::new(log.held_bytes()),
            snapshot_bytes: AtomicU64::new(0),
            snapshot_failures: AtomicU64::new(0),
            limit_bytes: AtomicU64::new(u64::MAX),
            is_disk_full: AtomicBool::new(false),
            next_ticket: AtomicU64::new(0),
            flush_up_to: AtomicU64::new(0),
            is_delaying_flush: AtomicBool::new(false),
            has_deferred_frames: AtomicBool::new(false),
            covered: AtomicU64::new(0),
            shards: (0..shards).map(|_| ShardState::default()).collect(),
        }
    }

    /// Notifies the writer that a deferred frame was posted.
    pub(super) fn notify_deferred(&self) {
        self.has_deferred_frames.store(true, Ordering::Relaxed);
        // Orders the post before the read of `is_delaying_flush`; the writer clears it before it checks for frames.
        fence(Ordering::SeqCst);
        if !self.is_delaying_flush.load(Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    pub(super) fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }

    pub(super) fn is_full(&self) -> bool {
        let held_bytes = self.held_bytes.load(Ordering::Relaxed) + self.snapshot_bytes.load(Ordering::Relaxed);
        held_bytes > self.limit_bytes.load(Ordering::Relaxed) || self.is_disk_full.load(Ordering::Relaxed)
    }

    pub(super) fn shard(&self, shard: ShardNumber) -> &ShardState {
        &self.shards[usize::from(shard.0)]
    }
}

impl ShardState {
    pub(super) fn durable(&self) -> TurnNumber {
        TurnNumber(self.durable.load(Ordering::Acquire))
    }
}
