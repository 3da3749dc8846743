//! The writer without threads, for simulations: the caller drives each step.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::LogError;
use crate::log::{Log, PreparedSegment, SegmentRequest};
use crate::numbers::ShardNumber;
use crate::writer::preparer::PrepareSegments;
use crate::writer::shared::{RUNNING, Shared};
use crate::writer::thread::Writer;
use crate::writer::{FrameSender, WriterHandle, channels};

/// Does what [`WriterThread`](crate::WriterThread) does, one group at a time. Dropping it simulates a killed process.
pub struct SteppedWriter<D: Disk> {
    writer: Writer<D>,
    preparer: InlinePreparer<D>,
    shared: Arc<Shared>,
}

impl<D: Disk> SteppedWriter<D> {
    /// Creates a writer of `log` and, for each of `shards` shards, a sender with capacity for `ring_frames` frames. Otherwise like
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
        (SteppedWriter { writer, preparer: InlinePreparer { request: None, prepared: None }, shared }, frame_senders)
    }

    /// Writes all pending frames and makes them durable. Returns false if none are pending or the log has failed.
    pub fn step(&mut self) -> bool {
        if self.shared.state() != RUNNING {
            return false;
        }
        match self.writer.write_group(&mut self.preparer) {
            Ok(took) => took,
            Err(error) => {
                self.writer.end(&Err(error));
                false
            }
        }
    }

    /// Seals the log, as the thread does when the log is idle.
    pub fn seal(&mut self) {
        if self.shared.state() == RUNNING
            && let Err(error) = self.writer.seal()
        {
            self.writer.end(&Err(error));
        }
    }

    /// Prepares the requested segment. Returns false if there is no request.
    pub fn prepare(&mut self) -> bool {
        self.preparer.execute()
    }

    /// Makes all posted frames durable and closes the log cleanly.
    ///
    /// # Errors
    /// The log has failed, now or before.
    pub fn close(mut self) -> Result<(), LogError> {
        while self.step() {}
        let result = self.shared.failure.get().map_or(Ok(()), |failure| Err(failure.clone()));
        result.and_then(|()| self.writer.close(&mut self.preparer))
    }

    /// Returns a handle to observe the writer.
    pub fn handle(&self) -> WriterHandle {
        WriterHandle { shared: self.shared.clone() }
    }
}

/// Holds a request until it is executed.
struct InlinePreparer<D: Disk> {
    request: Option<SegmentRequest<D>>,
    prepared: Option<Result<PreparedSegment<D>, LogError>>,
}

impl<D: Disk> InlinePreparer<D> {
    fn execute(&mut self) -> bool {
        let Some(request) = self.request.take() else { return false };
        self.prepared = Some(request.execute());
        true
    }
}

impl<D: Disk> PrepareSegments<D> for InlinePreparer<D> {
    fn request(&mut self, request: SegmentRequest<D>) {
        self.request = Some(request);
    }

    fn take(&mut self) -> Option<Result<PreparedSegment<D>, LogError>> {
        self.prepared.take()
    }

    fn wait(&mut self) -> Result<PreparedSegment<D>, LogError> {
        self.execute();
        self.prepared.take().unwrap_or(Err(LogError::WriterStopped))
    }
}
