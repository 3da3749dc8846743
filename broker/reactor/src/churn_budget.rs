//! The share of a turn for clients that connect and disconnect, while established clients are active.
//!
//! Accepting a client, processing its CONNECT or closing its socket takes ten to twenty microseconds. Thousands of clients may come or go
//! at once, and a turn that serves hundreds of them takes milliseconds, which delays the messages of all others. So while established
//! clients are active, a turn spends at most [`STEP_US`] on churn, or as long as it has spent on the others. A turn that serves an
//! established client and is soon finished spends nothing on churn, so that its output is sent at once. The next turn makes up for it, so
//! churn gets at least half of the time.

use crate::clock::Now;

/// The least time a turn spends on churn, unless it spends none.
const STEP_US: u64 = 50;
/// How long established clients count as active after a read.
const ESTABLISHED_ACTIVE_MS: u64 = 1_000;

/// The churn budget of a turn.
#[derive(Debug, Default)]
pub(crate) struct ChurnBudget {
    began: Now,
    /// The turn serves established clients.
    serves_established: bool,
    /// The last time an established client was read from.
    served_established_ms: u64,
    /// The previous turn spent nothing on churn.
    is_overdue: bool,
    /// The budget of this turn, once determined.
    budget: Option<TimeBudget>,
    /// The turn has accepted a client.
    has_admitted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeBudget {
    /// No limit.
    All,
    Nothing,
    /// Work that begins before this time.
    Until(u64),
}

impl ChurnBudget {
    /// Begins a turn; `serves_established` if it reads from established clients.
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

    /// Whether the turn may do more churn work. Call it after established clients were read.
    pub(crate) fn may_continue(&mut self, now_us: impl Fn() -> u64) -> bool {
        match self.budget(&now_us) {
            TimeBudget::All => true,
            TimeBudget::Nothing => false,
            TimeBudget::Until(end_us) => now_us() < end_us,
        }
    }

    /// Whether the turn may accept a client. Unless it spends nothing on churn, it accepts at least one, however long other churn work has
    /// taken.
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

    /// Begins a turn in which established clients take `took_us`, and returns how many operations of 20 µs it then does, at most 100.
    fn turn(churn_budget: &mut ChurnBudget, began: Now, serves_established: bool, took_us: u64) -> u64 {
        churn_budget.begin_turn(began, serves_established);
        (0..100).find(|done| !churn_budget.may_continue(|| began.us + took_us + 20 * done)).unwrap_or(100)
    }

    fn at(us: u64) -> Now {
        Now { ms: LATER_MS + us / 1_000, us }
    }

    #[test]
    fn idle_clients_leave_the_whole_budget_to_connection_churn() {
        let mut churn_budget = ChurnBudget::default();
        assert_eq!(turn(&mut churn_budget, at(0), false, 0), 100);
        assert_eq!(turn(&mut churn_budget, at(10), true, 1), 0);
        assert_eq!(
            turn(&mut churn_budget, at(ESTABLISHED_ACTIVE_MS * 1_000 - 1), false, 0),
            3,
            "the client may still be active"
        );
        assert_eq!(turn(&mut churn_budget, at(ESTABLISHED_ACTIVE_MS * 1_000 + 1_000), false, 0), 100);
    }

    #[test]
    fn active_clients_wait_at_most_one_step() {
        let mut churn_budget = ChurnBudget::default();
        for began_us in (0..10_000).step_by(1_000) {
            assert_eq!(turn(&mut churn_budget, at(began_us), true, 5), 0);
            assert_eq!(turn(&mut churn_budget, at(began_us + 10), true, 5), 3, "churn has waited once");
            assert_eq!(turn(&mut churn_budget, at(began_us + 100), false, 0), 3);
        }
    }

    #[test]
    fn churn_gets_as_much_time_as_active_clients() {
        let mut churn_budget = ChurnBudget::default();
        for _ in 0..10 {
            assert_eq!(turn(&mut churn_budget, at(0), true, 1_000), 50);
        }
    }

    #[test]
    fn connections_are_accepted_during_many_disconnects() {
        let mut churn_budget = ChurnBudget::default();
        churn_budget.begin_turn(at(0), true);
        assert!(!churn_budget.may_admit(|| 1), "only in the next turn");
        churn_budget.begin_turn(at(10), false);
        assert!(churn_budget.may_continue(|| 10) && !churn_budget.may_continue(|| 1_000));
        assert!(churn_budget.may_admit(|| 1_000) && !churn_budget.may_admit(|| 1_000));
    }
}
