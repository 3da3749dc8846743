//! What a turn gives to those who come and go, while others talk.
//!
//! To let a client in, to answer its CONNECT or to close its socket takes ten to twenty microseconds. Thousands may come or go at
//! once, and a turn that has something to do for hundreds of them takes milliseconds, for which the messages of all others wait. So
//! while clients that have been there for longer are heard, a turn gives those who come and go no more than [`STEP_US`], or as long as the
//! others have taken. A turn that hears one of the others and is soon done with them gives nothing: what it has to write leaves at
//! once. The turn after that makes up for it, so those who come and go get at least half of the time.

use crate::clock::Now;

/// What a turn gives at least, unless it gives nothing.
const STEP_US: u64 = 50;
/// So long after one of the others has been heard, there may be more of them soon.
const HEARD_MS: u64 = 1_000;

/// The time of a turn, as far as those who come and go have it.
#[derive(Debug, Default)]
pub(crate) struct Turnover {
    began: Now,
    /// The turn hears one of the others.
    hears: bool,
    /// When one of them was last heard.
    heard_ms: u64,
    /// The turn before has given nothing.
    owes: bool,
    /// What this turn gives, once that has been asked.
    share: Option<Share>,
    /// It has let somebody in.
    has_let_in: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// As much as the turn does of anything.
    All,
    Nothing,
    /// What is begun until this moment.
    Until(u64),
}

impl Turnover {
    /// A turn begins, which `hears` one of those who have been there for longer.
    #[inline]
    pub(crate) fn begin_turn(&mut self, now: Now, hears: bool) {
        self.began = now;
        self.hears = hears;
        self.share = None;
        self.has_let_in = false;
        if hears {
            self.heard_ms = now.ms;
        }
    }

    /// Whether the turn does one thing more for those who come and go. To be asked when the others have been heard.
    pub(crate) fn may_go_on(&mut self, now_us: impl Fn() -> u64) -> bool {
        match self.share(&now_us) {
            Share::All => true,
            Share::Nothing => false,
            Share::Until(end_us) => now_us() < end_us,
        }
    }

    /// Whether it lets one more in: one at least, however long those who are in and those who go have taken.
    pub(crate) fn may_let_in(&mut self, now_us: impl Fn() -> u64) -> bool {
        let may = self.may_go_on(&now_us) || (!self.has_let_in && self.share(&now_us) != Share::Nothing);
        self.has_let_in = true;
        may
    }

    fn share(&mut self, now_us: impl Fn() -> u64) -> Share {
        if let Some(share) = self.share {
            return share;
        }
        let share = if self.began.ms - self.heard_ms >= HEARD_MS {
            Share::All
        } else {
            let now_us = now_us();
            let took_us = now_us - self.began.us;
            if self.hears && took_us < STEP_US && !self.owes {
                Share::Nothing
            } else {
                Share::Until(now_us + took_us.max(STEP_US))
            }
        };
        self.owes = share == Share::Nothing;
        self.share = Some(share);
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER_MS: u64 = 1 << 40;

    /// Begins a turn in which the others take `took_us`, and says how many things of 20 µs it then does, 100 at most.
    fn turn(turnover: &mut Turnover, began: Now, hears: bool, took_us: u64) -> u64 {
        turnover.begin_turn(began, hears);
        (0..100).find(|done| !turnover.may_go_on(|| began.us + took_us + 20 * done)).unwrap_or(100)
    }

    fn at(us: u64) -> Now {
        Now { ms: LATER_MS + us / 1_000, us }
    }

    #[test]
    fn where_nobody_talks_they_get_all() {
        let mut turnover = Turnover::default();
        assert_eq!(turn(&mut turnover, at(0), false, 0), 100);
        assert_eq!(turn(&mut turnover, at(10), true, 1), 0);
        assert_eq!(turn(&mut turnover, at(HEARD_MS * 1_000 - 1), false, 0), 3, "he may go on");
        assert_eq!(turn(&mut turnover, at(HEARD_MS * 1_000 + 1_000), false, 0), 100);
    }

    #[test]
    fn one_who_talks_waits_for_a_step_at_most() {
        let mut turnover = Turnover::default();
        for began_us in (0..10_000).step_by(1_000) {
            assert_eq!(turn(&mut turnover, at(began_us), true, 5), 0);
            assert_eq!(turn(&mut turnover, at(began_us + 10), true, 5), 3, "they have waited once");
            assert_eq!(turn(&mut turnover, at(began_us + 100), false, 0), 3);
        }
    }

    #[test]
    fn they_get_as_long_as_those_who_talk() {
        let mut turnover = Turnover::default();
        for _ in 0..10 {
            assert_eq!(turn(&mut turnover, at(0), true, 1_000), 50);
        }
    }

    #[test]
    fn somebody_is_let_in_however_many_go() {
        let mut turnover = Turnover::default();
        turnover.begin_turn(at(0), true);
        assert!(!turnover.may_let_in(|| 1), "the next turn");
        turnover.begin_turn(at(10), false);
        assert!(turnover.may_go_on(|| 10) && !turnover.may_go_on(|| 1_000));
        assert!(turnover.may_let_in(|| 1_000) && !turnover.may_let_in(|| 1_000));
    }
}
