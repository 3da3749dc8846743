//! How a thread that sleeps is woken by others.

use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Wakes one thread.
#[derive(Debug)]
pub(crate) struct Waker {
    waker: mio::Waker,
    is_sleeping: AtomicBool,
}

impl Waker {
    pub(crate) fn new(waker: mio::Waker) -> Waker {
        Waker { waker, is_sleeping: AtomicBool::new(false) }
    }

    /// The owner is about to look whether there is something to do, and to sleep if there is nothing.
    pub(crate) fn before_sleep(&self) {
        self.is_sleeping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn after_sleep(&self) {
        self.is_sleeping.store(false, Ordering::Relaxed);
    }

    /// Wakes the owner if it sleeps or is about to. To be called after there is something for it to find.
    pub(crate) fn wake(&self) {
        // The owner says that it sleeps before it looks, and what it looks for is there before this is read: in one order of all
        // these, one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.is_sleeping.swap(false, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            log::error!("a thread could not be woken: {error}");
        }
    }
}
