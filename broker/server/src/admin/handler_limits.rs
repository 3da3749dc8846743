//! Limits on concurrent requests, by class.

use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout_at;

use super::response::{Response, Status};

/// Concurrent requests of authenticated callers.
const GENERAL_MAX: usize = 16;
/// Concurrent requests for metrics.
const METRICS_MAX: usize = 2;
/// Concurrent logins. One of them may check a password; tokens do not wait for that.
const LOGINS_MAX: usize = 2;
/// Threads that handle requests.
pub(super) const HANDLERS_MAX: usize = GENERAL_MAX + METRICS_MAX + LOGINS_MAX;

/// The threads and the concurrency limit that a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Answered from memory without blocking, on the I/O thread.
    Immediate,
    /// Metrics, which have their own handlers.
    Metrics,
    /// A login, whose sender is not authenticated.
    Login,
    /// All others.
    General,
}

/// Limits on concurrent requests by class: unauthenticated logins cannot take the handlers of others.
#[derive(Debug)]
pub(super) struct HandlerLimits {
    general: Semaphore,
    metrics: Semaphore,
    logins: Semaphore,
}

impl Default for HandlerLimits {
    fn default() -> HandlerLimits {
        HandlerLimits {
            general: Semaphore::new(GENERAL_MAX),
            metrics: Semaphore::new(METRICS_MAX),
            logins: Semaphore::new(LOGINS_MAX),
        }
    }
}

impl HandlerLimits {
    /// Waits for a handler until the deadline.
    pub(super) async fn acquire(&self, class: Class, deadline: Instant) -> Result<SemaphorePermit<'_>, Response> {
        let free = match class {
            Class::Immediate | Class::General => &self.general,
            Class::Metrics => &self.metrics,
            Class::Login => &self.logins,
        };
        let busy = || Response::error(Status::SERVICE_UNAVAILABLE, "busy", "too many concurrent requests; try again");
        timeout_at(deadline.into(), free.acquire()).await.map_err(|_| busy())?.map_err(|_| busy())
    }
}
