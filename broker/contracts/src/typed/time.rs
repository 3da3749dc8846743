//! Timestamps and durations as text: `2026-01-02T03:04:05.678Z` and `-1.5s`.

use std::io::Write as _;

/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
pub(crate) const TIMESTAMP_SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// Ten thousand years.
pub(crate) const DURATION_SECONDS_MAX: u64 = 315_576_000_000;
const DAY_S: i64 = 86_400;

/// Seconds since 1970 and nanoseconds; `None` if the text is not an RFC 3339 timestamp, or out of range.
pub(crate) fn parse_timestamp(text: &str) -> Option<(i64, u32)> {
    let bytes = text.as_bytes();
    let [y1, y2, y3, y4, b'-', mo1, mo2, b'-', d1, d2, b'T' | b't', h1, h2, b':', mi1, mi2, b':', s1, s2, rest @ ..] =
        bytes
    else {
        return None;
    };
    let year = number(&[*y1, *y2, *y3, *y4])?;
    let (month, day) = (number(&[*mo1, *mo2])?, number(&[*d1, *d2])?);
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*mi1, *mi2])?, number(&[*s1, *s2])?);
    let in_range = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
    if !in_range || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanos, zone) = match rest {
        [b'.', rest @ ..] => fraction(rest)?,
        _ => (0, rest),
    };
    let offset_s = match zone {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let seconds = days_since_1970(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset_s;
    TIMESTAMP_SECONDS.contains(&seconds).then_some((seconds, nanos))
}

/// Appends the timestamp, in UTC.
pub(crate) fn write_timestamp(seconds: i64, nanos: u32, out: &mut Vec<u8>) {
    let (year, month, day) = date(seconds.div_euclid(DAY_S));
    let second = seconds.rem_euclid(DAY_S);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Writing to memory does not fail.
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    write_fraction(nanos, out);
    out.push(b'Z');
}

/// Seconds and nanoseconds of the same sign; `None` if the text is not a duration, or out of range.
pub(crate) fn parse_duration(text: &str) -> Option<(i64, i32)> {
    let (negative, magnitude) = match text.strip_suffix('s')?.strip_prefix('-') {
        Some(magnitude) => (true, magnitude),
        None => (false, &text[..text.len() - 1]),
    };
    let (whole, fraction_text) =
        magnitude.split_once('.').map_or((magnitude, None), |(whole, part)| (whole, Some(part)));
    let seconds = if whole.is_empty() && fraction_text.is_some() { 0 } else { number(whole.as_bytes())? };
    let nanos = match fraction_text {
        None => 0,
        Some(digits) => match fraction(digits.as_bytes())? {
            (nanos, []) => nanos,
            _ => return None,
        },
    };
    let sign = if negative { -1 } else { 1 };
    (seconds.unsigned_abs() <= DURATION_SECONDS_MAX).then_some((seconds * sign, nanos as i32 * sign as i32))
}

/// Appends the duration.
pub(crate) fn write_duration(seconds: i64, nanos: i32, out: &mut Vec<u8>) {
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let _ = write!(out, "{sign}{}", seconds.unsigned_abs());
    write_fraction(nanos.unsigned_abs(), out);
    out.push(b's');
}

/// Writes three, six or nine digits, the fewest that are enough.
fn write_fraction(nanos: u32, out: &mut Vec<u8>) {
    let _ = match nanos {
        0 => Ok(()),
        _ if nanos.is_multiple_of(1_000_000) => write!(out, ".{:03}", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1_000) => write!(out, ".{:06}", nanos / 1_000),
        _ => write!(out, ".{nanos:09}"),
    };
}

/// Parses nanoseconds of one to nine digits, and returns the rest.
fn fraction(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = bytes.split_at(count);
    if !(1..=9).contains(&count) {
        return None;
    }
    let value = number(digits)? as u32;
    Some((value * 10u32.pow(9 - count as u32), rest))
}

/// Up to eighteen digits.
fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

pub(crate) fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Years begin in March, so that a leap day is the last day; 400 years have 146,097 days.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    const DAYS_BEFORE_1970: i64 = 719_468;
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - DAYS_BEFORE_1970
}

/// Year, month and day of a day since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    const DAYS_BEFORE_1970: i64 = 719_468;
    let days = days + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamp(seconds: i64, nanos: u32) -> String {
        let mut out = Vec::new();
        write_timestamp(seconds, nanos, &mut out);
        String::from_utf8(out).expect("valid")
    }

    #[test]
    fn known_timestamps_are_parsed() {
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("0001-01-01T00:00:00Z", -62_135_596_800, 0),
            ("9999-12-31T23:59:59.999999999Z", 253_402_300_799, 999_999_999),
            ("2000-02-29T12:00:00.120Z", 951_825_600, 120_000_000),
            ("1969-12-31T23:59:59.000001Z", -1, 1_000),
        ] {
            assert_eq!(parse_timestamp(text), Some((seconds, nanos)), "{text}");
            assert_eq!(timestamp(seconds, nanos), text);
        }
        assert_eq!(parse_timestamp("2020-01-01T01:30:00.5+01:30"), parse_timestamp("2020-01-01T00:00:00.5Z"));
    }

    #[test]
    fn every_day_of_a_thousand_years_round_trips() {
        for day in (-200_000..200_000).step_by(37) {
            let seconds = day * DAY_S + 4_711;
            assert_eq!(parse_timestamp(&timestamp(seconds, 0)), Some((seconds, 0)));
        }
    }

    #[test]
    fn invalid_timestamps_are_refused() {
        for text in [
            "",
            "2020-01-01",
            "2020-13-01T00:00:00Z",
            "2021-02-29T00:00:00Z",
            "2020-01-01T24:00:00Z",
            "2020-01-01T00:00:00",
            "2020-01-01T00:00:00.Z",
            "2020-01-01T00:00:00.1234567890Z",
            "0000-01-01T00:00:00Z",
            "2020-01-01 00:00:00Z",
            "9999-12-31T23:59:59-01:00",
            "2020-01-01T00:00:60Z",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_parsed() {
        for (text, seconds, nanos) in [
            ("1.500s", 1, 500_000_000),
            ("-0.000000001s", 0, -1),
            ("-3s", -3, 0),
            ("315576000000s", 315_576_000_000, 0),
        ] {
            assert_eq!(parse_duration(text), Some((seconds, nanos)));
            let mut out = Vec::new();
            write_duration(seconds, nanos, &mut out);
            assert_eq!(String::from_utf8(out).expect("valid"), text);
        }
        for text in ["", "s", "1", "1.s", "--1s", "315576000001s", "1e3s", "1.0000000001s", "+1s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
