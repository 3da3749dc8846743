//! Unix time and calendar time in UTC, which the standard library lacks.

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since the Unix epoch; zero if the clock is set to an earlier time.
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A point in time in UTC, split into its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UtcTime {
    pub(crate) unix_s: u64,
    pub(crate) nanosecond: u32,
    pub(crate) year: u64,
    /// From 1.
    pub(crate) month: u8,
    /// From 1.
    pub(crate) day: u8,
    /// Day of the year, from 1.
    pub(crate) day_of_year: u16,
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    pub(crate) second: u8,
}

impl UtcTime {
    pub(crate) fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Converts seconds and nanoseconds since 1970-01-01T00:00:00Z.
    pub(crate) fn from_unix(unix_s: u64, nanosecond: u32) -> Self {
        let days = unix_s / 86_400;
        let second_of_day = unix_s % 86_400;
        // Years are counted from March, so that the leap day is a year's last day, in cycles of 400 years.
        let from_march_0000 = days + 719_468;
        let cycle = from_march_0000 / 146_097;
        let day_of_cycle = from_march_0000 % 146_097;
        let year_of_cycle =
            (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
        let march_day = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let march_month = (5 * march_day + 2) / 153;
        let day = march_day - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = cycle * 400 + year_of_cycle + u64::from(month <= 2);
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let day_of_year = if month <= 2 { march_day - 305 } else { march_day + 60 + u64::from(leap) };
        Self {
            unix_s,
            nanosecond,
            year,
            month: month as u8,
            day: day as u8,
            day_of_year: day_of_year as u16,
            hour: (second_of_day / 3_600) as u8,
            minute: (second_of_day / 60 % 60) as u8,
            second: (second_of_day % 60) as u8,
        }
    }

    /// The start of a day in seconds since 1970; `None` for earlier and for invalid days.
    pub(crate) fn unix_s_of(year: u16, month: u8, day: u8) -> Option<u64> {
        // The inverse of `from_unix`.
        let from_march = u64::from(year).checked_sub(u64::from(month <= 2))?;
        let march_month = (u64::from(month) + 9) % 12;
        let day_of_year = (153 * march_month + 2) / 5 + u64::from(day).checked_sub(1)?;
        let days = (from_march * 365 + from_march / 4 - from_march / 100 + from_march / 400 + day_of_year)
            .checked_sub(719_468)?;
        let found = UtcTime::from_unix(days.checked_mul(86_400)?, 0);
        ((found.year, found.month, found.day) == (year.into(), month, day)).then_some(found.unix_s)
    }

    /// Formats the time as RFC 3339 to the second, for example `2026-01-31T09:05:07Z`.
    pub(crate) fn to_rfc3339(self) -> String {
        let mut text = String::new();
        self.push_rfc3339(&mut text, 0);
        text
    }

    /// Appends the time as RFC 3339 with up to 9 digits of a second.
    ///
    /// For example, three digits give `2026-01-31T09:05:07.250Z`.
    pub(crate) fn push_rfc3339(&self, text: &mut String, digits: u32) {
        let _ = write!(text, "{self}");
        if digits > 0 {
            let digits = digits.min(9);
            let fraction = self.nanosecond / 10_u32.pow(9 - digits);
            let _ = write!(text, ".{fraction:0width$}", width = digits as usize);
        }
        text.push('Z');
    }
}

impl From<SystemTime> for UtcTime {
    /// Times before 1970 become 1970; only a clock that was never set reports them.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_unix(since.as_secs(), since.subsec_nanos())
    }
}

impl fmt::Display for UtcTime {
    /// Date and time to the second, without the zone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            self.year, self.month, self.day, self.hour, self.minute, self.second
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rfc3339(unix_s: u64, nanosecond: u32, digits: u32) -> String {
        let mut text = String::new();
        UtcTime::from_unix(unix_s, nanosecond).push_rfc3339(&mut text, digits);
        text
    }

    #[test]
    fn known_timestamps_are_written_as_rfc3339() {
        assert_eq!(rfc3339(0, 0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399, 999_999_999, 3), "2000-02-28T23:59:59.999Z");
        assert_eq!(rfc3339(951_782_400, 0, 0), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_709_164_800, 5_000, 6), "2024-02-29T00:00:00.000005Z");
        assert_eq!(rfc3339(1_798_761_599, 1, 9), "2026-12-31T23:59:59.000000001Z");
        assert_eq!(rfc3339(4_107_542_400, 0, 0), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn an_invalid_day_is_refused() {
        for (year, month, day) in
            [(2025, 2, 29), (2026, 13, 1), (2026, 0, 1), (2026, 4, 31), (2026, 1, 0), (1969, 12, 31), (0, 1, 1)]
        {
            assert_eq!(UtcTime::unix_s_of(year, month, day), None, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn the_days_of_four_centuries_are_consecutive() {
        let mut last = UtcTime::from_unix(0, 0);
        for day in 1..146_097_u64 {
            let next = UtcTime::from_unix(day * 86_400, 0);
            if next.day == 1 {
                assert!(last.day >= 28);
                assert_eq!(next.month, last.month % 12 + 1);
                assert_eq!(next.year, last.year + u64::from(next.month == 1));
            } else {
                assert_eq!((next.year, next.month, next.day), (last.year, last.month, last.day + 1));
            }
            assert_eq!(UtcTime::unix_s_of(next.year as u16, next.month, next.day), Some(day * 86_400));
            let expected = if next.month == 1 && next.day == 1 { 1 } else { last.day_of_year + 1 };
            assert_eq!(next.day_of_year, expected, "{next}");
            last = next;
        }
    }
}
