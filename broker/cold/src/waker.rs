//! Wakes the store's thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// Wakes one thread. Ringing takes no lock, and no system call while the thread is awake.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    owner: OnceLock<Thread>,
    sleeps: AtomicBool,
}

impl Waker {
    /// The calling thread is the one that is woken.
    pub(crate) fn register_thread(&self) {
        // Only the store's thread calls this, once.
        let _ = self.owner.set(thread::current());
    }

    /// Wakes the owner, if it sleeps. What was brought before is seen by its next look.
    pub(crate) fn wake(&self) {
        // Between bringing and looking whether it sleeps, as it says that it sleeps before it looks what was brought.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed)
            && self.sleeps.swap(false, Ordering::AcqRel)
            && let Some(owner) = self.owner.get()
        {
            owner.unpark();
        }
    }

    /// Sleeps until the bell rings, and no longer than `most`, unless there is something to do.
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
