//! When to connect again, and when to stop trying.

use std::time::{Duration, Instant};

use super::Begin;
use super::backoff::Backoff;
use crate::state::Shared;
use crate::{Error, log};

/// Counts the attempts of one client.
pub(super) struct Attempts {
    backoff: Backoff,
    keeps_trying: bool,
    /// In a row.
    failed: u32,
    begun: Instant,
}

impl Attempts {
    pub(super) fn new(begin: Begin) -> Attempts {
        Attempts {
            backoff: Backoff::default(),
            keeps_trying: begin == Begin::KeepTrying,
            failed: 0,
            begun: Instant::now(),
        }
    }

    /// Another attempt begins.
    pub(super) fn begin(&mut self, shared: &Shared) {
        shared.set_connecting();
        self.begun = Instant::now();
    }

    /// A connection or an attempt has ended; without an error if that was intended. Returns the pause before the next attempt, or
    /// `None` if the client has ended.
    pub(super) fn end(&mut self, shared: &Shared, why: Option<Error>) -> Option<Duration> {
        let error = if shared.was_online() {
            self.keeps_trying = true;
            self.failed = 0;
            self.backoff.connection_ended(self.begun.elapsed());
            why
        } else {
            self.failed = self.failed.saturating_add(1);
            why.map(Error::before_connack)
        };
        let error = error.unwrap_or(Error::Closed);
        let (reconnect, attempts_max) = shared.with_options(|options| (options.reconnect, options.attempts_max));
        let may_try_again = self.keeps_trying && attempts_max.is_none_or(|most| self.failed < most.get());
        if !shared.lost(&error, may_try_again) {
            log::ended(&error);
            return None;
        }
        let pause = self.backoff.next(reconnect?);
        log::trying_again(&error, pause);
        Some(pause)
    }
}
