//! Formats of strings.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::typed::time;

/// A format that is enforced, although the standard treats it as an annotation by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFormat {
    DateTime,
    Date,
    Time,
    Uuid,
    Ipv4,
    Ipv6,
}

impl TextFormat {
    pub(crate) const ALL: [(&'static str, TextFormat); 6] = [
        ("date-time", TextFormat::DateTime),
        ("date", TextFormat::Date),
        ("time", TextFormat::Time),
        ("uuid", TextFormat::Uuid),
        ("ipv4", TextFormat::Ipv4),
        ("ipv6", TextFormat::Ipv6),
    ];

    pub(super) fn fits(self, text: &str) -> bool {
        match self {
            TextFormat::DateTime => is_date_time(text.as_bytes()),
            TextFormat::Date => is_date(text.as_bytes()),
            TextFormat::Time => is_time(text.as_bytes()),
            TextFormat::Uuid => is_uuid(text),
            TextFormat::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            TextFormat::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
        }
    }
}

/// `date-time` of RFC 3339. It allows more than a Protobuf timestamp: any number of digits, leap seconds, year 0.
fn is_date_time(text: &[u8]) -> bool {
    let Some((date, [b'T' | b't', time @ ..])) = text.split_at_checked(10) else { return false };
    is_date(date) && is_time(time)
}

fn is_date(text: &[u8]) -> bool {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else { return false };
    let year = number(&[*y1, *y2, *y3, *y4]);
    match (year, number(&[*m1, *m2]), number(&[*d1, *d2])) {
        (Some(year), Some(month @ 1..=12), Some(day)) => (1..=time::days_of(year, month)).contains(&day),
        _ => false,
    }
}

fn is_time(text: &[u8]) -> bool {
    let [h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = text else { return false };
    let (Some(hour @ 0..=23), Some(minute @ 0..=59), Some(second)) =
        (number(&[*h1, *h2]), number(&[*m1, *m2]), number(&[*s1, *s2]))
    else {
        return false;
    };
    let zone = match rest {
        [b'.', digits @ ..] => {
            let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if count == 0 {
                return false;
            }
            &digits[count..]
        }
        _ => rest,
    };
    let offset_minutes = match zone {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => match (number(&[*h1, *h2]), number(&[*m1, *m2])) {
            (Some(hours @ 0..=23), Some(minutes @ 0..=59)) => {
                (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
            }
            _ => return false,
        },
        _ => return false,
    };
    // A leap second is the last second of a day in UTC.
    let is_last_minute = (hour * 60 + minute - offset_minutes).rem_euclid(24 * 60) == 24 * 60 - 1;
    second <= 59 || (second == 60 && is_last_minute)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_recognize_their_files() {
        for (format, text, fits) in [
            (TextFormat::DateTime, "2026-01-02T03:04:05Z", true),
            (TextFormat::Date, "2024-02-29", true),
            (TextFormat::Date, "2023-02-29", false),
            (TextFormat::Time, "10:00:00+02:00", true),
            (TextFormat::Time, "25:00:00Z", false),
            (TextFormat::Uuid, "123e4567-e89b-12d3-a456-426614174000", true),
            (TextFormat::Uuid, "123e4567e89b12d3a456426614174000", false),
            (TextFormat::Ipv4, "10.0.0.1", true),
            (TextFormat::Ipv4, "10.0.0.256", false),
            (TextFormat::Ipv6, "::1", true),
        ] {
            assert_eq!(format.fits(text), fits, "{text}");
        }
    }
}
