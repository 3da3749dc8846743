//! The writer without threads, for simulations: it goes on when it is told to.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::LogError;
use crate::log::{Log, PreparedSegment, SegmentRequest};
use crate::numbers::ShardNumber;
use crate::writer::preparer::PrepareSegments;
use crate::writer::thread::Writer;
use crate::writer::{FrameSender, RUNNING, Shared, WriterHandle, channels};

/// Does what [`WriterThread`](crate::WriterThread) does, a group at a time. Dropped, it is as if the process had been killed.
pub struct SteppedWriter<D: Disk> {
    writer: Writer<D>,
    bench: InlinePreparer<D>,
    shared: Arc<Shared>,
}

impl<D: Disk> SteppedWriter<D> {
    /// A writer of `log`, and a port with room for `ring_frames` frames for each of `shards` shards. The rest is as for
    /// [`WriterThread::start`](crate::WriterThread::start).
    pub fn start(
        log: Log<D>,
        shards: u16,
        ring_frames: usize,
        wake: impl Fn(ShardNumber) + Send + 'static,
        now_ms: impl Fn() -> u64 + Send + 'static,
    ) -> (SteppedWriter<D>, Vec<FrameSender>) {
        let shared = Arc::new(Shared::of(&log, shards));
        let (frame_senders, sources) = channels(&shared, ring_frames);
        let writer = Writer::new(log, sources, Box::new(wake), Box::new(now_ms), shared.clone());
        (SteppedWriter { writer, bench: InlinePreparer { order: None, made: None }, shared }, frame_senders)
    }

    /// Writes all that waits, and makes it durable; false where nothing waits, or the log has failed.
    pub fn step(&mut self) -> bool {
        if self.shared.state() != RUNNING {
            return false;
        }
        match self.writer.write_group(&mut self.bench) {
            Ok(took) => took,
            Err(error) => {
                self.writer.end(&Err(error));
                false
            }
        }
    }

    /// Seals the log, as the thread does when nothing has been posted for a while.
    pub fn seal(&mut self) {
        if self.shared.state() == RUNNING
            && let Err(error) = self.writer.seal()
        {
            self.writer.end(&Err(error));
        }
    }

    /// Makes the segment ready that was ordered; false where there is no order.
    pub fn prepare(&mut self) -> bool {
        self.bench.execute()
    }

    /// Makes durable what has been posted, and closes the log in order.
    ///
    /// # Errors
    /// The log has failed, now or before.
    pub fn close(mut self) -> Result<(), LogError> {
        while self.step() {}
        let result = self.shared.failure.get().map_or(Ok(()), |failure| Err(failure.clone()));
        result.and_then(|()| self.writer.close(&mut self.bench))
    }

    /// For those who look at the log while it is written.
    pub fn handle(&self) -> WriterHandle {
        WriterHandle { shared: self.shared.clone() }
    }
}

/// Orders lie here until they are carried out.
struct InlinePreparer<D: Disk> {
    order: Option<SegmentRequest<D>>,
    made: Option<Result<PreparedSegment<D>, LogError>>,
}

impl<D: Disk> InlinePreparer<D> {
    fn execute(&mut self) -> bool {
        let Some(order) = self.order.take() else { return false };
        self.made = Some(order.execute());
        true
    }
}

impl<D: Disk> PrepareSegments<D> for InlinePreparer<D> {
    fn request(&mut self, order: SegmentRequest<D>) {
        self.order = Some(order);
    }

    fn take(&mut self) -> Option<Result<PreparedSegment<D>, LogError>> {
        self.made.take()
    }

    fn wait(&mut self) -> Result<PreparedSegment<D>, LogError> {
        self.execute();
        self.made.take().unwrap_or(Err(LogError::WriterStopped))
    }
}
