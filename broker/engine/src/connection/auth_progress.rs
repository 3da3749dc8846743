//! The progress of the authentication queue.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the completed steps of all clients' authentications. While the count grows, the time that a client waits in the queue does not
/// count against its connect timeout.
#[derive(Debug, Default)]
pub struct AuthProgress(AtomicU64);

impl AuthProgress {
    /// Counts a completed step.
    pub fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of completed steps.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
