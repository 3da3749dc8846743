//! Wakes the writer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// Wakes one thread. Ringing takes no lock, and no system call while the thread is awake.
#[derive(Debug, Default)]
pub(super) struct Bell {
    owner: OnceLock<Thread>,
    sleeps: AtomicBool,
}

impl Bell {
    /// The calling thread is the one that is woken.
    pub(super) fn own(&self) {
        // Only the writer calls this, once.
        let _ = self.owner.set(thread::current());
    }

    /// Wakes the owner, if it sleeps. What was brought before is seen by its next look.
    pub(super) fn ring(&self) {
        // Between bringing and looking whether it sleeps, as it says that it sleeps before it looks what was brought.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed)
            && self.sleeps.swap(false, Ordering::AcqRel)
            && let Some(owner) = self.owner.get()
        {
            owner.unpark();
        }
    }

    /// The owner is about to look whether there is something to do, and to sleep if there is nothing.
    pub(super) fn before_sleep(&self) {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Sleeps until the bell rings, or for `at_most`; not at all where it has rung since [`Bell::before_sleep`].
    pub(super) fn sleep(&self, at_most: Option<Duration>) {
        match at_most {
            Some(time) => thread::park_timeout(time),
            None => thread::park(),
        }
    }

    pub(super) fn after_sleep(&self) {
        self.sleeps.store(false, Ordering::Relaxed);
    }
}
