//! Texts of clients, shortened before they are kept or told.

/// The whole characters among the first `max_bytes` bytes.
pub(crate) fn beginning(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_cut() {
        assert_eq!(beginning("", 4), "");
        assert_eq!(beginning("four", 4), "four");
        assert_eq!(beginning("five!", 4), "five");
        assert_eq!(beginning("aü€", 3), "aü");
        assert_eq!(beginning("aü€", 2), "a");
        assert_eq!(beginning("€", 2), "");
    }
}
