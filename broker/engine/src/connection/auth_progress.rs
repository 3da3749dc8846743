//! Whether the queue of clients moves of which it is being found out who they are.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts parts of authentications that have been done, of all clients together. While the count grows, the queue moves, and the time that a
/// client waits in it does not count against the connect timeout.
#[derive(Debug, Default)]
pub struct AuthProgress(AtomicU64);

impl AuthProgress {
    /// A part has been done.
    pub fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many have been done.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
