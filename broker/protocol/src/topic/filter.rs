use core::fmt;

use super::{MAX_TOPIC_BYTES, TopicError, TopicErrorKind, TopicName, topic_matches};

const SHARE_PREFIX: &str = "$share/";

/// A topic filter with well-formed wildcards, or a well-formed `$share/NAME/FILTER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicFilter<'a>(&'a str);

/// The two parts of `$share/NAME/FILTER` (section 4.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedFilter<'a> {
    /// The share name: all sessions that use it share the messages.
    pub group: &'a str,
    /// The filter that topics are matched against.
    pub filter: &'a str,
}

impl<'a> TopicFilter<'a> {
    /// Checks the rules of sections 4.7 and 4.8.2.
    ///
    /// # Errors
    /// Empty, too long, U+0000, a wildcard that does not fill its level or is not last, or a broken `$share` form.
    #[inline]
    pub fn new(filter: &'a str) -> Result<Self, TopicError> {
        check(filter.as_bytes())?;
        Ok(Self(filter))
    }

    /// Creates a filter without the checks of [`Self::new`], which the caller has made.
    #[inline]
    pub(crate) const fn trusted(filter: &'a str) -> Self {
        Self(filter)
    }

    /// The whole text, `$share/NAME/` included.
    #[inline]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// The share name and the filter after it; `None` for a non-shared subscription.
    #[inline]
    pub fn share(self) -> Option<SharedFilter<'a>> {
        let (group, filter) = self.0.strip_prefix(SHARE_PREFIX)?.split_once('/')?;
        Some(SharedFilter { group, filter })
    }

    /// The part that topics are matched against: without `$share/NAME/`.
    #[inline]
    pub fn matched(self) -> &'a str {
        self.share().map_or(self.0, |shared| shared.filter)
    }

    /// Whether it contains `+` or `#`.
    pub fn has_wildcard(self) -> bool {
        self.matched().bytes().any(|byte| matches!(byte, b'+' | b'#'))
    }

    /// Whether the topic name matches this filter (section 4.7).
    pub fn matches(self, name: TopicName<'_>) -> bool {
        topic_matches(self.matched(), name.as_str())
    }
}

/// The rules of [`TopicFilter::new`]. All special characters are ASCII, so it works on bytes.
#[inline]
pub(crate) fn check(filter: &[u8]) -> Result<(), TopicError> {
    if filter.len() > MAX_TOPIC_BYTES {
        return fault(TopicErrorKind::TooLong, MAX_TOPIC_BYTES);
    }
    match filter.strip_prefix(SHARE_PREFIX.as_bytes()) {
        None => check_levels(filter, 0),
        Some(shared) => check_shared(shared),
    }
}

/// Whether a filter that passed [`check`] is a shared one.
#[inline]
pub(crate) fn is_shared(filter: &[u8]) -> bool {
    filter.starts_with(SHARE_PREFIX.as_bytes())
}

#[cold]
fn fault<T>(kind: TopicErrorKind, offset: usize) -> Result<T, TopicError> {
    Err(TopicError { kind, offset })
}

fn check_shared(shared: &[u8]) -> Result<(), TopicError> {
    let base = SHARE_PREFIX.len();
    let group_len = shared.iter().position(|&byte| byte == b'/').unwrap_or(shared.len());
    let (group, rest) = shared.split_at(group_len);
    if group.is_empty() {
        return fault(TopicErrorKind::ShareNameInvalid, base);
    }
    if let Some(at) = group.iter().position(|byte| matches!(byte, 0 | b'+' | b'#')) {
        let is_null = group.get(at) == Some(&0);
        return fault(if is_null { TopicErrorKind::Null } else { TopicErrorKind::ShareNameInvalid }, base + at);
    }
    // `rest` is empty or starts with the slash that ends the share name.
    let filter = rest.get(1..).unwrap_or(&[]);
    if filter.is_empty() {
        return fault(TopicErrorKind::ShareFilterMissing, base + shared.len());
    }
    check_levels(filter, base + group_len + 1)
}

/// `base`: the offset of `filter` within the string that error offsets count from.
#[inline]
fn check_levels(filter: &[u8], base: usize) -> Result<(), TopicError> {
    if filter.is_empty() {
        return fault(TopicErrorKind::FilterEmpty, base);
    }
    let mut before = b'/';
    for (at, &byte) in filter.iter().enumerate() {
        match byte {
            b'+' | b'#' => {
                if before != b'/' {
                    return fault(TopicErrorKind::WildcardNotAlone, base + at);
                }
                match filter.get(at + 1) {
                    None => {}
                    Some(b'/') if byte == b'#' => return fault(TopicErrorKind::MultiLevelNotLast, base + at),
                    Some(b'/') => {}
                    Some(_) => return fault(TopicErrorKind::WildcardNotAlone, base + at),
                }
            }
            0 => return fault(TopicErrorKind::Null, base + at),
            _ => {}
        }
        before = byte;
    }
    Ok(())
}

impl fmt::Display for TopicFilter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl AsRef<str> for TopicFilter<'_> {
    fn as_ref(&self) -> &str {
        self.0
    }
}

impl<'a> TryFrom<&'a str> for TopicFilter<'a> {
    type Error = TopicError;

    fn try_from(filter: &'a str) -> Result<Self, TopicError> {
        Self::new(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(filter: &str) -> (TopicErrorKind, usize) {
        let error = TopicFilter::new(filter).unwrap_err();
        (error.kind, error.offset)
    }

    #[test]
    fn well_formed_filters_are_accepted() {
        for filter in ["a", "#", "+", "/", "/+", "+/", "a/#", "a/+/b", "+/+/#", "$SYS/#", "$share", "$shared/x", "a//b"]
        {
            assert!(TopicFilter::new(filter).is_ok(), "{filter}");
        }
    }

    #[test]
    fn wildcards_must_fill_a_level_and_hash_must_be_last() {
        assert_eq!(fault_of("a+"), (TopicErrorKind::WildcardNotAlone, 1));
        assert_eq!(fault_of("+a"), (TopicErrorKind::WildcardNotAlone, 0));
        assert_eq!(fault_of("a/b#"), (TopicErrorKind::WildcardNotAlone, 3));
        assert_eq!(fault_of("++"), (TopicErrorKind::WildcardNotAlone, 0));
        assert_eq!(fault_of("#/a"), (TopicErrorKind::MultiLevelNotLast, 0));
        assert_eq!(fault_of("a/#/"), (TopicErrorKind::MultiLevelNotLast, 2));
        assert_eq!(fault_of("##"), (TopicErrorKind::WildcardNotAlone, 0));
        assert_eq!(fault_of(""), (TopicErrorKind::FilterEmpty, 0));
        assert_eq!(fault_of("a/\0"), (TopicErrorKind::Null, 2));
    }

    #[test]
    fn shared_filters_split_into_group_and_filter() {
        let filter = TopicFilter::new("$share/g/a/+/#").unwrap();
        assert_eq!(filter.share(), Some(SharedFilter { group: "g", filter: "a/+/#" }));
        assert_eq!(filter.matched(), "a/+/#");
        assert!(filter.has_wildcard());
        let absolute = TopicFilter::new("$share/g//a").unwrap();
        assert_eq!(absolute.matched(), "/a");
        assert!(!absolute.has_wildcard());
        assert_eq!(TopicFilter::new("$shared/g/a").unwrap().share(), None);
    }

    #[test]
    fn invalid_shared_filters_are_refused() {
        assert_eq!(fault_of("$share/"), (TopicErrorKind::ShareNameInvalid, 7));
        assert_eq!(fault_of("$share//f"), (TopicErrorKind::ShareNameInvalid, 7));
        assert_eq!(fault_of("$share/g"), (TopicErrorKind::ShareFilterMissing, 8));
        assert_eq!(fault_of("$share/g/"), (TopicErrorKind::ShareFilterMissing, 9));
        assert_eq!(fault_of("$share/g+/f"), (TopicErrorKind::ShareNameInvalid, 8));
        assert_eq!(fault_of("$share/#/f"), (TopicErrorKind::ShareNameInvalid, 7));
        assert_eq!(fault_of("$share/g/a#"), (TopicErrorKind::WildcardNotAlone, 10));
        assert_eq!(fault_of("$share/g\0/a"), (TopicErrorKind::Null, 8));
    }
}
