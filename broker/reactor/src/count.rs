//! Formats counts for messages.

/// Formats a count with its noun: `1 session`, `2 sessions`. The plural of `singular` adds an `s`.
pub fn counted(count: impl TryInto<u64>, singular: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {singular}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_equals_the_number_of_items() {
        let texts = [0_usize, 1, 2].map(|count| counted(count, "session"));
        assert_eq!(texts, ["0 sessions", "1 session", "2 sessions"]);
    }
}
