//! Wakes threads that wait for each other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};

/// Wakes one thread, without a lock, and without a system call if it is not asleep.
#[derive(Default)]
pub(crate) struct ThreadWaker {
    thread: OnceLock<Thread>,
    sleeps: AtomicBool,
}

impl ThreadWaker {
    /// Registers the calling thread as the one to wake.
    pub(crate) fn register(&self) {
        let _ = self.thread.set(thread::current());
    }

    pub(crate) fn wake(&self) {
        if self.sleeps.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    pub(crate) fn wait_until(&self, holds: impl Fn() -> bool) {
        while !holds() {
            self.sleeps.store(true, Ordering::SeqCst);
            if holds() {
                break;
            }
            thread::park();
        }
        self.sleeps.store(false, Ordering::SeqCst);
    }
}
