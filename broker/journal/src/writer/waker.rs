//! Wakes the writer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// Wakes one thread. Takes no lock, and makes no system call while the thread is awake.
#[derive(Debug, Default)]
pub(super) struct Waker {
    owner: OnceLock<Thread>,
    sleeps: AtomicBool,
}

impl Waker {
    /// Registers the calling thread as the one to wake.
    pub(super) fn register_thread(&self) {
        // Only the writer calls this, once.
        let _ = self.owner.set(thread::current());
    }

    /// Wakes the owner if it sleeps. The owner's next check sees what was sent before.
    pub(super) fn wake(&self) {
        // Orders the send before the read of `sleeps`; the owner sets `sleeps` before it checks for work.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed)
            && self.sleeps.swap(false, Ordering::AcqRel)
            && let Some(owner) = self.owner.get()
        {
            owner.unpark();
        }
    }

    /// Sleeps until woken, at most `at_most`, unless `has_work` returns true.
    pub(super) fn sleep_unless(&self, has_work: impl Fn() -> bool, at_most: Option<Duration>) {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !has_work() {
            match at_most {
                Some(time) => thread::park_timeout(time),
                None => thread::park(),
            }
        }
        self.sleeps.store(false, Ordering::Relaxed);
    }
}
