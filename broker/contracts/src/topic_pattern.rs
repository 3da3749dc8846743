//! Which topics a contract is for: a topic filter whose single levels may have names.

use std::fmt;

use tautwire_protocol::TopicFilter;

/// `sensors/{device_id}/reading`, or any topic filter. A named level matches what `+` matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern {
    text: Box<str>,
    filter: Box<str>,
    /// The place among the levels and the name of each that has one.
    names: Box<[(usize, Box<str>)]>,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicPatternError {
    /// A level begins with `{` and has no name and `}` to follow, or has more beside them.
    Name,
    /// Two levels have the same name.
    DuplicateName,
    /// With `+` for the names, it is no topic filter.
    Filter,
    /// It is about topics that the broker keeps for itself: `$SYS`, `$share`, `$as`, `$quarantine`.
    Reserved,
}

/// First levels under which no contract may be.
const RESERVED: [&str; 4] = ["$SYS", "$share", "$as", "$quarantine"];

impl fmt::Display for TopicPatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TopicPatternError::Name => {
                "a named level is written {name}, with letters, digits and _ and nothing beside it"
            }
            TopicPatternError::DuplicateName => "two levels have the same name",
            TopicPatternError::Filter => {
                "it is no topic filter: `+` and `{name}` stand for whole levels, `#` only at the end"
            }
            TopicPatternError::Reserved => "topics below $SYS, $share, $as and $quarantine belong to the broker",
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

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As a topic filter.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// The names of levels, from the left.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(_, name)| &**name)
    }

    /// The level called `name` in a topic that the pattern matches.
    pub fn level<'t>(&self, name: &str, topic: &'t str) -> Option<&'t str> {
        let (place, _) = self.names.iter().find(|(_, known)| **known == *name)?;
        topic.split('/').nth(*place)
    }

    /// Whether some topic is matched by both.
    pub fn overlaps(&self, other: &TopicPattern) -> bool {
        let (mut mine, mut theirs) = (self.filter.split('/'), other.filter.split('/'));
        let mut is_first = true;
        loop {
            // A first level with `$` is matched only by itself [MQTT-4.7.2-1].
            let apart = |wild: &str, named: &str| is_first && (wild == "+" || wild == "#") && named.starts_with('$');
            match (mine.next(), theirs.next()) {
                (None, None) => return true,
                (Some(a), Some(b)) if apart(a, b) || apart(b, a) => return false,
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
    fn names_stand_for_levels() {
        let pattern = TopicPattern::new("sensors/{device_id}/{kind}/reading").expect("it is right");
        assert_eq!(pattern.filter(), "sensors/+/+/reading");
        assert_eq!(pattern.level("kind", "sensors/7/door/reading"), Some("door"));
        assert_eq!(pattern.level("nobody", "sensors/7/door/reading"), None);
        assert_eq!(pattern.names().collect::<Vec<_>>(), ["device_id", "kind"]);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
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
    fn patterns_overlap_where_a_topic_is_in_both() {
        let overlap =
            |a, b| TopicPattern::new(a).expect("it is right").overlaps(&TopicPattern::new(b).expect("it is right"));
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
