//! The thread that makes segments ready, so that the writer need not.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::disk::{Disk, DiskError, Operation};
use crate::error::LogError;
use crate::log::{Order, Prepared};
use crate::writer::Shared;

/// Who makes segments ready. There is one order at a time.
pub(super) trait Prepare<D: Disk> {
    fn order(&mut self, order: Order<D>);

    /// What was ordered, if it is made.
    fn take(&mut self) -> Option<Result<Prepared<D>, LogError>>;

    /// Waits for what was ordered.
    fn wait(&mut self) -> Result<Prepared<D>, LogError>;
}

/// A thread. Its channels never hold more than one order.
pub(super) struct Preparer<D: Disk> {
    orders: Option<Sender<Order<D>>>,
    made: Receiver<Result<Prepared<D>, LogError>>,
    thread: Option<JoinHandle<()>>,
}

impl<D: Disk> Preparer<D> {
    /// Starts the thread.
    pub(super) fn start(shared: Arc<Shared>) -> Result<Preparer<D>, LogError> {
        let (orders, to_do) = channel::<Order<D>>();
        let (done, made) = channel();
        let work = move || {
            while let Ok(order) = to_do.recv() {
                if done.send(order.carry_out()).is_err() {
                    return;
                }
                shared.bell.ring();
            }
        };
        let builder = thread::Builder::new().name("journal-ahead".to_owned());
        let thread =
            builder.spawn(work).map_err(|error| LogError::Disk(DiskError::new(Operation::Create, "", &error)))?;
        Ok(Preparer { orders: Some(orders), made, thread: Some(thread) })
    }
}

impl<D: Disk> Prepare<D> for Preparer<D> {
    fn order(&mut self, order: Order<D>) {
        if let Some(orders) = &self.orders {
            // Where the thread is gone, `wait` says so.
            let _ = orders.send(order);
        }
    }

    fn take(&mut self) -> Option<Result<Prepared<D>, LogError>> {
        self.made.try_recv().ok()
    }

    fn wait(&mut self) -> Result<Prepared<D>, LogError> {
        self.made.recv().unwrap_or(Err(LogError::WriterGone))
    }
}

impl<D: Disk> Drop for Preparer<D> {
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
