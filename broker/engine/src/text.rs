//! Truncates text from clients, and formats times.

/// The longest prefix of `text` of at most `max_bytes` bytes that ends at a character boundary.
pub(crate) fn truncated(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Formats milliseconds since the Unix epoch as an RFC 3339 time, to the second.
pub(crate) fn rfc3339(at_ms: u64) -> String {
    let at_s = at_ms / 1_000;
    let (days, second) = (at_s / 86_400, at_s % 86_400);
    // Years are counted from March in cycles of 400 years, so that the leap day is the last of its year.
    let from_march_0000 = days + 719_468;
    let (cycle, day) = (from_march_0000 / 146_097, from_march_0000 % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = cycle * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_as_rfc_3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399_999), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_700_000_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(rfc3339(4_107_542_400_000), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn text_is_truncated_at_characters() {
        assert_eq!(truncated("", 4), "");
        assert_eq!(truncated("four", 4), "four");
        assert_eq!(truncated("five!", 4), "five");
        assert_eq!(truncated("aü€", 3), "aü");
        assert_eq!(truncated("aü€", 2), "a");
        assert_eq!(truncated("€", 2), "");
    }
}
