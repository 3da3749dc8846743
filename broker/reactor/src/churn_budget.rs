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
const ESTABLISHED_ACTIVE_MS: u64 = 1_000;

/// The time of a turn, as far as those who come and go have it.
#[derive(Debug, Default)]
pub(crate) struct ChurnBudget {
    began: Now,
    /// The turn hears one of the others.
    serves_established: bool,
    /// When one of them was last heard.
    served_established_ms: u64,
    /// The turn before has given nothing.
    is_overdue: bool,
    /// What this turn gives, once that has been asked.
    budget: Option<TimeBudget>,
    /// It has let somebody in.
    has_admitted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeBudget {
    /// As much as the turn does of anything.
    All,
    Nothing,
    /// What is begun until this moment.
    Until(u64),
}

impl ChurnBudget {
    /// A turn begins, which `serves_established` one of those who have been there for longer.
    #[inline]
    pub(crate) fn begin_turn(&mut self, now: Now, serves_established: bool) {
        self.began = now;
        self.serves_established = serves_established;
        self.budget = None;
        self.has_admitted = false;
        if serves_established {
            self.served_established_ms = now.ms;
        }
    }

    /// Whether the turn does one thing more for those who come and go. To be asked when the others have been heard.
    pub(crate) fn may_continue(&mut self, now_us: impl Fn() -> u64) -> bool {
        match self.budget(&now_us) {
            TimeBudget::All => true,
            TimeBudget::Nothing => false,
            TimeBudget::Until(end_us) => now_us() < end_us,
        }
    }

    /// Whether it lets one more in: one at least, however long those who are in and those who go have taken.
    pub(crate) fn may_admit(&mut self, now_us: impl Fn() -> u64) -> bool {
        let may = self.may_continue(&now_us) || (!self.has_admitted && self.budget(&now_us) != TimeBudget::Nothing);
        self.has_admitted = true;
        may
    }

    fn budget(&mut self, now_us: impl Fn() -> u64) -> TimeBudget {
        if let Some(budget) = self.budget {
            return budget;
        }
        let budget = if self.began.ms - self.served_established_ms >= ESTABLISHED_ACTIVE_MS {
            TimeBudget::All
        } else {
            let now_us = now_us();
            let took_us = now_us - self.began.us;
            if self.serves_established && took_us < STEP_US && !self.is_overdue {
                TimeBudget::Nothing
            } else {
                TimeBudget::Until(now_us + took_us.max(STEP_US))
            }
        };
        self.is_overdue = budget == TimeBudget::Nothing;
        self.budget = Some(budget);
        budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER_MS: u64 = 1 << 40;

    /// Begins a turn in which the others take `took_us`, and says how many things of 20 µs it then does, 100 at most.
    fn turn(churn_budget: &mut ChurnBudget, began: Now, serves_established: bool, took_us: u64) -> u64 {
        churn_budget.begin_turn(began, serves_established);
        (0..100).find(|done| !churn_budget.may_continue(|| began.us + took_us + 20 * done)).unwrap_or(100)
    }

    fn at(us: u64) -> Now {
        Now { ms: LATER_MS + us / 1_000, us }
    }

    #[test]
    fn where_nobody_talks_they_get_all() {
        let mut churn_budget = ChurnBudget::default();
        assert_eq!(turn(&mut churn_budget, at(0), false, 0), 100);
        assert_eq!(turn(&mut churn_budget, at(10), true, 1), 0);
        assert_eq!(turn(&mut churn_budget, at(ESTABLISHED_ACTIVE_MS * 1_000 - 1), false, 0), 3, "he may go on");
        assert_eq!(turn(&mut churn_budget, at(ESTABLISHED_ACTIVE_MS * 1_000 + 1_000), false, 0), 100);
    }

    #[test]
    fn one_who_talks_waits_for_a_step_at_most() {
        let mut churn_budget = ChurnBudget::default();
        for began_us in (0..10_000).step_by(1_000) {
            assert_eq!(turn(&mut churn_budget, at(began_us), true, 5), 0);
            assert_eq!(turn(&mut churn_budget, at(began_us + 10), true, 5), 3, "they have waited once");
            assert_eq!(turn(&mut churn_budget, at(began_us + 100), false, 0), 3);
        }
    }

    #[test]
    fn they_get_as_long_as_those_who_talk() {
        let mut churn_budget = ChurnBudget::default();
        for _ in 0..10 {
            assert_eq!(turn(&mut churn_budget, at(0), true, 1_000), 50);
        }
    }

    #[test]
    fn somebody_is_let_in_however_many_go() {
        let mut churn_budget = ChurnBudget::default();
        churn_budget.begin_turn(at(0), true);
        assert!(!churn_budget.may_admit(|| 1), "the next turn");
        churn_budget.begin_turn(at(10), false);
        assert!(churn_budget.may_continue(|| 10) && !churn_budget.may_continue(|| 1_000));
        assert!(churn_budget.may_admit(|| 1_000) && !churn_budget.may_admit(|| 1_000));
    }
}
