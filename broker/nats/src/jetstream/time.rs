//! Parses the timestamps of the servers: RFC 3339, in UTC.

/// Returns milliseconds since 1970, or `None` for invalid or earlier timestamps.
pub(crate) fn parse_time(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.splitn(3, ':');
    let (hours, minutes): (u64, u64) = (time.next()?.parse().ok()?, time.next()?.parse().ok()?);
    let (seconds, fraction) = time.next().map(|seconds| seconds.split_once('.').unwrap_or((seconds, "")))?;
    let seconds: u64 = seconds.parse().ok()?;
    let is_valid = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hours < 24
        && minutes < 60
        && seconds <= 60
        && fraction.bytes().all(|digit| digit.is_ascii_digit());
    let millis: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    is_valid.then(|| ((days(year, month, day) * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000 + millis)
}

/// Returns days since 1970-01-01. Years begin in March, so that a leap day is the last day.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_parsed_to_the_millisecond() {
        for (text, moment) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00.5Z", 951_825_600_500),
            ("2026-11-22T05:28:58.307927363Z", 1_795_325_338_307),
            ("2100-03-01T00:00:00Z", 4_107_542_400_000),
        ] {
            assert_eq!(parse_time(text), Some(moment), "{text}");
        }
    }

    #[test]
    fn invalid_timestamps_are_refused() {
        for text in [
            "",
            "Z",
            "2026-11-22",
            "2026-11-22T05:28:58",
            "2026-13-22T05:28:58Z",
            "1969-01-01T00:00:00Z",
            "2026-11-22T05:28:58.éZ",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
