//! The thread that prepares segments, so that the writer does not have to wait.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::disk::{Disk, DiskError, Operation};
use crate::error::LogError;
use crate::log::{PreparedSegment, SegmentRequest};
use crate::writer::shared::Shared;

/// Prepares segments. Handles one request at a time.
pub(super) trait PrepareSegments<D: Disk> {
    fn request(&mut self, request: SegmentRequest<D>);

    /// Returns the requested segment if it is ready.
    fn take(&mut self) -> Option<Result<PreparedSegment<D>, LogError>>;

    /// Waits for the requested segment.
    fn wait(&mut self) -> Result<PreparedSegment<D>, LogError>;
}

/// Prepares segments on a thread. Its channels never hold more than one request.
pub(super) struct SegmentPreparer<D: Disk> {
    requests: Option<Sender<SegmentRequest<D>>>,
    prepared: Receiver<Result<PreparedSegment<D>, LogError>>,
    thread: Option<JoinHandle<()>>,
}

impl<D: Disk> SegmentPreparer<D> {
    /// Starts the thread.
    pub(super) fn start(shared: Arc<Shared>) -> Result<SegmentPreparer<D>, LogError> {
        let (requests, pending) = channel::<SegmentRequest<D>>();
        let (done, prepared) = channel();
        let work = move || {
            while let Ok(request) = pending.recv() {
                if done.send(request.execute()).is_err() {
                    return;
                }
                shared.waker.wake();
            }
        };
        let builder = thread::Builder::new().name("journal-ahead".to_owned());
        let thread =
            builder.spawn(work).map_err(|error| LogError::Disk(DiskError::new(Operation::Create, "", &error)))?;
        Ok(SegmentPreparer { requests: Some(requests), prepared, thread: Some(thread) })
    }
}

impl<D: Disk> PrepareSegments<D> for SegmentPreparer<D> {
    fn request(&mut self, request: SegmentRequest<D>) {
        if let Some(requests) = &self.requests {
            // If the thread has ended, `wait` reports it.
            let _ = requests.send(request);
        }
    }

    fn take(&mut self) -> Option<Result<PreparedSegment<D>, LogError>> {
        self.prepared.try_recv().ok()
    }

    fn wait(&mut self) -> Result<PreparedSegment<D>, LogError> {
        self.prepared.recv().unwrap_or(Err(LogError::WriterStopped))
    }
}

impl<D: Disk> Drop for SegmentPreparer<D> {
    /// Waits for the segment that is being prepared: afterwards another process may use the directory, and its files must not be replaced.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that prepares segments of the journal panicked");
        }
    }
}
