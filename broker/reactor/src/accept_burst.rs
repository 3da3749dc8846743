//! Detects bursts of new connections, and polls the listeners during a burst.
//!
//! A connection that arrives while the thread sleeps wakes it, and so does its CONNECT a moment later. Each wake-up costs more than all the
//! work that follows, on both sides: the client has to wake another processor. During a burst the listeners do not wake the thread. It
//! polls them every [`POLL_INTERVAL_US`] and accepts all connections that arrived since, whose CONNECT has arrived too. Connected clients
//! still wake it.
//!
//! Clients that connect one after the other would wait for each poll in vain. They may reach the rate of a burst, so the thread tries: if
//! polls find fewer than [`POLL_MIN_CONNECTIONS`] on average, polling does not pay, and the next trial is delayed.

/// The interval of polls.
pub(crate) const POLL_INTERVAL_US: u32 = 100;
/// This many connections within [`WINDOW_MS`] may be a burst.
const BURST_MIN_CONNECTIONS: u32 = 32;
const WINDOW_MS: u64 = 4;
/// The number of polls after which the burst is evaluated.
const TRIAL_POLLS: u32 = 8;
/// The average number of connections per poll for the burst to continue.
const POLL_MIN_CONNECTIONS: u32 = 2;
/// The number of connections between a useless trial and the next one: the initial and the largest value. It doubles each time.
const TRIAL_BACKOFF_MIN: u32 = 128;
const TRIAL_BACKOFF_MAX: u32 = 8192;

/// The state of burst detection.
#[derive(Debug)]
pub(crate) struct AcceptBurst {
    is_on: bool,
    /// The start of the window, and the connections in it.
    window_ms: u64,
    window_connections: u32,
    /// The polls so far, and the connections that they found.
    polls: u32,
    found: u32,
    /// A trial since the start of the burst was useful.
    is_proven: bool,
    /// The number of connections to skip before the next trial.
    connections_to_skip: u32,
    backoff: u32,
}

impl AcceptBurst {
    pub(crate) fn new() -> AcceptBurst {
        AcceptBurst {
            is_on: false,
            window_ms: 0,
            window_connections: 0,
            polls: 0,
            found: 0,
            is_proven: false,
            connections_to_skip: 0,
            backoff: TRIAL_BACKOFF_MIN,
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.is_on
    }

    /// Records new connections outside of a burst. Returns whether a burst has begun.
    pub(crate) fn record_connections(&mut self, connections: u32, now_ms: u64) -> bool {
        self.connections_to_skip = self.connections_to_skip.saturating_sub(connections);
        if now_ms - self.window_ms > WINDOW_MS {
            self.window_ms = now_ms;
            self.window_connections = 0;
        }
        self.window_connections += connections;
        if self.window_connections < BURST_MIN_CONNECTIONS || self.connections_to_skip > 0 {
            return false;
        }
        self.is_on = true;
        self.is_proven = false;
        (self.polls, self.found, self.window_connections) = (0, 0, 0);
        true
    }

    /// Records the connections that a poll has found. Returns whether the burst continues.
    pub(crate) fn record_poll(&mut self, found: u32) -> bool {
        self.polls += 1;
        self.found += found;
        if self.polls < TRIAL_POLLS {
            return true;
        }
        self.is_on = self.found >= TRIAL_POLLS * POLL_MIN_CONNECTIONS;
        if self.is_on {
            self.is_proven = true;
        } else if self.is_proven {
            // The burst was real and has ended.
            self.backoff = TRIAL_BACKOFF_MIN;
        } else {
            self.connections_to_skip = self.backoff;
            self.backoff = (2 * self.backoff).min(TRIAL_BACKOFF_MAX);
        }
        (self.polls, self.found) = (0, 0);
        self.is_on
    }

    /// Ends the burst for another reason.
    pub(crate) fn end(&mut self) {
        self.is_on = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections_until_burst(accept_burst: &mut AcceptBurst) -> u32 {
        let mut connections = 1;
        while !accept_burst.record_connections(1, 0) {
            connections += 1;
        }
        connections
    }

    #[test]
    fn a_burst_is_many_connections_in_a_short_time() {
        let mut accept_burst = AcceptBurst::new();
        for now_ms in 0..1_000 {
            assert!(
                !accept_burst.record_connections(BURST_MIN_CONNECTIONS / (WINDOW_MS as u32 + 2), now_ms),
                "they arrive evenly"
            );
        }
        assert!(!accept_burst.record_connections(BURST_MIN_CONNECTIONS - 1, 2_000));
        assert!(accept_burst.record_connections(1, 2_000 + WINDOW_MS) && accept_burst.is_active());
    }

    #[test]
    fn a_burst_continues_while_several_connections_are_found() {
        let mut accept_burst = AcceptBurst::new();
        connections_until_burst(&mut accept_burst);
        for _ in 0..100 * TRIAL_POLLS {
            assert!(accept_burst.record_poll(POLL_MIN_CONNECTIONS));
        }
        let ended = (0..2 * TRIAL_POLLS).find(|_| !accept_burst.record_poll(0));
        assert!(ended.is_some() && !accept_burst.is_active());
        assert_eq!(
            connections_until_burst(&mut accept_burst),
            BURST_MIN_CONNECTIONS,
            "the next burst is detected as soon"
        );
    }

    #[test]
    fn sequential_connections_are_polled_less_often() {
        let mut accept_burst = AcceptBurst::new();
        let mut between = Vec::new();
        for _ in 0..10 {
            between.push(connections_until_burst(&mut accept_burst));
            let polls = (1..).find(|_| !accept_burst.record_poll(1));
            assert_eq!(polls, Some(TRIAL_POLLS));
        }
        assert_eq!(between[..3], [BURST_MIN_CONNECTIONS, TRIAL_BACKOFF_MIN, 2 * TRIAL_BACKOFF_MIN]);
        assert_eq!(between.last(), Some(&TRIAL_BACKOFF_MAX));
    }
}
