//! The loop of the writer's thread.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer};

use crate::disk::Disk;
use crate::error::LogError;
use crate::log::{AppendError, Log};
use crate::numbers::{Position, ShardNumber, TurnNumber};
use crate::writer::frame_sender::PostedFrame;
use crate::writer::preparer::{PrepareSegments, SegmentPreparer};
use crate::writer::shared::{CLOSED, FAILED, RUNNING, Shared};

/// How long a frame that nothing waits for is delayed at most, in milliseconds, to share a sync with others.
pub const GROUP_COMMIT_DELAY_MS: u64 = 2;
/// The idle time in milliseconds after which the log is sealed, see [`Log::seal`].
pub const SEAL_IDLE_MS: u64 = 50;
/// A buffer that has grown beyond this size is not returned for reuse.
const BUFFER_KEPT_BYTES: usize = 256 << 10;
/// The delay before allocation is retried after the disk had no space for a segment.
const SPACE_RETRY_MS: u64 = 1_000;
/// The idle time before the log is sealed.
const SEAL_AFTER: Duration = Duration::from_millis(SEAL_IDLE_MS);
const DEFER_INTERVAL: Duration = Duration::from_millis(GROUP_COMMIT_DELAY_MS);

pub(super) struct Writer<D: Disk> {
    log: Log<D>,
    sources: Vec<Source>,
    /// The next frame in the order of all shards. It may be missing although later ones have arrived.
    next_ticket: u64,
    wake: Box<dyn Fn(ShardNumber) + Send>,
    now_ms: Box<dyn Fn() -> u64 + Send>,
    released: Position,
    no_space_at_ms: Option<u64>,
    /// The time since which only deferred frames are pending, or such frames are expected.
    deferring_since: Option<Instant>,
    /// When the last unsealed group was begun.
    unsealed_since: Option<Instant>,
    shared: Arc<Shared>,
}

/// The receiving half of a shard's channel.
pub(super) struct Source {
    shard: ShardNumber,
    frames: Consumer<PostedFrame>,
    free_buffers: Producer<Vec<u8>>,
    /// The last turn in the group.
    taken: TurnNumber,
}

impl Source {
    pub(super) fn new(shard: ShardNumber, frames: Consumer<PostedFrame>, free_buffers: Producer<Vec<u8>>) -> Source {
        Source { shard, frames, free_buffers, taken: TurnNumber(0) }
    }

    fn has(&self, ticket: u64) -> bool {
        self.frames.peek().is_ok_and(|posted| posted.ticket == ticket)
    }
}

impl<D: Disk> Writer<D> {
    pub(super) fn new(
        log: Log<D>,
        sources: Vec<Source>,
        wake: Box<dyn Fn(ShardNumber) + Send>,
        now_ms: Box<dyn Fn() -> u64 + Send>,
        shared: Arc<Shared>,
    ) -> Writer<D> {
        Writer {
            log,
            sources,
            next_ticket: 0,
            wake,
            now_ms,
            released: Position::START,
            no_space_at_ms: None,
            deferring_since: None,
            unsealed_since: None,
            shared,
        }
    }

    pub(super) fn run(mut self) -> Result<(), LogError> {
        self.shared.waker.register_thread();
        let result = SegmentPreparer::start(self.shared.clone()).and_then(|mut preparer| self.write_all(&mut preparer));
        self.end(&result);
        result
    }

    /// Notifies all shards that nothing is written any more.
    pub(super) fn end(&mut self, result: &Result<(), LogError>) {
        let state = match result {
            Ok(()) => CLOSED,
            Err(error) => {
                log::error!("the journal has failed and nothing is persisted any more: {error}");
                // It is set only here.
                let _ = self.shared.failure.set(error.clone());
                FAILED
            }
        };
        self.shared.state.store(state, Ordering::SeqCst);
        for source in &self.sources {
            (self.wake)(source.shard);
        }
    }

    fn write_all(&mut self, preparer: &mut impl PrepareSegments<D>) -> Result<(), LogError> {
        loop {
            let is_closing = self.shared.closing.load(Ordering::SeqCst);
            if (is_closing || !self.is_deferring()) && self.write_group(preparer)? {
                continue;
            }
            if is_closing {
                return self.close(preparer);
            }
            self.seal_if_idle()?;
            self.sleep();
        }
    }

    /// Whether all pending frames are deferred and recent. An urgent frame may arrive at any moment, and then one write and one sync serve
    /// all.
    fn is_deferring(&mut self) -> bool {
        let is_urgent = self.shared.flush_up_to.load(Ordering::Acquire) > self.next_ticket;
        if is_urgent {
            self.deferring_since = None;
            return false;
        }
        if !self.has_next() {
            // Deferred frames tend to be followed by more. Waking by timer saves the senders from waking this thread.
            self.deferring_since = self.shared.has_deferred_frames.swap(false, Ordering::Relaxed).then(Instant::now);
            return false;
        }
        let since = *self.deferring_since.get_or_insert_with(Instant::now);
        let is_deferring = since.elapsed() < DEFER_INTERVAL;
        if !is_deferring {
            self.deferring_since = None;
        }
        is_deferring
    }

    /// Seals the log after an idle period: one write for all frames before, however long the period lasts.
    fn seal_if_idle(&mut self) -> Result<(), LogError> {
        if self.unsealed_since.is_some_and(|since| since.elapsed() >= SEAL_AFTER) && self.deferring_since.is_none() {
            self.seal()?;
        }
        Ok(())
    }

    pub(super) fn seal(&mut self) -> Result<(), LogError> {
        self.unsealed_since = None;
        self.log.seal()
    }

    fn has_next(&self) -> bool {
        self.sources.iter().any(|source| source.has(self.next_ticket))
    }

    /// Writes all pending frames and makes them durable. Returns false if none are pending.
    pub(super) fn write_group(&mut self, preparer: &mut impl PrepareSegments<D>) -> Result<bool, LogError> {
        self.advance_segments(preparer)?;
        let took = self.take_frames()?;
        if took {
            self.wait_for_segment(preparer)?;
            let Writer { log, sources, shared, wake, .. } = self;
            let began = Instant::now();
            let position = log.commit_with_callback(|| notify_written(sources, shared, wake))?;
            let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.shared.sync_times.count(took_us, 1);
            self.unsealed_since = Some(began);
            self.notify_durable(position);
        }
        Ok(took)
    }

    pub(super) fn close(&mut self, preparer: &mut impl PrepareSegments<D>) -> Result<(), LogError> {
        self.wait_for_segment(preparer)?;
        self.log.close_cleanly()
    }

    fn wait_for_segment(&mut self, preparer: &mut impl PrepareSegments<D>) -> Result<(), LogError> {
        if self.log.needs_segment() { self.log.install_segment(preparer.wait()) } else { Ok(()) }
    }

    /// Installs a prepared segment, requests the next one, and releases segments that are no longer needed.
    fn advance_segments(&mut self, preparer: &mut impl PrepareSegments<D>) -> Result<(), LogError> {
        if let Some(prepared) = preparer.take() {
            self.log.install_segment(prepared)?;
        }
        let covered = Position(self.shared.covered.load(Ordering::Acquire));
        if covered > self.released {
            self.released = covered;
            self.log.release(covered)?;
        }
        self.shared.is_disk_full.store(self.log.is_low_on_space(), Ordering::Relaxed);
        self.shared.held_bytes.store(self.log.held_bytes(), Ordering::Relaxed);
        if self.log.is_low_on_space() {
            let now_ms = (self.now_ms)();
            match self.no_space_at_ms {
                Some(at_ms) if now_ms < at_ms.saturating_add(SPACE_RETRY_MS) => return Ok(()),
                Some(_) => {}
                None => log::warn!(
                    "no space for the next segment of the journal: messages that must be persisted are rejected until there is"
                ),
            }
            self.no_space_at_ms = Some(now_ms);
            self.log.retry_allocation();
        } else if self.no_space_at_ms.take().is_some() {
            log::info!("the journal has disk space again");
        }
        if let Some(request) = self.log.request((self.now_ms)()) {
            preparer.request(request);
        }
        Ok(())
    }

    /// Moves pending frames into the group, in the order in which they were posted, as many as fit. Returns whether there were any.
    fn take_frames(&mut self) -> Result<bool, LogError> {
        let first = self.next_ticket;
        // Frames that arrive from now on go into the next group.
        let end = self.shared.next_ticket.load(Ordering::Acquire);
        while self.next_ticket < end {
            let next = self.next_ticket;
            let Some(source) = self.sources.iter_mut().find(|source| source.has(next)) else { break };
            let Ok(posted) = source.frames.peek() else { break };
            match self.log.append(source.shard, posted.turn, &posted.body) {
                Ok(()) => {}
                Err(AppendError::BatchFull) => break,
                Err(AppendError::TooLarge | AppendError::Failed) => {
                    return Err(self.log.failure().cloned().unwrap_or(LogError::WriterStopped));
                }
            }
            self.next_ticket += 1;
            if let Ok(posted) = source.frames.pop() {
                source.taken = posted.turn;
                let waiting = &self.shared.shard(source.shard).waiting_bytes;
                waiting.fetch_sub(posted.body.len(), Ordering::AcqRel);
                recycle_buffer(&mut source.free_buffers, posted.body);
            }
        }
        Ok(self.next_ticket > first)
    }

    /// Notifies the shards that the group is durable.
    fn notify_durable(&mut self, position: Position) {
        self.shared.durable.store(position.0, Ordering::Release);
        self.shared.groups.fetch_add(1, Ordering::Relaxed);
        self.shared.held_bytes.store(self.log.held_bytes(), Ordering::Relaxed);
        for source in &self.sources {
            let durable = &self.shared.shard(source.shard).durable;
            if durable.load(Ordering::Relaxed) != source.taken.0 {
                durable.store(source.taken.0, Ordering::Release);
                (self.wake)(source.shard);
            }
        }
    }

    fn sleep(&self) {
        let Shared { closing, covered, flush_up_to, is_delaying_flush, .. } = &*self.shared;
        let has_work = || {
            closing.load(Ordering::SeqCst)
                || covered.load(Ordering::Acquire) > self.released.0
                || match self.deferring_since {
                    Some(_) => flush_up_to.load(Ordering::Acquire) > self.next_ticket,
                    None => self.has_next(),
                }
        };
        // A shard whose posts are rejected does not wake this thread, so a timer must trigger the check for space.
        let retry = self.log.is_low_on_space().then_some(Duration::from_millis(SPACE_RETRY_MS));
        let defer_left = self.deferring_since.map(|since| DEFER_INTERVAL.saturating_sub(since.elapsed()));
        is_delaying_flush.store(defer_left.is_some(), Ordering::Relaxed);
        let seal = self.unsealed_since.map(|since| SEAL_AFTER.saturating_sub(since.elapsed()));
        self.shared.waker.sleep_unless(has_work, defer_left.or_else(|| retry.into_iter().chain(seal).min()));
        is_delaying_flush.store(false, Ordering::Relaxed);
        // See `Shared::notify_deferred`.
        fence(Ordering::SeqCst);
    }
}

/// Notifies the shards that the group was written.
fn notify_written(sources: &[Source], shared: &Shared, wake: &dyn Fn(ShardNumber)) {
    for source in sources {
        let written = &shared.shard(source.shard).written;
        if written.load(Ordering::Relaxed) != source.taken.0 {
            written.store(source.taken.0, Ordering::Release);
            wake(source.shard);
        }
    }
}

fn recycle_buffer(free_buffers: &mut Producer<Vec<u8>>, mut body: Vec<u8>) {
    if body.capacity() <= BUFFER_KEPT_BYTES {
        body.clear();
        // If the ring is full, the shard has enough buffers.
        let _ = free_buffers.push(body);
    }
}

impl<D: Disk> Drop for Writer<D> {
    fn drop(&mut self) {
        // Only a panic leaves it running.
        if self.shared.state() == RUNNING {
            let _ = self.shared.failure.set(LogError::WriterStopped);
            self.shared.state.store(FAILED, Ordering::SeqCst);
            for source in &self.sources {
                (self.wake)(source.shard);
            }
        }
    }
}
