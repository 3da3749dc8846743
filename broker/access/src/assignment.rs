//! `[[assign]]`: roles for clients that match its conditions.

use std::fmt;

use crate::glob::Glob;
use crate::rule::TomlString;
use crate::subject::Subject;

/// Roles for clients that match all of the conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// The line where it begins in the file, from 1.
    pub(crate) line: u32,
    /// Never empty.
    pub(crate) conditions: Vec<Condition>,
    /// Indices of the roles.
    pub(crate) roles: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// `everyone = true`
    Everyone,
    /// `anonymous`: whether the client is anonymous.
    Anonymous(bool),
    /// `client_id`: any of the patterns.
    ClientId(Vec<Glob>),
    User(Vec<Glob>),
    Listener(Vec<Glob>),
    /// `claims`: the claim has any of the values.
    Claim(Box<str>, Vec<Box<str>>),
}

impl Assignment {
    pub(crate) fn is_for(&self, subject: &Subject<'_>) -> bool {
        self.conditions.iter().all(|condition| condition.holds(subject))
    }
}

impl Condition {
    fn holds(&self, subject: &Subject<'_>) -> bool {
        let any = |patterns: &[Glob], value: &str| patterns.iter().any(|pattern| pattern.matches(value));
        match self {
            Self::Everyone => true,
            Self::Anonymous(wanted) => subject.user.is_none() == *wanted,
            Self::ClientId(patterns) => any(patterns, subject.client_id),
            Self::User(patterns) => subject.user.is_some_and(|user| any(patterns, user)),
            Self::Listener(patterns) => any(patterns, subject.listener),
            Self::Claim(name, values) => values.iter().any(|value| subject.has_claim(name, value)),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: Vec<String>| match &*items {
            [one] => one.clone(),
            items => format!("[{}]", items.join(", ")),
        };
        let patterns = |globs: &[Glob]| list(globs.iter().map(|glob| TomlString(glob.as_str()).to_string()).collect());
        match self {
            Self::Everyone => f.write_str("everyone = true"),
            Self::Anonymous(wanted) => write!(f, "anonymous = {wanted}"),
            Self::ClientId(globs) => write!(f, "client_id = {}", patterns(globs)),
            Self::User(globs) => write!(f, "user = {}", patterns(globs)),
            Self::Listener(globs) => write!(f, "listener = {}", patterns(globs)),
            Self::Claim(name, values) => {
                let values = values.iter().map(|value| TomlString(value).to_string()).collect();
                write!(f, "claim {} = {}", TomlString(name), list(values))
            }
        }
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions: Vec<String> = self.conditions.iter().map(Condition::to_string).collect();
        f.write_str(&conditions.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(condition: Condition, subject: &Subject<'_>) -> bool {
        Assignment { line: 1, conditions: vec![condition], roles: Vec::new() }.is_for(subject)
    }

    #[test]
    fn conditions_check_only_what_they_name() {
        let globs = |texts: &[&str]| texts.iter().map(|text| Glob::new(text)).collect::<Vec<_>>();
        let claims = [("group", "ops"), ("group", "dev")];
        let user = Subject { client_id: "sensor-7", user: Some("ann"), listener: "tls", claims: &claims, roles: &[] };
        let nobody = Subject { user: None, ..user };
        assert!(holds(Condition::Everyone, &nobody));
        assert!(holds(Condition::Anonymous(true), &nobody) && !holds(Condition::Anonymous(true), &user));
        assert!(holds(Condition::Anonymous(false), &user));
        assert!(holds(Condition::ClientId(globs(&["x", "sensor-*"])), &user));
        assert!(!holds(Condition::ClientId(globs(&["ann"])), &user));
        assert!(holds(Condition::User(globs(&["*"])), &user), "every user");
        assert!(!holds(Condition::User(globs(&["*"])), &nobody), "an anonymous client has no user");
        assert!(holds(Condition::Listener(globs(&["tls"])), &nobody));
        assert!(holds(Condition::Claim("group".into(), vec!["dev".into()]), &user));
        assert!(!holds(Condition::Claim("group".into(), vec!["de".into()]), &user));
    }
}
