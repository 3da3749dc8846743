//! Named values: functions shared by JSON and MessagePack.

use super::payload::{Duration, PayloadError, Raw, Timestamp};

pub(super) type Read<T> = Result<T, PayloadError>;

/// Writes values one after another.
pub(super) trait Sink {
    fn open_map(&mut self);
    fn key(&mut self, name: &str);
    fn close_map(&mut self);
    fn open_list(&mut self);
    fn item(&mut self);
    fn close_list(&mut self);
    fn null(&mut self);
    fn bool(&mut self, value: bool);
    fn int(&mut self, value: i64);
    fn uint(&mut self, value: u64);
    /// 64-bit numbers, which most JSON parsers cannot represent exactly.
    fn wide_int(&mut self, value: i64);
    fn wide_uint(&mut self, value: u64);
    fn float(&mut self, value: f32);
    fn double(&mut self, value: f64);
    fn string(&mut self, value: &str);
    fn data(&mut self, value: &[u8]);
    fn timestamp(&mut self, value: Timestamp);
    fn raw(&mut self, value: &Raw);

    fn duration(&mut self, value: Duration) {
        let sign = if value.seconds < 0 || value.nanos < 0 {
            "-"
        } else {
            ""
        };
        let seconds = value.seconds.unsigned_abs();
        let fraction = fraction(value.nanos.unsigned_abs());
        self.string(&format!("{sign}{seconds}{fraction}s"));
    }

    /// A value of an enumeration, by its name if it has one.
    fn enumeration(&mut self, number: i32, name: Option<&str>) {
        match name {
            Some(name) => self.string(name),
            None => self.int(i64::from(number)),
        }
    }
}

/// A parsed number.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Whole(i128),
    Fraction(f64),
}

/// Reads values one after another.
pub(super) trait Source {
    fn offset(&self) -> usize;
    fn open_map(&mut self) -> Read<()>;
    /// The next key; `None` at the end of the map.
    fn key(&mut self) -> Read<Option<String>>;
    fn open_list(&mut self) -> Read<()>;
    /// Whether there is another item.
    fn item(&mut self) -> Read<bool>;
    /// Consumes a null, if one is next.
    fn null(&mut self) -> bool;
    fn bool(&mut self) -> Read<bool>;
    /// A number, or a string with one if the format uses that.
    fn number(&mut self) -> Read<Option<Number>>;
    /// A string, if one is next.
    fn text(&mut self) -> Read<Option<String>>;
    fn data(&mut self) -> Read<Vec<u8>>;
    fn timestamp(&mut self) -> Read<Timestamp>;
    fn raw(&mut self) -> Read<Raw>;
    /// Checks that the payload ends here.
    fn end(&mut self) -> Read<()>;

    fn wrong(&self, expected: &str) -> PayloadError {
        PayloadError::new(expected, self.offset())
    }

    /// The error for a missing required field.
    fn missing(&self, name: &str) -> PayloadError {
        self.wrong(&format!("a value of the required field {name}"))
    }

    fn int<T: TryFrom<i128>>(&mut self) -> Read<T> {
        let whole = match self.number()? {
            Some(Number::Whole(value)) => Some(value),
            Some(Number::Fraction(value)) if value.trunc() == value => Some(value as i128),
            _ => None,
        };
        let expected = "an integer in the range of its type";
        whole
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| self.wrong(expected))
    }

    fn double(&mut self) -> Read<f64> {
        match self.number()? {
            Some(Number::Whole(value)) => Ok(value as f64),
            Some(Number::Fraction(value)) => Ok(value),
            None => Err(self.wrong("a number")),
        }
    }

    fn float(&mut self) -> Read<f32> {
        self.double().map(|value| value as f32)
    }

    fn string(&mut self) -> Read<String> {
        self.text()?.ok_or_else(|| self.wrong("a string"))
    }

    fn duration(&mut self) -> Read<Duration> {
        let text = self.string()?;
        let expected = "seconds with the suffix s, such as 1.5s";
        parse_duration(&text).ok_or_else(|| self.wrong(expected))
    }

    /// A value of an enumeration, by name or by number.
    fn enumeration<T>(&mut self, named: fn(&str) -> Option<T>, numbered: fn(i32) -> T) -> Read<T> {
        match self.text()? {
            None => self.int().map(numbered),
            Some(text) => named(&text).ok_or_else(|| self.wrong("a name of the enumeration")),
        }
    }

    /// A key of a map whose keys are not strings.
    fn parsed<T: std::str::FromStr>(&mut self, key: &str) -> Read<T> {
        key.parse().map_err(|_| self.wrong("another key"))
    }

    /// Skips a value.
    fn skip(&mut self) -> Read<()> {
        self.raw().map(drop)
    }
}

/// Three, six or nine digits, the fewest that are enough.
pub(super) fn fraction(nanos: u32) -> String {
    match nanos {
        0 => String::new(),
        _ if nanos.is_multiple_of(1_000_000) => format!(".{:03}", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1_000) => format!(".{:06}", nanos / 1_000),
        _ => format!(".{nanos:09}"),
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.strip_suffix('s')?;
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 12 || !is_number(whole) || text.ends_with('.') {
        return None;
    }
    Some(Duration {
        seconds: sign * whole.parse::<i64>().ok()?,
        nanos: sign as i32 * parse_fraction(digits)?,
    })
}

/// Nanoseconds of up to nine digits.
fn parse_fraction(digits: &str) -> Option<i32> {
    if digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<9}").parse().ok()
}

const DAY_S: i64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: i64 = 719_468;

/// Parses an RFC 3339 timestamp.
pub(super) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_number {
            digits.parse::<i64>().ok()
        } else {
            None
        }
    };
    let bytes = text.as_bytes();
    let is_separated = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')]
        .iter()
        .all(|(at, separator)| bytes.get(*at) == Some(separator));
    if !is_separated || !matches!(bytes.get(10), Some(b'T' | b't')) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || day < 1 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let rest = text.get(19..)?;
    let (digits, zone) = match rest.strip_prefix('.') {
        None => ("", rest),
        Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
    };
    let offset_s = match zone.as_bytes() {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let at = text.len() - 5;
            let (hours, minutes) = (number(at, at + 2)?, number(at + 3, at + 5)?);
            (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    // Years begin in March, so that a leap day is the last day.
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days =
        shifted_year.div_euclid(4) - shifted_year.div_euclid(100) + shifted_year.div_euclid(400);
    let days = shifted_year * 365 + leap_days + day_of_year - DAYS_BEFORE_1970;
    if date(days) != (year, month, day) {
        return None;
    }
    Some(Timestamp {
        seconds: days * DAY_S + hour * 3600 + minute * 60 + second - offset_s,
        nanos: parse_fraction(digits)?,
    })
}

/// The timestamp in UTC.
pub(super) fn format_timestamp(value: Timestamp) -> String {
    let (year, month, day) = date(value.seconds.div_euclid(DAY_S));
    let second = value.seconds.rem_euclid(DAY_S);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = fraction(value.nanos.unsigned_abs());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Year, month and day of a day since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    (era * 400 + year + i64::from(month <= 2), month, day)
}
