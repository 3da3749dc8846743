//! Levels of topic text. Works on bytes: `/`, `+`, `#` and `$` are ASCII and never occur inside a UTF-8 sequence.

/// The first level and, if there are more, the text after its separator.
///
/// Every text has at least one level: `""` is one empty level, `"/"` is two.
#[inline]
pub(crate) fn split_level(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b'/') {
        Some(end) => (&text[..end], Some(&text[end + 1..])),
        None => (text, None),
    }
}

/// Whether `filter` matches `name`, level by level, below the first level of a topic (so without the `$` rule).
///
/// `name` is `None` if the topic has already ended: only `#` matches that [MQTT-4.7.1-2].
pub(crate) fn levels_match(filter: &[u8], name: Option<&[u8]>) -> bool {
    let mut filter_rest = Some(filter);
    let mut name_rest = name;
    loop {
        let Some(filter_text) = filter_rest else {
            return name_rest.is_none();
        };
        let (filter_level, filter_next) = split_level(filter_text);
        if filter_level == b"#" {
            return true;
        }
        let Some(name_text) = name_rest else {
            return false;
        };
        let (name_level, name_next) = split_level(name_text);
        if filter_level != b"+" && filter_level != name_level {
            return false;
        }
        filter_rest = filter_next;
        name_rest = name_next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_text_is_one_level_and_a_separator_makes_two() {
        assert_eq!(split_level(b""), (&b""[..], None));
        assert_eq!(split_level(b"/"), (&b""[..], Some(&b""[..])));
        assert_eq!(split_level(b"a/b/c"), (&b"a"[..], Some(&b"b/c"[..])));
    }

    #[test]
    fn hash_covers_the_parent_level_and_plus_does_not() {
        assert!(levels_match(b"#", None));
        assert!(!levels_match(b"+", None));
        assert!(levels_match(b"+", Some(b"")));
        assert!(levels_match(b"a/#", Some(b"a")));
        assert!(levels_match(b"+/b", Some(b"/b")));
        assert!(!levels_match(b"+/b", Some(b"/b/")));
    }
}
