//! A circuit breaker.

use super::HookSettings;
use crate::Now;

/// Opens after consecutive failures. While it is open, one request is allowed from time to time.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    /// While it is open: when the next request is allowed.
    open_until_ms: Option<u64>,
}

impl Breaker {
    /// Whether this request may be sent.
    pub(super) fn allows_request(&mut self, settings: &HookSettings, now: Now) -> bool {
        match self.open_until_ms {
            None => true,
            Some(until_ms) if now.steady_ms < until_ms => false,
            Some(_) => {
                // This request is the probe; the others wait for its result.
                self.open_until_ms = Some(now.steady_ms.saturating_add(settings.open_s * 1_000));
                true
            }
        }
    }

    pub(super) fn record_success(&mut self) {
        *self = Breaker::default();
    }

    pub(super) fn record_failure(&mut self, settings: &HookSettings, now: Now) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= settings.failures {
            self.open_until_ms = Some(now.steady_ms.saturating_add(settings.open_s * 1_000));
        }
    }

    pub(super) fn is_open(&self, now: Now) -> bool {
        self.open_until_ms.is_some_and(|until_ms| now.steady_ms < until_ms)
    }
}
