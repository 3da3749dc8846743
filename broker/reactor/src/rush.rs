//! Whether connections come in a rush, and how they are let in then.
//!
//! A connection that comes while the thread sleeps wakes it, and so does its CONNECT a moment later. Being woken costs more than all
//! that is then done, on both sides: whoever connects has to wake another processor. In a rush the listeners do not wake the
//! thread. It looks at them every [`LOOK_AFTER_US`] and lets in all who have come meanwhile, whose CONNECT has come, too. Clients
//! that are connected wake it as ever.
//!
//! Clients that connect one after the other would wait for each look in vain. As many a second may come of them as in a rush, so
//! the thread finds out by trying: a look that finds fewer than [`LOOK_WORTH`] on average is not worth it, and the next trial is put off.

/// Time between two looks at the listeners.
pub(crate) const LOOK_AFTER_US: u32 = 100;
/// So many connections within [`WINDOW_MS`] may be a rush.
const SIGNS: u32 = 32;
const WINDOW_MS: u64 = 4;
/// Looks after which it is judged whether the rush goes on.
const TRIAL_LOOKS: u32 = 8;
/// Connections that a look finds on average while the rush goes on.
const LOOK_WORTH: u32 = 2;
/// After a trial in vain, connections until the next one: at first, and at most. It doubles each time.
const PATIENCE_MIN: u32 = 128;
const PATIENCE_MAX: u32 = 8192;

/// What is known of how connections come.
#[derive(Debug)]
pub(crate) struct Rush {
    is_on: bool,
    /// The beginning of the window, and what has come in it.
    window_ms: u64,
    signs: u32,
    /// Of the looks so far: how many, and what they have found.
    looks: u32,
    found: u32,
    /// A trial since the rush began has been worth it.
    is_proven: bool,
    /// Connections to let pass before the next trial.
    pass_over: u32,
    patience: u32,
}

impl Rush {
    pub(crate) fn new() -> Rush {
        Rush {
            is_on: false,
            window_ms: 0,
            signs: 0,
            looks: 0,
            found: 0,
            is_proven: false,
            pass_over: 0,
            patience: PATIENCE_MIN,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// So many connections have come while there was no rush. Says whether there is one now.
    pub(crate) fn came(&mut self, connections: u32, now_ms: u64) -> bool {
        self.pass_over = self.pass_over.saturating_sub(connections);
        if now_ms - self.window_ms > WINDOW_MS {
            self.window_ms = now_ms;
            self.signs = 0;
        }
        self.signs += connections;
        if self.signs < SIGNS || self.pass_over > 0 {
            return false;
        }
        self.is_on = true;
        self.is_proven = false;
        (self.looks, self.found, self.signs) = (0, 0, 0);
        true
    }

    /// A look has found so many connections. Says whether the rush goes on.
    pub(crate) fn looked(&mut self, found: u32) -> bool {
        self.looks += 1;
        self.found += found;
        if self.looks < TRIAL_LOOKS {
            return true;
        }
        self.is_on = self.found >= TRIAL_LOOKS * LOOK_WORTH;
        if self.is_on {
            self.is_proven = true;
        } else if self.is_proven {
            // It was one, and is over.
            self.patience = PATIENCE_MIN;
        } else {
            self.pass_over = self.patience;
            self.patience = (2 * self.patience).min(PATIENCE_MAX);
        }
        (self.looks, self.found) = (0, 0);
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

    fn begun(rush: &mut Rush) -> u32 {
        let mut connections = 1;
        while !rush.came(1, 0) {
            connections += 1;
        }
        connections
    }

    #[test]
    fn a_rush_is_many_connections_in_a_short_time() {
        let mut rush = Rush::new();
        for now_ms in 0..1_000 {
            assert!(!rush.came(SIGNS / (WINDOW_MS as u32 + 2), now_ms), "they come evenly");
        }
        assert!(!rush.came(SIGNS - 1, 2_000));
        assert!(rush.came(1, 2_000 + WINDOW_MS) && rush.is_on());
    }

    #[test]
    fn it_goes_on_while_looks_find_several() {
        let mut rush = Rush::new();
        begun(&mut rush);
        for _ in 0..100 * TRIAL_LOOKS {
            assert!(rush.looked(LOOK_WORTH));
        }
        let ended = (0..2 * TRIAL_LOOKS).find(|_| !rush.looked(0));
        assert!(ended.is_some() && !rush.is_on());
        assert_eq!(begun(&mut rush), SIGNS, "the next one is seen as soon");
    }

    #[test]
    fn one_after_the_other_is_tried_ever_less() {
        let mut rush = Rush::new();
        let mut between = Vec::new();
        for _ in 0..10 {
            between.push(begun(&mut rush));
            let looks = (1..).find(|_| !rush.looked(1));
            assert_eq!(looks, Some(TRIAL_LOOKS));
        }
        assert_eq!(between[..3], [SIGNS, PATIENCE_MIN, 2 * PATIENCE_MIN]);
        assert_eq!(between.last(), Some(&PATIENCE_MAX));
    }
}
