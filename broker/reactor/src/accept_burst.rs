//! Whether connections come in a rush, and how they are let in then.
//!
//! A connection that comes while the thread sleeps wakes it, and so does its CONNECT a moment later. Being woken costs more than all
//! that is then done, on both sides: whoever connects has to wake another processor. In a rush the listeners do not wake the
//! thread. It looks at them every [`POLL_INTERVAL_US`] and lets in all who have come meanwhile, whose CONNECT has come, too. Clients
//! that are connected wake it as ever.
//!
//! Clients that connect one after the other would wait for each look in vain. As many a second may come of them as in a rush, so
//! the thread finds out by trying: a look that finds fewer than [`POLL_MIN_CONNECTIONS`] on average is not worth it, and the next trial is put off.

/// Time between two looks at the listeners.
pub(crate) const POLL_INTERVAL_US: u32 = 100;
/// So many connections within [`WINDOW_MS`] may be a rush.
const BURST_MIN_CONNECTIONS: u32 = 32;
const WINDOW_MS: u64 = 4;
/// Looks after which it is judged whether the rush goes on.
const TRIAL_POLLS: u32 = 8;
/// Connections that a look finds on average while the rush goes on.
const POLL_MIN_CONNECTIONS: u32 = 2;
/// After a trial in vain, connections until the next one: at first, and at most. It doubles each time.
const TRIAL_BACKOFF_MIN: u32 = 128;
const TRIAL_BACKOFF_MAX: u32 = 8192;

/// What is known of how connections come.
#[derive(Debug)]
pub(crate) struct AcceptBurst {
    is_on: bool,
    /// The beginning of the window, and what has come in it.
    window_ms: u64,
    window_connections: u32,
    /// Of the looks so far: how many, and what they have found.
    polls: u32,
    found: u32,
    /// A trial since the rush began has been worth it.
    is_proven: bool,
    /// Connections to let pass before the next trial.
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

    /// So many connections have come while there was no rush. Says whether there is one now.
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

    /// A look has found so many connections. Says whether the rush goes on.
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
            // It was one, and is over.
            self.backoff = TRIAL_BACKOFF_MIN;
        } else {
            self.connections_to_skip = self.backoff;
            self.backoff = (2 * self.backoff).min(TRIAL_BACKOFF_MAX);
        }
        (self.polls, self.found) = (0, 0);
        self.is_on
    }

    /// It is over for another reason.
    pub(crate) fn end(&mut self) {
        self.is_on = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(accept_burst: &mut AcceptBurst) -> u32 {
        let mut connections = 1;
        while !accept_burst.record_connections(1, 0) {
            connections += 1;
        }
        connections
    }

    #[test]
    fn a_rush_is_many_connections_in_a_short_time() {
        let mut accept_burst = AcceptBurst::new();
        for now_ms in 0..1_000 {
            assert!(
                !accept_burst.record_connections(BURST_MIN_CONNECTIONS / (WINDOW_MS as u32 + 2), now_ms),
                "they come evenly"
            );
        }
        assert!(!accept_burst.record_connections(BURST_MIN_CONNECTIONS - 1, 2_000));
        assert!(accept_burst.record_connections(1, 2_000 + WINDOW_MS) && accept_burst.is_active());
    }

    #[test]
    fn it_goes_on_while_looks_find_several() {
        let mut accept_burst = AcceptBurst::new();
        begun(&mut accept_burst);
        for _ in 0..100 * TRIAL_POLLS {
            assert!(accept_burst.record_poll(POLL_MIN_CONNECTIONS));
        }
        let ended = (0..2 * TRIAL_POLLS).find(|_| !accept_burst.record_poll(0));
        assert!(ended.is_some() && !accept_burst.is_active());
        assert_eq!(begun(&mut accept_burst), BURST_MIN_CONNECTIONS, "the next one is seen as soon");
    }

    #[test]
    fn one_after_the_other_is_tried_ever_less() {
        let mut accept_burst = AcceptBurst::new();
        let mut between = Vec::new();
        for _ in 0..10 {
            between.push(begun(&mut accept_burst));
            let polls = (1..).find(|_| !accept_burst.record_poll(1));
            assert_eq!(polls, Some(TRIAL_POLLS));
        }
        assert_eq!(between[..3], [BURST_MIN_CONNECTIONS, TRIAL_BACKOFF_MIN, 2 * TRIAL_BACKOFF_MIN]);
        assert_eq!(between.last(), Some(&TRIAL_BACKOFF_MAX));
    }
}
