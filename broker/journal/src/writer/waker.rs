//! Wakes the writer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// Wakes one thread. Ringing takes no lock, and no system call while the thread is awake.
#[derive(Debug, Default)]
pub(super) struct Waker {
    owner: OnceLock<Thread>,
    sleeps: AtomicBool,
}

impl Waker {
    /// The calling thread is the one that is woken.
    pub(super) fn register_thread(&self) {
        // Only the writer calls this, once.
        let _ = self.owner.set(thread::current());
    }

    /// Wakes the owner, if it sleeps. What was brought before is seen by its next look.
    pub(super) fn wake(&self) {
        // Between bringing and looking whether it sleeps, as it says that it sleeps before it looks what was brought.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed)
            && self.sleeps.swap(false, Ordering::AcqRel)
            && let Some(owner) = self.owner.get()
        {
            owner.unpark();
        }
    }

    /// Sleeps until the bell rings, or for `at_most`, unless there is something to do.
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
