//! How a thread that sleeps is woken by others.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use mio::Waker;

/// One thread's bell.
#[derive(Debug)]
pub(crate) struct Bell {
    waker: Waker,
    asleep: AtomicBool,
}

impl Bell {
    pub(crate) fn new(waker: Waker) -> Bell {
        Bell { waker, asleep: AtomicBool::new(false) }
    }

    /// The owner is about to look whether there is something to do, and to sleep if there is nothing.
    pub(crate) fn before_sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    pub(crate) fn after_sleep(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the owner if it sleeps or is about to. To be called after there is something for it to find.
    pub(crate) fn ring(&self) {
        // The owner says that it sleeps before it looks, and what it looks for is there before this is read: in one order of all
        // these, one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            log::error!("a thread could not be woken: {error}");
        }
    }
}
