//! The thread that makes segments ready, so that the writer need not.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::disk::{Disk, DiskError, Operation};
use crate::error::LogError;
use crate::log::{Order, Prepared};
use crate::writer::Shared;

/// Carries out one order at a time, so its channels never hold more than one.
pub(super) struct Preparer<D: Disk> {
    orders: Sender<Order<D>>,
    made: Receiver<Result<Prepared<D>, LogError>>,
}

impl<D: Disk> Preparer<D> {
    /// Starts the thread. It ends when the preparer is dropped.
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
        builder.spawn(work).map_err(|error| LogError::Disk(DiskError::new(Operation::Create, "", &error)))?;
        Ok(Preparer { orders, made })
    }

    pub(super) fn order(&self, order: Order<D>) {
        // Where the thread is gone, `wait` says so.
        let _ = self.orders.send(order);
    }

    /// What was ordered, if it is made.
    pub(super) fn take(&self) -> Option<Result<Prepared<D>, LogError>> {
        self.made.try_recv().ok()
    }

    /// Waits for what was ordered.
    pub(super) fn wait(&self) -> Result<Prepared<D>, LogError> {
        self.made.recv().unwrap_or(Err(LogError::WriterGone))
    }
}
