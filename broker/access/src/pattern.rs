//! The filter of a rule: a topic filter in which levels may be placeholders.

use tautwire_protocol::TopicFilter;

use crate::limits::LEVELS_MAX;
use crate::placeholder::Placeholder;

/// A filter of a rule, level by level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern<'t> {
    /// Without the `#` at the end.
    pub(crate) levels: Vec<Level<'t>>,
    /// Whether it ends with `#`.
    pub(crate) and_below: bool,
}

/// One level of a [`Pattern`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Level<'t> {
    Text(&'t str),
    /// `+`
    Any,
    Placeholder(Placeholder),
}

impl<'t> Pattern<'t> {
    /// # Errors
    /// A message with the fault and the remedy.
    pub(crate) fn parse(text: &'t str) -> Result<Self, String> {
        let mut levels = Vec::new();
        let mut plain = String::with_capacity(text.len());
        for (place, level) in text.split('/').enumerate() {
            if place > 0 {
                plain.push('/');
            }
            if !level.contains(['{', '}']) {
                plain.push_str(level);
                levels.push(if level == "+" { Level::Any } else { Level::Text(level) });
                continue;
            }
            plain.push('+');
            levels.push(Level::Placeholder(placeholder(level)?));
        }
        TopicFilter::new(&plain).map_err(|error| error.to_string())?;
        match levels.first() {
            Some(Level::Text("$share")) => {
                return Err(
                    "write the filter without $share/NAME/; use shared = true to match only shared subscriptions"
                        .into(),
                );
            }
            Some(Level::Text("$as")) => {
                return Err("write the filter without $as/FORMAT/: rules match the topics of messages".into());
            }
            _ => {}
        }
        if levels.len() > LEVELS_MAX {
            return Err(format!("the filter has {} levels; the maximum is {LEVELS_MAX}", levels.len()));
        }
        let and_below = levels.pop_if(|last| *last == Level::Text("#")).is_some();
        Ok(Self { levels, and_below })
    }
}

fn placeholder(level: &str) -> Result<Placeholder, String> {
    let name = level.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let name = name.filter(|name| !name.contains(['{', '}']));
    let name = name.ok_or_else(|| {
        format!(
            "the level {} mixes text and placeholders: a placeholder must fill its level, as in a/{{client_id}}/b",
            level.escape_debug()
        )
    })?;
    Placeholder::parse(name).ok_or_else(|| {
        format!(
            "unknown placeholder {{{}}}; known placeholders are {{client_id}}, {{user}}, {{listener}} and {{claim.NAME}}",
            name.escape_debug()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_text_wildcards_or_placeholders() {
        let pattern = Pattern::parse("a/+/{user}/{claim.a.b}//#").expect("right");
        let expected = [
            Level::Text("a"),
            Level::Any,
            Level::Placeholder(Placeholder::User),
            Level::Placeholder(Placeholder::Claim("a.b".into())),
            Level::Text(""),
        ];
        assert_eq!((&*pattern.levels, pattern.and_below), (&expected[..], true));
        assert_eq!(Pattern::parse("#"), Ok(Pattern { levels: Vec::new(), and_below: true }));
        assert!(!Pattern::parse("$SYS/a").expect("right").and_below);
    }

    #[test]
    fn invalid_patterns_are_reported() {
        for (text, expected) in [
            ("", "the topic filter is empty"),
            ("a/#/b", "# is allowed only at the end"),
            ("a+", "a wildcard must fill its whole level"),
            ("dev-{client_id}", "the level dev-{client_id} mixes"),
            ("{client_id}{user}", "the level {client_id}{user} mixes"),
            ("a/{", "the level { mixes"),
            ("{}", "unknown placeholder {}"),
            ("{claim.}", "unknown placeholder {claim.}"),
            ("{username}", "unknown placeholder {username}; known placeholders are {client_id}"),
            ("$share/g/a", "write the filter without $share/NAME/"),
            ("$as/json/a", "write the filter without $as/FORMAT/"),
        ] {
            let message = Pattern::parse(text).expect_err("wrong");
            assert!(message.starts_with(expected), "{text}: {message}");
        }
        let deep = "a/".repeat(LEVELS_MAX - 1);
        assert!(Pattern::parse(&deep).is_ok());
        assert!(Pattern::parse(&format!("{deep}/")).is_err());
    }
}
