//! Names and passwords prepared by SASLprep (RFC 4013; RFC 5802, section 2.2), so that they do not depend on how they were typed.

use std::borrow::Cow;

use zeroize::Zeroizing;

/// The bytes that the keys of a password are derived from. A password that SASLprep does not allow, or that is not text, is used unchanged:
/// a client that prepares passwords cannot send it, but others may.
pub(crate) fn password(bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    let prepared = str::from_utf8(bytes).ok().and_then(|text| stringprep::saslprep(text).ok());
    match prepared.filter(|text| !text.is_empty()) {
        None | Some(Cow::Borrowed(_)) => Zeroizing::new(bytes.to_vec()),
        Some(Cow::Owned(text)) => Zeroizing::new(text.into_bytes()),
    }
}

/// A prepared name; `None` if SASLprep does not allow it.
pub(super) fn name(given: &str) -> Option<Cow<'_, str>> {
    stringprep::saslprep(given).ok()
}

/// Whether two names are equal when prepared.
pub(super) fn are_same(one: &str, other: &str) -> bool {
    one == other || matches!((name(one), name(other)), (Some(one), Some(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4013, section 3, and names as the keyboards of different systems write them.
    #[test]
    fn equivalent_spellings_are_normalized() {
        for (given, expected) in [
            ("I\u{ad}X", "IX"),
            ("user", "user"),
            ("USER", "USER"),
            ("\u{aa}", "a"),
            ("\u{2168}", "IX"),
            ("p\u{e9}ncil", "p\u{e9}ncil"),
            ("pe\u{301}ncil", "p\u{e9}ncil"),
            ("a\u{a0}b", "a b"),
            // Not allowed, or empty when prepared: unchanged.
            ("\u{7}", "\u{7}"),
            ("\u{627}1", "\u{627}1"),
            ("\u{ad}", "\u{ad}"),
        ] {
            assert_eq!(*password(given.as_bytes()), expected.as_bytes(), "{given:?}");
        }
        assert_eq!(*password(b"\xff\x00"), *b"\xff\x00");
        assert!(are_same("us\u{e9}r", "use\u{301}r") && !are_same("user", "us\u{e9}r") && are_same("\u{7}", "\u{7}"));
    }
}
