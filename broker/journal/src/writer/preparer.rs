//! The thread that makes segments ready, so that the writer need not.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::disk::{Disk, DiskError, Operation};
use crate::error::LogError;
use crate::log::{PreparedSegment, SegmentRequest};
use crate::writer::Shared;

/// Who makes segments ready. There is one order at a time.
pub(super) trait PrepareSegments<D: Disk> {
    fn request(&mut self, order: SegmentRequest<D>);

    /// What was ordered, if it is made.
    fn take(&mut self) -> Option<Result<PreparedSegment<D>, LogError>>;

    /// Waits for what was ordered.
    fn wait(&mut self) -> Result<PreparedSegment<D>, LogError>;
}

/// A thread. Its channels never hold more than one order.
pub(super) struct SegmentPreparer<D: Disk> {
    orders: Option<Sender<SegmentRequest<D>>>,
    made: Receiver<Result<PreparedSegment<D>, LogError>>,
    thread: Option<JoinHandle<()>>,
}

impl<D: Disk> SegmentPreparer<D> {
    /// Starts the thread.
    pub(super) fn start(shared: Arc<Shared>) -> Result<SegmentPreparer<D>, LogError> {
        let (orders, to_do) = channel::<SegmentRequest<D>>();
        let (done, made) = channel();
        let work = move || {
            while let Ok(order) = to_do.recv() {
                if done.send(order.execute()).is_err() {
                    return;
                }
                shared.waker.wake();
            }
        };
        let builder = thread::Builder::new().name("journal-ahead".to_owned());
        let thread =
            builder.spawn(work).map_err(|error| LogError::Disk(DiskError::new(Operation::Create, "", &error)))?;
        Ok(SegmentPreparer { orders: Some(orders), made, thread: Some(thread) })
    }
}

impl<D: Disk> PrepareSegments<D> for SegmentPreparer<D> {
    fn request(&mut self, order: SegmentRequest<D>) {
        if let Some(orders) = &self.orders {
            // Where the thread is gone, `wait` says so.
            let _ = orders.send(order);
        }
    }

    fn take(&mut self) -> Option<Result<PreparedSegment<D>, LogError>> {
        self.made.try_recv().ok()
    }

    fn wait(&mut self) -> Result<PreparedSegment<D>, LogError> {
        self.made.recv().unwrap_or(Err(LogError::WriterStopped))
    }
}

impl<D: Disk> Drop for SegmentPreparer<D> {
    /// Waits for what is being made. The directory is free for others afterwards, and their files must not be replaced.
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that prepares segments of the journal has panicked");
        }
    }
}
