//! Topic patterns: topic filters with named single levels.

use std::fmt;

use tautwire_protocol::TopicFilter;

/// `sensors/{device_id}/reading`, or any topic filter. A named level matches like `+`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern {
    text: Box<str>,
    filter: Box<str>,
    /// The index and name of each named level.
    names: Box<[(usize, Box<str>)]>,
}

/// Why a text is not a topic pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicPatternError {
    /// A level that begins with `{` is not exactly `{name}`.
    Name,
    /// Two levels have the same name.
    DuplicateName,
    /// It is not a topic filter if names are replaced by `+`.
    Filter,
    /// It matches reserved topics of the broker: `$SYS`, `$share`, `$as`, `$quarantine`.
    Reserved,
}

/// First levels that no contract may use.
const RESERVED: [&str; 4] = ["$SYS", "$share", "$as", "$quarantine"];

impl fmt::Display for TopicPatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TopicPatternError::Name => {
                "write a named level as {name}, with only letters, digits and _, and no other text in the level"
            }
            TopicPatternError::DuplicateName => "two levels have the same name",
            TopicPatternError::Filter => {
                "it is not a topic filter: `+` and `{name}` must fill a whole level, and `#` must be at the end"
            }
            TopicPatternError::Reserved => "topics below $SYS, $share, $as and $quarantine are reserved",
        })
    }
}

impl std::error::Error for TopicPatternError {}

impl TopicPattern {
    /// # Errors
    /// See [`TopicPatternError`].
    pub fn new(text: &str) -> Result<TopicPattern, TopicPatternError> {
        let mut filter = String::with_capacity(text.len());
        let mut names: Vec<(usize, Box<str>)> = Vec::new();
        for (place, level) in text.split('/').enumerate() {
            if place > 0 {
                filter.push('/');
            }
            if !level.contains(['{', '}']) {
                filter.push_str(level);
                continue;
            }
            let name =
                level.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or(TopicPatternError::Name)?;
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(TopicPatternError::Name);
            }
            if names.iter().any(|(_, known)| **known == *name) {
                return Err(TopicPatternError::DuplicateName);
            }
            names.push((place, name.into()));
            filter.push('+');
        }
        if filter.split('/').next().is_some_and(|first| RESERVED.contains(&first)) {
            return Err(TopicPatternError::Reserved);
        }
        TopicFilter::new(&filter).map_err(|_| TopicPatternError::Filter)?;
        Ok(TopicPattern { text: text.into(), filter: filter.into(), names: names.into_boxed_slice() })
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The pattern as a topic filter.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// The names of levels, from the left.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(_, name)| &**name)
    }

    /// The value of the level `name` in a topic that the pattern matches.
    pub fn level<'t>(&self, name: &str, topic: &'t str) -> Option<&'t str> {
        let (place, _) = self.names.iter().find(|(_, known)| **known == *name)?;
        topic.split('/').nth(*place)
    }

    /// Whether any topic matches both.
    pub fn overlaps(&self, other: &TopicPattern) -> bool {
        let (mut mine, mut theirs) = (self.filter.split('/'), other.filter.split('/'));
        let mut is_first = true;
        loop {
            // A first level with `$` is not matched by wildcards [MQTT-4.7.2-1].
            let never_match =
                |wild: &str, named: &str| is_first && (wild == "+" || wild == "#") && named.starts_with('$');
            match (mine.next(), theirs.next()) {
                (None, None) => return true,
                (Some(a), Some(b)) if never_match(a, b) || never_match(b, a) => return false,
                // `a/#` matches `a` too.
                (Some("#"), _) | (_, Some("#")) => return true,
                (Some(a), Some(b)) if a == b || a == "+" || b == "+" => {}
                _ => return false,
            }
            is_first = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_levels() {
        let pattern = TopicPattern::new("sensors/{device_id}/{kind}/reading").expect("valid");
        assert_eq!(pattern.filter(), "sensors/+/+/reading");
        assert_eq!(pattern.level("kind", "sensors/7/door/reading"), Some("door"));
        assert_eq!(pattern.level("nobody", "sensors/7/door/reading"), None);
        assert_eq!(pattern.names().collect::<Vec<_>>(), ["device_id", "kind"]);
    }

    #[test]
    fn invalid_patterns_are_refused() {
        use TopicPatternError::{DuplicateName, Filter, Name, Reserved};
        for (text, why) in [
            ("", Filter),
            ("a/#/b", Filter),
            ("a+/b", Filter),
            ("{}/a", Name),
            ("x{id}", Name),
            ("{id", Name),
            ("{a b}", Name),
            ("{id}/{id}", DuplicateName),
            ("$SYS/x", Reserved),
            ("$share/g/x", Reserved),
            ("$as/json/x", Reserved),
            ("$quarantine/#", Reserved),
        ] {
            assert_eq!(TopicPattern::new(text), Err(why), "{text}");
        }
    }

    #[test]
    fn patterns_overlap_if_a_topic_matches_both() {
        let overlap = |a, b| TopicPattern::new(a).expect("valid").overlaps(&TopicPattern::new(b).expect("valid"));
        for (a, b, both) in [
            ("a/b", "a/b", true),
            ("a/b", "a/c", false),
            ("a/+", "a/c", true),
            ("a/#", "a", true),
            ("a/#", "b/#", false),
            ("+/x", "{id}/y", false),
            ("#", "a/b/c", true),
            ("a/+/c", "a/b/#", true),
            ("a/b", "a/b/c", false),
            ("#", "$x/a", false),
            ("+/a", "$x/a", false),
            ("$x/+", "$x/a", true),
            ("a/+", "a", false),
            ("a/+/#", "a/b", true),
        ] {
            assert_eq!(overlap(a, b), both, "{a} {b}");
            assert_eq!(overlap(b, a), both, "{b} {a}");
        }
    }
}
