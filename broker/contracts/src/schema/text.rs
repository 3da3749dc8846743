//! Formats of strings.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::typed::time;

/// A format that is checked, and not a hint as the standard has it by default.
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
            TextFormat::DateTime => time::parse_timestamp(text).is_some(),
            TextFormat::Date => text.len() == 10 && time::parse_timestamp(&format!("{text}T00:00:00Z")).is_some(),
            TextFormat::Time => time::parse_timestamp(&format!("2000-01-01T{text}")).is_some(),
            TextFormat::Uuid => is_uuid(text),
            TextFormat::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            TextFormat::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
        }
    }
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
    fn formats_know_their_own() {
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
