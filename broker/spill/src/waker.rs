//! Wakes the store's thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// Wakes one thread. Takes no lock, and makes no system call while the thread is awake.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    owner: OnceLock<Thread>,
    sleeps: AtomicBool,
}

impl Waker {
    /// Registers the calling thread as the one to wake.
    pub(crate) fn register_thread(&self) {
        // Only the store's thread calls this, once.
        let _ = self.owner.set(thread::current());
    }

    /// Wakes the owner if it sleeps. The owner's next check sees what was sent before.
    pub(crate) fn wake(&self) {
        // Orders the send before the read of `sleeps`; the owner sets `sleeps` before it checks for work.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed)
            && self.sleeps.swap(false, Ordering::AcqRel)
            && let Some(owner) = self.owner.get()
        {
            owner.unpark();
        }
    }

    /// Sleeps until woken, at most `most`, unless `has_work` returns true.
    pub(crate) fn sleep_unless(&self, has_work: impl Fn() -> bool, most: Option<Duration>) {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !has_work() {
            match most {
                Some(most) => thread::park_timeout(most),
                None => thread::park(),
            }
        }
        self.sleeps.store(false, Ordering::Relaxed);
    }
}
