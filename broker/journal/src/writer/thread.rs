//! What the writer's thread does.

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
use crate::writer::{CLOSED, FAILED, GROUP_COMMIT_DELAY_MS, SEAL_IDLE_MS, Shared};

/// A buffer that has grown beyond this is not given back.
const BUFFER_KEPT_BYTES: usize = 256 << 10;
/// After there was no space for a segment, so long is waited before the next attempt.
const SPACE_RETRY_MS: u64 = 1_000;
/// So long nothing must have been posted before the log is sealed.
const SEAL_AFTER: Duration = Duration::from_millis(SEAL_IDLE_MS);
const PUT_OFF: Duration = Duration::from_millis(GROUP_COMMIT_DELAY_MS);

pub(super) struct Writer<D: Disk> {
    log: Log<D>,
    sources: Vec<Source>,
    /// The frame that comes next in the order of all shards. It may not be there yet although later ones are.
    next_ticket: u64,
    wake: Box<dyn Fn(ShardNumber) + Send>,
    now_ms: Box<dyn Fn() -> u64 + Send>,
    released: Position,
    no_space_at_ms: Option<u64>,
    /// Since when there are frames that nobody waits for, and no others, or such frames are expected.
    put_off_since: Option<Instant>,
    /// When the last group was begun that nothing has sealed yet.
    unsealed_since: Option<Instant>,
    shared: Arc<Shared>,
}

/// Where the frames of one shard come from.
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
            put_off_since: None,
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

    /// Says to all shards that nothing is written any more.
    pub(super) fn end(&mut self, result: &Result<(), LogError>) {
        let state = match result {
            Ok(()) => CLOSED,
            Err(error) => {
                log::error!("nothing becomes durable any more: {error}");
                // It is set here alone.
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
            if (is_closing || !self.puts_off()) && self.write_group(preparer)? {
                continue;
            }
            if is_closing {
                return self.close(preparer);
            }
            self.seal_if_idle()?;
            self.sleep();
        }
    }

    /// Whether nobody waits for any of the frames that are there, and they have not been there for long: one that somebody waits for may
    /// come at any moment and take them along, with one write and one sync for all.
    fn puts_off(&mut self) -> bool {
        let is_urgent = self.shared.flush_up_to.load(Ordering::Acquire) > self.next_ticket;
        if is_urgent {
            self.put_off_since = None;
            return false;
        }
        if !self.has_next() {
            // Where there have been some, there will be more: nobody need wake us for the next one if we wake by ourselves.
            self.put_off_since = self.shared.has_deferred_frames.swap(false, Ordering::Relaxed).then(Instant::now);
            return false;
        }
        let since = *self.put_off_since.get_or_insert_with(Instant::now);
        let puts_off = since.elapsed() < PUT_OFF;
        if !puts_off {
            self.put_off_since = None;
        }
        puts_off
    }

    /// Seals the log once nothing has been posted for a while: one write for all that came before, however long the rest lasts.
    fn seal_if_idle(&mut self) -> Result<(), LogError> {
        if self.unsealed_since.is_some_and(|since| since.elapsed() >= SEAL_AFTER) && self.put_off_since.is_none() {
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

    /// Writes all that waits, and makes it durable; false where nothing waits.
    pub(super) fn write_group(&mut self, preparer: &mut impl PrepareSegments<D>) -> Result<bool, LogError> {
        self.look_ahead(preparer)?;
        let took = self.take_frames()?;
        if took {
            self.take_delivery(preparer)?;
            let Writer { log, sources, shared, wake, .. } = self;
            let began = Instant::now();
            let position = log.commit_with_callback(|| tell_written(sources, shared, wake))?;
            let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.shared.sync_times.count(took_us, 1);
            self.unsealed_since = Some(began);
            self.tell(position);
        }
        Ok(took)
    }

    pub(super) fn close(&mut self, preparer: &mut impl PrepareSegments<D>) -> Result<(), LogError> {
        self.take_delivery(preparer)?;
        self.log.close_cleanly()
    }

    fn take_delivery(&mut self, preparer: &mut impl PrepareSegments<D>) -> Result<(), LogError> {
        if self.log.needs_segment() { self.log.install_segment(preparer.wait()) } else { Ok(()) }
    }

    /// Takes what was prepared, orders what is needed next, and lets go of what is not needed any more.
    fn look_ahead(&mut self, preparer: &mut impl PrepareSegments<D>) -> Result<(), LogError> {
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
                    "there is no space for the next segment of the journal: what would have to be kept is refused until there is"
                ),
            }
            self.no_space_at_ms = Some(now_ms);
            self.log.retry_allocation();
        } else if self.no_space_at_ms.take().is_some() {
            log::info!("there is space for the journal again");
        }
        if let Some(order) = self.log.request((self.now_ms)()) {
            preparer.request(order);
        }
        Ok(())
    }

    /// Moves frames that wait into the group, in the order in which they were posted, as many as it takes. Whether there
    /// were any.
    fn take_frames(&mut self) -> Result<bool, LogError> {
        let first = self.next_ticket;
        // Those that come while this goes on are for the next group.
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
                give_back(&mut source.free_buffers, posted.body);
            }
        }
        Ok(self.next_ticket > first)
    }

    /// All that was in the group is durable.
    fn tell(&mut self, position: Position) {
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
                || match self.put_off_since {
                    Some(_) => flush_up_to.load(Ordering::Acquire) > self.next_ticket,
                    None => self.has_next(),
                }
        };
        // Who is refused posts nothing, so nobody else would have it look whether there is space again.
        let retry = self.log.is_low_on_space().then_some(Duration::from_millis(SPACE_RETRY_MS));
        let put_off = self.put_off_since.map(|since| PUT_OFF.saturating_sub(since.elapsed()));
        is_delaying_flush.store(put_off.is_some(), Ordering::Relaxed);
        let seal = self.unsealed_since.map(|since| SEAL_AFTER.saturating_sub(since.elapsed()));
        self.shared.waker.sleep_unless(has_work, put_off.or_else(|| retry.into_iter().chain(seal).min()));
        is_delaying_flush.store(false, Ordering::Relaxed);
        // See `Shared::notify_deferred`.
        fence(Ordering::SeqCst);
    }
}

/// All that was in the group is in the hands of the system.
fn tell_written(sources: &[Source], shared: &Shared, wake: &dyn Fn(ShardNumber)) {
    for source in sources {
        let written = &shared.shard(source.shard).written;
        if written.load(Ordering::Relaxed) != source.taken.0 {
            written.store(source.taken.0, Ordering::Release);
            wake(source.shard);
        }
    }
}

fn give_back(free_buffers: &mut Producer<Vec<u8>>, mut body: Vec<u8>) {
    if body.capacity() <= BUFFER_KEPT_BYTES {
        body.clear();
        // Where the ring is full the shard has enough of them.
        let _ = free_buffers.push(body);
    }
}

impl<D: Disk> Drop for Writer<D> {
    fn drop(&mut self) {
        // Only a panic leaves it running.
        if self.shared.state() == super::RUNNING {
            let _ = self.shared.failure.set(LogError::WriterStopped);
            self.shared.state.store(FAILED, Ordering::SeqCst);
            for source in &self.sources {
                (self.wake)(source.shard);
            }
        }
    }
}
