//! Times of the day at which a bridge is connected.

use std::fmt;

const MINUTES_PER_DAY: u64 = 24 * 60;
const SECONDS_PER_MINUTE: u64 = 60;

/// Periods of the day in UTC, such as `22:00-04:30`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Schedule(Vec<Period>);

/// From a minute of the day to another one, which may be of the next day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Period {
    from: u64,
    to: u64,
}

impl Schedule {
    /// Adds a period.
    ///
    /// # Errors
    /// The text is not `HH:MM-HH:MM`, or the period is empty.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), String> {
        let fail = || format!("\"{text}\" is not a period of the day; write it as \"22:00-04:30\", in UTC");
        let (from, to) = text.split_once('-').ok_or_else(fail)?;
        let minute = |text: &str| {
            let (hours, minutes) = text.split_once(':')?;
            let number = |text: &str, end: u64| {
                (text.len() == 2).then(|| text.parse::<u64>().ok()).flatten().filter(|number| *number < end)
            };
            Some(number(hours, 24)? * 60 + number(minutes, 60)?)
        };
        let (from, to) = minute(from.trim()).zip(minute(to.trim())).ok_or_else(fail)?;
        if from == to {
            return Err(format!("the period \"{text}\" is empty"));
        }
        self.0.push(Period { from, to });
        Ok(())
    }

    /// Each period as text.
    pub(crate) fn periods(&self) -> Vec<String> {
        self.0.iter().map(Period::to_string).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the bridge is connected at this time, and how many seconds later that changes.
    pub(crate) fn state_at(&self, unix_s: u64) -> (bool, u64) {
        let minute = unix_s / SECONDS_PER_MINUTE;
        let is_on = |minute: u64| {
            let minute = minute % MINUTES_PER_DAY;
            self.0.iter().any(|period| match period.from < period.to {
                true => (period.from..period.to).contains(&minute),
                false => minute >= period.from || minute < period.to,
            })
        };
        let now_on = is_on(minute);
        let next = (1..=MINUTES_PER_DAY).find(|later| is_on(minute + later) != now_on).unwrap_or(MINUTES_PER_DAY);
        (now_on, next * SECONDS_PER_MINUTE - unix_s % SECONDS_PER_MINUTE)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Period { from, to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    const DAY_S: u64 = 86_400;

    fn at(hours: u64, minutes: u64) -> u64 {
        20_000 * DAY_S + hours * 3600 + minutes * 60
    }

    #[test]
    fn periods_can_pass_midnight() {
        let mut schedule = Schedule::default();
        schedule.add("22:00-04:30").expect("a period");
        schedule.add("12:00-13:00").expect("a period");
        assert_eq!(schedule.periods(), ["22:00-04:30", "12:00-13:00"]);
        assert_eq!(schedule.state_at(at(21, 59)), (false, 60));
        assert_eq!(schedule.state_at(at(21, 59) + 20), (false, 40));
        assert_eq!(schedule.state_at(at(22, 0)), (true, 6 * 3600 + 1800));
        assert_eq!(schedule.state_at(at(0, 0)), (true, 4 * 3600 + 1800));
        assert_eq!(schedule.state_at(at(4, 30)), (false, 7 * 3600 + 1800));
        assert_eq!(schedule.state_at(at(12, 59)), (true, 60));
    }

    #[test]
    fn texts_that_are_no_periods_are_refused() {
        for text in ["", "22:00", "22:00-", "24:00-01:00", "22:60-23:00", "2:00-3:00", "-1:00-03:00", "10:00-10:00"] {
            assert!(Schedule::default().add(text).is_err(), "{text}");
        }
    }
}
