//! Calendar time in UTC, which the standard library lacks.

use std::time::{SystemTime, UNIX_EPOCH};

/// A time as RFC 3339 in UTC with microseconds, such as `2026-01-31T08:15:30.000000Z`.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years are counted from March, so that the leap day is a year's last day, in cycles of 400 years.
    let from_march_0000 = days + 719_468;
    let (cycle, day_of_cycle) = (from_march_0000 / 146_097, from_march_0000 % 146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let march_day = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let march_month = (5 * march_day + 2) / 153;
    let day = march_day - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = cycle * 400 + year_of_cycle + u64::from(month <= 2);
    let (hour, minute, micros) = (second / 3_600, second / 60 % 60, since.subsec_micros());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{micros:06}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn leap_days_and_ends_of_years_are_right() {
        // Values of `date -u --date=@SECONDS`.
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
