use core::fmt;

use super::{MAX_TOPIC_BYTES, TopicError, TopicErrorKind};
use crate::wire::scan;

/// A topic name: the exact topic of a message. At least one byte, at most 65,535, without wildcards and U+0000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName<'a>(&'a str);

impl<'a> TopicName<'a> {
    /// Checks the rules of section 4.7.
    ///
    /// # Errors
    /// Empty, too long, U+0000 or a wildcard.
    #[inline]
    pub fn new(name: &'a str) -> Result<Self, TopicError> {
        if name.is_empty() || name.len() > MAX_TOPIC_BYTES || scan::has_null_or_wildcard(name.as_bytes()) {
            return Err(find_fault(name));
        }
        Ok(Self(name))
    }

    /// Creates a name without the checks of [`Self::new`], which the caller has made.
    #[inline]
    pub(crate) const fn trusted(name: &'a str) -> Self {
        Self(name)
    }

    /// The text.
    #[inline]
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

#[cold]
fn find_fault(name: &str) -> TopicError {
    if name.is_empty() {
        return TopicError { kind: TopicErrorKind::NameEmpty, offset: 0 };
    }
    if name.len() > MAX_TOPIC_BYTES {
        return TopicError { kind: TopicErrorKind::TooLong, offset: MAX_TOPIC_BYTES };
    }
    let offset = name.bytes().position(|byte| matches!(byte, 0 | b'+' | b'#')).unwrap_or(0);
    let kind =
        if name.as_bytes().get(offset) == Some(&0) { TopicErrorKind::Null } else { TopicErrorKind::WildcardInName };
    TopicError { kind, offset }
}

impl fmt::Display for TopicName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl AsRef<str> for TopicName<'_> {
    fn as_ref(&self) -> &str {
        self.0
    }
}

impl<'a> TryFrom<&'a str> for TopicName<'a> {
    type Error = TopicError;

    fn try_from(name: &'a str) -> Result<Self, TopicError> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(name: &str) -> (TopicErrorKind, usize) {
        let error = TopicName::new(name).unwrap_err();
        (error.kind, error.offset)
    }

    #[test]
    fn ordinary_names_are_accepted_unchanged() {
        for name in ["a", "/", "a/b", "a//b", "$SYS/x", "$share/g/t", "\u{feff}x", "ünïcødé/🦀", "with space"] {
            assert_eq!(TopicName::new(name).map(TopicName::as_str), Ok(name));
        }
    }

    #[test]
    fn errors_have_a_position() {
        assert_eq!(fault(""), (TopicErrorKind::NameEmpty, 0));
        assert_eq!(fault("a/+/b"), (TopicErrorKind::WildcardInName, 2));
        assert_eq!(fault("sensors/kitchen/#"), (TopicErrorKind::WildcardInName, 16));
        assert_eq!(fault("a\0b"), (TopicErrorKind::Null, 1));
        assert_eq!(fault("a\0#"), (TopicErrorKind::Null, 1));
    }

    #[test]
    fn the_length_limit_is_65535_bytes() {
        let longest = "a".repeat(65_535);
        assert!(TopicName::new(&longest).is_ok());
        assert_eq!(fault(&"a".repeat(65_536)), (TopicErrorKind::TooLong, 65_535));
    }

    use std::string::ToString as _;

    #[test]
    fn errors_contain_advice() {
        assert!(TopicName::new("#").unwrap_err().to_string().contains("publish to one exact topic"));
    }
}
