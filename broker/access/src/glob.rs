//! Patterns for client identifiers, users and listeners.

/// A pattern in which `*` matches any run of characters, including none. Everything else is literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob(Box<str>);

impl Glob {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The worst case takes time proportional to the product of both lengths.
    pub(crate) fn matches(&self, value: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else { return *self.0 == *value };
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        let Some(mut value) = value.strip_prefix(head).and_then(|value| value.strip_suffix(tail)) else { return false };
        // The leftmost match of each part leaves the most text for the parts after it.
        for part in middle.split('*') {
            let Some(at) = value.find(part) else { return false };
            value = &value[at + part.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn a_star_matches_any_run_of_characters() {
        for (pattern, value, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("", "", true),
            ("*", "", true),
            ("*", "anything/at all", true),
            ("sensor-*", "sensor-7", true),
            ("sensor-*", "sensor", false),
            ("*-7", "sensor-7", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a**b", "ab", true),
            ("*b*", "abc", true),
            ("*b*b*", "abc", false),
            ("ü*", "über", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(value), expected, "{pattern} {value}");
        }
    }
}
