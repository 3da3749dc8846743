//! Wakes a sleeping thread from other threads.

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

    /// Announces that the owner checks for work, and sleeps if there is none.
    pub(crate) fn before_sleep(&self) {
        self.is_sleeping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn after_sleep(&self) {
        self.is_sleeping.store(false, Ordering::Relaxed);
    }

    /// Wakes the owner if it sleeps or is about to. Call it after the work is visible.
    pub(crate) fn wake(&self) {
        // The owner sets the flag before it checks for work, and the work is visible before the flag is read here. Because all of these are
        // sequentially consistent, one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.is_sleeping.swap(false, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            log::error!("cannot wake a thread: {error}");
        }
    }
}
