//! Formats numbers for people.

/// A number with thousands separators.
pub(in crate::cli) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with a noun, in the singular or plural.
pub(in crate::cli) fn grouped_count(number: u64, singular: &str) -> String {
    format!("{} {singular}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 999, 1_000, 67_108_864].map(grouped), ["0", "999", "1,000", "67,108,864"]);
        assert_eq!([0, 1, 1_000].map(|count| grouped_count(count, "file")), ["0 files", "1 file", "1,000 files"]);
    }
}
